"""Lay names: names that people use and code tables do not, for lexicons of ICD codes.

`data/sample.tsv` and `data/names.tsv` list other names of some nine thousand ICD-10 codes: 식중독,
오십견, 루게릭병, older wordings of the tables themselves. `data/clinical.tsv` lists what clinicians
write (ureter stone, 당뇨), and decides where a table has the same words for another code. Where a
lexicon has those codes, they are joined to its names as one more segment, so that spelling, meaning
and typing errors work on them as on any other name. The user's lexicon is not changed.
"""

import hashlib
from collections.abc import Sequence

from ..io.fingerprint import read_stamp
from ..io.tables import read_rows
from .builder import LexiconBuilder
from .cache import STAMP, DerivedCache
from .lexicon import Lexicon
from .normalize import Normalizer, category_of
from .readers import Entry
from .segment import SHIPPED, Segment

_TABLES = (SHIPPED / "clinical.tsv", SHIPPED / "names.tsv", SHIPPED / "sample.tsv")
_SOURCE = "malmoi"
_FORMAT = 3
_FOLDER = "companion"  # its name on disk since 0.1
_KINDS = {"ko": "synonym", "en": "synonym", "synonyms": "synonym", "lay": "lay"}
_KINDS |= {"names": "abbreviation"}  # a mark: these decide, see `Weights.meant`
# Codes are those of ICD if at least this share of the codes in common have a name in common.
_AGREE, _COMPARED = 0.2, 300


def add_lay_names(
    lexicon: Lexicon, normalizer: Normalizer, cache: DerivedCache, *, keep: bool = True
) -> Lexicon:
    """Give the lexicon with the lay names after its own, where its codes are those of ICD."""
    if lexicon.folder is not None and lexicon.folder.parent == SHIPPED:
        return lexicon  # which was built from these tables
    if lexicon.folder is not None and lexicon.manifest.report.get("plain"):
        return lexicon
    tables = hashlib.sha256(b"\0".join(path.read_bytes() for path in _TABLES)).hexdigest()
    stamp = {"format": _FORMAT, "lexicon": lexicon.identity, "tables": tables}
    segment: Segment | None = None
    if cache.find(_FOLDER, stamp) is None:
        every = _read()
        known = {code for code in {one.code for one in every} if code in lexicon}
        names = [one for one in every if one.code in known]
        if _is_icd(lexicon, names, normalizer):
            builder = LexiconBuilder(base=lexicon, cleaning=False)
            builder.add(one for one in names if not _is_unspecified(lexicon, one, normalizer))
            segment = builder.segment()
        if keep:
            stored = {"identity": "" if segment is None else segment.identity}
            save = (lambda folder: None) if segment is None else segment.save
            cache.store(_FOLDER, stamp | stored, save)
    found = cache.find(_FOLDER, stamp)
    if found is not None:
        segment, identity = None, read_stamp(found / STAMP).get("identity", "")
        if identity:
            segment = Segment.open(found, identity=identity, source_names=(_SOURCE,))
    return lexicon.with_segment(segment) if segment is not None and len(segment) else lexicon


def _read() -> list[Entry]:
    """Read the tables: every name with its code, and with its category where that says no less."""
    found = []
    for path in _TABLES:
        for row in read_rows(path):
            # "unspecified" says what the category says: 식도암 is C15 and C15.9.
            codes = dict.fromkeys((category_of(row["code"]), row["code"]))
            for column, kind in _KINDS.items():
                for name in filter(None, map(str.strip, row.get(column, "").split(";"))):
                    found += [Entry(code, name, None, kind, _SOURCE, 0) for code in codes]
    return found


def _is_unspecified(lexicon: Lexicon, one: Entry, normalizer: Normalizer) -> bool:
    """Tell whether the table gives a category's name to its "unspecified" code alone.

    J18 is pneumonia of unspecified organisms, J18.9 is pneumonia: so is 폐렴, then.
    """
    unspecified = f"{one.code}.9"
    if len(one.code) != 3 or unspecified not in lexicon:
        return False
    core = normalizer.form(one.text).core
    return core in _cores(lexicon, unspecified, normalizer) - _cores(lexicon, one.code, normalizer)


def _is_icd(lexicon: Lexicon, names: Sequence[Entry], normalizer: Normalizer) -> bool:
    """Tell ICD's A00 from another table's: do both have a name in common for most codes?"""
    compared: dict[str, set[str]] = {}
    for one in names:
        if one.code in compared or len(compared) < _COMPARED:
            compared.setdefault(one.code, set()).add(normalizer.form(one.text).core)
    agree = sum(
        not cores.isdisjoint(_cores(lexicon, code, normalizer)) for code, cores in compared.items()
    )
    return bool(compared) and agree >= _AGREE * len(compared)


def _cores(lexicon: Lexicon, code: str, normalizer: Normalizer) -> set[str]:
    return {normalizer.form(name.text).core for name in lexicon.concept(code).names}
