"""What every encoder offers, however it makes its vectors: encode, encode_iter, similarity."""

import itertools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence, Sized
from dataclasses import dataclass
from typing import Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray

from ..bundle.manifest import Manifest
from ..errors import CutWarning, OptionError, TextError, by_number, check_choice, counted
from ..io.progress import progressing
from ..runtime.pooling import Precision, check_precision, normalize, to_precision
from ..runtime.runner import chunks, pipelined
from ..text.cleanup import SAFE, as_text, as_texts, clean
from ..types import Floats

OnLong = Literal["cut", "windows"]


@dataclass(frozen=True)
class Encoded:
    """The vectors of one chunk, (n, dim), and how many of its texts were cut."""

    vectors: Floats
    cut: int


class BaseEncoder(ABC):
    """The methods of all encoders, those of a server too. Subclasses give vectors in blocks."""

    @abstractmethod
    def _options(
        self, dim: int | None, precision: Precision, prompt: str | None, on_long: OnLong
    ) -> Any:
        """Check the options, and give them as `_blocks` takes them."""

    @abstractmethod
    def _blocks(
        self, texts: Iterable[str], options: Any, *, total: int | None, progress: bool
    ) -> Iterator[NDArray[Any]]:
        """Encode texts in order; (n, dim) each."""

    @abstractmethod
    def _width(self) -> int:
        """The length of a whole vector."""

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        dim: int | None = None,
        precision: Precision = "float32",
        prompt: str | None = None,
        on_long: OnLong = "cut",
        progress: bool = False,
    ) -> NDArray[Any]:
        """Turn texts into vectors: (n, dim) for an iterable of texts, (dim,) for one string.

        - `dim`: keep the first dimensions and renormalise.
        - `precision`: "int8" gives int8 codes, "binary" packed bits.
        - `prompt`: the name of one of the model's prompts, or a prefix that ends in a space or
          colon.
        - `on_long`: "cut" cuts texts longer than the model reads, with one CutWarning; "windows"
          covers them by overlapping windows.

        Identical texts are encoded once.

        >>> encoder.encode(["당뇨병", "diabetes"], dim=128).shape
        (2, 128)
        """
        options = self._options(dim, precision, prompt, on_long)
        listed = as_list(texts)
        unique = list(dict.fromkeys(listed))
        blocks = self._blocks(unique, options, total=len(unique), progress=progress)
        if (first := next(blocks, None)) is None:
            empty = np.zeros((1, dim or self._width()), dtype=np.float32)
            return to_precision(empty, precision)[:0]
        vectors = np.empty((len(unique), first.shape[1]), dtype=first.dtype)
        at = 0
        for block in itertools.chain([first], blocks):
            vectors[at : at + len(block)] = block
            at += len(block)
        vectors = _scatter(vectors, unique, listed)
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_iter(
        self,
        texts: str | Iterable[str],
        *,
        dim: int | None = None,
        precision: Precision = "float32",
        prompt: str | None = None,
        on_long: OnLong = "cut",
        progress: bool = False,
    ) -> Iterator[NDArray[Any]]:
        """Yield one vector (dim,) a text, in order, in memory that does not grow with the texts.

        One string is one text. Options are those of `encode`. Identical texts that come near each
        other are encoded once.

        >>> [vector.shape for vector in encoder.encode_iter(f"line {i}" for i in range(2))]
        [(384,), (384,)]
        """
        texts = [texts] if isinstance(texts, str) else texts
        total = len(texts) if isinstance(texts, Sized) else None
        # Options are checked here and now, not when the first vector is asked for.
        options = self._options(dim, precision, prompt, on_long)
        blocks = self._blocks(texts, options, total=total, progress=progress)
        return (row for block in blocks for row in block)

    # A str is a Sequence[str] to the type checker, so the first overload is marked to win.
    @overload
    def similarity(self, a: str, b: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def similarity(self, a: str | Sequence[str], b: str | Sequence[str]) -> Floats: ...
    def similarity(self, a: str | Sequence[str], b: str | Sequence[str]) -> float | Floats:
        """Cosine of two texts as a float; of lists as a matrix (len(a), len(b)).

        One string and a list give one row (or column) of the matrix.

        >>> encoder.similarity("고양이", "cat") > encoder.similarity("고양이", "stock market")
        True
        """
        left = normalize(self.encode(a))
        right = normalize(self.encode(b))
        if isinstance(a, str) and isinstance(b, str):
            return float(left @ right)
        scores: Floats = left @ right.T
        return scores


class TextEncoder(BaseEncoder):
    """Texts in, vectors out, by a model of this process. Subclasses say how a chunk is encoded."""

    def __init__(self, manifest: Manifest, *, dimension: int) -> None:
        self.manifest = manifest
        self.name = manifest.name
        self.dimension = dimension
        self.max_tokens = manifest.max_tokens

    @property
    def direct(self) -> "TextEncoder":
        """The encoder that runs the model; this one, unless it passes texts on to another."""
        return self

    @abstractmethod
    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        """Start encoding a chunk; the function returned waits for it."""

    def _options(
        self, dim: int | None, precision: Precision, prompt: str | None, on_long: OnLong
    ) -> "_EncodeOptions":
        if dim is not None and not 1 <= dim <= self.dimension:
            raise OptionError(
                f"dim is {dim}; the model's vectors have {self.dimension} dimensions. "
                f"Choose one from 1 to {self.dimension}."
            )
        if precision != "float32":
            check_precision(precision)
        if on_long not in get_args(OnLong):
            check_choice("on_long", on_long, get_args(OnLong))
        return _EncodeOptions(dim, precision, self._prefix(prompt), on_long)

    def _prefix(self, prompt: str | None) -> str:
        known = self.manifest.prompts
        if prompt is None:
            return known.get(self.manifest.default_prompt or "", "")
        if prompt in known or not prompt:
            return known.get(prompt, "")
        if prompt[-1].isspace() or prompt[-1] == ":":
            return prompt
        names = ", ".join(known) or "none"
        raise OptionError(
            f"prompt is {prompt!r}; the prompts of this model are: {names}. "
            "Name one of these, or end a prefix of your own with a space or a colon."
        )

    def _width(self) -> int:
        return self.dimension

    def _blocks(
        self, texts: Iterable[str], options: "_EncodeOptions", *, total: int | None, progress: bool
    ) -> Iterator[NDArray[Any]]:
        """Encode chunk after chunk, the next ones running while one is given out."""
        cut = count = 0
        if not (isinstance(texts, list) and _all_text(texts)):
            texts = (as_text(text, where=f"texts[{i}]") for i, text in enumerate(texts))
        started = (self._start_chunk(chunk, options) for chunk in chunks(texts, len))
        with progressing("encoding", total=total, shown=progress) as advance:
            for block, cut_here in pipelined(started):
                cut, count = cut + cut_here, count + len(block)
                advance(len(block))
                yield block
        warn_of_cut(cut, count, f"{self.max_tokens} tokens")

    def _start_chunk(
        self, chunk: list[str], options: "_EncodeOptions"
    ) -> Callable[[], tuple[NDArray[Any], int]]:
        """Clean a chunk, encode what is distinct in it, and spread the vectors again."""
        cleaned = self._cleaned(chunk, options.prefix)
        distinct = list(dict.fromkeys(cleaned))
        wait = self._start(distinct, options.on_long)

        def finish() -> tuple[NDArray[Any], int]:
            encoded = wait()
            vectors = encoded.vectors
            if options.dim is not None and options.dim < self.dimension:
                vectors = vectors[:, : options.dim]
                vectors = normalize(vectors) if self.manifest.normalize else vectors
            if options.precision != "float32":
                vectors = to_precision(normalize(vectors), options.precision)
            return _scatter(vectors, distinct, cleaned), encoded.cut

        return finish

    def _cleaned(self, texts: Sequence[str], prefix: str) -> list[str]:
        return [prefix + self._clean(text) for text in texts]

    def _clean(self, text: str) -> str:
        return clean(text, self.manifest.clean or SAFE)


def _scatter(vectors: NDArray[Any], distinct: list[str], texts: list[str]) -> NDArray[Any]:
    """Give each text its row, where the vectors are those of the distinct ones."""
    if len(distinct) == len(texts):
        return vectors
    rows = {text: row for row, text in enumerate(distinct)}
    spread: NDArray[Any] = vectors[[rows[text] for text in texts]]
    return spread


def warn_of_cut(cut: int, count: int, longest: str) -> None:
    """Warn the caller of `encode` or `encode_iter` that texts were longer than `longest`."""
    if cut:
        were, them = by_number(cut, "was", "were"), by_number(cut, "it", "them")
        warnings.warn(
            f"{cut:,} of {counted(count, 'text')} {were} longer than {longest} and {were} cut; "
            f'on_long="windows" reads {them} whole',
            CutWarning,
            stacklevel=4,  # the caller of encode or encode_iter
        )


@dataclass(frozen=True)
class _EncodeOptions:
    dim: int | None
    precision: str
    prefix: str
    on_long: OnLong


def as_list(texts: str | Iterable[str]) -> list[str]:
    """Give texts as a list, one string as a list of one; raise TextError for anything else."""
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes) or not isinstance(texts, Iterable):
        raise TextError(
            f"texts is {type(texts).__name__}; expected a string or an iterable of strings. "
            "Decode bytes first."
        )
    listed = list(texts)
    return listed if _all_text(listed) else as_texts(listed)


def _all_text(values: list[str]) -> bool:
    """Tell whether all are plain strings, as they nearly always are."""
    return set(map(type, values)) <= {str}


# By these names models have prompts for passages, in sentence-transformers' order.
PASSAGE_PROMPTS = ("document", "passage", "corpus")


def prompts_of(encoder: TextEncoder) -> tuple[str, str] | None:
    """The names of a model's prompts for queries and for passages; None if it has neither.

    A model that has only one of them reads the other texts with its default prompt or none.
    """
    known, default = encoder.manifest.prompts, encoder.manifest.default_prompt or ""
    query = "query" if "query" in known else default
    passage = next((name for name in PASSAGE_PROMPTS if name in known), default)
    return (query, passage) if query or passage else None
