"""Linking: is the right concept first, among five, among ten?

Concepts are counted, never names: a concept with twenty names has one rank. A mention may have
several right codes (its name stands for all of them); any of them counts. Where the linker gives
two concepts the same score it has still put one first, and that one is judged. A composite
mention ("breast and ovarian cancer") is right when each of its concepts is found.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, OptionError, counted
from ..io.files import writing
from ..lexicon import Lexicon, language_of
from ..linking import Linked, Linker
from .measures import mean
from .mentions import Case
from .models import name_of
from .report import Outcome

KS = (1, 5, 10)


class LinkingTask:
    """Mentions to be linked to a lexicon by one model after another."""

    def __init__(
        self,
        lexicon: str | Path,
        cases: Sequence[Case],
        ks: Sequence[int] = KS,
        errors: str | Path | None = None,
    ) -> None:
        """Open the lexicon; `errors` is a file for what the first model got wrong."""
        self.lexicon, self.cases, self.ks = Lexicon.open(lexicon), cases, tuple(sorted(set(ks)))
        if not self.ks or self.ks[0] < 1:
            raise OptionError(f"k is {list(ks)}; expected numbers from 1. Correct it.")
        self._errors = errors

    def measure(self, model: object) -> Outcome:
        """Link all mentions by spelling and this model's vectors."""
        if not hasattr(model, "encode"):
            raise OptionError(
                f"{name_of(model)} has no encode; expected a sentence encoder to link with. "
                "Name an encoder."
            )
        encoder: Any = model
        return self._judged(Linker(self.lexicon, encoder, keep=False))

    def spelling(self) -> Outcome:
        """Link all mentions by spelling alone."""
        return self._judged(Linker(self.lexicon, keep=False))

    def _judged(self, linker: Linker) -> Outcome:
        judged = judge(linker, self.cases, k=max(self.ks))
        if self._errors is not None and linker.encoder is not None:
            write_errors(self._errors, judged, self.lexicon)
            self._errors = None
        return outcome_of(judged, self.lexicon, ks=self.ks)


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
    linked = _linked(linker, cases, k)
    for case, results in zip(cases, linked, strict=True):
        ranks = tuple(min(_rank(code, one) or 10**6 for one in results) for code in case.codes)
        found.append(
            Judged(
                case,
                results[0],
                tuple(rank if rank < 10**6 else 0 for rank in ranks),
                bool(linker.lexicon.find(case.mention)),
            )
        )
    return found


def _linked(linker: Linker, cases: Sequence[Case], k: int) -> list[list[Linked]]:
    """Link whole mentions, and the parts of composite ones; texts without definitions together."""
    texts: list[str] = []
    owners: list[int] = []
    for i, case in enumerate(cases):
        parts = split_composite(case.mention) if case.composite else []
        for text in [case.mention, *parts]:
            texts.append(spelled_out(text, case.defined))
            owners.append(i)
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
    for i, candidate in enumerate(linked.candidates, start=1):
        if code in (candidate.code, *candidate.code.split("|")):
            return i
    return 0


def outcome_of(judged: Sequence[Judged], lexicon: Lexicon, *, ks: Sequence[int] = KS) -> Outcome:
    """Turn ranks into accuracy and MRR at each k, by language and by seen and unseen names."""
    known = [one for one in judged if one.case.codes]
    if not known:
        raise DataError("no mention has a code; expected some to be judged by. Check the file.")
    ranks = np.array([one.rank for one in known])
    columns = {}
    for k in ks:
        hit = (ranks > 0) & (ranks <= k)
        columns[f"accuracy@{k}"] = hit.astype(float)
        columns[f"mrr@{k}"] = np.where(hit, 1 / np.maximum(ranks, 1), 0.0)
    mentions: dict[str, int] = {}
    units = np.array([mentions.setdefault(one.case.mention, len(mentions)) for one in known])
    codes = _parts(lexicon)
    missing = sum(codes.isdisjoint(one.case.codes) for one in known)
    notes = (
        (f"{counted(missing, 'mention has', 'mentions have')} no code that the lexicon knows",)
        if missing
        else ()
    )
    return Outcome(
        {name: mean(values) for name, values in columns.items()},
        units=units,
        main="accuracy@1",
        details={
            "mentions": len(known),
            "names": len(lexicon),
            "by language": _split(known, ranks, _pair),
            "by name": _split(known, ranks, lambda one: "seen" if one.seen else "unseen"),
        },
        notes=notes,
    )


def _parts(lexicon: Lexicon) -> frozenset[str]:
    """Every code, and the parts of codes such as "D011546|145260"."""
    return frozenset(part for code in lexicon.codes for part in (code, *code.split("|")))


def _pair(one: Judged) -> str:
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


def errors(judged: Sequence[Judged], lexicon: Lexicon) -> Iterator[dict[str, object]]:
    """List what went wrong for a person to read: the mention, what came first, what was right."""
    for one in judged:
        if one.case.codes and one.rank != 1:
            best = one.linked.best
            right = one.case.codes[0]
            names = lexicon.concept(right) if right in lexicon else None
            yield {
                "mention": one.case.mention,
                "found": best.code if best else None,
                "found_name": (best.ko or best.en) if best else None,
                "score": best.score if best else 0.0,
                "right": "|".join(one.case.codes),
                "right_name": (names.ko or names.en) if names else None,
                "rank": one.rank,
            }


def write_errors(path: str | Path, judged: Sequence[Judged], lexicon: Lexicon) -> None:
    """Write the list of errors as a table."""
    with writing(path) as file:
        for i, row in enumerate(errors(judged, lexicon)):
            if not i:
                file.write("\t".join(row).encode() + b"\n")
            cells = (re.sub(r"\s+", " ", str(value)) for value in row.values())
            file.write("\t".join(cells).encode("utf-8", "replace") + b"\n")
