"""Linking: is the right concept first, among five, among ten?

Concepts are counted, never names: a concept with twenty names has one rank. A mention may have
several right codes (its name stands for all of them); any of them counts. Where the linker gives
two concepts the same score, the one that it put first is judged. A composite mention ("breast and
ovarian cancer") is right when each of its concepts is found.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...clinical.mentions import definitions
from ...errors import DataError, OptionError, counted
from ...io.files import read_lines
from ...terms import Lexicon, Linked, Linker, language_of
from ...terms.export import write_rows
from ..examples import Examples, Form, Roles, describe, read_examples, text
from ..measures import mean, number_groups
from ..models import name_of
from . import Outcome, Settings, Task
from .retrieval import check_ks

logger = logging.getLogger(__name__)

KS = (1, 5, 10)
_MENTIONS, _CODES = ("mention", "name", "text", "ko", "en"), ("code", "id", "ids", "concept", "cui")
_FORM = Form(
    ("mention", "code"),
    tuple(product(_MENTIONS, _CODES)),
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


@dataclass
class CaseSet:
    """Cases with the lexicon to link them to, and how many candidates of each to look at."""

    lexicon: Lexicon
    cases: Sequence[Case]
    k: int = max(KS)

    @cached_property
    def spelling(self) -> "list[Judged]":
        """What a linker makes of the cases by spelling alone, whatever the model."""
        return judge(Linker(self.lexicon, keep=False), self.cases, k=self.k)


class Linking(Task[CaseSet]):
    """Link mentions to a lexicon by spelling and a model's vectors; spelling alone is compared."""

    name = "linking"

    def load(self, path: Path, settings: Settings) -> Examples[CaseSet]:
        lexicon = open_lexicon(settings)
        cases = read_cases(
            path, columns=settings.columns, types=settings.types, strict=settings.strict
        )
        found = CaseSet(lexicon, cases.rows, max(check_ks(settings.ks)))
        about = {"ks": list(settings.ks), "lexicon": lexicon.identity}
        return Examples(found, cases.source, about=about)

    def outcome(self, model: object, examples: Examples[CaseSet], settings: Settings) -> Outcome:
        """Measure accuracy and MRR at each k; what went wrong is written to `errors`."""
        data, ks = examples.rows, check_ks(settings.ks)
        judged = judge(make_linker(data.lexicon, model), data.cases, k=data.k)
        if settings.errors is not None:
            write_errors(settings.errors, judged, data.lexicon)
        alone = outcome_of(data.spelling, data.lexicon, ks=ks)
        return replace(outcome_of(judged, data.lexicon, ks=ks), others=(("spelling alone", alone),))


def open_lexicon(settings: Settings) -> Lexicon:
    """Open the lexicon that was named."""
    if settings.lexicon is None:
        raise OptionError(
            "no lexicon was named; expected one to link to. Name it with --lexicon, or make "
            "one with: malmoi lexicon build"
        )
    return Lexicon.open(settings.lexicon)


def make_linker(lexicon: Lexicon, model: Any) -> Linker:
    """Link with a model; the lexicon's stored vectors are used where they are the model's."""
    if not hasattr(model, "encode"):
        raise OptionError(
            f"{name_of(model)} has no encode; expected a sentence encoder to link with. "
            "Name an encoder."
        )
    return Linker(lexicon, model, keep=False)


def read_cases(
    path: str | Path,
    *,
    columns: Roles | None = None,
    types: Sequence[str] = (),
    strict: bool = False,
) -> Examples[list[Case]]:
    """Read mentions: a table with mention and code, code||name lines, or abstracts in JSON.

    `types` keeps mentions of these types alone, where a file of abstracts has several.
    """
    path = Path(path)
    if path.suffix.lower() == ".jsonl" and '"mentions"' in next(read_lines(path), ""):
        cases, chosen = list(_abstracts(path, types)), {"mention": "mentions"}
    elif path.suffix.lower() in (".tsv", ".csv", ".jsonl"):
        return read_examples(path, ((_FORM, _parse),), columns=columns, strict=strict)
    else:
        cases, chosen = list(_dictionary(path)), {"mention": "name", "code": "code"}
    if not cases:
        raise DataError(
            f"{path} has no mention that can be used; expected some. Read it with --strict to see "
            "why, or name other --types."
        )
    logger.info(f"{path}: {counted(len(cases), 'mention')}")
    return Examples(cases, describe(path, len(cases), chosen))


def _parse(values: Roles) -> Case:
    mention = text(values, "mention").strip()
    language = values.get("language", "") or language_of(mention)
    return Case(mention, _codes(values["code"]), language)


def _dictionary(path: Path) -> Iterator[Case]:
    """Lines of code||name, as BioSyn's dictionaries, or its queries with several fields."""
    for line in read_lines(path):
        parts = [part.strip() for part in line.split("||")]
        if len(parts) == 2 and parts[1]:
            yield Case(parts[1], _codes(parts[0]), language_of(parts[1]))
        elif len(parts) == 5 and parts[3]:  # pmid||span||type||mention||code
            codes = _codes(parts[4])
            yield Case(parts[3], codes, language_of(parts[3]), composite="|" in parts[3])


def _abstracts(path: Path, types: Sequence[str]) -> Iterator[Case]:
    for line in read_lines(path):
        row = json.loads(line)
        defined = definitions(f"{row.get('title', '')} {row.get('abstract', row.get('text', ''))}")
        for mention in row["mentions"]:
            codes = _codes(str(mention["id"]))
            if codes and (not types or mention.get("type") in types):
                composite = mention.get("type") == "CompositeMention"
                yield Case(mention["text"], codes, "en", composite, defined)


def _codes(cell: str) -> tuple[str, ...]:
    """Split codes, and take off the names of the vocabularies they are from.

    >>> _codes("MESH:D003110|OMIM:215600"), _codes("J18.9"), _codes("-1")
    (('D003110', '215600'), ('J18.9',), ())
    """
    parts = [_PREFIX.sub("", part.strip()) for part in re.split(r"[|+;]", cell)]
    return tuple(dict.fromkeys(part for part in parts if part.casefold() not in _NONE))


@dataclass(frozen=True)
class Judged:
    """A case with what the linker made of it: the ranks of its codes, 0 where not found."""

    case: Case
    linked: Linked
    ranks: tuple[int, ...]
    seen: bool

    @property
    def rank(self) -> int:
        """The rank that counts: the best of several right codes, the worst of a composite."""
        found = [rank for rank in self.ranks if rank]
        if self.case.composite:
            return max(found) if len(found) == len(self.ranks) else 0
        return min(found, default=0)


def judge(linker: Linker, cases: Sequence[Case], *, k: int = max(KS)) -> list[Judged]:
    """Link every case and find the ranks of its codes."""
    found: list[Judged] = []
    for case, results in zip(cases, _linked(linker, cases, k), strict=True):
        ranks = tuple(
            min(filter(None, (_rank(code, one) for one in results)), default=0)
            for code in case.codes
        )
        seen = bool(linker.lexicon.find(case.mention))
        found.append(Judged(case, results[0], ranks, seen))
    return found


def _linked(linker: Linker, cases: Sequence[Case], k: int) -> list[list[Linked]]:
    """Link whole mentions, and the parts of composite ones; texts without definitions together."""
    texts: list[str] = []
    owners: list[int] = []
    for i, case in enumerate(cases):
        parts = [case.mention, *(split_composite(case.mention) if case.composite else [])]
        texts += [spelled_out(text, case.defined) for text in parts]
        owners += [i] * len(parts)
    found: list[list[Linked]] = [[] for _ in cases]
    for owner, result in zip(owners, linker.link_iter(texts, k=k), strict=True):
        found[owner].append(result)
    return found


def spelled_out(mention: str, defined: Mapping[str, str]) -> str:
    """Write out the abbreviations that the text itself defines.

    >>> spelled_out("sporadic AT", {"AT": "ataxia telangiectasia"})
    'sporadic ataxia telangiectasia'
    """
    for short, meant in defined.items():
        if short in mention and meant not in mention:
            pattern = rf"(?<![\w-]){re.escape(short)}(?![\w])"
            mention = re.sub(pattern, meant.replace("\\", r"\\"), mention)
    return mention


def split_composite(mention: str) -> list[str]:
    """Give the parts of a composite mention, with the head they may share and without.

    >>> split_composite("breast and ovarian cancer")
    ['breast cancer', 'ovarian cancer', 'breast']
    >>> split_composite("fever, cough and chest pain")[:3]
    ['fever pain', 'cough pain', 'chest pain']
    """
    parts = [part.strip() for part in re.split(r",\s*(?:and|or)?|\band\b|\bor\b|/", mention)]
    parts = [part for part in parts if part]
    if len(parts) < 2:
        return []
    head = parts[-1].split()[-1]
    whole = [part if part.split()[-1] == head else f"{part} {head}" for part in parts[:-1]]
    return list(dict.fromkeys([*whole, parts[-1], *parts]))


def _rank(code: str, linked: Linked) -> int:
    ranked = ((one.code, *one.code.split("|")) for one in linked.candidates)
    return next((i for i, codes in enumerate(ranked, start=1) if code in codes), 0)


def outcome_of(judged: Sequence[Judged], lexicon: Lexicon, *, ks: Sequence[int] = KS) -> Outcome:
    """Turn ranks into accuracy and MRR at each k, by language and by seen and unseen names."""
    known = [one for one in judged if one.case.codes]
    if not known:
        raise DataError(
            "no mention has a code; expected some to be judged by. Name the column with "
            "--columns code=…"
        )
    ranks = np.array([one.rank for one in known])
    columns = {}
    for k in ks:
        hit = (ranks > 0) & (ranks <= k)
        columns[f"accuracy@{k}"] = hit.astype(float)
        columns[f"mrr@{k}"] = np.where(hit, 1 / np.maximum(ranks, 1), 0.0)
    units = number_groups(one.case.mention for one in known)
    # Codes such as "D011546|145260" are known by their parts too.
    codes = {part for code in lexicon.codes for part in (code, *code.split("|"))}
    missing = sum(codes.isdisjoint(one.case.codes) for one in known)
    lost = f"{counted(missing, 'mention has', 'mentions have')} no code that the lexicon knows"
    measures = {name: mean(values) for name, values in columns.items()}
    details = {
        "mentions": len(known),
        "names": len(lexicon),
        "by language": _split(known, ranks, _languages),
        "by name": _split(known, ranks, lambda one: "seen" if one.seen else "unseen"),
    }
    notes = (lost,) if missing else ()
    return Outcome(measures, units, f"accuracy@{min(ks)}", details, notes)


def _languages(one: Judged) -> str:
    best = one.linked.best
    name = best.names[0] if best and best.names else ""
    return f"{one.case.language}-{language_of(name) if name else 'none'}"


def _split(
    known: Sequence[Judged], ranks: NDArray[np.int64], of: Callable[[Judged], str]
) -> dict[str, dict[str, float]]:
    groups: dict[str, list[int]] = {}
    for one, rank in zip(known, ranks.tolist(), strict=True):
        groups.setdefault(of(one), []).append(rank)
    return {
        name: {
            "mentions": len(found),
            **{f"accuracy@{k}": sum(0 < rank <= k for rank in found) / len(found) for k in KS},
        }
        for name, found in sorted(groups.items())
    }


def write_errors(path: str | Path, judged: Sequence[Judged], lexicon: Lexicon) -> None:
    """Write a table of what went wrong: the mention, what came first, and what was right."""
    wrong = [one for one in judged if one.case.codes and one.rank != 1]
    rows: list[Sequence[object]] = []
    for one in wrong:
        best, right = one.linked.best, one.case.codes[0]
        names = lexicon.concept(right) if right in lexicon else None
        found = (best.code, best.ko or best.en, best.score) if best else (None, None, 0.0)
        named = (names.ko or names.en) if names else None
        rows.append((one.case.mention, *found, "|".join(one.case.codes), named, one.rank))
    header = ("mention", "found", "found_name", "score", "right", "right_name", "rank")
    write_rows(header, rows, Path(path))
