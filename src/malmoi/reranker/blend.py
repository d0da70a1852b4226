"""An encoder's similarity blended with a reranker's score.

A small cross-encoder compares two texts word by word; the encoder it came from is deeper and was
trained on far more text. The weighted sum of both scores is better than either.
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
    """The encoder's name, and the weights of its cosine and of the reranker's own score.

    >>> blend = ScoreBlend("ko-en-small", cross=1.0, cosine=2.0, constant=-1.0)
    >>> blend.of(np.array([0.5]), np.array([0.75])).tolist()
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
        """Give the weighted sum of a reranker's own scores and the encoder's cosines, all (n,)."""
        blended = self.cross * scores + self.cosine * cosines + self.constant
        return blended.astype(np.float32)


def open_encoder(blend: ScoreBlend, *, threads: int | None) -> TextEncoder:
    """Open the encoder that a reranker names, if it is a shipped one: no path is followed."""
    if blend.encoder not in shipped_models():
        raise BundleError(
            f'the reranker blends its score with "{blend.encoder}", which is not shipped with this '
            f"installation ({', '.join(shipped_models()) or 'nothing is'}); expected a shipped "
            "encoder. Pass the encoder: malmoi.load_reranker(path, encoder=…)"
        )
    return load(blend.encoder, threads=threads)


def squash(values: Floats) -> Floats:
    """The logistic function: any numbers to 0 … 1.

    >>> squash(np.array([0, 1e4, -1e4], dtype=np.float32)).tolist()
    [0.5, 1.0, 0.0]
    """
    # exp of negative numbers only: nothing overflows, and low scores stay distinct.
    small = np.exp(-np.abs(values))
    squashed: Floats = np.where(values >= 0, 1, small) / (1 + small)
    return squashed


def cosines(encoder: TextEncoder, pairs: Sequence[Pair]) -> Floats:
    """The encoder's cosine for each pair, (n,); each distinct text is encoded once."""
    rows: dict[str, int] = {}
    at = np.array(
        [[rows.setdefault(text, len(rows)) for text in pair] for pair in pairs], dtype=np.int64
    ).reshape(-1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutWarning)  # the reranker warns of the pairs it cuts
        vectors = encoder.encode(list(rows))
    found: Floats = np.einsum("nd,nd->n", vectors[at[:, 0]], vectors[at[:, 1]])
    return found
