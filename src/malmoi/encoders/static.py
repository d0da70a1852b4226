"""The static encoder: a vector for each token of the vocabulary, summed; no graph is run."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NoReturn, overload

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import Bundle
from ..errors import BundleCorrupt, BundleError
from ..io.arrays import read_safetensors
from ..runtime.runner import choose_threads
from ..types import Floats
from .base import Encoded, OnLong, TextEncoder, as_list
from .wordpiece import EmbeddingBags, WordPieces, sum_rows
from .words import no_layers

# Longer texts are read in parts of this many characters, to bound memory.
_PART = 500_000
_WORTH_THREADS = 256  # texts
_NOTHING = 1e-12  # the length under which a sum has no direction
_REMEDY = "Make it again with: malmoi export --static"


class StaticEncoder(TextEncoder):
    """A sentence encoder without a transformer. Make one with `malmoi.load`.

    A text's vector is the sum of its tokens' rows, given length 1. Word order does not count, and
    texts of any length are read whole, so `on_long` has no effect. A text without tokens (empty,
    or only spaces) gets a vector of its own from the table.
    """

    def __init__(self, bundle: Bundle, *, threads: int | None = None) -> None:
        self.bundle = bundle
        self.threads = choose_threads(threads)
        self._table, self._blank = _read_table(bundle)
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


def _read_table(bundle: Bundle) -> tuple[Floats, Floats]:
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
