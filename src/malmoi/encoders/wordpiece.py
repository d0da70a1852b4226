"""Texts → bags of token ids → sums of a table's rows; each distinct word is tokenised once.

A tokenizer takes most of a static encoder's time, and most words of a text have been seen before.
Each word between spaces is cleaned and tokenised on its own, and cached.
"""

import re
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..runtime.tokenizer import count_ids, read_tokenizer
from ..text.cleanup import SAFE, check_steps, clean
from ..types import Floats

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

_ASCII = "".join(map(chr, range(33, 127)))
_PART = re.compile("[0-9A-Za-z가-힣]+|.", re.DOTALL)
# What cleaning may do to a word of ASCII and Hangul syllables; all other steps leave it alone.
_CHANGING = {"scripts", "lower"}
_WIDTH = array("i").itemsize
# The size of the cache in characters, with a word's overhead counted as some: about 60 MB.
_ROOM = 8_000_000
_OVERHEAD = 32
# Longer bags are summed in parts of this size first. Steps go by position in a bag, so one long
# text among short ones would cost a step for each of its tokens.
_BAG = 64


@dataclass(frozen=True)
class EmbeddingBags:
    """The tokens of several texts, one text after the other."""

    ids: NDArray[Any]  # (tokens,) integers, rows of a table
    counts: NDArray[np.int64]  # (n,) how many of them each text has

    def split(self, parts: int) -> list["EmbeddingBags"]:
        """Cut into parts of nearly as many texts each.

        >>> bags = EmbeddingBags(np.arange(4), np.array([1, 2, 1]))
        >>> [part.ids.tolist() for part in bags.split(2)]
        [[0, 1, 2], [3]]
        """
        counts = np.array_split(self.counts, parts)
        ends = np.cumsum([int(part.sum()) for part in counts])[:-1]
        return [EmbeddingBags(*pair) for pair in zip(np.split(self.ids, ends), counts, strict=True)]


class WordPieces:
    """A tokenizer that caches words. Safe to use from several threads."""

    def __init__(self, tokenizer: "Tokenizer", *, steps: Sequence[str] = SAFE) -> None:
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer = tokenizer
        self.vocabulary = count_ids(tokenizer)
        self._steps = check_steps(steps) or SAFE
        self._changing = bool(_CHANGING.intersection(self._steps))
        self._plain = _Plain.of(tokenizer)
        self._known: dict[str, bytes] = {"": b""}
        self._size = 0

    @classmethod
    def from_file(cls, path: Path, *, steps: Sequence[str] = SAFE) -> "WordPieces":
        """Read a tokenizer.json; `steps` are how text is cleaned."""
        return cls(read_tokenizer(path), steps=steps)

    def bags(self, texts: Sequence[str]) -> EmbeddingBags:
        """Give the ids of each text's tokens, without special tokens."""
        words = " ".join(texts).split(" ")
        found = self._look_up(words)
        lengths = np.fromiter(map(len, found), dtype=np.int64, count=len(found)) // _WIDTH
        ends = np.cumsum([text.count(" ") + 1 for text in texts], dtype=np.int64)  # in words
        ends = np.cumsum(lengths)[ends - 1]  # in tokens
        ids = np.frombuffer(b"".join(found), dtype=np.intc)
        return EmbeddingBags(ids, np.diff(ends, prepend=0))

    def _look_up(self, words: list[str]) -> list[bytes]:
        try:  # one pass when every word is known, as in all but the first texts
            return list(map(self._known.__getitem__, words))
        except KeyError:
            return list(map(self._learn(set(words)).__getitem__, words))

    def _learn(self, words: set[str]) -> dict[str, bytes]:
        """Give a dictionary that knows all these words."""
        if self._size > _ROOM:
            # A new dictionary: another thread may still use the old one.
            self._known, self._size = {"": b""}, 0
        known = self._known
        missing = list(words.difference(known))
        known.update(zip(missing, self._tokenise(missing), strict=True))
        self._size += sum(map(len, missing)) + _OVERHEAD * len(missing)
        return known

    def _tokenise(self, words: Sequence[str]) -> list[bytes]:
        """Clean and tokenise words, the plain ones by the short way."""
        ids = [self._short_way(word) for word in words]
        rest = [i for i, found in enumerate(ids) if found is None]
        # With the space before it a word is spelt as inside a sentence, where that matters.
        texts = [" " + clean(words[i], self._steps) for i in rest]
        encodings = self.tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        for i, encoding in zip(rest, encodings, strict=True):
            ids[i] = encoding.ids
        return [array("i", found or ()).tobytes() for found in ids]

    def _short_way(self, word: str) -> list[int] | None:
        if self._plain is None:
            return None
        return self._plain.encode(clean(word, self._steps) if self._changing else word)


class _Plain:
    """The short way for words of ASCII and Hangul syllables with BERT's kind of tokenizer.

    There the normaliser does nothing but lower the case, and words are split at punctuation, so
    the model can be called directly: several times faster than the whole tokenizer, with the same
    result.
    """

    def __init__(self, model: "WordPiece", *, lower: bool, without: Iterable[str]) -> None:
        self._model = model
        self._lower = lower
        letters = "".join(re.escape(letter) for letter in _ASCII if letter not in without)
        self._whole, self._longest = model.token_to_id, model.max_input_chars_per_word
        self._fits = re.compile(f"[{letters}가-힣]+").fullmatch

    @classmethod
    def of(cls, tokenizer: "Tokenizer") -> "_Plain | None":
        """Make one for a tokenizer, or None where the result would not be the same."""
        from tokenizers.models import WordPiece
        from tokenizers.pre_tokenizers import BertPreTokenizer

        model, normalizer = tokenizer.model, tokenizer.normalizer
        splits = isinstance(tokenizer.pre_tokenizer, BertPreTokenizer)
        if not (isinstance(model, WordPiece) and splits):
            return None
        sample = _ASCII + "가각힣뷁"
        normal = normalizer.normalize_str(sample) if normalizer else sample
        if normal not in (sample, sample.lower()):
            return None
        # Added tokens are matched anywhere in a text; words with one's first letter are left out.
        added = [str(token.content)[:1] for token in tokenizer.get_added_tokens_decoder().values()]
        without = {*"".join(added).lower(), *"".join(added).upper()}
        return cls(model, lower=normal != sample, without=without)

    def encode(self, word: str) -> list[int] | None:
        """Give a word's ids, or None for a word that is not plain."""
        if not self._fits(word):
            return None
        word = word.lower() if self._lower else word
        if word.isalnum():
            # The longest token is taken first, so a word that is one has no other.
            whole = self._whole(word) if len(word) <= self._longest else None
            if whole is not None:
                return [whole]
            return [token.id for token in self._model.tokenize(word)]
        parts = _PART.findall(word)
        return [token.id for part in parts for token in self._model.tokenize(part)]


def sum_rows(table: Floats, bags: EmbeddingBags) -> Floats:
    """Add up the rows of each bag; (n, dim), zeros for an empty bag.

    >>> table = np.array([[1, 0], [0, 1], [5, 5]], dtype=np.float32)
    >>> sum_rows(table, EmbeddingBags(np.array([0, 1, 1, 2]), np.array([3, 0, 1]))).tolist()
    [[1.0, 2.0], [0.0, 0.0], [5.0, 5.0]]
    """
    if len(bags.counts) and int(bags.counts.max()) > _BAG:
        return _sum_in_parts(table, bags)
    starts = np.cumsum(bags.counts) - bags.counts
    order = np.argsort(-bags.counts, kind="stable")  # the longest first
    starts, counts = starts[order], bags.counts[order]
    sums = np.zeros((len(counts), table.shape[1]), dtype=np.float32)
    for position in range(int(counts[0]) if len(counts) else 0):
        alive = int(np.searchsorted(-counts, -position))  # bags with a token at this position
        # np.take with a mode does not buffer, which indexing with brackets does.
        sums[:alive] += np.take(table, bags.ids[starts[:alive] + position], axis=0, mode="clip")
    unsorted = np.empty_like(sums)
    unsorted[order] = sums
    return unsorted


def _sum_in_parts(table: Floats, bags: EmbeddingBags) -> Floats:
    """Split bags into parts of bounded size, sum these, then sum the sums."""
    parts = np.maximum(-(-bags.counts // _BAG), 1)  # (n,) parts of each bag
    counts = np.full(int(parts.sum()), _BAG, dtype=np.int64)
    counts[np.cumsum(parts) - 1] = bags.counts - (parts - 1) * _BAG  # the last one is shorter
    sums = sum_rows(table, EmbeddingBags(bags.ids, counts))
    return sum_rows(sums, EmbeddingBags(np.arange(len(sums)), parts))
