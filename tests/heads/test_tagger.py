"""Taggers and their entity files."""

import json
from pathlib import Path

import pytest

from malmoi.errors import DataError
from malmoi.heads.entity_files import (
    EntitySpan,
    LabelledWord,
    Marked,
    find_scheme,
    read_marked,
    spans_of,
)
from tests.support.logs import record_messages


def found(labels: str, scheme: str = "iob2") -> list[tuple[int, int, str]]:
    return list(spans_of([LabelledWord("w", label) for label in labels.split()], scheme))


@pytest.mark.parametrize(
    ("scheme", "labels", "expected"),
    [
        ("iob2", "B-X I-X O B-X", [(0, 2, "X"), (3, 4, "X")]),
        ("iob2", "B-X B-X", [(0, 1, "X"), (1, 2, "X")]),
        ("iob2", "O O", []),
        ("iob2", "B-X I-X B-Y I-Y", [(0, 2, "X"), (2, 4, "Y")]),
        ("iob1", "I-X I-X O I-X", [(0, 2, "X"), (3, 4, "X")]),
        ("iob1", "I-X B-X I-Y", [(0, 1, "X"), (1, 2, "X"), (2, 3, "Y")]),
        ("bioes", "S-X B-X I-X E-X S-Y", [(0, 1, "X"), (1, 4, "X"), (4, 5, "Y")]),
        ("bioes", "U-X B-X L-X", [(0, 1, "X"), (1, 3, "X")]),
        ("bioes", "B-X O", [(0, 1, "X")]),  # an end that is missing
        ("bioes", "E-X I-X", [(0, 1, "X"), (1, 2, "X")]),
        ("iob2", "O I-X I-X", [(1, 3, "X")]),  # I- after O begins an entity
        ("iob2", "B-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("iob2", "I-X", [(0, 1, "X")]),
    ],
)
def test_entities_of_labels(scheme: str, labels: str, expected: list[tuple[int, int, str]]) -> None:
    assert found(labels, scheme) == expected


def test_what_is_mended_is_noted() -> None:
    noted: list[tuple[int, str]] = []
    tokens = [
        LabelledWord("w", label, i)
        for i, label in enumerate(["O", "I-X", "I-X", "B-X", "I-Y"], start=1)
    ]
    list(spans_of(tokens, "iob2", lambda line, found, mended: noted.append((line, found))))
    assert noted == [(2, "I- after O"), (5, "I- after another type")]
    noted.clear()
    list(spans_of(tokens[:3], "iob1", lambda line, found, mended: noted.append((line, found))))
    assert noted == []  # there it is the rule


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("B-X I-X O", "iob2"),
        ("I-X O I-X B-X", "iob1"),
        ("B-X E-X O", "bioes"),
        ("S-X", "bioes"),
        ("O I-X B-X O B-X", "iob2"),  # broken IOB2, not IOB1: a B- that IOB1 would not write
        ("O O", "iob2"),
    ],
)
def test_the_scheme_is_found(labels: str, scheme: str) -> None:
    assert find_scheme([labels.split()]) == scheme


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def marked(found: list[Marked]) -> list[tuple[str, list[tuple[str, str]]]]:
    return [(m.text, [(m.text[s.start : s.end], s.type) for s in m.spans]) for m in found]


def test_tokens_become_text_and_spans(tmp_path: Path) -> None:
    text = "-DOCSTART-\tO\n\nAPC\tO\ncolon\tB-Disease\ncancer\tI-Disease\n\n간암\tB-Disease\n\n\n"
    assert marked(read_marked(write(tmp_path / "a.tsv", text))) == [
        ("APC colon cancer", [("colon cancer", "Disease")]),
        ("간암", [("간암", "Disease")]),
    ]


def test_columns_between_are_passed_over(tmp_path: Path) -> None:
    text = "U.N. NNP I-NP I-ORG\nofficial NN I-NP O\n"
    assert marked(read_marked(write(tmp_path / "a.conll", text))) == [
        ("U.N. official", [("U.N.", "ORG")])
    ]


def test_letters_a_line_with_their_spaces(tmp_path: Path) -> None:
    text = (
        "## 컬럼명 : CHAR\tNE_TAG\n## a-1\t<서울:LC>에 비\n서\tB-LC\n울\tI-LC\n에\tO\n \tO\n비\tO\n"
    )
    assert marked(read_marked(write(tmp_path / "a.tsv", text))) == [("서울에 비", [("서울", "LC")])]


def test_bioes_and_iob1_are_known_by_sight(tmp_path: Path) -> None:
    one = write(tmp_path / "one.tsv", "a\tB-X\nb\tE-X\nc\tS-X\n")
    two = write(tmp_path / "two.tsv", "a\tI-X\nb\tI-X\nc\tB-X\n")
    expected = [("a b c", [("a b", "X"), ("c", "X")])]
    assert marked(read_marked(one)) == marked(read_marked(two)) == expected


def test_broken_iob_is_mended_counted_and_told(tmp_path: Path) -> None:
    told = record_messages()
    text = "a\tO\nb\tI-X\nc\tI-X\nd\tB-X\ne\n\nf\tB-X\ng\tI-Y\nh\tdisease\n"
    path = write(tmp_path / "a.tsv", text)
    assert marked(read_marked(path)) == [
        ("a b c d e", [("b c", "X"), ("d", "X")]),
        ("f g h", [("f", "X"), ("g", "Y")]),
    ]
    assert any("1 time I- after O (it begins an entity), first in line 2" in t for t in told)
    assert any("I- after another type" in t for t in told)
    assert any(
        "a line without a label (the token is kept as O), first in line 5" in t for t in told
    )
    assert any("a label that is none" in t for t in told)
    with pytest.raises(DataError, match="line 5"):
        read_marked(path, strict=True)


def test_json_spans(tmp_path: Path) -> None:
    rows = [
        {"text": "간암과 HCC", "entities": [{"start": 0, "end": 2, "type": "D"}]},
        {"text": "간암과 HCC", "spans": [[4, 7, "D"]]},
        {"text": "none"},
    ]
    path = write(tmp_path / "a.jsonl", "\n".join(json.dumps(row) for row in rows) + "\n")
    assert marked(read_marked(path)) == [
        ("간암과 HCC", [("간암", "D")]),
        ("간암과 HCC", [("HCC", "D")]),
        ("none", []),
    ]


def test_offsets_outside_the_text_and_overlaps(tmp_path: Path) -> None:
    spans = [[0, 99, "D"], [-1, 2, "D"], [3, 3, "D"], [0, 2, "D"], [0, 3, "E"]]
    path = write(tmp_path / "a.jsonl", json.dumps({"text": "간암과", "entities": spans}) + "\n")
    told = record_messages()
    assert read_marked(path) == [Marked("간암과", (EntitySpan(0, 3, "E"),))]
    assert any("3 times an entity's offsets are outside its text" in t for t in told)
    assert any("two entities overlap" in t for t in told)
    with pytest.raises(DataError, match="outside its text"):
        read_marked(path, strict=True)


def test_rows_that_are_no_texts(tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", '{"text": 3}\nnot json\n{"text": "ok"}\n')
    told = record_messages()
    assert len(read_marked(path)) == 1
    assert any("2" in t for t in told)
    with pytest.raises(DataError, match="no sentence"):
        read_marked(write(tmp_path / "b.tsv", "\n\n"))
    with pytest.raises(DataError, match="scheme"):
        read_marked(path, scheme="iob")
