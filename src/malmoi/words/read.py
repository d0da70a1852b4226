"""Texts → words with their vectors and their tokens' vectors."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from ..bundle import Manifest
from ..errors import CutWarning, OptionError, by_number, counted
from ..pooling import FUNCTIONS, Floats, normalize
from ..runner import Runner
from ..text import SAFE, as_text
from ..tokens import Batch, Piece
from .cutting import By, Cut, Cutter
from .layers import Choice, Layers, choose

Merge = Literal["mean", "first", "last", "max", "sum"]
MERGES: dict[str, Callable[[Floats], Floats]] = {  # (pieces, width) → (width,)
    "mean": lambda states: states.mean(axis=0),
    "first": lambda states: states[0],
    "last": lambda states: states[-1],
    "max": lambda states: states.max(axis=0),
    "sum": lambda states: states.sum(axis=0),
}
# Every layer of every token is held for a block of texts, so a block is small.
_BLOCK = 128


@dataclass(frozen=True, slots=True)
class Token:
    """One piece of the vocabulary as it stood in a text, with its vector (width,)."""

    text: str
    start: int
    end: int
    vector: Floats
    special: bool = False


@dataclass(frozen=True, slots=True)
class Word:
    """A word as written, its place in the text, its vector (width,) and the tokens it is made of.

    A word that is not in the vocabulary has several pieces; its vector is their merge.
    """

    text: str
    start: int
    end: int
    vector: Floats
    tokens: tuple[Token, ...]

    @property
    def pieces(self) -> tuple[str, ...]:
        """The vocabulary's pieces that the word consists of."""
        return tuple(token.text for token in self.tokens)


class Reader:
    """Reads words and sentences out of the layers of an opened bundle."""

    def __init__(self, runner: Runner, manifest: Manifest) -> None:
        self._runner, self._manifest = runner, manifest
        self._cutter = Cutter(runner.tokens, manifest.clean or SAFE)
        self.layers = sum(name.startswith("layer_") for name in runner.session.outputs)

    def words(
        self, texts: Iterable[str], *, layers: Layers, merge: Merge, by: By, special: bool
    ) -> Iterator[list[Word]]:
        """Yield each text's words in their order, a block of texts at a time."""
        if merge not in MERGES:
            raise OptionError(
                f"merge is {merge!r}; known are {', '.join(MERGES)}. Choose one of these."
            )
        choice = self._choose(layers)
        pairs = ((text, self._cutter.cut(as_text(text), by)) for text in texts)
        return self._in_blocks(pairs, choice, merge, special)

    def words_at(
        self, items: Iterable[tuple[str, Sequence[tuple[int, int]]]], *, layers: Layers
    ) -> Iterator[list[Word]]:
        """Yield the words at given spans, each text with spans of its own."""
        pairs = ((text, self._cutter.cut(as_text(text), spans)) for text, spans in items)
        return self._in_blocks(pairs, self._choose(layers), "mean", False)

    def sentences(self, texts: Sequence[str], *, layers: Layers, pooling: str | None) -> Floats:
        """Pool the chosen layers' states of each text; (n, width), of length 1."""
        name = pooling or self._manifest.pooling.split("+")[0]
        if name not in FUNCTIONS:
            raise OptionError(
                f"pooling is {name!r}; known are {', '.join(FUNCTIONS)}. Choose one of these."
            )
        choice = self._choose(layers)

        def compute(batch: Batch) -> Floats:
            states = choice(self._runner.session.run(batch, choice.outputs))
            return normalize(FUNCTIONS[name](states, batch.mask))

        units = [self._cutter.cut(as_text(text), "spaces").units for text in texts]
        pieces = [Piece(i, [unit.id for unit in own]) for i, own in enumerate(units)]
        return self._runner.start(pieces, compute)()

    def _choose(self, layers: Layers) -> Choice:
        name = self._manifest.name or str(self._runner.session.path.parent)
        return choose(layers, outputs=self._runner.session.outputs, name=name)

    def _in_blocks(
        self, pairs: Iterable[tuple[str, Cut]], choice: Choice, merge: str, special: bool
    ) -> Iterator[list[Word]]:
        shortened = 0
        block: list[tuple[str, Cut]] = []
        for pair in pairs:
            block.append(pair)
            shortened += pair[1].shortened
            if len(block) == _BLOCK:
                yield from self._block(block, choice, merge, special)
                block = []
        yield from self._block(block, choice, merge, special)
        if shortened:
            warnings.warn(
                f"{counted(shortened, 'text was', 'texts were')} longer than "
                f"{self._runner.tokens.max_tokens} tokens "
                f"and {by_number(shortened, 'was', 'were')} cut; words beyond are left out",
                CutWarning,
                stacklevel=3,
            )

    def _block(
        self, block: Sequence[tuple[str, Cut]], choice: Choice, merge: str, special: bool
    ) -> Iterator[list[Word]]:
        pieces = [Piece(i, [unit.id for unit in cut.units]) for i, (_, cut) in enumerate(block)]
        states: list[Floats | None] = [None] * len(block)

        def compute(batch: Batch) -> Floats:
            return choice(self._runner.session.run(batch, choice.outputs))

        for batch, found in self._runner.each(pieces, compute):
            for row, own in zip(batch.rows, found, strict=True):
                states[row] = own[: len(pieces[row].ids)].copy()  # (length, width)
        for (text, cut), own in zip(block, states, strict=True):
            assert own is not None  # every piece is in one batch
            yield self._gather(text, cut, own, MERGES[merge], special)

    def _gather(
        self, text: str, cut: Cut, states: Floats, merge: Callable[[Floats], Floats], special: bool
    ) -> list[Word]:
        words: list[Word] = []
        vocabulary = self._runner.tokens.tokenizer
        tokens = [
            Token(str(vocabulary.id_to_token(unit.id)), unit.start, unit.end, state, unit.special)
            for unit, state in zip(cut.units, states, strict=True)
        ]
        for start, end in cut.words:
            own = [i for i, unit in enumerate(cut.units) if unit.touches(start, end)]
            if own:  # nothing is left of a word that was cut off or cleaned away
                made = tuple(tokens[i] for i in own)
                words.append(Word(text[start:end], start, end, merge(states[own]), made))
        if special:
            first = [token for token in tokens[:1] if token.special]
            last = [token for token in tokens[len(first) :] if token.special]
            words = [*(_alone(token, 0) for token in first), *words]
            words += [_alone(token, len(text)) for token in last]
        return words


def _alone(token: Token, at: int) -> Word:
    return Word(token.text, at, at, token.vector, (token,))
