"""Reads words and sentences out of chosen layers, and compares occurrences of a word."""

import functools
import itertools
import re
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from ..bundle.manifest import Manifest
from ..errors import BundleError, CutWarning, DataError, OptionError, check_choice, counted
from ..runtime.pooling import FUNCTIONS, normalize
from ..runtime.runner import Runner
from ..runtime.session import Session
from ..runtime.tokenizer import Batch, TokenizedText
from ..text.cleanup import SAFE, as_text
from ..types import Floats
from .segment import By, Cut, Segmenter

Layers = str | int | Sequence[int]

_NAME = re.compile(r"(sum|mean|concat)-(?:last-(\d{1,6})|all)", re.ASCII)
_NAMES = (
    '"last", "second-to-last", "sum-last-4", "concat-last-4", "mean-all" (or any of sum-, mean- '
    "and concat- with last-N or all), a layer's number, or a list of numbers"
)
_STATES = ("token_embeddings", "last_hidden_state")


@dataclass(frozen=True)
class LayerChoice:
    """The graph outputs to ask for, and how to join them: "sum", "mean" or "concat"."""

    outputs: tuple[str, ...]
    join: str

    def __call__(self, states: Sequence[Floats]) -> Floats:
        """Join states (n, …, hidden), one a layer, into (n, …, width)."""
        return _JOINS[self.join](states)

    def read(self, session: Session, batch: Batch) -> Floats:
        """Run a batch and join the chosen layers' states, (n, length, width)."""
        return self(session.run(batch, self.outputs))


_JOINS: dict[str, Callable[[Sequence[Floats]], Floats]] = {
    "sum": lambda states: np.sum(states, axis=0, dtype=np.float32),
    "mean": lambda states: np.mean(states, axis=0, dtype=np.float32),
    "concat": lambda states: states[0] if len(states) == 1 else np.concatenate(states, axis=-1),
}


def choose(layers: Layers, *, outputs: Sequence[str], name: str) -> LayerChoice:
    """Turn a choice of layers into graph outputs; `name` names the model in messages.

    Layer 0 is the embeddings, before any attention; a list of numbers concatenates those layers.

    >>> choose("sum-last-2", outputs=["layer_0", "layer_1", "layer_2"], name="tiny")
    LayerChoice(outputs=('layer_1', 'layer_2'), join='sum')
    """
    count = sum(output.startswith("layer_") for output in outputs)
    if not count:  # a foreign graph may give its last states under another name
        states = [output for output in _STATES if output in outputs]
        if states and layers in ("last", -1):
            return LayerChoice((states[0],), "concat")
        raise no_layers(name)
    numbers, join = _numbers(layers, count)
    if not numbers or not all(-count <= number < count for number in numbers):
        raise OptionError(
            f"layers is {layers!r}; {name} has the layers 0 to {count - 1}. Choose among these."
        )
    return LayerChoice(tuple(f"layer_{number % count}" for number in numbers), join)


def layer_names(count: int) -> tuple[Layers, ...]:
    """The choices that a table of layers shows for a model with `count` layers.

    >>> layer_names(3)
    (0, 1, 2, 'sum-last-2', 'concat-last-2', 'mean-all')
    """
    few = min(4, count - 1)
    joined = (f"sum-last-{few}", f"concat-last-{few}", "mean-all") if few > 1 else ()
    return (*range(count), *joined)


def _numbers(layers: Layers, count: int) -> tuple[list[int], str]:
    if isinstance(layers, int):
        return [layers], "concat"
    if not isinstance(layers, str):
        return list(layers), "concat"
    if layers in ("last", "second-to-last"):
        return [-1 if layers == "last" else -2], "concat"
    found = _NAME.fullmatch(layers)
    if not found:
        raise OptionError(f"layers is {layers!r}; known are {_NAMES}. Choose one of these.")
    last = int(found[2]) if found[2] else count
    return list(range(-last, 0)) if last <= count else [], found[1]


def no_layers(name: str) -> BundleError:
    """The error for a model whose hidden layers cannot be read."""
    return BundleError(
        f"{name} gives no hidden layers; word vectors expect a graph that does. Export the model "
        "again with: malmoi model export MODEL FOLDER --layers all"
    )


Merge = Literal["mean", "first", "last", "max", "sum"]
MERGES: dict[str, Callable[[Floats], Floats]] = {  # (tokens, width) → (width,)
    "mean": lambda states: states.mean(axis=0),
    "first": lambda states: states[0],
    "last": lambda states: states[-1],
    "max": lambda states: states.max(axis=0),
    "sum": lambda states: states.sum(axis=0),
}
# Every layer of every token is held for a block of texts, so a block is small.
_BLOCK = 128


@dataclass(frozen=True, slots=True)
class PieceVector:
    """One token of a text, its span in the text and its vector (width,)."""

    text: str
    start: int
    end: int
    vector: Floats
    special: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, its span in the text, its tokens, and its vector (width,).

    A word that is not in the vocabulary has several tokens; its vector merges theirs.
    """

    text: str
    start: int
    end: int
    vector: Floats
    tokens: tuple[PieceVector, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """The tokens of the word as the vocabulary writes them."""
        return tuple(token.text for token in self.tokens)


@dataclass(frozen=True, slots=True)
class HiddenStates:
    """The tokens that a model reads of a text, and what every layer makes of them.

    `states` is (layers, tokens, width); layer 0 is the embeddings, before any attention.
    """

    tokens: tuple[str, ...]
    ids: tuple[int, ...]
    states: Floats


class LayerReader:
    """Reads words and sentences out of the layers of an opened bundle."""

    def __init__(self, runner: Runner, manifest: Manifest) -> None:
        self._runner, self._manifest = runner, manifest
        self._cutter = Segmenter(runner.tokens, manifest.clean or SAFE)
        self.layers = sum(name.startswith("layer_") for name in runner.session.outputs)

    def words(
        self, texts: Iterable[str], *, layers: Layers, merge: Merge, by: By, special: bool
    ) -> Iterator[list[Word]]:
        """Yield the words of each text."""
        check_choice("merge", merge, MERGES)
        choice = self._choose(layers)
        pairs = ((text, self._cutter.cut(as_text(text), by)) for text in texts)
        return self._in_blocks(pairs, choice, merge, special)

    def words_at(
        self, items: Iterable[tuple[str, Sequence[tuple[int, int]]]], *, layers: Layers
    ) -> Iterator[list[Word]]:
        """Yield the words at the given spans of each text."""
        pairs = ((text, self._cutter.cut(as_text(text), spans)) for text, spans in items)
        return self._in_blocks(pairs, self._choose(layers), "mean", False)

    def sentences(self, texts: Sequence[str], *, layers: Layers, pooling: str | None) -> Floats:
        """Pool the chosen layers' states of each text; (n, width), of length 1."""
        name = pooling or self._manifest.pooling.split("+")[0]
        check_choice("pooling", name, FUNCTIONS)
        choice = self._choose(layers)

        def compute(batch: Batch) -> Floats:
            states = choice.read(self._runner.session, batch)
            return normalize(FUNCTIONS[name](states, batch.mask))

        cuts = [self._cutter.cut(as_text(text), "spaces") for text in texts]
        return self._runner.start([cut.as_input(i) for i, cut in enumerate(cuts)], compute)()

    def hidden_states(self, ids: Sequence[int]) -> HiddenStates:
        """Run token ids, special ones included, and give the states of every layer."""
        outputs = [f"layer_{number}" for number in range(self.layers)]
        if not outputs:
            raise no_layers(self._manifest.name)
        [batch] = self._runner.tokens.batches([TokenizedText(0, list(ids))])
        states = np.stack([own[0] for own in self._runner.session.run(batch, outputs)])
        name = self._runner.tokens.tokenizer.id_to_token
        return HiddenStates(tuple(str(name(one)) for one in ids), tuple(ids), states)

    def _choose(self, layers: Layers) -> LayerChoice:
        name = self._manifest.name or str(self._runner.session.path.parent)
        return choose(layers, outputs=self._runner.session.outputs, name=name)

    def _in_blocks(
        self, pairs: Iterable[tuple[str, Cut]], choice: LayerChoice, merge: str, special: bool
    ) -> Iterator[list[Word]]:
        shortened = 0
        pairs = iter(pairs)
        while block := list(itertools.islice(pairs, _BLOCK)):
            shortened += sum(cut.shortened for _, cut in block)
            yield from self._block(block, choice, merge, special)
        if shortened:
            warnings.warn(
                f"{counted(shortened, 'text was', 'texts were')} longer than "
                f"{self._runner.tokens.max_tokens} tokens; the words beyond are left out",
                CutWarning,
                stacklevel=3,
            )

    def _block(
        self, block: Sequence[tuple[str, Cut]], choice: LayerChoice, merge: str, special: bool
    ) -> Iterator[list[Word]]:
        inputs = [cut.as_input(i) for i, (_, cut) in enumerate(block)]
        states: dict[int, Floats] = {}
        read = functools.partial(choice.read, self._runner.session)
        for batch, found in self._runner.each(inputs, read):
            for row, own in zip(batch.rows.tolist(), found, strict=True):
                states[row] = own[: len(inputs[row].ids)].copy()  # (length, width)
        for i, (text, cut) in enumerate(block):
            yield self._gather(text, cut, states[i], MERGES[merge], special)

    def _gather(
        self, text: str, cut: Cut, states: Floats, merge: Callable[[Floats], Floats], special: bool
    ) -> list[Word]:
        words: list[Word] = []
        name = self._runner.tokens.tokenizer.id_to_token
        tokens = [
            PieceVector(str(name(unit.id)), unit.start, unit.end, state, unit.special)
            for unit, state in zip(cut.units, states, strict=True)
        ]
        for start, end in cut.words:
            own = [i for i, unit in enumerate(cut.units) if unit.touches(start, end)]
            if own:  # nothing is left of a word that was cut off or cleaned away
                made = tuple(tokens[i] for i in own)
                words.append(Word(text[start:end], start, end, merge(states[own]), made))
        if special:
            alone = [(0 if i == 0 else len(text), t) for i, t in enumerate(tokens) if t.special]
            marks = [Word(t.text, at, at, t.vector, (t,)) for at, t in alone]
            first = sum(token.special for token in tokens[:1])
            words = [*marks[:first], *words, *marks[first:]]
        return words


@dataclass(frozen=True, slots=True)
class Occurrence:
    """A word, and the text and the number of the text that it stands in."""

    text: str
    owner: int
    word: Word


def similarity(
    words: Sequence[Word], others: Sequence[Word] | None = None, *, centred: bool = False
) -> Floats:
    """Cosines of words with others, or among themselves; (len(words), len(others)).

    `centred` subtracts the mean of all of them first. Occurrences of one word share most of their
    vector, the word itself; what is left is what their sentences make of it.
    """
    left = _stack(words)
    right = left if others is None else _stack(others)
    if centred and len(left):
        every = left if others is None else np.concatenate([left, right])
        mean = every.mean(axis=0)
        left, right = normalize(left - mean), normalize(right - mean)
    found: Floats = left @ right.T
    return found


def find(words: Sequence[Word], wanted: str) -> list[Word]:
    """Give the words that are the wanted one, or else those that begin with it.

    Words by spaces carry their particles, so that 배를 is an occurrence of 배 there.
    """
    exact = [word for word in words if word.text == wanted]
    return exact or [word for word in words if word.text.startswith(wanted)]


def occurrences(
    texts: Sequence[str], words: Sequence[Sequence[Word]], wanted: str
) -> list[Occurrence]:
    """Find a word in every text; raises a DataError that names a text without it."""
    found: list[Occurrence] = []
    for owner, (text, own) in enumerate(zip(texts, words, strict=True)):
        here = find(own, wanted)
        if not here:
            has = ", ".join(word.text for word in own) or "no words"
            raise DataError(
                f"text {owner + 1} has no word {wanted!r}; it has {has}. "
                "Choose one of these, or leave the text out."
            )
        found += [Occurrence(text, owner, word) for word in here]
    return found


def by_layer(words: Sequence[Word], layers: int) -> Floats:
    """Cosines among words in every layer; (layers, n, n).

    The words must be read with `layers="concat-all"`.
    """
    unit = normalize(np.stack([word.vector for word in words]).reshape(len(words), layers, -1))
    found: Floats = np.einsum("ald,bld->lab", unit, unit)
    return found


def _stack(words: Sequence[Word]) -> Floats:
    if not words:
        return np.zeros((0, 0), dtype=np.float32)
    return normalize(np.stack([word.vector for word in words]))
