"""What evaluation asks of a model: vectors for texts, or scores for pairs of texts.

Any object with the method will do: malmoi's own encoders and rerankers, a sentence-transformers
model in training, a function behind an HTTP call.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..errors import BundleError, OptionError, counted
from ..runtime.pooling import normalize
from ..types import Floats


@runtime_checkable
class Encodes(Protocol):
    """Texts in, vectors (n, dim) out."""

    def encode(self, texts: list[str], /) -> Any:
        """Give one vector a text."""


@runtime_checkable
class Scores(Protocol):
    """Pairs in, scores (n,) out; they grow with likeness."""

    def score(self, pairs: list[tuple[str, str]], /) -> Any:
        """Give one score a pair."""


@runtime_checkable
class Judges(Protocol):
    """Pairs in, the probability of each of its labels (n, labels) out."""

    labels: Sequence[str]

    def probabilities(self, pairs: list[tuple[str, str]], /) -> Any:
        """Give one probability a pair and label."""


def name_of(model: object) -> str:
    """The model's own name, or that of its class."""
    return str(getattr(model, "name", "") or type(model).__name__)


def vectors_of(encoder: object, texts: Sequence[str], *, prompt: str | None = None) -> Floats:
    """Encode texts, each distinct one once; (n, dim) float32, finite.

    `prompt` is handed on only where there is one, for not every encoder knows prompts.
    """
    if not isinstance(encoder, Encodes):
        raise OptionError(
            f"{name_of(encoder)} has no encode; expected a sentence encoder for this task. "
            "Name an encoder, or evaluate a reranker with the tasks sts, pairs, rerank or nli."
        )
    rows: dict[str, int] = {}
    at = [rows.setdefault(text, len(rows)) for text in texts]
    encode: Callable[..., Any] = encoder.encode
    found = encode(list(rows)) if prompt is None else encode(list(rows), prompt=prompt)
    vectors = np.asarray(found, dtype=np.float32)
    broken = int((~np.isfinite(vectors).all(axis=1)).sum())
    if broken:
        raise BundleError(
            f"{name_of(encoder)} gave vectors that are not finite for {broken:,} of "
            f"{counted(len(rows), 'text')}; expected numbers. Export the model again "
            "with: malmoi export"
        )
    spread: Floats = vectors[at]
    return spread


def scores_of(scorer: object, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Score pairs; (n,), finite."""
    if not isinstance(scorer, Scores):
        raise OptionError(
            f"{name_of(scorer)} has no score; expected a reranker for this task. "
            "Name a reranker's folder."
        )
    scores = np.asarray(scorer.score(list(pairs)), dtype=np.float64).reshape(len(pairs))
    if not np.isfinite(scores).all():
        raise BundleError(
            f"{name_of(scorer)} gave scores that are not finite; expected numbers. "
            "Export the model again with: malmoi export"
        )
    return scores


def likeness(model: object, a: Sequence[str], b: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """How alike a[i] and b[i] are, (n,), by every similarity the model has.

    An encoder has "cosine", "dot" and "euclidean" (the distance below zero, so that it grows with
    likeness too); a reranker has one "score". The first is the one to judge the model by.
    """
    if isinstance(model, Scores) and not isinstance(model, Encodes):
        return {"score": scores_of(model, list(zip(a, b, strict=True)))}
    both = vectors_of(model, [*a, *b])
    left, right = both[: len(a)], both[len(a) :]
    return {
        "cosine": _dots(normalize(left), normalize(right)),
        "dot": _dots(left, right),
        "euclidean": -np.linalg.norm((left - right).astype(np.float64), axis=1),
    }


def _dots(left: Floats, right: Floats) -> NDArray[np.float64]:
    dots: NDArray[np.float64] = np.einsum("nd,nd->n", left, right, dtype=np.float64)
    return dots
