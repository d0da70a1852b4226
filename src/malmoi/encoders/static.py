"""The static encoder: a vector for each token of the vocabulary, summed; no graph is run."""

import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import Bundle
from ..errors import BundleCorrupt, BundleError
from ..io.arrays import read_safetensors
from ..runtime.runner import choose_threads
from ..runtime.tokenizer import count_ids, read_tokenizer
from ..text.cleanup import SAFE, check_steps, clean
from ..types import Floats
from .base import Encoded, OnLong, TextEncoder, as_list
from .words import no_layers

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.models import WordPiece

# Longer texts are read in parts of this many characters, to bound memory.
_PART = 500_000
_WORTH_THREADS = 256  # texts
_NOTHING = 1e-12  # the length under which a sum has no direction
_REMEDY = "Make it again with: malmoi model export --static"
_ASCII = "".join(map(chr, range(33, 127)))
_WORD_PART = re.compile("[0-9A-Za-z가-힣]+|.", re.DOTALL)
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
        parts = _WORD_PART.findall(word)
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


class StaticEncoder(TextEncoder):
    """A sentence encoder without a transformer. Make one with `malmoi.load`.

    A text's vector is the sum of its tokens' rows, given length 1. Word order does not count, and
    texts of any length are read whole, so `on_long` has no effect. A text without tokens (empty,
    or only spaces) gets a vector of its own from the table.
    """

    def __init__(self, bundle: Bundle, *, threads: int | None = None) -> None:
        self.bundle = bundle
        self.threads = choose_threads(threads)
        self._table, self._blank = _read_vectors(bundle)
        super().__init__(bundle.manifest, dimension=len(self._blank))
        self._words = WordPieces.from_file(bundle.tokenizer, steps=bundle.manifest.clean)
        if self._words.vocabulary > len(self._table):
            raise BundleError(
                f"the tokenizer of {bundle.folder} has {self._words.vocabulary:,} tokens and its "
                f"table {len(self._table):,} rows; expected a row for each. They come from "
                f"different models. {_REMEDY}"
            )
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="malmoi")

    def __repr__(self) -> str:
        return f"<StaticEncoder {self.name}: {self.dimension} dimensions, texts of any length>"

    def words(self, *texts: object, **options: object) -> NoReturn:
        """Raise a BundleError: a table of vectors has no hidden layers."""
        raise no_layers(self.name)

    words_of = encode_layers = hidden_states = words

    @overload
    def count_tokens(self, texts: str) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def count_tokens(self, texts: Iterable[str]) -> list[int]: ...
    def count_tokens(self, texts: str | Iterable[str]) -> int | list[int]:
        """Count each text's tokens; of one string as a number."""
        counts: list[int] = self._words.bags(as_list(texts)).counts.tolist()
        return counts[0] if isinstance(texts, str) else counts

    def _cleaned(self, texts: Sequence[str], prefix: str) -> list[str]:
        # Words are cleaned when they are tokenised, each distinct one once.
        return [prefix + text for text in texts]

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        if max(map(len, texts)) > _PART:
            return lambda: Encoded(self._in_parts(texts), 0)
        bags = self._words.bags(texts)
        return lambda: Encoded(self._vectors(bags), 0)

    def _vectors(self, bags: EmbeddingBags) -> Floats:
        """Sum in as many threads as there are, this one among them.

        Words are looked up by Python before and after, never at the same time: threads
        of numpy's and of Python's take turns of milliseconds, which costs more than it saves.
        """
        parts = bags.split(self.threads) if len(bags.counts) >= _WORTH_THREADS else [bags]
        others = [self._pool.submit(self._sum, part) for part in parts[1:]]
        found = [self._sum(parts[0]), *(other.result() for other in others)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _sum(self, bags: EmbeddingBags) -> Floats:
        return self._unit(sum_rows(self._table, bags))

    def _in_parts(self, texts: list[str]) -> Floats:
        """Read each text part by part; (n, dim)."""
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for part in _parts(text):
                sums[row] += sum_rows(self._table, self._words.bags([part]))[0]
        return self._unit(sums)

    def _unit(self, sums: Floats) -> Floats:
        """Give each row length 1, and rows without a direction the empty text's vector."""
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        units: Floats = sums / np.maximum(lengths, np.float32(_NOTHING))
        units[lengths[:, 0] < _NOTHING] = self._blank
        return units


def _parts(text: str) -> Iterator[str]:
    """Cut a text at spaces into parts of bounded length; a longer word is cut too."""
    start = 0
    while len(text) - start > _PART:
        end = text.rfind(" ", start, start + _PART) + 1 or start + _PART
        yield text[start:end]
        start = end
    yield text[start:]


def _read_vectors(bundle: Bundle) -> tuple[Floats, Floats]:
    """Read the rows (vocabulary, dim) as float32, and the vector of a text without tokens."""
    arrays = read_safetensors(bundle.graph)
    dim = bundle.manifest.dimension
    rows = len(arrays.get("scales", ()))
    for name, shape, dtype in (
        ("pieces", (rows, dim), "int8"),
        ("scales", (rows,), "float32"),
        ("empty", (dim,), "float32"),
    ):
        wrong = _find_fault(arrays.get(name), shape, dtype)
        if wrong:
            raise BundleCorrupt(
                f"{bundle.graph} should have {name} as {dtype} of shape {shape}; found {wrong}. "
                f"{_REMEDY}"
            )
    empty: Floats = np.array(arrays["empty"])
    if not abs(float(np.linalg.norm(empty)) - 1) < 1e-3:
        raise BundleCorrupt(
            f"{bundle.graph} has an array empty whose length is not 1; expected a unit vector. "
            f"{_REMEDY}"
        )
    # Four times the file in memory; rows that are ready to be summed are twice as fast.
    return np.multiply(arrays["pieces"], arrays["scales"][:, None], dtype=np.float32), empty


def _find_fault(found: NDArray[Any] | None, shape: tuple[int, ...], dtype: str) -> str:
    if found is None:
        return "no such array"
    if found.shape != shape or str(found.dtype) != dtype:
        return f"{found.dtype} of shape {found.shape}"
    finite = dtype == "int8" or bool(np.isfinite(found).all())
    return "" if finite else "values that are not finite"
