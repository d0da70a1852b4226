"""StaticEncoder: a vector for each piece of the vocabulary, summed; no graph is run."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import Bundle
from ..encoder.base import Encoded, OnLong, TextEncoder
from ..errors import BundleCorrupt, BundleError
from ..io.arrays import read_safetensors
from ..runtime.runner import choose_threads
from ..types import Floats
from ..words.reader import no_layers
from .embedding_bag import EmbeddingBags, sum_rows
from .wordpiece import WordPieces

# Texts are read in stretches of this many characters, so that a library needs no more memory
# than a book.
_STRETCH = 500_000
_WORTH_THREADS = 256  # texts
_NOTHING = 1e-12  # the length under which a sum has no direction
_REMEDY = "Make it again with: malmoi export --static"


class StaticEncoder(TextEncoder):
    """A sentence encoder without a transformer. Make one with `malmoi.load`.

    A text's vector is the sum of its pieces' rows, given length 1: word order does not count, and
    neither does length, so nothing is ever cut and both ways of `on_long` are the same. A text
    without a single piece (the empty one, or spaces alone) gets the vector that the table keeps
    for it.
    """

    def __init__(self, bundle: Bundle, *, threads: int | None = None) -> None:
        self.bundle = bundle
        self.threads = choose_threads(threads)
        self._table, self._blank = _read_table(bundle)
        super().__init__(bundle.manifest, dimension=len(self._blank))
        self._words = WordPieces.from_file(bundle.tokenizer, steps=bundle.manifest.clean)
        _check_vocabulary(bundle, self._words.vocabulary, len(self._table))
        self._pool = ThreadPoolExecutor(self.threads, thread_name_prefix="malmoi")

    def __repr__(self) -> str:
        return f"<StaticEncoder {self.name}: {self.dimension} dimensions, texts of any length>"

    def words(self, *texts: object, **options: object) -> NoReturn:
        """Raise: a table of vectors has no hidden layers, so a word has one vector everywhere."""
        raise no_layers(self.name)

    words_of = encode_layers = words

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Count each text's pieces."""
        return [int(count) for count in self._words.bags(list(texts)).counts]

    def _cleaned(self, texts: list[str], prefix: str) -> list[str]:
        # Words are cleaned when they are tokenised, each distinct one once.
        return [prefix + text for text in texts] if prefix else texts

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        if max(map(len, texts)) > _STRETCH:
            return lambda: Encoded(self._unit(self._in_stretches(texts)), 0)
        bags = self._words.bags(texts)
        return lambda: Encoded(self._vectors(bags), 0)

    def _vectors(self, bags: EmbeddingBags) -> Floats:
        """Sum in as many threads as there are, this one among them.

        Words are looked up by Python before and after, never at the same time: threads
        of numpy's and of Python's take turns of milliseconds, which costs more than it saves.
        """
        parts = bags.split(self.threads) if len(bags.counts) >= _WORTH_THREADS else [bags]
        others = [self._pool.submit(self._sums, part) for part in parts[1:]]
        found = [self._sums(parts[0]), *(other.result() for other in others)]
        return found[0] if len(found) == 1 else np.concatenate(found)

    def _sums(self, bags: EmbeddingBags) -> Floats:
        return self._unit(sum_rows(self._table, bags))

    def _in_stretches(self, texts: list[str]) -> Floats:
        """Sum each text stretch by stretch; (n, dim)."""
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for stretch in _stretches(text):
                sums[row] += sum_rows(self._table, self._words.bags([stretch]))[0]
        return sums

    def _unit(self, sums: Floats) -> Floats:
        """Give each row length 1; where nothing was summed the empty text's vector stands."""
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        units: Floats = sums / np.maximum(lengths, np.float32(_NOTHING))
        units[lengths[:, 0] < _NOTHING] = self._blank
        return units


def _stretches(text: str) -> Iterator[str]:
    """Cut a text at spaces into stretches of bounded length; a longer word is cut too."""
    start = 0
    while len(text) - start > _STRETCH:
        end = text.rfind(" ", start, start + _STRETCH) + 1 or start + _STRETCH
        yield text[start:end]
        start = end
    yield text[start:]


def _read_table(bundle: Bundle) -> tuple[Floats, Floats]:
    """Read the rows (vocabulary, dim) as float32, and the vector of a text without pieces."""
    arrays = read_safetensors(bundle.graph)
    dim = bundle.manifest.dimension
    rows = len(arrays.get("scales", ()))
    _check(bundle, arrays, "pieces", (rows, dim), "int8")
    _check(bundle, arrays, "scales", (rows,), "float32")
    _check(bundle, arrays, "empty", (dim,), "float32")
    empty: Floats = np.array(arrays["empty"])
    if not abs(float(np.linalg.norm(empty)) - 1) < 1e-3:
        raise BundleCorrupt(
            f"{bundle.graph} has an array empty whose length is not 1; expected a unit vector. "
            f"{_REMEDY}"
        )
    # Four times the file in memory; rows that are ready to be summed are twice as fast.
    return np.multiply(arrays["pieces"], arrays["scales"][:, None], dtype=np.float32), empty


def _check(
    bundle: Bundle, arrays: dict[str, NDArray[Any]], name: str, shape: tuple[int, ...], dtype: str
) -> None:
    found = arrays.get(name)
    if found is None or found.shape != shape or str(found.dtype) != dtype:
        what = "no such array" if found is None else f"{found.dtype} of shape {found.shape}"
        raise BundleCorrupt(
            f"{bundle.graph} should have {name} as {dtype} of shape {shape}; found {what}. "
            f"{_REMEDY}"
        )
    if dtype == "float32" and not np.isfinite(found).all():
        raise BundleCorrupt(
            f"{bundle.graph} has values in {name} that are not finite; expected numbers. {_REMEDY}"
        )


def _check_vocabulary(bundle: Bundle, tokens: int, rows: int) -> None:
    if tokens > rows:
        raise BundleError(
            f"the tokenizer of {bundle.folder} has {tokens:,} tokens and its table {rows:,} rows; "
            f"expected a row for each. They come from different models. {_REMEDY}"
        )
