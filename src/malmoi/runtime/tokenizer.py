"""Texts and pairs of texts → token ids → padded batches, longest with longest.

Pairs are joined by the tokenizer's own template and cut to fit here. The tokenizers library could
do both, but it also makes every overlapping window of one text with every window of the other
(hundreds of megabytes for two long texts), and it reads the query again for each pair.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..errors import BundleCorrupt, BundleError
from ..types import Ints

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

# Batches near this many tokens keep a core's cache warm; larger ones were slower on every
# machine measured, much smaller ones pay the cost of a call, and of fetching the weights, too
# often (see docs/decisions/batching.md). Two texts of 200 tokens just fit.
BUDGET = 416
# From this many tokens on, padding costs more than the call of another batch.
EVEN = 64
# Only white space or one unknown word has more characters than this to a token, so text beyond
# `max_tokens` times it cannot matter to a text that is cut.
_CHARACTERS_A_TOKEN = 64
_PAD_TOKENS = ("[PAD]", "<pad>")


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """The ids of one model input: a text, a pair, or one window of a long text."""

    owner: int  # which text it belongs to
    ids: list[int]
    types: list[int] | None = None  # segment ids, for pairs


@dataclass(frozen=True, slots=True)
class Token:
    """One token as the vocabulary writes it, its id, and its segment: 1 in the second of a pair."""

    text: str
    id: int
    segment: int


@dataclass(frozen=True, slots=True)
class Batch:
    """Padded ids, ready for a session. All arrays are (n, length) int64."""

    rows: Ints  # (n,) which input each row is
    ids: Ints
    mask: Ints
    types: Ints
    pooled: Ints | None = None  # the mask that pooling goes by, where it is another one

    def halves(self) -> "list[Batch]":
        """Cut into two of nearly as many rows; one row stays as it is."""
        half = -(-len(self.rows) // 2)
        return [
            Batch(self.rows[part], self.ids[part], self.mask[part], self.types[part])
            for part in (slice(half), slice(half, None))
        ][: len(self.rows)]


class TextTokenizer:
    """A tokenizer that counts, cuts or windows texts at a model's longest input."""

    def __init__(self, tokenizer: "Tokenizer", *, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        # tokenizer.json may carry padding to a fixed length; batches are padded here instead.
        padding = tokenizer.padding
        named = [tokenizer.token_to_id(token) for token in _PAD_TOKENS]
        found = next((token for token in named if token is not None), 0)
        self.pad_id = int(padding["pad_id"]) if padding else found
        tokenizer.no_padding()
        self.vocabulary = count_ids(tokenizer)
        specials = tokenizer.num_special_tokens_to_add(is_pair=False)
        if max_tokens <= specials:
            raise BundleError(
                f"the model reads {max_tokens} tokens, and {specials} of them are special; "
                'expected more. Correct "max_tokens" in malmoi.json.'
            )
        # A quarter of overlap lets a sentence cut by one window stand whole in the next.
        self._stride = (max_tokens - specials) // 4
        tokenizer.enable_truncation(max_tokens, stride=self._stride)
        self.limit = max_tokens * _CHARACTERS_A_TOKEN
        self.tokenizer = tokenizer

    @classmethod
    def from_file(cls, path: Path, *, max_tokens: int) -> "TextTokenizer":
        """Read a tokenizer.json."""
        return cls(read_tokenizer(path), max_tokens=max_tokens)

    def encode(self, texts: Sequence[str]) -> tuple[list[TokenizedText], int]:
        """Give the ids of each text, and how many texts were cut to fit."""
        encodings = self._encode(texts, specials=True)
        inputs = [TokenizedText(i, encoding.ids) for i, encoding in enumerate(encodings)]
        cut = sum(
            bool(encoding.overflowing) or len(text) > self.limit
            for text, encoding in zip(texts, encodings, strict=True)
        )
        return inputs, cut

    def encode_plain(self, texts: Sequence[str]) -> list[tuple[list[int], int]]:
        """Give each text's ids without special tokens, cut, and how many there were uncut."""
        encodings = self._encode(texts, specials=False)
        step = self.max_tokens - self._stride  # from one window's first token to the next one's
        found = []
        for text, encoding in zip(texts, encodings, strict=True):
            ids, windows = encoding.ids, encoding.overflowing
            length = len(windows) * step + len(windows[-1].ids) if windows else len(ids)
            found.append((ids, max(length, len(ids) + (len(text) > self.limit))))
        return found

    def _encode(self, texts: Sequence[str], *, specials: bool) -> "list[Encoding]":
        short = [text if len(text) <= self.limit else text[: self.limit] for text in texts]
        encodings: list[Encoding] = self.tokenizer.encode_batch_fast(
            short, add_special_tokens=specials
        )
        return encodings

    def windows(self, texts: Sequence[str]) -> list[TokenizedText]:
        """Give as many overlapping windows of each text as cover it."""
        inputs = []
        for i, encoding in enumerate(self.tokenizer.encode_batch_fast(list(texts))):
            inputs += [TokenizedText(i, part.ids) for part in (encoding, *encoding.overflowing)]
        return inputs

    def batches(
        self, inputs: Sequence[TokenizedText], *, budget: int = BUDGET, even: int | None = None
    ) -> Iterator[Batch]:
        """Gather inputs into padded batches, the longest first; `even` is that of `plan`."""
        counts = [len(one.ids) for one in inputs]
        if counts and min(counts) == max(counts) and sum(counts) <= budget:
            # One text, or a few of one length, as a server has them: there is nothing to plan.
            yield self._pad(np.arange(len(counts)), inputs)
            return
        for rows in plan(np.array(counts, dtype=np.int64), budget, even=even):
            yield self._pad(rows, [inputs[row] for row in rows])

    def _pad(self, rows: Ints, inputs: Sequence[TokenizedText]) -> Batch:
        lengths = {len(one.ids) for one in inputs}
        # int64 because every exporter writes int64 inputs into the graph.
        if len(lengths) == 1 and all(one.types is None for one in inputs):
            ids = np.array([one.ids for one in inputs], dtype=np.int64)
            return Batch(rows, ids, np.ones_like(ids), np.zeros_like(ids))
        shape = (len(inputs), max(lengths))
        ids = np.full(shape, self.pad_id, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        types = np.zeros(shape, dtype=np.int64)
        for row, one in enumerate(inputs):
            length = len(one.ids)
            ids[row, :length] = one.ids
            mask[row, :length] = 1
            if one.types is not None:
                types[row, :length] = one.types
        return Batch(rows, ids, mask, types)


def plan(lengths: Ints, budget: int, *, even: int | None = None) -> list[Ints]:
    """Split rows into batches of at most `budget` padded tokens, longest with longest.

    A batch that holds `even` tokens ends where the next row is shorter, so that most batches
    have rows of one length and no padding.

    >>> [rows.tolist() for rows in plan(np.array([3, 9, 4, 8]), budget=18)]
    [[1, 3], [2, 0]]
    >>> [rows.tolist() for rows in plan(np.array([3, 9, 4, 8]), budget=18, even=5)]
    [[1], [3], [2, 0]]
    """
    order = np.argsort(-lengths, kind="stable")
    batches, start = [], 0
    while start < len(order):
        longest = max(int(lengths[order[start]]), 1)
        end = start + max(budget // longest, 1)
        if even is not None:
            end = _even_end(lengths[order[start:end]], -(-even // longest)) + start
        batches.append(order[start:end])
        start = end
    return batches


def _even_end(lengths: Ints, least: int) -> int:
    """Where the falling lengths change for the first time after `least` of them, or their end."""
    changes = np.flatnonzero(np.diff(lengths)) + 1
    after = changes[changes >= least]
    return int(after[0]) if len(after) else len(lengths)


def read_tokenizer(path: Path) -> "Tokenizer":
    """Read a tokenizer.json; raises BundleCorrupt for anything else."""
    from tokenizers import Tokenizer

    try:
        return Tokenizer.from_file(str(path))
    except Exception as error:  # the library raises plain Exception for anything in the file
        raise BundleCorrupt(
            f"{path} cannot be read as a tokenizer; expected the tokenizers library's JSON. "
            "Copy the whole folder again."
        ) from error


Pair = tuple[str, str]


class PairTokenizer:
    """Pairs of texts → ids with segment ids; the longer text is cut first."""

    def __init__(self, tokens: TextTokenizer) -> None:
        self._tokens = tokens
        (self.before, self.between, self.after), self._types = _read_template(tokens.tokenizer)
        specials = len(self.before) + len(self.between) + len(self.after)
        self.budget = tokens.max_tokens - specials  # tokens of both texts together
        if self.budget < 2:
            raise BundleError(
                f"the model reads {tokens.max_tokens} tokens, which leaves {self.budget} for two "
                'texts; expected 2 or more. Correct "max_tokens" in malmoi.json.'
            )

    def encode(self, pairs: Sequence[Pair]) -> tuple[list[TokenizedText], int]:
        """Give the ids of each pair, and how many pairs were cut to fit."""
        unique = list(dict.fromkeys(text for pair in pairs for text in pair))
        encoded = dict(zip(unique, self._tokens.encode_plain(unique), strict=True))
        inputs, cut = [], 0
        for owner, (a, b) in enumerate(pairs):
            (left, left_length), (right, right_length) = encoded[a], encoded[b]
            kept_left, kept_right = share(left_length, right_length, self.budget)
            cut += kept_left + kept_right < left_length + right_length
            inputs.append(self.join(owner, left[:kept_left], right[:kept_right]))
        return inputs, cut

    def join(self, owner: int, a: list[int], b: list[int]) -> TokenizedText:
        """Put the special tokens around the ids of two texts, which must fit."""
        starts, first, middles, second, ends = self._types
        types = [*starts, *first * len(a), *middles, *second * len(b), *ends]
        return TokenizedText(owner, self.before + a + self.between + b + self.after, types)


def share(a: int, b: int, budget: int) -> tuple[int, int]:
    """Divide a budget of tokens between two texts of a and b tokens; the longer one is cut first.

    >>> share(3, 100, 20), share(60, 70, 21), share(4, 5, 20)
    ((3, 17), (10, 11), (4, 5))
    """
    if a + b <= budget:
        return a, b
    if a > b:
        longer, shorter = share(b, a, budget)
        return shorter, longer
    half = budget // 2
    return (a, budget - a) if a <= half else (half, budget - half)


def _read_template(tokenizer: "Tokenizer") -> tuple[list[list[int]], list[list[int]]]:
    """Read how a tokenizer joins pairs, from a pair of one-letter texts.

    Gives the special ids before, between and after the texts, and the segment ids of all five
    parts: special tokens, first text, special tokens, second text, special tokens.
    """
    truncation = tokenizer.truncation
    tokenizer.no_truncation()
    encoding = tokenizer.encode("a", "a")
    if truncation is not None:
        tokenizer.enable_truncation(**truncation)
    sides = encoding.sequence_ids
    if 0 not in sides or 1 not in sides:
        raise BundleError(
            'the tokenizer has no token for "a"; expected one, an unknown token at least. '
            "Such a tokenizer cannot join pairs: export the model again with: malmoi model export"
        )
    first, second = sides.index(0), sides.index(1)
    after_first, after_second = (len(sides) - sides[::-1].index(side) for side in (0, 1))
    specials = (slice(first), slice(after_first, second), slice(after_second, None))
    texts = (slice(first, first + 1), slice(second, second + 1))
    parts = (specials[0], texts[0], specials[1], texts[1], specials[2])
    return [encoding.ids[s] for s in specials], [encoding.type_ids[s] for s in parts]


def count_ids(tokenizer: "Tokenizer") -> int:
    """Count the rows that a tokenizer's ids need; several tokens may share an id."""
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if size == 0 or tokenizer.id_to_token(size - 1) is not None:
        return size
    return 1 + max(tokenizer.get_vocab(with_added_tokens=True).values())


def save_tokenizer(tokenizer: "Tokenizer", path: Path, original: Path) -> None:
    """Write a tokenizer, with every name of the original where several stand for one id.

    The library itself keeps one name an id, and all words with another one would be unknown. Its
    own `save` is not used: its errors (a full disk) are of no kind that one could catch.
    """
    text = tokenizer.to_str()
    names: object = None
    if original.is_file():
        names = json.loads(original.read_text("utf-8"))["model"].get("vocab")
    spec = json.loads(text)
    if isinstance(names, dict) and len(names) > len(spec["model"]["vocab"]):
        spec["model"]["vocab"] = names
        text = json.dumps(spec, ensure_ascii=False, separators=(",", ":"))
    path.write_text(text, "utf-8")
