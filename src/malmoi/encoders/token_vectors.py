"""Late interaction: a small vector for every token, and how a query's tokens meet a passage's.

One vector for a passage throws most of it away. Here a passage keeps a vector of 64 dimensions for
every token that means something, and the score of a query is the weighted mean over its tokens of
their best cosine in the passage (MaxSim). It works across languages and explains itself: each word
of the query has the word of the passage that it met.

A vector is stored in 4 bits a dimension, 32 bytes a token. The trials behind layer, size, bits and
weights are in docs/decisions/fusion.md.
"""

import base64
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import BundleError, DataError
from ..io.tables import read_rows
from ..runtime.pooling import normalize
from ..runtime.tokenizer import Batch, TokenizedText
from ..text.aligned import Aligned, align
from ..text.cleanup import SAFE
from ..types import Floats, Ints
from .base import TextEncoder, as_list
from .transformer import Encoder, text_parts

_SAMPLES = Path(__file__).parents[1] / "data/faq.tsv"

Span = tuple[int, int]
Spans = list[Span]

TOKEN_OUTPUT = "token_embedding"  # of a graph with a head of its own
SIZE = 64
BY_VECTOR = 0.15  # next to the score by token vectors, what a text's one vector counts
_STATES = ("token_embeddings", "last_hidden_state")
_SIGNS = re.compile(r"[\W_]+")
_SPREAD = 1.5  # how much more a query's token counts that few passages have


@dataclass(frozen=True)
class TokenMap:
    """How token vectors are made: an output of the graph, and a map to fewer dimensions.

    `matrix` is (width, size); None where the graph gives them as they are.
    """

    output: str
    matrix: Floats | None = None

    @property
    def size(self) -> int:
        """The dimensions of token vectors."""
        return SIZE if self.matrix is None else int(self.matrix.shape[1])

    def to_text(self) -> str:
        """The map as text, in half precision.

        >>> found = TokenMap("layer_4", np.eye(4, 2, dtype=np.float32))
        >>> TokenMap.from_text(found.to_text()).size
        2
        """
        if self.matrix is None:
            return f"{self.output} {SIZE}"
        raw = base64.b85encode(self.matrix.astype("<f2").tobytes()).decode("ascii")
        return f"{self.output} {self.size} {raw}"

    @classmethod
    def from_text(cls, text: str) -> "TokenMap":
        """Read what `to_text` wrote."""
        try:
            output, size, *raw = text.split(" ")
            if not raw:
                return cls(output)
            matrix = np.frombuffer(base64.b85decode(raw[0]), "<f2").reshape(-1, int(size))
        except ValueError as error:
            raise BundleError(
                "the map of token vectors cannot be read; expected an output, a size and numbers. "
                "Restore the corpus from a backup, or index it again."
            ) from error
        return cls(output, matrix.astype(np.float32))


@dataclass(frozen=True)
class TokenVectors:
    """The tokens of a text that mean something: unit vectors (n, size) and spans in the text.

    The text is the cleaned one, without a prompt.
    """

    vectors: Floats
    spans: tuple[Span, ...] = ()


@dataclass(frozen=True)
class _Window:
    """What the graph reads at once: ids of a text, and which of them are kept, with spans."""

    owner: int
    ids: list[int]
    kept: list[int]
    spans: Spans


class TokenEncoder:
    """Gives token vectors of texts by an encoder of this process and a map."""

    def __init__(self, encoder: Encoder, map: TokenMap) -> None:
        """Take an encoder and the map that `fit` or its bundle gives."""
        self.encoder, self.map = encoder, map
        self.size = map.size
        self._kept: dict[int, bool] = {}

    @classmethod
    def of(cls, encoder: TextEncoder, map: TokenMap) -> "TokenEncoder | None":
        """Make one for a map that was fitted before; None if the encoder has no such states."""
        found = encoder.direct
        if not isinstance(found, Encoder) or map.output not in found.outputs:
            return None
        return cls(found, map)

    @classmethod
    def fit(cls, encoder: TextEncoder, texts: Iterable[str] | None = None) -> "TokenEncoder | None":
        """Fit the map to texts; None without token states.

        Without texts these are the shipped samples, in Korean and English, which was as good as the
        passages of a corpus (docs/decisions/fusion.md): so everything by one model shares a map.
        A graph with a head of its own needs no map. Otherwise it is the strongest directions of
        the states of a middle layer, two thirds up, or of the last states that the graph gives.
        """
        encoder = encoder.direct
        output = output_of(encoder)
        if output is None or not isinstance(encoder, Encoder):
            return None
        if output == TOKEN_OUTPUT:
            return cls(encoder, TokenMap(output))
        if texts is None:
            texts = [row[side] for row in read_rows(_SAMPLES) for side in ("question", "answer")]
        made = cls(encoder, TokenMap(output))
        states = [found.vectors for found in made.encode(list(texts))]
        joined = np.concatenate(states)
        if not len(joined):
            raise DataError("no text has a token; expected some to fit token vectors to. Add text.")
        _, directions = np.linalg.eigh(joined.T.astype(np.float64) @ joined)
        size = min(SIZE, joined.shape[1] // 2 * 2)  # two dimensions make a byte
        # Stored in half precision, so the same map is used before and after.
        matrix = directions[:, ::-1][:, :size].astype(np.float16).astype(np.float32)
        return cls(encoder, TokenMap(output, matrix))

    def encode(
        self, texts: str | Sequence[str], *, prompt: str | None = None
    ) -> list[TokenVectors]:
        """Give the token vectors of each text."""
        return self.encode_both(texts, prompt=prompt)[1]

    def encode_both(
        self, texts: str | Sequence[str], *, prompt: str | None = None
    ) -> tuple[Floats, list[TokenVectors]]:
        """Give a text's vector and its token vectors by one run of the graph: (n, dim), n.

        What is longer than the model reads is covered by windows: their vectors' mean, and their
        tokens one after the other.
        """
        encoder = self.encoder
        listed = as_list(texts)
        prefix = encoder._prefix(prompt)
        cleaned = encoder._cleaned(listed, prefix)
        sums = np.zeros((len(listed), encoder.dimension), dtype=np.float32)
        totals = np.full((len(listed), 1), 1e-9, dtype=np.float32)
        tokens: list[list[Floats]] = [[] for _ in listed]
        spans: list[Spans] = [[] for _ in listed]
        for owners, parts in text_parts(cleaned):
            windows = list(self._windows(owners, parts, len(prefix)))
            owned = np.array([one.owner for one in windows])
            weights = np.array([[len(one.ids)] for one in windows], dtype=np.float32)
            pooled, states = self._run(windows)
            np.add.at(sums, owned, pooled * weights)
            np.add.at(totals, owned, weights)
            for one, own in zip(windows, states, strict=True):
                tokens[one.owner].append(own)
                spans[one.owner] += one.spans
        vectors: Floats = sums / totals
        found = [
            TokenVectors(
                np.concatenate(own) if own else np.zeros((0, self.size), np.float32), tuple(places)
            )
            for own, places in zip(tokens, spans, strict=True)
        ]
        return normalize(vectors) if encoder.manifest.normalize else vectors, found

    def spans(self, texts: Sequence[str], *, prompt: str | None = None) -> list[Spans]:
        """Give the spans of texts' tokens, as `encode` does, without running the graph."""
        prefix = self.encoder._prefix(prompt)
        found: list[Spans] = [[] for _ in texts]
        for owners, parts in text_parts(self.encoder._cleaned(texts, prefix)):
            for one in self._windows(owners, parts, len(prefix)):
                found[one.owner] += one.spans
        return found

    def align(self, text: str) -> Aligned:
        """Clean a text as it is read, aligned to its original."""
        return align(text, self.encoder.manifest.clean or SAFE)

    def _windows(
        self, owners: Sequence[int], parts: Sequence[str], prompt: int
    ) -> Iterator[_Window]:
        """The windows of texts' parts; of tokens that two have, the first keeps them."""
        starts: dict[int, int] = {}
        encodings = self.encoder._tokens.tokenizer.encode_batch(list(parts))
        for owner, part, encoding in zip(owners, parts, encodings, strict=True):
            start = starts.get(owner, 0)
            seen = max(prompt - start, 0)
            starts[owner] = start + len(part)
            for one in (encoding, *encoding.overflowing):
                places = one.offsets
                found = self._positions(one.ids, one.special_tokens_mask)
                kept = [i for i in found if places[i][0] >= seen]
                seen = max([seen, *(end for _, end in places)])
                move = start - prompt
                spans = [(places[i][0] + move, places[i][1] + move) for i in kept]
                yield _Window(owner, one.ids, kept, spans)

    def _run(self, windows: Sequence[_Window]) -> tuple[Floats, list[Floats]]:
        """The pooled vectors of windows (n, dim), and the token vectors of each."""
        pooled = np.zeros((len(windows), self.encoder.dimension), dtype=np.float32)
        tokens: list[Floats] = [np.zeros((0, self.size), np.float32)] * len(windows)

        def read(batch: Batch) -> tuple[Floats, list[Floats]]:
            vectors, states = self.encoder.vectors_and(batch, self.map.output)
            kept = [windows[row].kept for row in batch.rows.tolist()]
            ends = np.cumsum([len(own) for own in kept])
            joined = np.concatenate([own[i] for own, i in zip(states, kept, strict=True)])
            return vectors, np.split(self._mapped(joined), ends[:-1])

        inputs = [TokenizedText(i, one.ids) for i, one in enumerate(windows)]
        for batch, (vectors, own) in self.encoder.each_batch(inputs, read):
            pooled[batch.rows] = vectors
            for row, one in zip(batch.rows.tolist(), own, strict=True):
                tokens[row] = one
        return pooled, tokens

    def _mapped(self, states: Floats) -> Floats:
        unit = normalize(states.astype(np.float32))
        return unit if self.map.matrix is None else normalize(unit @ self.map.matrix)

    def _positions(self, ids: Sequence[int], special: Sequence[int]) -> list[int]:
        """The tokens that mean something: neither special nor signs alone.

        A text of signs has its signs.
        """
        plain = [i for i, mark in enumerate(special) if not mark]
        return [i for i in plain if self._means(ids[i])] or plain

    def _means(self, id: int) -> bool:
        if id not in self._kept:
            token = self.encoder._tokens.tokenizer.id_to_token(id) or ""
            self._kept[id] = not _SIGNS.fullmatch(token.removeprefix("##").strip("▁Ġ"))
        return self._kept[id]


def output_of(encoder: TextEncoder) -> str | None:
    """Name the output of token states, None for an encoder that has none."""
    if not isinstance(encoder, Encoder):
        return None
    outputs = encoder.outputs
    layers = sum(name.startswith("layer_") for name in outputs)
    if TOKEN_OUTPUT in outputs:
        return TOKEN_OUTPUT
    if layers > 1:
        return f"layer_{round((layers - 1) * 2 / 3)}"
    return next((name for name in _STATES if name in outputs), None)


# ---- stored form: 4 bits a dimension ----

_LEVELS = np.arange(16, dtype=np.float32) - 7.5
# A byte holds two values, the first in its upper half.
# As complex numbers, because whole ones are looked up four times as fast as rows of two.
_PAIRS = (np.repeat(_LEVELS, 16) + 1j * np.tile(_LEVELS, 16)).astype(np.complex64)


def pack(vectors: Floats) -> bytes:
    """Store token vectors (n, size) in 4 bits a dimension, each row scaled to its largest.

    >>> unit = normalize(np.array([[0.9, -0.3, 0.1, 0.3]], np.float32))
    >>> float((unpack(pack(unit), 4) * unit).sum()) > 0.99
    True
    """
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9)
    codes = np.clip(np.floor(vectors / largest * 7.999) + 8, 0, 15).astype(np.uint8)
    packed: NDArray[np.uint8] = codes[:, ::2] << 4 | codes[:, 1::2]
    return packed.tobytes()


def unpack(data: bytes, size: int = SIZE) -> Floats:
    """Read what `pack` stored: unit vectors (n, size)."""
    codes, norms = _decoded(data, size)
    found: Floats = codes / norms[:, None]
    return found


def _decoded(data: bytes, size: int) -> tuple[Floats, Floats]:
    """The levels of packed vectors (n, size), and their lengths (n,)."""
    if len(data) % (size // 2):
        raise BundleError(
            f"{len(data)} bytes are no vectors of {size} dimensions in 4 bits; expected a multiple "
            f"of {size // 2}. Restore the corpus from a backup, or index it again."
        )
    raw = np.frombuffer(data, dtype=np.uint8)
    codes: Floats = _PAIRS[raw].view(np.float32).reshape(-1, size)
    return codes, np.sqrt(np.einsum("ij,ij->i", codes, codes))


# ---- scores ----


@dataclass(frozen=True)
class Interaction:
    """How a query's tokens met passages.

    `best` is each token's best cosine (tokens, passages), `weights` (tokens,) sums to 1, `scores`
    is their product (passages,).
    """

    best: Floats
    weights: Floats
    scores: Floats


def interact(query: Floats, passages: Sequence[bytes], *, size: int = SIZE) -> Interaction:
    """Score packed passages by MaxSim; all must have a token, and so must the query.

    A token of the query counts more if its best match among these passages stands out from the
    others: "the" meets something everywhere, a rare word meets itself in one passage.
    """
    lengths = np.array([len(one) for one in passages]) // (size // 2)
    starts = np.cumsum(lengths) - lengths
    codes, norms = _decoded(b"".join(passages), size)
    cosines = query @ codes.T  # (tokens, all tokens of passages)
    cosines /= norms
    best = np.maximum.reduceat(cosines, starts, axis=1)
    gaps = np.maximum(best.max(axis=1) - best.mean(axis=1), 1e-3) ** _SPREAD
    weights = (gaps / gaps.sum()).astype(np.float32)
    return Interaction(best, weights, weights @ best)


def matches(query: Floats, passage: bytes, *, size: int = SIZE) -> tuple[Ints, Floats]:
    """Give each query token's nearest token of a packed passage, and their cosine."""
    codes, norms = _decoded(passage, size)
    cosines = query @ codes.T / norms
    nearest = cosines.argmax(axis=1)
    return nearest, cosines[np.arange(len(query)), nearest]
