"""Names that people use and code tables do not, for lexicons of ICD codes.

`data/sample.tsv` and `data/names.tsv` say of some nine thousand ICD-10 codes how else they are
called: 식중독, 오십견, 루게릭병, older wordings of the tables themselves. Where a lexicon has those
codes, its names are joined by them as one more segment: spelling, meaning and slips of the finger
then work on them as on any other name. The user's lexicon is not changed.
"""

import csv
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from ..lexicon import Lexicon, Segment
from ..lexicon.builder import Entry, LexiconBuilder
from ..lexicon.lexicon import SHIPPED
from .cache import DerivedCache, read_stamp
from .normalize import Normalizer, category_of

_DATA = resources.files("malmoi") / "data"
_TABLES = ("names.tsv", "sample.tsv")
_SOURCE = "malmoi"
_FORMAT = 2
_FOLDER = "companion"
# Codes are ICD's if of those that both have at least this share have a name in common.
_AGREE, _ASKED = 0.2, 300


@dataclass(frozen=True)
class LayName:
    """A name and the code it is told to mean."""

    code: str
    text: str
    kind: str


def add_lay_names(
    lexicon: Lexicon, normal: Normalizer, place: DerivedCache, *, keep: bool = True
) -> Lexicon:
    """Give the lexicon with the names of the tables after its own, where its codes are ICD's."""
    if lexicon.folder is not None and lexicon.folder.parent == SHIPPED:
        return lexicon  # made of these very names
    raw = [(_DATA / name).read_bytes() for name in _TABLES]
    stamp = {
        "format": _FORMAT,
        "lexicon": lexicon.identity,
        "tables": hashlib.sha256(b"\0".join(raw)).hexdigest(),
    }
    found = place.find(_FOLDER, stamp)
    if found is not None:
        return _joined(lexicon, _open(found))
    told = _of_its_codes(lexicon, _told([text.decode("utf-8") for text in raw]))
    segment = _segment(lexicon, told, normal) if _is_icd(lexicon, told, normal) else None
    if keep:
        identity = {"identity": segment.identity if segment is not None else ""}
        save = segment.save if segment is not None else lambda folder: None
        place.keep(_FOLDER, stamp | identity, save)
        found = place.find(_FOLDER, stamp)
    return _joined(lexicon, segment if found is None else _open(found))


def _joined(lexicon: Lexicon, segment: Segment | None) -> Lexicon:
    if segment is None or not len(segment):
        return lexicon
    both = (*lexicon.segments, segment)
    return Lexicon(both, manifest=lexicon.manifest, folder=lexicon.folder)


def _open(folder: Path) -> Segment | None:
    identity = read_stamp(folder).get("identity")
    if not identity:
        return None
    return Segment.open(folder, identity=identity, source_names=(_SOURCE,))


def _told(tables: Sequence[str]) -> Iterator[LayName]:
    """Read the tables: every name with its code, and with its category where that says no less."""
    for text in tables:
        for row in csv.DictReader(text.splitlines(), delimiter="\t", quoting=csv.QUOTE_NONE):
            for column, kind in _COLUMNS:
                for name in (row.get(column) or "").split(";"):
                    if name.strip():
                        # "unspecified" says what the category says: 식도암 is C15 and C15.9.
                        for code in dict.fromkeys((category_of(row["code"]), row["code"])):
                            yield LayName(code, name.strip(), kind)


_COLUMNS = (("ko", "synonym"), ("en", "synonym"), ("synonyms", "synonym"), ("lay", "lay"))


def _of_its_codes(lexicon: Lexicon, told: Iterable[LayName]) -> list[LayName]:
    listed = list(told)
    known = {code for code in {one.code for one in listed} if code in lexicon}
    return [one for one in listed if one.code in known]


def _segment(lexicon: Lexicon, told: Iterable[LayName], normal: Normalizer) -> Segment:
    draft = LexiconBuilder(base=lexicon, cleaning=False)
    draft.add(
        Entry(one.code, one.text, None, one.kind, _SOURCE, 0)
        for one in told
        if not _is_its_unspecified(lexicon, one, normal)
    )
    return draft.segment()


def _is_its_unspecified(lexicon: Lexicon, one: LayName, normal: Normalizer) -> bool:
    """Tell whether the table gives a category's name to its "unspecified" code alone.

    J18 is pneumonia of unspecified organisms, J18.9 is pneumonia: so is 폐렴, then.
    """
    rest = f"{one.code}.9"
    if len(one.code) != 3 or rest not in lexicon:
        return False
    core = normal.form(one.text).core
    said = [
        any(normal.form(name.text).core == core for name in lexicon.concept(code).names)
        for code in (one.code, rest)
    ]
    return said == [False, True]


def _is_icd(lexicon: Lexicon, told: Sequence[LayName], normal: Normalizer) -> bool:
    """Tell ICD's A00 from another table's: do both call the codes alike that they share?"""
    asked: dict[str, set[str]] = {}
    for one in told:
        if one.code in asked or len(asked) < _ASKED:
            asked.setdefault(one.code, set()).add(normal.form(one.text).core)
    agree = sum(
        any(normal.form(name.text).core in ours for name in lexicon.concept(code).names)
        for code, ours in asked.items()
    )
    return bool(asked) and agree >= _AGREE * len(asked)
