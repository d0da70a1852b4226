"""The beginnings of the public tables, where they are at hand."""

from collections.abc import Callable
from itertools import islice
from pathlib import Path

from malmoi.terms import Lexicon, build_lexicon


def test_tables_merge(tmp_path: Path, public_data: Callable[[str], Path]) -> None:
    tables = []
    for name in ("kcd9-rows", "names", "medic", "drugs", "kcd9-morphology"):
        with public_data(f"terms/{name}.tsv").open(encoding="utf-8") as file:
            (tmp_path / f"{name}.tsv").write_text("".join(islice(file, 400)), "utf-8")
        tables.append(tmp_path / f"{name}.tsv")
    report = build_lexicon(tables, tmp_path / "x.lexicon", keep_uncoded=True)
    lexicon = Lexicon.open(tmp_path / "x.lexicon")
    assert lexicon.concept("A00").ko == "콜레라"
    assert lexicon.concept("A00-B99").ko == "특정 감염성 및 기생충성 질환"
    assert report.exclusions > 10 and report.cleaned["codes"].count > 10
    assert report.broken.count == 0 and "encoding" not in report.cleaned
    assert set(report.sources) >= {"kcd9-rows", "DOID", "medic", "drugs", "kcd9-morphology"}
