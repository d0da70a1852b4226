"""Senses (word in context): does a word mean the same in two sentences?

The word is in [brackets], as in KoBEST WiC. For every choice of layers a threshold on the
similarity of the two word vectors is found on training rows and tried on the others, so that the
report shows which layers carry meaning.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...encoders.transformer import LayerAccess
from ...encoders.words import LayerChoice, LayerReader, choose, layer_names
from ...errors import OptionError
from ...runtime.pooling import normalize
from ...types import Floats
from ..examples import PAIRS, BadRow, Examples, Form, Roles, text, truth
from ..measures import auroc, best_thresholds, mean, value
from ..models import name_of
from . import Outcome, Settings, Task


@dataclass(frozen=True)
class MarkedWord:
    """A sentence and where its word is."""

    text: str
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word as written."""
        return self.text[self.start : self.end]


@dataclass(frozen=True)
class SensePair:
    """A word in two sentences, and whether it means the same in both."""

    a: MarkedWord
    b: MarkedWord
    same: bool


_BRACKETS = re.compile(r"\[([^\[\]]+)\]")


def find_brackets(marked: str) -> MarkedWord | None:
    """Remove the brackets; the first pair says where the word is.

    >>> find_brackets("하늘에 [배]가 떴다")
    MarkedWord(text='하늘에 배가 떴다', start=4, end=5)
    """
    found = _BRACKETS.search(marked)
    if found is None:
        return None
    start = found.start()
    return MarkedWord(_BRACKETS.sub(r"\1", marked), start, start + len(found[1]))


def _parse(values: Roles) -> SensePair:
    a, b = (find_brackets(text(values, role)) for role in ("a", "b"))
    if a is None or b is None:
        raise BadRow("no word in [brackets]", "one in both sentences")
    return SensePair(a, b, truth(values, "same"))


Rows = Sequence[SensePair]


class Senses(Task[Rows]):
    """Accuracy for every choice of layers, by the word alone and with its sentence.

    "+ sentence" is the mean of two cosines: of the word's shift from itself without a sentence,
    and of the sentences' mean states, both after the mean of the training rows is subtracted.
    """

    name = "senses"
    fitted = True
    forms = ((Form(("a", "b"), PAIRS, {"same": ("answer", "same", "label")}), _parse),)

    def outcome(self, model: object, examples: Examples[Rows], settings: Settings) -> Outcome:
        """Find the thresholds on the training rows, and try them on the others."""
        rows, train = examples.rows, examples.train
        if train is None:
            raise OptionError(
                "no training rows were named; expected some to find the threshold on. "
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
        for scorer in _scorers(model.reader, seen):
            name, own, theirs = scorer.name, scorer.score(seen), scorer.score(asked)
            threshold, _best = best_thresholds(own, known)
            right[name] = (theirs >= threshold) == gold
            reached[name] = float(((own >= threshold) == known).mean())
            thresholds[name] = threshold
            areas[name] = value(auroc(theirs, gold), len(rows))
        measures = {name: mean(values) for name, values in right.items()}
        details = {"train_accuracy": reached, "auroc": areas, "threshold": thresholds}
        main = max(reached, key=lambda name: reached[name])
        share = {"share_same": float(gold.mean())}
        return Outcome(measures, np.arange(len(rows)), main, {**details, **share})


@dataclass(frozen=True)
class _States:
    """All layers of words, of words alone and of sentences: each (2 × rows, layers, hidden)."""

    words: Floats
    alone: Floats
    sentences: Floats

    @classmethod
    def of(cls, reader: LayerReader, rows: Rows) -> "_States":
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
        # A word beyond what the model reads has no vector; zeros are similar to nothing.
        at = {(word.start, word.end): word.vector for word in own}
        blank = np.zeros_like(own[0].vector) if own else np.zeros(width, dtype=np.float32)
        states.append(np.stack([at.get(span, blank) for span in spans]))
    stacked = np.stack(states)
    return stacked.reshape(len(items), stacked.shape[1], width, -1)


@dataclass(frozen=True)
class _LayerScorer:
    """One choice of layers: states → scores (rows,), by the word alone or with its sentence."""

    name: str
    numbers: tuple[int, ...]
    choice: LayerChoice
    centre: "tuple[Floats, Floats] | None" = None  # of shifts and of sentences, each (width,)

    def joined(self, states: Floats) -> Floats:
        """The chosen layers of states (n, layers, hidden) as one vector each, (n, width)."""
        return self.choice([states[:, number] for number in self.numbers])

    def score(self, states: _States) -> NDArray[np.float64]:
        """How similar the two words of each row are."""
        if self.centre is None:
            return _cosines(self.joined(states.words))
        moved = _cosines(self.joined(states.words) - self.joined(states.alone) - self.centre[0])
        return (moved + _cosines(self.joined(states.sentences) - self.centre[1])) / 2


def _scorers(reader: LayerReader, seen: _States) -> Iterator[_LayerScorer]:
    outputs = [f"layer_{i}" for i in range(reader.layers)]
    for layers in layer_names(reader.layers):
        choice = choose(layers, outputs=outputs, name="")
        name = f"layer {layers}" if isinstance(layers, int) else str(layers)
        numbers = tuple(outputs.index(output) for output in choice.outputs)
        plain = _LayerScorer(name, numbers, choice)
        yield plain
        shift = (plain.joined(seen.words) - plain.joined(seen.alone)).mean(axis=0)
        middle = plain.joined(seen.sentences).mean(axis=0)
        yield _LayerScorer(f"{name} + sentence", numbers, choice, (shift, middle))


def _cosines(vectors: Floats) -> NDArray[np.float64]:
    unit = normalize(vectors).astype(np.float64)
    found: NDArray[np.float64] = np.einsum("nd,nd->n", unit[0::2], unit[1::2])
    return found
