"""Files of mentions and the codes they mean: tables, code||name lines, abstracts."""

import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..bundle.manifest import sha256
from ..clinical.mentions import definitions
from ..errors import DataError, counted
from ..io.files import read_lines
from ..io.tables import BadRows, read_numbered_rows
from ..lexicon import language_of
from .examples import ExampleSource, Form, Roles, choose_columns

logger = logging.getLogger(__name__)

_FORM = Form(
    ("mention", "code"),
    tuple(
        (mention, code)
        for mention in ("mention", "name", "text", "ko", "en")
        for code in ("code", "id", "ids", "concept", "cui")
    ),
    {"language": ("language", "lang")},
    optional=("language",),
    sided=False,
)
_PREFIX = re.compile(r"^(?:MESH|OMIM|UMLS|D:)?:?\s*", re.IGNORECASE)
_NONE = ("", "-1", "-", "nil", "none", "cui-less")


@dataclass(frozen=True)
class Case:
    """A mention and the codes that are right for it; none means that it has no concept.

    `composite` says that all of the codes must be found. `defined` are the abbreviations that
    the text around the mention explains.
    """

    mention: str
    codes: tuple[str, ...]
    language: str
    composite: bool = False
    defined: Mapping[str, str] = field(default_factory=dict)


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    types: Sequence[str] = (),
    strict: bool = False,
) -> tuple[list[Case], ExampleSource]:
    """Read mentions: a table with mention and code, code||name lines, or abstracts in JSON.

    `types` keeps mentions of these types alone, where a file of abstracts has several.
    """
    path = Path(path)
    if path.suffix.lower() == ".jsonl" and _has_mentions(path):
        cases, chosen = list(_abstracts(path, types)), {"mention": "mentions"}
    elif path.suffix.lower() in (".tsv", ".csv", ".jsonl"):
        cases, chosen = _table(path, columns or {}, strict)
    else:
        cases, chosen = list(_dictionary(path)), {"mention": "name", "code": "code"}
    if not cases:
        raise DataError(f"{path} has no mention that can be used; expected some. Check the file.")
    logger.info(f"{path}: {counted(len(cases), 'mention')}")
    return cases, ExampleSource(path.name, sha256(path), len(cases), chosen)


def _table(path: Path, columns: Roles, strict: bool) -> tuple[list[Case], dict[str, str]]:
    bad = BadRows(str(path), strict)
    cases: list[Case] = []
    chosen: dict[str, str] = {}
    for line, row in read_numbered_rows(path, strict=strict):
        if not chosen:
            _, chosen = choose_columns(list(row), [_FORM], columns, where=str(path))
        mention = row.get(chosen["mention"], "").strip()
        if not mention:
            bad.add(line, "no mention", "a text")
            continue
        language = row.get(chosen.get("language", ""), "") or language_of(mention)
        cases.append(Case(mention, _codes(row.get(chosen["code"], "")), language))
    bad.report()
    return cases, chosen


def _dictionary(path: Path) -> Iterator[Case]:
    """Lines of code||name, as BioSyn's dictionaries, or its queries with several fields."""
    for line in read_lines(path):
        parts = [part.strip() for part in line.split("||")]
        if len(parts) == 2 and parts[1]:
            yield Case(parts[1], _codes(parts[0]), language_of(parts[1]))
        elif len(parts) == 5 and parts[3]:  # pmid||span||type||mention||code
            codes = _codes(parts[4])
            yield Case(parts[3], codes, language_of(parts[3]), composite="|" in parts[3])


def _has_mentions(path: Path) -> bool:
    return '"mentions"' in next(read_lines(path), "")


def _abstracts(path: Path, types: Sequence[str]) -> Iterator[Case]:
    for line in read_lines(path):
        row = json.loads(line)
        defined = definitions(f"{row.get('title', '')} {row.get('abstract', row.get('text', ''))}")
        for mention in row["mentions"]:
            codes = _codes(str(mention["id"]))
            if codes and (not types or mention.get("type") in types):
                composite = mention.get("type") == "CompositeMention"
                yield Case(mention["text"], codes, "en", composite, defined)


def _codes(text: str) -> tuple[str, ...]:
    """Split codes, and take off the names of the vocabularies they are from.

    >>> _codes("MESH:D003110|OMIM:215600"), _codes("J18.9"), _codes("-1")
    (('D003110', '215600'), ('J18.9',), ())
    """
    parts = [_PREFIX.sub("", part.strip()) for part in re.split(r"[|+;]", text)]
    return tuple(dict.fromkeys(part for part in parts if part.casefold() not in _NONE))
