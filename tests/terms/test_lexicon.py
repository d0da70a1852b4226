"""A lexicon on disk: opened, searched, added to, merged, and refused when it is not whole."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.errors import DataError, LexiconError, OutputError
from malmoi.terms import KINDS, LANGUAGES, Lexicon, add_names, build_lexicon, memory_lexicon
from malmoi.terms.segment import Strings

TABLE = """code\tko\ten\tabbreviations\tlay
K74.6\t간경변증\tLiver cirrhosis\tLC\t간경화
C22.0\t간세포암\tLiver cancer\tHCC\t간암
E14\t당뇨병\tDiabetes mellitus\tDM\t당뇨
M33.1\t피부근염\tDermatomyositis\tDM\t
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    (tmp_path / "table.tsv").write_text(TABLE, "utf-8")
    build_lexicon([tmp_path / "table.tsv"], tmp_path / "t.lexicon")
    return tmp_path / "t.lexicon"


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_names_and_concepts(path: Path) -> None:
    lexicon = Lexicon.open(path)
    assert len(lexicon) == 15 and list(lexicon.codes) == ["C22.0", "E14", "K74.6", "M33.1"]
    assert list(lexicon.texts()) == [lexicon.text(i) for i in range(len(lexicon))]
    for i in range(len(lexicon)):
        name = lexicon.name(i)
        assert name.concept == lexicon.concept_of(i) == lexicon.codes[int(lexicon.concepts[i])]
        assert name.kind == KINDS[lexicon.kinds[i]]
        assert name.language == LANGUAGES[lexicon.languages[i]]
    concept = lexicon.concept("E14")
    assert (concept.ko, concept.en) == ("당뇨병", "Diabetes mellitus")
    assert [name.kind for name in concept.names] == [
        "preferred",
        "preferred",
        "lay",
        "abbreviation",
    ]
    assert {lexicon.concept_of(i) for i in lexicon.find(" dm ")} == {"E14", "M33.1"}
    assert lexicon.find("없는 이름") == [] and "E15" not in lexicon
    assert list(lexicon.ambiguous()) == [("DM", ["E14", "M33.1"])]
    with pytest.raises(LexiconError, match="has no code 'E15'"):
        lexicon.concept("E15")
    with pytest.raises(IndexError):
        lexicon.name(len(lexicon))


def test_opening_maps_and_reads_nothing(path: Path) -> None:
    segment = Lexicon.open(path).segments[0]
    assert isinstance(segment.concepts, np.memmap) and isinstance(segment.keys, np.memmap)
    assert not segment.concepts.flags.writeable


def test_additions_make_a_segment_and_change_nothing(path: Path, tmp_path: Path) -> None:
    before = Lexicon.open(path)
    old = {file: file.read_bytes() for file in path.rglob("*.npy")}
    mine = "code\tko\ten\tlay\nE14\t당뇨병\tdiabetes\t소갈\nX99\t우리 병원 코드\tour own code\t\n"
    report = add_names(path, [write(tmp_path / "mine.tsv", mine)])
    assert report.names == 4 and report.duplicates.count == 1
    assert all(file.read_bytes() == data for file, data in old.items())
    after = Lexicon.open(path)
    assert len(after) == len(before) + 4 and len(after.segments) == 2
    assert [after.name(i) for i in range(len(before))] == [
        before.name(i) for i in range(len(before))
    ]
    assert after.segments[0].identity == before.segments[0].identity
    assert after.identity != before.identity
    assert after.concept("X99").ko == "우리 병원 코드"
    assert after.concept("E14").ko == "당뇨병"  # the first preferred name stays
    assert {name.text for name in after.concept("E14").names} >= {"소갈", "diabetes", "DM"}
    assert after.find("소갈")[0] >= len(before)
    again = add_names(path, [tmp_path / "mine.tsv"])
    assert again.names == 0 and len(Lexicon.open(path).segments) == 2
    after.verify()


def test_a_users_own_file_is_named_when_opening(path: Path, tmp_path: Path) -> None:
    mine = write(tmp_path / "mine.tsv", "code\tname\nE14\t단병\n")
    lexicon = Lexicon.open(path, additions=[mine])
    assert [lexicon.concept_of(i) for i in lexicon.find("단병")] == ["E14"]
    assert lexicon.segments[1].folder is None
    assert len(Lexicon.open(path)) == len(lexicon) - 1


def test_two_tables_merge_by_code(tmp_path: Path) -> None:
    a = write(tmp_path / "a.tsv", "code\tko\tkind\nE14\t당뇨병\t표제어\nE14\t당뇨\t표제어\n")
    b = write(tmp_path / "b.tsv", "code\tko\ten\tkind\nE14\t진성당뇨\tdiabetes\tpreferred\n")
    report = build_lexicon([a, b], tmp_path / "x.lexicon")
    concept = Lexicon.open(tmp_path / "x.lexicon").concept("E14")
    assert (concept.ko, concept.en) == ("당뇨병", "diabetes")
    assert report.two_preferred.examples == ["E14: 당뇨병 | 당뇨"]
    assert report.other_tables_preferred == 1


def test_codes_that_became_others(tmp_path: Path) -> None:
    table = write(tmp_path / "t.tsv", "code\tko\nA\t가\nB\t나\nC\t다\n")
    merges = write(tmp_path / "m.tsv", "from\tto\nA\tB\nB\tC\n")
    report = build_lexicon([table], tmp_path / "x.lexicon", merges=merges)
    lexicon = Lexicon.open(tmp_path / "x.lexicon")
    assert list(lexicon.codes) == ["C"] and report.merged_codes == 2
    write(merges, "A\tB\nB\tC\nC\tA\n")
    with pytest.raises(DataError, match="merges in a circle: A → B → C → A"):
        build_lexicon([table], tmp_path / "y.lexicon", merges=merges)
    write(merges, "A\tB\nA\tC\n")
    with pytest.raises(DataError, match="an earlier line into B"):
        build_lexicon([table], tmp_path / "y.lexicon", merges=merges)
    write(merges, "A\n")
    with pytest.raises(DataError, match="expected an old code"):
        build_lexicon([table], tmp_path / "y.lexicon", merges=merges)


def test_what_is_there_is_not_overwritten(path: Path, tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="exists already"):
        build_lexicon([tmp_path / "table.tsv"], path)
    write(tmp_path / "bad.tsv", "a\tb\n")
    with pytest.raises(DataError):
        build_lexicon([tmp_path / "bad.tsv"], path, replace=True)
    assert len(Lexicon.open(path)) == 15
    build_lexicon([tmp_path / "table.tsv"], path, replace=True)


def test_lexicons_that_are_not_whole(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match="there is no lexicon"):
        Lexicon.open(tmp_path / "none")
    with pytest.raises(LexiconError, match="is a file; expected a lexicon"):
        Lexicon.open(tmp_path / "table.tsv")
    with pytest.raises(LexiconError, match="is no lexicon"):
        Lexicon.open(tmp_path)
    file = next(path.rglob("texts.npy"))
    data = file.read_bytes()
    file.write_bytes(data[:-3] + b"xyz")
    with pytest.raises(LexiconError, match="is not the file"):
        Lexicon.open(path)
    file.write_bytes(data[:-3])
    with pytest.raises(LexiconError, match="cut short"):
        Lexicon.open(path)
    file.unlink()
    with pytest.raises(LexiconError, match="lacks texts.npy"):
        Lexicon.open(path)


def test_manifests_that_are_not_right(path: Path) -> None:
    manifest = path / "lexicon.json"
    good = json.loads(manifest.read_text("utf-8"))
    damaged = good | {"name": "another"}
    manifest.write_text(json.dumps(damaged), "utf-8")
    with pytest.raises(LexiconError, match="its checksum differs"):
        Lexicon.open(path)
    del good["checksum"]
    for change, message in (
        ({"format": 99}, "this malmoi reads up to"),
        ({"format": None}, 'no field "format"'),
        ({"segments": [{}]}, "cannot be read"),
        ({"segments": [good["segments"][0] | {"folder": "../x"}]}, "inside the"),
        ({"segments": [good["segments"][0] | {"names": 3}]}, "says 3"),
    ):
        manifest.write_text(json.dumps(good | change), "utf-8")
        with pytest.raises(LexiconError, match=message):
            Lexicon.open(path)
    manifest.write_text("{", "utf-8")
    with pytest.raises(LexiconError, match="cannot be read"):
        Lexicon.open(path)


def test_adding_needs_a_lexicon_of_ones_own(path: Path, tmp_path: Path) -> None:
    with pytest.raises(LexiconError, match="there is no lexicon"):
        add_names(tmp_path / "none", [tmp_path / "table.tsv"])
    code = (
        "import fcntl, sys, time\n"
        f"file = open({str(path / '.adding')!r}, 'wb')\n"
        "fcntl.flock(file, fcntl.LOCK_EX)\nprint('locked', flush=True)\ntime.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as other:
        assert other.stdout and other.stdout.readline() == b"locked\n"
        with pytest.raises(LexiconError, match="another process is adding"):
            add_names(path, [write(tmp_path / "mine.tsv", "code\tko\nE14\t소갈\n")])
        other.kill()
    assert add_names(path, [tmp_path / "mine.tsv"]).names == 1


def test_a_lexicon_in_memory(tmp_path: Path) -> None:
    lexicon = memory_lexicon([write(tmp_path / "t.tsv", TABLE)], name="small")
    assert lexicon.folder is None and repr(lexicon) == "<Lexicon small: 15 names of 4 concepts>"
    lexicon.verify()
    assert list(lexicon.exclusions()) == []


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]))))
def test_any_texts_come_back(texts: list[str]) -> None:
    column = Strings.of(texts)
    assert list(column) == texts == [column[i] for i in range(len(column))]
    assert column[1:3] == texts[1:3]
