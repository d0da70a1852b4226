"""Parts of a data set: planned, encoded by an actor, resumed; and a real Ray at work."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import malmoi
from malmoi.scale import encode_dataset
from malmoi.scale import ray as dataset
from malmoi.scale.parts import DatasetPart, EncodingSettings, Plan, find_inputs, read_part
from malmoi.scale.ray import PartEncoder, PartReport, model_digest
from tests.support.graphs import Run
from tests.support.logs import record_messages


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Ten thousand rows in two files, with row groups that parts do not keep to."""
    folder = tmp_path / "in"
    folder.mkdir()
    for name, first, rows in (("a", 0, 7000), ("b", 7000, 3000)):
        numbers = range(first, first + rows)
        texts = [None if i == 5 else f"cat {i} {'dog ' * (i % 3)}배" for i in numbers]
        columns = {"id": list(numbers), "text": texts}
        pq.write_table(pa.table(columns), folder / f"{name}.parquet", row_group_size=900)
    return folder


def settings(bundle: Path, **changes: object) -> EncodingSettings:
    fixed = {"model": str(bundle), "digest": model_digest(str(bundle)), "column": "text"}
    free = {"dim": None, "precision": "float32", "prompt": None, "on_long": "cut"}
    return EncodingSettings(**(fixed | free | changes))  # type: ignore[arg-type]


def encode_all(plan: Plan, out: Path) -> list[PartReport]:
    plan.save_or_check(out)
    worker = PartEncoder(plan.settings, str(out), threads=1)
    return [worker.encode(part) for part in plan.parts()]


def test_parts_hold_every_row_once_in_order(bundle: Path, table: Path, tmp_path: Path) -> None:
    plan = Plan(find_inputs([table], "text"), settings(bundle), 1024)
    reports = encode_all(plan, tmp_path / "out")
    assert [report.problem for report in reports if report.problem] == []
    assert sum(report.empty for report in reports) == 1
    found = pq.read_table(tmp_path / "out")
    assert found["id"].to_pylist() == list(range(10_000))
    texts = [text or "" for text in pq.read_table(table)["text"].to_pylist()]
    vectors = np.stack(found["vector"].to_numpy())
    np.testing.assert_allclose(vectors, malmoi.load(bundle).encode(texts), atol=1e-6)


def test_a_part_is_read_across_row_groups(table: Path) -> None:
    part = DatasetPart("x", str(table / "a.parquet"), 850, 2000)
    assert read_part(part).column("id").to_pylist() == list(range(850, 2850))


@pytest.mark.parametrize(("precision", "kind"), [("int8", pa.int8()), ("binary", pa.uint8())])
def test_small_vectors(
    bundle: Path, table: Path, tmp_path: Path, precision: str, kind: object
) -> None:
    plan = Plan(
        find_inputs([table / "b.parquet"], "text"), settings(bundle, precision=precision), 9999
    )
    encode_all(plan, tmp_path / "out")
    assert pq.read_table(tmp_path / "out").schema.field("vector").type.value_type == kind


def test_a_finished_part_is_not_done_again(bundle: Path, table: Path, tmp_path: Path) -> None:
    plan = Plan(find_inputs([table], "text"), settings(bundle), 4096)
    encode_all(plan, tmp_path / "out")
    first, *others = sorted((tmp_path / "out").glob("part-*"))
    times = [path.stat().st_mtime_ns for path in others]
    first.unlink()
    encode_all(plan, tmp_path / "out")
    assert first.exists() and [path.stat().st_mtime_ns for path in others] == times


def test_a_folder_begun_otherwise_is_refused(bundle: Path, table: Path, tmp_path: Path) -> None:
    inputs = find_inputs([table], "text")
    Plan(inputs, settings(bundle), 4096).save_or_check(tmp_path / "out")
    Plan(inputs, settings(bundle), 4096).save_or_check(tmp_path / "out")
    for other in (
        Plan(inputs[:1], settings(bundle), 4096),
        Plan(inputs, settings(bundle, dim=8), 4096),
        Plan(inputs, settings(bundle, digest="0"), 4096),
    ):
        with pytest.raises(
            malmoi.errors.OutputError, match="other files, another model or other opt"
        ):
            other.save_or_check(tmp_path / "out")
    with pytest.raises(malmoi.errors.OutputError, match="of another origin"):
        Plan(inputs, settings(bundle), 4096).save_or_check(table)


def test_inputs_that_cannot_be_used_are_named(bundle: Path, table: Path, tmp_path: Path) -> None:
    (tmp_path / "x.parquet").write_text("no parquet")
    (tmp_path / "empty").mkdir()
    pq.write_table(pa.table({"text": ["a"], "vector": [1]}), tmp_path / "v.parquet")
    pq.write_table(pa.table({"text": pa.array([], pa.string())}), tmp_path / "no.parquet")
    for path, column, what in (
        (table, "note", "has no column note; it has id, text"),
        (table, "id", "id of .* is int64; expected text"),
        (tmp_path / "none.parquet", "text", "there is no file"),
        (tmp_path / "x.parquet", "text", "cannot be read as .parquet"),
        (tmp_path / "empty", "text", "has no .parquet files"),
        (tmp_path / "v.parquet", "text", "has a column vector already"),
        (tmp_path / "no.parquet", "text", "have no rows"),
    ):
        with pytest.raises(malmoi.errors.DataError, match=what):
            encode_dataset(path, tmp_path / "out", model=bundle, column=column)
    assert not (tmp_path / "out").exists()


def test_a_node_says_what_it_lacks(bundle: Path, table: Path, tmp_path: Path) -> None:
    [part, *_] = Plan(find_inputs([table], "text"), settings(bundle), 4096).parts()
    for chosen, what in (
        (settings(bundle, digest="0"), "has another model"),
        (settings(bundle, model="nowhere-at-all"), "cannot use the model nowhere-at-all"),
    ):
        report = PartEncoder(chosen, str(tmp_path), 1).encode(part)
        assert what in report.problem and report.kind == "BundleError"
    gone = DatasetPart("part", str(tmp_path / "gone.parquet"), 0, 10)
    assert "does not see" in PartEncoder(settings(bundle), str(tmp_path), 1).encode(gone).problem


def test_changed_input_and_full_disks_leave_no_file(
    bundle: Path, table: Path, tmp_path: Path
) -> None:
    worker = PartEncoder(settings(bundle), str(tmp_path), 1)
    report = worker.encode(DatasetPart("p.parquet", str(table / "b.parquet"), 2000, 5000))
    assert report.kind == "DataError" and "has changed since the run began" in report.problem
    report = PartEncoder(settings(bundle), str(tmp_path / "none"), 1).encode(
        DatasetPart("p.parquet", str(table / "b.parquet"), 0, 10)
    )
    assert report.kind == "OutputError"
    assert [path for path in tmp_path.glob("*") if "p.parquet" in path.name] == []


def test_without_ray_one_line_names_the_extra(
    bundle: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(malmoi.errors.MissingExtra, match=r"malmoi\[scale\]"):
        encode_dataset(table, tmp_path / "out", model=bundle)


def test_rounds_without_fruit_end(
    bundle: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Parts that no worker finishes are tried again, and then given up with the reason."""
    tried: list[int] = []

    def lost(work: object, parts: list[DatasetPart]) -> list[PartReport]:
        tried.append(len(parts))
        return [PartReport(part.name, problem="MemoryError on node-7") for part in parts]

    monkeypatch.setattr(dataset, "_reports", lost)
    monkeypatch.setattr(dataset.time, "sleep", lambda seconds: None)
    monkeypatch.setattr(dataset, "_connected", lambda ray, address: nullcontext())
    messages = record_messages()
    with pytest.raises(malmoi.MalmoiError, match="MemoryError on node-7"):
        encode_dataset(table, tmp_path / "out", model=bundle, part_rows=4096)
    assert tried == [3, 3, 3]
    assert messages == ["3 parts were lost with their workers; trying them again"] * 2


def encode_on_ray(*args: object, cwd: Path) -> "subprocess.CompletedProcess[str]":
    """`malmoi encode … --ray local`, with the patience that a busy machine needs."""
    command = [sys.executable, "-W", "ignore", "-m", "malmoi", "encode", *map(str, args)]
    source = str(Path(malmoi.__file__).parents[1])
    return subprocess.run(
        [*command, "--ray", "local"],
        capture_output=True,
        text=True,
        cwd=cwd,
        env=os.environ | {"PYTHONPATH": source},
        timeout=240,
    )


def test_what_ends_a_round_is_tried_again(
    bundle: Path, table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds that break off after a part each still come to an end, and do nothing twice."""
    done: list[str] = []

    def one(work: dataset._Cluster, parts: list[DatasetPart]) -> Iterator[PartReport]:
        done.append(parts[0].name)
        yield PartEncoder(work.settings, str(work.out), 1).encode(parts[0])
        raise RuntimeError("a node went away")

    monkeypatch.setattr(dataset, "_reports", one)
    monkeypatch.setattr(dataset, "_connected", lambda ray, address: nullcontext())
    found = encode_dataset(table, tmp_path / "out", model=bundle, part_rows=3000)
    assert (found.rows, found.parts, found.rounds, found.empty) == (10_000, 4, 4, 1)
    assert len(done) == len(set(done)) == 4


def test_a_real_ray(bundle: Path, table: Path, tmp_path: Path) -> None:
    """One node; bench/soak/ray_kill.py has two, and kills one of them."""
    options = (table, "--out", "out", "-m", bundle, "--part-rows", 2000, "--dim", 8)
    try:
        done = encode_on_ray(*options, cwd=tmp_path)
    except subprocess.TimeoutExpired:
        pytest.skip("Ray did not start its workers within four minutes: the machine is too busy")
    if "no Ray cluster answers" in done.stderr:
        pytest.skip("Ray did not start within its half minute on this machine")
    assert done.returncode == 0, done.stderr
    assert "has 10,000 vectors in 6 parts" in done.stderr
    assert "dog" not in done.stderr + done.stdout  # Ray may have said something, but no text
    found = pq.read_table(tmp_path / "out")
    assert found["id"].to_pylist() == list(range(10_000))
    assert found.schema.field("vector").type.list_size == 8
    plan = json.loads((tmp_path / "out/_malmoi.json").read_text("utf-8"))
    assert plan["settings"]["dim"] == 8
    again = encode_on_ray(*options, cwd=tmp_path)
    assert again.returncode == 0 and "6 of 6 parts were done already" in again.stderr
    assert [path.name for path in (tmp_path / "out").glob(".*")] == []


def test_wrong_usage(run: Run, table: Path) -> None:
    assert run("encode", table, "--ray", "local").returncode == 2


def test_addresses_that_lead_nowhere(bundle: Path, table: Path, tmp_path: Path) -> None:
    for address in ("ray://head:10001", "head", ":6379", "head:port"):
        with pytest.raises(malmoi.errors.OptionError, match="expected HOST:PORT"):
            encode_dataset(table, tmp_path / "out", model=bundle, address=address)
    for address in ("127.0.0.1:1", "127.0.0.1:99999"):
        with pytest.raises(malmoi.MalmoiError, match="no Ray cluster answers at 127"):
            encode_dataset(table, tmp_path / "out", model=bundle, address=address)
