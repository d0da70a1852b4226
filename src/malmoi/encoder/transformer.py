"""Encoder: tokens, session and pooling joined, with as many batches at once as there are cores."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ..bundle.bundle import Bundle
from ..bundle.sentence_transformers import DenseSpec
from ..errors import BundleError
from ..io.arrays import read_safetensors
from ..runtime.pooling import ACTIVATIONS, normalize, pool
from ..runtime.runner import Runner
from ..runtime.tokenizer import Batch, TokenizedText
from ..types import Floats
from ..words.reader import LayerReader
from .base import Encoded, OnLong, TextEncoder
from .layers import LayerAccess

_POOLED = "sentence_embedding"
_STATES = ("token_embeddings", "last_hidden_state")
# Text is windowed in stretches of this many characters, so that a book needs no more memory
# than a page.
_STRETCH = 200_000


@dataclass(frozen=True)
class _Dense:
    weight: Floats  # (out, in)
    bias: Floats  # (out,)
    activation: str


class Encoder(LayerAccess, TextEncoder):
    """A sentence encoder on onnxruntime. Make one with `malmoi.load`."""

    def __init__(self, bundle: Bundle, *, threads: int | None = None) -> None:
        self.bundle = bundle
        self._runner = Runner(bundle, threads=threads)
        self.threads = self._runner.threads
        self._tokens, self._session = self._runner.tokens, self._runner.session
        self._output = self._choose_output()
        self._dense = [_load_dense(step) for step in bundle.steps if isinstance(step, DenseSpec)]
        super().__init__(bundle.manifest, dimension=self._probe())

    def __repr__(self) -> str:
        return f"<Encoder {self.name}: {self.dimension} dimensions, {self.max_tokens} tokens>"

    def encode_ids(self, ids: Sequence[Sequence[int]], *, alone: bool = False) -> Floats:
        """Give the vectors of token ids as they are, special tokens included; (n, dim).

        `alone` uses the calling thread and no other, for callers that have several already.
        """
        pieces = [TokenizedText(owner, list(one)) for owner, one in enumerate(ids)]
        if alone:
            return self._runner.run(pieces, self._vectors)
        return self._runner.start(pieces, self._vectors)()

    @property
    def vocabulary(self) -> int:
        """How many ids the model's tokenizer knows."""
        return self._tokens.vocabulary

    def token_ids(self, texts: Sequence[str], *, prompt: str | None = None) -> list[list[int]]:
        """Give the ids that `encode` reads of each text: cleaned, after its prompt, and cut."""
        prefix = self._prefix(prompt)
        pieces, _ = self._tokens.encode([prefix + self._clean(text) for text in texts])
        return [piece.ids for piece in pieces]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count each text's tokens before anything is cut, special tokens left out."""
        return [
            count for _, count in self._tokens.encode_plain([self._clean(text) for text in texts])
        ]

    def _open_reader(self) -> LayerReader:
        return LayerReader(self._runner, self.manifest)

    def _choose_output(self) -> str:
        """The graph's own vectors where it pools, else the token states."""
        # A foreign graph may have both; its modules.json says what is to be done, so states win.
        foreign = not self.bundle.manifest.files
        names = (*_STATES, _POOLED) if foreign else (_POOLED, *_STATES)
        for name in names:
            if name in self._session.outputs:
                return name
        raise BundleError(
            f"{self.bundle.graph} has the outputs {', '.join(self._session.outputs)}; expected "
            f"one of {', '.join(names)}. Export the model again with: malmoi export"
        )

    def _probe(self) -> int:
        """Run one short text, so that a graph which does not fit is found now; gives its width."""
        pieces, _ = self._tokens.encode(["가 a"])
        width = int(self._vectors(next(self._tokens.batches(pieces))).shape[-1])
        stated = self.bundle.manifest.dimension
        if self.bundle.manifest.files and width != stated:
            raise BundleError(
                f"{self.bundle.graph} gives {width} dimensions and malmoi.json says {stated}; "
                "expected the same. Export the model again with: malmoi export"
            )
        return width

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        if on_long == "windows":
            return lambda: Encoded(self._in_windows(texts), 0)
        pieces, cut = self._tokens.encode(texts)
        wait = self._runner.start(pieces, self._vectors)
        return lambda: Encoded(wait(), cut)

    def _vectors(self, batch: Batch) -> Floats:
        """Run one batch through the graph, and the modules that are not part of it; (n, dim)."""
        [found] = self._session.run(batch, [self._output])
        if self._output == _POOLED:
            return found
        dense = iter(self._dense)
        for step in self.bundle.steps:
            if step == "pool":
                found = pool(found, batch.mask, self.bundle.manifest.pooling)
            elif step == "normalize":
                found = normalize(found)
            else:
                layer = next(dense)
                found = ACTIVATIONS[layer.activation](found @ layer.weight.T + layer.bias)
        return found

    def _in_windows(self, texts: list[str]) -> Floats:
        """Cover each text by windows and take the mean of their vectors by tokens, (n, dim)."""
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        totals = np.zeros((len(texts), 1), dtype=np.float32)
        for owners, stretches in _groups(texts):
            pieces = self._tokens.windows(stretches)
            rows = [owners[piece.owner] for piece in pieces]
            weights = np.array([[len(piece.ids)] for piece in pieces], dtype=np.float32)
            np.add.at(sums, rows, self._runner.start(pieces, self._vectors)() * weights)
            np.add.at(totals, rows, weights)
        means = sums / totals
        return normalize(means) if self.manifest.normalize else means


def _groups(texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Cut texts into stretches, and give them in groups of bounded size with their owners."""
    owners: list[int] = []
    stretches: list[str] = []
    size = 0
    for owner, text in enumerate(texts):
        for start in range(0, max(len(text), 1), _STRETCH):
            owners.append(owner)
            stretches.append(text[start : start + _STRETCH])
            size += len(stretches[-1])
            if size >= 2 * _STRETCH:
                yield owners, stretches
                owners, stretches, size = [], [], 0
    if stretches:
        yield owners, stretches


def _load_dense(spec: DenseSpec) -> _Dense:
    arrays = read_safetensors(spec.weights)
    weight = np.array(arrays["linear.weight"], dtype=np.float32)
    bias = arrays.get("linear.bias", np.zeros(len(weight), dtype=np.float32))
    return _Dense(weight, np.array(bias, dtype=np.float32), spec.activation)
