"""How far cues reach: a table of phrases, each with what it says of every item in it.

`phrases.tsv` has a note, its items (`야간발한=negated`; nothing after a name means: as it stands)
and "wrong" where what is expected does not come out yet.
"""

import csv
import re
from pathlib import Path

import pytest

from malmoi.clinical.context import NoteContext, attributes_of
from malmoi.clinical.reader import NoteReader
from malmoi.terms import Linker, build_lexicon
from tests.support.lexicons import open_lexicon

TABLE = Path(__file__).with_name("phrases.tsv")
TEMPLATES = Path(__file__).with_name("templates.txt")
NAMES = (
    ("폐렴", "췌장염", "담낭염"), ("pneumonia", "DVT", "pancreatitis"),
    ("UTI", "폐색전증", "abscess"),
)  # fmt: skip
STATUSES = {
    "n": "negated", "q": "possible", "h": "hypothetical", "x": "historical", "p": "present",
}  # fmt: skip
Items = dict[str, tuple[str, ...]]


def phrases() -> list[tuple[str, Items, bool]]:
    rows = csv.DictReader(TABLE.read_text("utf-8").splitlines(), delimiter="\t")
    return [
        (row["note"].replace("\\n", "\n"), _items(row["items"]), row["remains"] == "wrong")
        for row in rows
    ]


def _items(cell: str) -> Items:
    pairs = (item.partition("=") for item in cell.split("; "))
    return {name: tuple(about.split()) for name, _, about in pairs}


def spans(note: str, names: list[str]) -> dict[str, tuple[int, int]]:
    """Find each name, the longest first, so that "cough" is not sought within another name."""
    found: dict[str, tuple[int, int]] = {}
    left = note
    for name in sorted(names, key=len, reverse=True):
        start = left.index(name)
        found[name] = (start, start + len(name))
        left = left[:start] + "\0" * len(name) + left[start + len(name) :]
    return found


@pytest.mark.parametrize(
    ("note", "items"),
    [
        pytest.param(note, items, marks=[pytest.mark.xfail(strict=True)] if wrong else [])
        for note, items, wrong in phrases()
    ],
)
def test_a_phrase_says_what_it_says(note: str, items: Items) -> None:
    places = sorted(spans(note, list(items)).items(), key=lambda place: place[1])
    found = attributes_of(note, [span for _, span in places])
    assert dict(zip((name for name, _ in places), found, strict=True)) == items


def test_an_item_is_read_without_knowing_the_others() -> None:
    """A lexicon does not have every item of a list; most phrases must come out all the same."""
    asked = right = 0
    for note, items, wrong in phrases():
        for name, span in {} if wrong else spans(note, list(items)).items():
            asked += 1
            right += attributes_of(note, [span]) == [items[name]]
    assert asked > 400 and right >= asked - 3


def test_strokes_make_lists(tmp_path: Path) -> None:
    reader = NoteReader(Linker(open_lexicon(tmp_path)))
    found = {m.text: m.attributes for m in reader.read("HTN/DM/fever (+/-/-), 기침/N/V(-)")}
    assert found == {
        "HTN": (),
        "DM": ("negated",),
        "fever": ("negated",),
        "기침": ("negated",),
        "N/V": ("negated",),
    }


def test_a_list_is_no_name_of_its_own_where_its_items_are(tmp_path: Path) -> None:
    names = "code\tko\nR05\t기침\nR05\t기침 가래\nR09.3\t가래\nJ18.9\t폐렴, 상세불명\n"
    (tmp_path / "own.tsv").write_text(names, "utf-8")
    build_lexicon([tmp_path / "own.tsv"], tmp_path / "own.lexicon")
    reader = NoteReader(Linker(tmp_path / "own.lexicon"))
    found = [(m.text, m.attributes) for m in reader.read("기침, 가래(-), 폐렴, 상세불명")]
    assert found == [("기침", ()), ("가래", ("negated",)), ("폐렴, 상세불명", ())]
    assert [m.text for m in reader.read("기침 가래 있음")] == ["기침 가래"]


def templates() -> list[str]:
    lines = TEMPLATES.read_text("utf-8").splitlines()
    return [line for line in lines if "{" in line and line.strip()]


@pytest.mark.parametrize("names", NAMES)
def test_templates_say_the_same_of_any_name(names: tuple[str, ...]) -> None:
    """A phrase says of a disease what it says, whatever the disease is called."""
    wrong = {}
    for template in templates():
        note, places, expected, at = "", [], [], 0
        for i, mark in enumerate(re.finditer(r"\{(\w+)\}", template)):
            note += template[at : mark.start()]
            places.append((len(note), len(note) + len(names[i % 3])))
            note, at = note + names[i % 3], mark.end()
            who = {"f": "family", "o": "other"}.get(mark[1][-1], "patient")
            expected.append((STATUSES[mark[1][0]], who))
        note += template[at:]
        context = NoteContext.of(note, places)
        said = [context.assertion(*place) for place in places]
        found = [(one.status, one.experiencer) for one in said]
        if found != expected:
            wrong[note] = found
    assert not wrong
