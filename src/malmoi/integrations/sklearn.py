"""scikit-learn: a transformer that turns texts into vectors, for pipelines."""

from typing import Any, Self

from ..encoders import TextEncoder
from ..errors import require
from ..types import Floats
from . import open_encoder

require("sklearn", extra="clusters", purpose="malmoi.integrations.sklearn")

from sklearn.base import BaseEstimator, TransformerMixin  # noqa: E402


class MalmoiVectorizer(TransformerMixin, BaseEstimator):
    """Turns texts into vectors; nothing is fitted."""

    def __init__(self, model: str | TextEncoder | None = None, dim: int | None = None) -> None:
        self.model, self.dim = model, dim

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: N803
        """Open the model."""
        self.encoder_ = open_encoder(self.model)
        return self

    def transform(self, X: Any) -> Floats:  # noqa: N803
        """Encode texts, (n, dim)."""
        if not hasattr(self, "encoder_"):
            self.fit(X)
        return self.encoder_.encode(X, dim=self.dim)
