"""docs/scaling.md: its commands and its snippet run, and its sums are right."""

import re
import shlex
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.cli import app
from malmoi.scale import ray as dataset
from malmoi.scale.parts import DatasetPart
from malmoi.scale.ray import PartEncoder, PartReport
from tests.support import ROOT

PAGE = (ROOT / "docs/scaling.md").read_text("utf-8")
SUM = re.compile(r"^(\w.*?): +([-\d.e+*/() ]+) = ([\d.]+)$", re.MULTILINE)


def blocks(kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", PAGE, re.DOTALL)


def test_sums() -> None:
    found = SUM.findall("\n".join(blocks("text")))
    assert len(found) > 20
    for name, terms, result in found:
        # The pattern lets numbers and signs through, nothing else.
        assert eval(terms) == pytest.approx(float(result), rel=0.02), name


@pytest.mark.skipif(DEFAULT not in shipped_models(), reason=f"{DEFAULT} is not in this checkout")
def test_commands_and_the_snippet(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are encoded here instead of on a cluster: test_encode_dataset has a real one."""
    pytest.importorskip("milvus_lite", reason="milvus-lite is not installed")

    def here(work: dataset._Cluster, parts: list[DatasetPart]) -> Iterator[PartReport]:
        worker = PartEncoder(work.settings, str(work.out), work.threads)
        yield from map(worker.encode, parts)

    monkeypatch.setattr(dataset, "_reports", here)
    monkeypatch.setattr(dataset, "_connected", lambda ray, address: nullcontext())
    monkeypatch.chdir(tmp_path)
    rows = {"id": [1, 2], "text": ["당뇨병성 신증", "fracture of the wrist"]}
    pq.write_table(pa.table(rows), "docs.parquet")
    first, *others = [line[2:] for block in blocks("console") for line in block.splitlines()]
    run(first)
    [snippet] = blocks("python")
    exec(compile(snippet, "scaling.md", "exec"), {})
    for line in others:
        output = run(line)
    assert '"id": "1"' in output


def run(line: str) -> str:
    done = CliRunner().invoke(app, shlex.split(line)[1:])
    assert done.exit_code == 0, f"{line}\n{done.output}"
    return done.output
