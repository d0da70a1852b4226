"""The benches: one runner knows them all, its records are whole, and the results page is theirs."""

import argparse
import importlib.util
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

sys.path.insert(0, str(ROOT))  # bench/ is no part of the package
from bench import compare, page
from bench import run as runner

RECORDS = page.records()
COMMANDS = {record["command"] for record in RECORDS}


def test_the_page_is_made_from_the_records() -> None:
    made = page.make(RECORDS)
    assert page.PAGE.read_text("utf-8") == made, "run: python bench/run.py --page"
    assert len(made.splitlines()) <= page.LONGEST
    korean = page.KOREAN_PAGE.read_text("utf-8")
    assert korean == page.in_korean(made), "run: python bench/run.py --page"
    titles = re.findall("^## (.+)$", korean, re.MULTILINE)
    assert all(re.search("[가-힣]", title) for title in titles), "add to results.ko.tsv"


def test_commands_in_the_docs_name_a_bench() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("recipes/*.toml")]
    text = "\n".join(path.read_text("utf-8") for path in [*pages, ROOT / "Makefile"])
    named = set(re.findall(r"bench/run\.py (?:--no-record )?([a-z_]+)", text))
    assert {"speed", "start", "memory", "serve"} <= named <= runner.benches().keys()
    for script in set(re.findall(r"(?:recipes/prepare|tools|bench)/[a-z_/]+\.py", text)):
        assert (ROOT / script).is_file(), script


def test_decisions_are_listed_and_short() -> None:
    folder = ROOT / "docs/decisions"
    listed = set(re.findall(r"\]\(([a-z-]+\.md)\)", (folder / "README.md").read_text("utf-8")))
    pages = {path.name for path in folder.glob("*.md")} - {"README.md", "README.ko.md"}
    assert len(pages) <= 14
    korean = (folder / "README.ko.md").read_text("utf-8")
    assert listed == pages == set(re.findall(r"\]\(([a-z-]+\.md)\)", korean))
    for path in folder.glob("*.md"):
        text = path.read_text("utf-8")
        assert len(text.splitlines()) <= 40, f"{path.name} is too long for one decision"
        for link in re.findall(r"\]\(([^)#:]+)\)", text):
            assert (folder / link).is_file(), f"{path.name} links to {link}"


def test_every_claim_has_a_record() -> None:
    assert len({claim.title for claim in page.CLAIMS}) == len(page.CLAIMS)
    wanted = {command for claim in page.CLAIMS for command in claim.by_label().values()}
    assert wanted <= COMMANDS, wanted - COMMANDS


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record["command"][-40:])
def test_records_are_whole(record: page.Record) -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\d", record["date"])
    assert re.fullmatch(r"[0-9a-f]{7}(\+changes)?", record["commit"])
    assert record["machine"]["cpu"] and record["machine"]["cores"] >= 1
    assert record["figures"] and all(record["figures"])
    assert "/root" not in json.dumps(record) and "/home" not in json.dumps(record)
    if record["command"].startswith(page.RUN):
        assert record["bench"] in record["command"].split()
        assert record["bench"] in runner.benches()


def test_the_newest_record_counts_and_columns_are_chosen() -> None:
    def record(date: str, rate: int) -> page.Record:
        figures = [{"way": "ours", "sentences/s": rate}, {"way": "note", "Gflop/s": 1}]
        machine = {"cpu": "one | two", "cores": 2}
        command = page.CLAIMS[0].by_label()[""]
        return {"date": date, "commit": "abc", "machine": machine, "command": command} | {
            "figures": figures,
            "load": {"before": [0.5, 0, 0], "after": [1.5, 0, 0]},
        }

    made = page.make([record("2026-01-01", 1), record("2026-01-02", 2500)])
    assert "| ours | 2,500 |" in made
    assert "load 0.5 → 1.5" in made and "Gflop" not in made and "| 1 |" not in made


def test_figures_are_said_with_their_units() -> None:
    row = {"peak, GiB": 1.43, "s": 1200, "texts/s": 147000, "×": [60.9, 45, 79], "done": True}
    expected = "peak 1.43 GiB · 1,200 s · 147,000 texts/s · 60.9× [45–79] · done yes"
    assert page._inline(row) == expected
    assert page._figure([-0.8, -1.5, -0.2]) == "−0.8 [−1.5–−0.2]"


def test_the_list_names_every_bench_with_a_line() -> None:
    lines = [line.split(maxsplit=1) for line in runner.listing() if line.startswith("  ")]
    names = [name for name, _ in lines]
    assert names == list(runner.benches()) and len(set(names)) == len(names) >= 28
    assert {"speed", "start", "linking_speed", "search_speed", "serve"} <= set(names)
    assert all(text.endswith((".", "?")) for _, text in lines)


@pytest.mark.parametrize("name", runner.benches())
def test_every_bench_keeps_to_the_form(name: str) -> None:
    """Read only: importing some would load torch, Ray or a test server's tools."""
    text = runner.benches()[name].read_text("utf-8")
    assert f"python bench/run.py {name}" in text
    assert "def add_options(parser: argparse.ArgumentParser) -> None:" in text
    assert "def run(options: argparse.Namespace) -> Iterator[Row]:" in text


def test_a_run_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Tiny:
        __doc__ = "A bench of one row."

        @staticmethod
        def add_options(parser: argparse.ArgumentParser) -> None:
            parser.add_argument("--file", type=Path)
            parser.add_argument("--rounds", type=int, default=1)

        @staticmethod
        def run(options: argparse.Namespace):  # type: ignore[no-untyped-def]
            yield {"rounds": options.rounds}
            if options.rounds > 2:
                sys.exit("short of the aim")

    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(runner.importlib, "import_module", lambda name: Tiny)
    runner.run("speed", ["--rounds", "2", f"--file={tmp_path}/x.tsv"], note="busy")
    runner.run("speed", [], record=False)
    with pytest.raises(SystemExit, match="short"):
        runner.run("speed", ["--rounds", "3"])
    first, second = map(json.loads, (tmp_path / "speed.jsonl").read_text("utf-8").splitlines())
    assert first["figures"] == [{"rounds": 2}] and first["note"] == "busy"
    assert first["command"] == "python bench/run.py speed --rounds 2 '--file=…/x.tsv'"
    assert {"cpu", "cores", "memory"} == first["machine"].keys()
    assert len(first["load"]["before"]) == len(first["load"]["after"]) == 3
    assert first["versions"]["python"] and first["commit"]
    assert second["figures"] == [{"rounds": 3}] and second["note"] == "short of the aim"


def test_two_commits_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    order = []

    def figures(tree: str, name: str, arguments: list[str]) -> compare.Figures:
        order.append(tree)
        rate = {"here": [110.0, 130.0], "there": [100.0, 100.0]}[tree][order.count(tree) - 1]
        return [("ours", compare.numbers({"way": "ours", "rate": rate, "×": [2, 1, 3], "no": 0}))]

    monkeypatch.setattr(compare, "ROOT", "here")
    monkeypatch.setattr(compare, "unpacked", lambda commit: "there")
    monkeypatch.setattr(compare, "figures", figures)
    rate, times = compare.compare("speed", [], "abc1234", turns=2)
    assert order == ["there", "here", "here", "there"]
    assert rate == {
        "row": "ours",
        "figure": "rate",
        "before": 100.0,
        "now": 120.0,
        "now / before": [1.2, 1.1, 1.3],
    }
    assert times["figure"] == "×" and times["now / before"] == [1.0, 1.0, 1.0]


def test_an_unknown_bench_is_refused() -> None:
    command = [sys.executable, str(ROOT / "bench/run.py"), "nothing"]
    done = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert done.returncode == 1
    assert "'nothing'" in done.stderr and "Traceback" not in done.stderr


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        path = root / f"src/malmoi/{name.replace('__', '/')}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")


def test_the_code_report_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("code_report", ROOT / "tools/code_report.py")
    assert spec is not None and spec.loader is not None
    code_report = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "code_report", code_report)  # dataclasses look there
    spec.loader.exec_module(code_report)
    write(
        tmp_path,
        a__one="from .two import Two\n\nclass One: ...\nclass _Own: ...\n",
        a__two="class Two: ...\n\ndef late(tell=None):\n    from . import one\n    return one\n",
        b__three="from typing import TYPE_CHECKING\n\nfrom ..a.one import One as Other\n"
        "if TYPE_CHECKING:\n    from . import four\n\nclass One(Other): ...\nclass _Own: ...\n",
        b__four="from malmoi.b import three\n\ndef say(tell: object) -> None: ...\n",
        cli__run="from ..b import four\n",
        long="from .cli import run\n" + "#\n" * 60,
    )
    (tmp_path / "src/malmoi/a/__init__.py").write_text("", "utf-8")
    (tmp_path / "tests").mkdir()
    test = "def test():\n    assert 1\n    with pytest.raises(OSError):\n        ...\n"
    (tmp_path / "tests/test_it.py").write_text(test, "utf-8")
    monkeypatch.setenv("PATH", "")
    report = code_report.measure(tmp_path)
    assert report.figures["files of source"] == 7
    assert report.figures["file length, longest"] == 61
    assert report.details["import cycles"] == ["malmoi.a.one, malmoi.a.two"]
    [one, _, _] = report.details["modules under 60 lines with one importer"]
    assert one == "malmoi.a.two (5 lines) <- malmoi.a.one"
    assert report.figures["public class names in several modules"] == 1
    assert report.figures["private class names in several modules"] == 1
    assert report.figures["packages"] == 3
    assert report.figures["test assertions"] == 2
    assert report.figures["pairs found by duplicates"] is None
    line = next(line for line in code_report.table(report, report) if "lines of" in line)
    assert line.split()[-1] == "+0"
