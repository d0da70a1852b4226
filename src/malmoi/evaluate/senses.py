"""Senses: does a word mean the same in two sentences? A threshold on word vectors says so.

The word stands in [brackets], as in KoBEST WiC. The threshold of every choice of layers is found
on training rows and tried on others, so that the table shows which layers carry meaning.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..encoder.layers import LayerAccess
from ..errors import OptionError
from ..runtime.pooling import normalize
from ..types import Floats
from ..words import LayerReader, layer_names
from ..words.reader import LayerChoice, choose
from .examples import PAIRS, BadRow, Examples, Form, Roles, read_examples, text, truth
from .measures import auroc, best_thresholds, mean
from .models import name_of
from .report import Outcome

FORM = Form(("a", "b"), PAIRS, {"same": ("answer", "same", "label")})
_BRACKETS = re.compile(r"\[([^\[\]]+)\]")


@dataclass(frozen=True)
class WordPlace:
    """A sentence and where its word stands."""

    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word as written."""
        return self.text[self.start : self.end]


@dataclass(frozen=True)
class Sense:
    """A word in two sentences, and whether it means the same in both."""

    a: WordPlace
    b: WordPlace
    same: bool


def read(
    path: str | Path,
    *,
    columns: Roles | None = None,
    sides: str | None = None,
    strict: bool = False,
) -> Examples[Sense]:
    """Read pairs of sentences with a word in brackets; see `read_examples` for the options."""
    return read_examples(path, [(FORM, _parse)], columns=columns, sides=sides, strict=strict)


def find_brackets(marked: str) -> WordPlace | None:
    """Take the brackets off; the first one says where the word stands.

    >>> find_brackets("하늘에 [배]가 떴다")
    Place(text='하늘에 배가 떴다', start=4, end=5)
    """
    found = _BRACKETS.search(marked)
    if found is None:
        return None
    start = found.start()
    return WordPlace(_BRACKETS.sub(r"\1", marked), start, start + len(found[1]))


def _parse(values: Roles) -> Sense:
    a, b = (find_brackets(text(values, role)) for role in ("a", "b"))
    if a is None or b is None:
        raise BadRow("no word in [brackets]", "one in both sentences")
    return Sense(a, b, truth(values, "same"))


def measure(
    model: object, rows: Sequence[Sense], *, train: Sequence[Sense] | None = None, **_: object
) -> Outcome:
    """Measure accuracy for every choice of layers, by the word alone and with its sentence.

    "+ sentence" is the mean of two cosines: of the word's shift from itself without a sentence,
    and of the sentences' mean states, both after the mean of the training rows is taken off.
    """
    if train is None:
        raise OptionError(
            "no training rows were named; the threshold expects some to be found on. "
            "Name them with --train."
        )
    if not isinstance(model, LayerAccess):
        raise OptionError(
            f"{name_of(model)} gives no word vectors; expected an encoder. "
            "Name an encoder's bundle."
        )
    gold = np.array([row.same for row in rows])
    known = np.array([row.same for row in train])
    seen, asked = _States.of(model.reader, train), _States.of(model.reader, rows)
    right, reached, thresholds, areas = {}, {}, {}, {}
    for judge in _judges(model.reader, seen):
        name, own, theirs = judge.name, judge.score(seen), judge.score(asked)
        threshold, _best = best_thresholds(own, known)
        right[name] = (theirs >= threshold) == gold
        reached[name] = float(((own >= threshold) == known).mean())
        thresholds[name] = threshold
        areas[name] = float(auroc(theirs, gold)(np.ones((1, len(rows))))[0])
    return Outcome(
        {name: mean(values) for name, values in right.items()},
        np.arange(len(rows)),
        max(reached, key=lambda name: reached[name]),
        {"train_accuracy": reached, "auroc": areas, "threshold": thresholds}
        | {"share_same": float(gold.mean())},
    )


@dataclass(frozen=True)
class _States:
    """All layers of words, of words alone and of sentences: each (2 × rows, layers, hidden)."""

    words: Floats
    alone: Floats
    sentences: Floats

    @classmethod
    def of(cls, reader: LayerReader, rows: Sequence[Sense]) -> "_States":
        places = [place for row in rows for place in (row.a, row.b)]
        pairs = _read(
            reader, [(p.text, [(p.start, p.end), (0, len(p.text))]) for p in places]
        )  # (places, 2, layers, hidden)
        known = list(dict.fromkeys(place.word for place in places))
        alone = _read(reader, [(word, [(0, len(word))]) for word in known])[:, 0]
        at = {word: i for i, word in enumerate(known)}
        return cls(pairs[:, 0], alone[[at[place.word] for place in places]], pairs[:, 1])


def _read(reader: LayerReader, items: Sequence[tuple[str, list[tuple[int, int]]]]) -> Floats:
    found = reader.words_at(items, layers="concat-all")
    width = reader.layers
    states = []
    for (_, spans), own in zip(items, found, strict=True):
        # A word beyond what the model reads has no vector; zeros are like nothing.
        at = {(word.start, word.end): word.vector for word in own}
        blank = np.zeros_like(own[0].vector) if own else np.zeros(width, dtype=np.float32)
        states.append(np.stack([at.get(span, blank) for span in spans]))
    stacked = np.stack(states)
    return stacked.reshape(len(items), stacked.shape[1], width, -1)


@dataclass(frozen=True)
class _Judge:
    """One choice of layers: states → scores (rows,), by the word alone or with its sentence."""

    name: str
    numbers: tuple[int, ...]
    choice: LayerChoice
    centre: "tuple[Floats, Floats] | None" = None  # of shifts and of sentences, each (width,)

    def joined(self, states: Floats) -> Floats:
        """The chosen layers of states (n, layers, hidden) as one vector each, (n, width)."""
        return self.choice([states[:, number] for number in self.numbers])

    def score(self, states: _States) -> NDArray[np.float64]:
        """How alike the two words of each row are."""
        if self.centre is None:
            return _cosines(self.joined(states.words))
        moved = _cosines(self.joined(states.words) - self.joined(states.alone) - self.centre[0])
        return (moved + _cosines(self.joined(states.sentences) - self.centre[1])) / 2


def _judges(reader: LayerReader, seen: _States) -> Iterator[_Judge]:
    outputs = [f"layer_{i}" for i in range(reader.layers)]
    for layers in layer_names(reader.layers):
        choice = choose(layers, outputs=outputs, name="")
        name = f"layer {layers}" if isinstance(layers, int) else str(layers)
        numbers = tuple(outputs.index(output) for output in choice.outputs)
        plain = _Judge(name, numbers, choice)
        yield plain
        shift = (plain.joined(seen.words) - plain.joined(seen.alone)).mean(axis=0)
        middle = plain.joined(seen.sentences).mean(axis=0)
        yield _Judge(f"{name} + sentence", numbers, choice, (shift, middle))


def _cosines(vectors: Floats) -> NDArray[np.float64]:
    unit = normalize(vectors).astype(np.float64)
    found: NDArray[np.float64] = np.einsum("nd,nd->n", unit[0::2], unit[1::2])
    return found
