"""Two texts at a time: sts (how similar they are), pairs (whether they mean the same), senses.

senses (word in context) asks whether a word means the same in two sentences. The word is in
[brackets], as in KoBEST WiC. For every choice of layers a threshold on the similarity of the two
word vectors is found on training rows and tried on the others, so that the report shows which
layers carry meaning.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ...encoders.transformer import LayerAccess
from ...encoders.words import LayerChoice, LayerReader, choose, layer_names
from ...errors import DataError, OptionError, counted
from ...runtime.pooling import normalize
from ...types import Doubles, Floats
from ..examples import PAIRS, BadRow, Examples, Form, Roles, number, text, truth
from ..measures import (
    auroc,
    average_precision,
    best_accuracy,
    best_f1,
    best_thresholds,
    mean,
    pearson,
    spearman,
    value,
)
from ..models import name_of, similarity
from . import Outcome, Settings, Task


@dataclass(frozen=True, slots=True)
class ScoredPair:
    """Two texts and how similar people found them, on any scale that grows with similarity."""

    a: str
    b: str
    score: float


def _parse_scored(values: Roles) -> ScoredPair:
    return ScoredPair(text(values, "a"), text(values, "b"), number(values, "score"))


@dataclass(frozen=True, slots=True)
class LabelledPair:
    """Two texts, and whether they mean the same."""

    a: str
    b: str
    same: bool


def _parse_labelled(values: Roles) -> LabelledPair:
    return LabelledPair(text(values, "a"), text(values, "b"), truth(values, "same"))


_SCORES = (
    *("score", "similarity", "reallabel", "labelsreallabel", "relatedness", "relatednessscore"),
    *("label", "labelslabel"),
)
_SAME = (
    *("same", "isduplicate", "duplicate", "paraphrase", "answer", "binarylabel"),
    *("labelsbinarylabel", "label"),
)
_BRACKETS = re.compile(r"\[([^\[\]]+)\]")
Pair = TypeVar("Pair", ScoredPair, LabelledPair)


class _PairTask(Task[Sequence[Pair]]):
    """A task of two texts at a time; a subclass judges what `similarity` found."""

    def outcome(
        self, model: object, examples: Examples[Sequence[Pair]], settings: Settings
    ) -> Outcome:
        pairs = examples.rows
        self.check(pairs, "the data")
        found = similarity(model, [pair.a for pair in pairs], [pair.b for pair in pairs])
        return self.judge(found, pairs)

    def judge(self, found: Mapping[str, Doubles], pairs: Sequence[Pair]) -> Outcome:
        raise NotImplementedError

    def text_pairs(self, rows: Sequence[Pair]) -> list[tuple[str, str]]:
        return [(row.a, row.b) for row in rows]


class Sts(_PairTask[ScoredPair]):
    """Semantic textual similarity: do the model's scores rise and fall as people's do?

    "spearman" and "pearson" are by cosine for an encoder and by its score for a reranker; those of
    an encoder's dot product and Euclidean distance have names of their own.

    >>> class Lengths:
    ...     def encode(self, texts):
    ...         return np.array([[1.0, len(text)] for text in texts])
    >>> pairs = [ScoredPair("a", "aaaa", 1), ScoredPair("a", "aa", 2), ScoredPair("a", "a", 3)]
    >>> round(Sts().measure(Lengths(), pairs).values()["spearman"], 6)
    1.0
    """

    name = "sts"
    forms = ((Form(("a", "b"), PAIRS, {"score": _SCORES}), _parse_scored),)

    def check(self, rows: Sequence[ScoredPair], where: str) -> None:
        if len({pair.score for pair in rows}) < 2:
            raise DataError(
                f"{where} has the score {rows[0].score:g} in all of its "
                f"{counted(len(rows), 'row')}; expected different ones, because a correlation "
                "with a constant is undefined. Name another column with --columns score=…"
            )

    def judge(self, found: Mapping[str, Doubles], pairs: Sequence[ScoredPair]) -> Outcome:
        """Correlate a model's similarities with the scores."""
        gold = [pair.score for pair in pairs]
        measures = {}
        for i, (name, scores) in enumerate(found.items()):
            ending = f"_{name}" if i else ""
            measures["spearman" + ending] = spearman(scores, gold)
            measures["pearson" + ending] = pearson(scores, gold)
        return Outcome(measures, units=np.arange(len(pairs)), main="spearman")


class SamePairs(_PairTask[LabelledPair]):
    """Pairs that mean the same or not: how well does a threshold on the score separate them?

    Accuracy and F1 are at their best thresholds, which are chosen on these very pairs (`details`
    has them): what the model can reach, not what a threshold chosen elsewhere would.
    """

    name = "pairs"
    forms = ((Form(("a", "b"), PAIRS, {"same": _SAME}), _parse_labelled),)

    def check(self, rows: Sequence[LabelledPair], where: str) -> None:
        if len({pair.same for pair in rows}) < 2:
            kind = "the same" if rows and rows[0].same else "different"
            raise DataError(
                f"{where} has only pairs that are {kind} ({len(rows):,}); expected both kinds. "
                "Name another column with --columns same=…, or add pairs of the other kind."
            )

    def judge(self, found: Mapping[str, Doubles], pairs: Sequence[LabelledPair]) -> Outcome:
        """Measure average precision, and accuracy and F1 at their best thresholds."""
        same = [pair.same for pair in pairs]
        first, *rest = found
        measures = {
            "average_precision": average_precision(found[first], same),
            "accuracy": best_accuracy(found[first], same),
            "f1": best_f1(found[first], same),
        }
        measures |= {
            f"average_precision_{name}": average_precision(found[name], same) for name in rest
        }
        accuracy, f1 = best_thresholds(found[first], same)
        share = sum(same) / len(same)
        details = {"threshold_accuracy": accuracy, "threshold_f1": f1, "share_same": share}
        rounded = {name: round(found, 6) for name, found in details.items()}
        return Outcome(measures, np.arange(len(pairs)), "average_precision", rounded)


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


def _parse_senses(values: Roles) -> SensePair:
    a, b = (find_brackets(text(values, role)) for role in ("a", "b"))
    if a is None or b is None:
        raise BadRow("no word in [brackets]", "one in both sentences")
    return SensePair(a, b, truth(values, "same"))


SensePairs = Sequence[SensePair]


class SameSenses(Task[SensePairs]):
    """Accuracy for every choice of layers, by the word alone and with its sentence.

    "+ sentence" is the mean of two cosines: of the word's shift from itself without a sentence,
    and of the sentences' mean states, both after the mean of the training rows is subtracted.
    """

    name = "senses"
    fitted = True
    forms = ((Form(("a", "b"), PAIRS, {"same": ("answer", "same", "label")}), _parse_senses),)

    def outcome(self, model: object, examples: Examples[SensePairs], settings: Settings) -> Outcome:
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
    def of(cls, reader: LayerReader, rows: SensePairs) -> "_States":
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
