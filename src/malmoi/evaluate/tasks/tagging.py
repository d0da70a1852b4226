"""Tagging: how many of the entities that people marked does a tagger find, exactly?

An entity is right when its start, end and type are, as in the CoNLL tasks; a part of one counts
nothing. Errors are counted by kind, so that a person sees what the tagger does wrong.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, counted
from ...heads.entity_files import EntitySpan, Marked, read_marked
from ...types import Doubles
from ..examples import Examples, describe
from ..measures import Measure
from ..task import Outcome, Settings, Task

ERRORS = ("right", "wrong type", "wrong border", "wrong border and type", "missed", "invented")


@dataclass
class Counts:
    """What was right, what was found and what was there; by text and type, and by kind of error."""

    right: list[Counter[str]] = field(default_factory=list)
    found: list[Counter[str]] = field(default_factory=list)
    gold: list[Counter[str]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, gold: Iterable[EntitySpan], found: Iterable[EntitySpan]) -> None:
        """Compare the entities of one text."""
        truth, guesses = set(gold), set(found)
        self.right.append(Counter(span.type for span in truth & guesses))
        self.found.append(Counter(span.type for span in guesses))
        self.gold.append(Counter(span.type for span in truth))
        self.errors.update(_kinds(truth, guesses))

    def columns(self, name: str | None = None) -> tuple[NDArray[np.float64], ...]:
        """Right, found and gold by text, (n,) each, of one type or of all."""
        return tuple(
            np.array([sum(c.values()) if name is None else c[name] for c in part], dtype=np.float64)
            for part in (self.right, self.found, self.gold)
        )

    @property
    def types(self) -> list[str]:
        """Every type that was there or was found."""
        return sorted({name for part in (self.found, self.gold) for c in part for name in c})

    def f1(self, name: str | None = None) -> float:
        """The plain F1, of one type or of all; 0 where nothing is right."""
        right, found, gold = (float(column.sum()) for column in self.columns(name))
        return 2 * right / (found + gold) if found + gold else 0.0


def _kinds(gold: set[EntitySpan], found: set[EntitySpan]) -> Counter[str]:
    """Say of each entity what became of it; each guess explains one marked entity at most."""
    kinds = Counter({"right": len(gold & found)})
    rest = sorted(found - gold, key=lambda s: (s.start, s.end))
    for span in sorted(gold - found, key=lambda s: (s.start, s.end)):
        over = [g for g in rest if g.start < span.end and span.start < g.end]
        if not over:
            kinds["missed"] += 1
            continue
        # One with the same borders explains it best, then one of the same type.
        guess = max(
            over, key=lambda g: ((g.start, g.end) == (span.start, span.end), g.type == span.type)
        )
        rest.remove(guess)
        same_place = (guess.start, guess.end) == (span.start, span.end)
        border = "wrong border" if guess.type == span.type else "wrong border and type"
        kinds["wrong type" if same_place else border] += 1
    kinds["invented"] += len(rest)
    return kinds


Rows = Sequence[Marked]


class Entities(Task[Rows]):
    """F1 of all entities, and of each type; files have CoNLL columns, or .jsonl with spans."""

    name = "tagging"

    def load(self, path: Path, settings: Settings) -> Examples[Rows]:
        texts = read_marked(path, scheme="auto", strict=settings.strict)
        return Examples(texts, describe(path, len(texts), {}))

    def outcome(self, model: object, examples: Examples[Rows], settings: Settings) -> Outcome:
        """Tag every text and compare with what is marked."""
        found = tag_all(model, [marked.text for marked in examples.rows])
        counts = Counts()
        for marked, spans in zip(examples.rows, found, strict=True):
            counts.add(marked.spans, spans)
        return outcome_of(counts, known=getattr(model, "types", ()))


def tag_all(tagger: object, texts: Sequence[str]) -> list[list[EntitySpan]]:
    """Call a tagger on many texts at once where it can, else one by one."""
    if hasattr(tagger, "tag_all"):
        found = tagger.tag_all(texts)
    elif hasattr(tagger, "tag"):
        found = [tagger.tag(text) for text in texts]
    else:
        raise OptionError(
            f"{type(tagger).__name__} cannot tag; the task tagging needs a model with tag(text). "
            'Train one with objective = "tag".'
        )
    return [[EntitySpan(one.start, one.end, one.type) for one in each] for each in found]


def outcome_of(counts: Counts, known: Sequence[str] = ()) -> Outcome:
    """Turn counts into measures that can be resampled by text."""
    right, found, gold = counts.columns()
    measures = {"f1": ratio(2 * right, found + gold)}
    measures |= {"precision": ratio(right, found), "recall": ratio(right, gold)}
    if len(counts.types) > 1:
        for name in counts.types:
            own, guessed, marked = counts.columns(name)
            measures[f"f1:{name}"] = ratio(2 * own, guessed + marked)
    details = {
        "texts": len(right),
        "entities": int(gold.sum()),
        "errors": {kind: counts.errors[kind] for kind in ERRORS},
    }
    unseen = sorted({name for c in counts.gold for name in c} - set(known)) if known else []
    notes: tuple[str, ...] = ()
    if unseen:
        many = sum(c[name] for c in counts.gold for name in unseen)
        notes = (
            f"the tagger has not learnt {', '.join(unseen)}: "
            f"{counted(many, 'entity is', 'entities are')} missed",
        )
    return Outcome(measures, np.arange(len(right)), "f1", details, notes)


def ratio(upper: Doubles, lower: Doubles) -> Measure:
    """The sum of one count an item, divided by that of another; 0 where the latter is."""

    def measure(weights: Doubles) -> Doubles:
        total = weights @ lower
        return np.divide(weights @ upper, total, out=np.zeros_like(total), where=total > 0)

    return measure
