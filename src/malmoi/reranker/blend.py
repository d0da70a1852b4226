"""An encoder's similarity blended with a reranker's score: each sees what the other misses.

A small cross-encoder reads two texts word against word; the encoder it came from has read far
more text and is deeper. The weighted sum of what both say is better than either.
"""

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..bundle.catalog import shipped_models
from ..encoder import TextEncoder, load
from ..errors import BundleError, CutWarning
from ..runtime.tokenizer import Pair
from ..types import Floats


@dataclass(frozen=True, slots=True)
class ScoreBlend:
    """The encoder's name, and the weights of both models' words in a pair's score.

    The weighted sum of a reranker's own score and the encoder's cosine is squashed to 0 … 1.

    >>> Join("ko-en-small", cross=1.0, cosine=2.0, constant=-1.0).of(
    ...     np.array([0.5]), np.array([0.75])
    ... ).tolist()
    [1.0]
    """

    encoder: str
    cross: float
    cosine: float
    constant: float

    @classmethod
    def read(cls, data: dict[str, Any], *, where: str) -> "ScoreBlend":
        """Make one from a manifest's field; `where` names the file in messages."""
        try:
            numbers = [float(data[name]) for name in ("cross", "cosine", "constant")]
            name = str(data["encoder"])
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(
                f'{where} has a "beside" without encoder, cross, cosine and constant; expected '
                "all four. Export the model again with: malmoi export"
            ) from error
        if not np.isfinite(numbers).all():
            raise BundleError(
                f'{where} has weights in "beside" that are not numbers; expected finite ones. '
                "Export the model again with: malmoi export"
            )
        return cls(name, *numbers)

    def to_json(self) -> dict[str, Any]:
        """Give what a manifest keeps."""
        return asdict(self)

    def of(self, scores: Floats, cosines: Floats) -> Floats:
        """Join a reranker's own scores and the encoder's cosines, both (n,), not squashed yet."""
        joined = self.cross * scores + self.cosine * cosines + self.constant
        return joined.astype(np.float32)


def open_encoder(blend: ScoreBlend, *, threads: int | None) -> TextEncoder:
    """Open the encoder that a reranker names; only shipped ones, so that no path is followed."""
    if blend.encoder not in shipped_models():
        raise BundleError(
            f'the reranker joins its score with "{blend.encoder}", which is not shipped with this '
            f"installation ({', '.join(shipped_models()) or 'nothing is'}); expected a shipped "
            "encoder. Hand the encoder over: malmoi.load_reranker(path, encoder=…)"
        )
    return load(blend.encoder, threads=threads)


def squash(values: Floats) -> Floats:
    """Bring any numbers between 0 and 1 (the logistic function).

    >>> squash(np.array([0, 1e4, -1e4], dtype=np.float32)).tolist()
    [0.5, 1.0, 0.0]
    """
    # With exp of what is below 0 only: nothing overflows, and low scores stay apart.
    small = np.exp(-np.abs(values))
    squashed: Floats = np.where(values >= 0, 1, small) / (1 + small)
    return squashed


def cosines(encoder: TextEncoder, pairs: Sequence[Pair]) -> Floats:
    """How alike the encoder finds the texts of each pair, (n,); each distinct text read once."""
    rows: dict[str, int] = {}
    places = [[rows.setdefault(text, len(rows)) for text in pair] for pair in pairs]
    if not rows:
        return np.empty(0, dtype=np.float32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutWarning)  # the reranker warns of the pairs it cuts
        vectors = encoder.encode(list(rows))
    at = np.array(places)
    found: Floats = np.einsum("nd,nd->n", vectors[at[:, 0]], vectors[at[:, 1]])
    return found
