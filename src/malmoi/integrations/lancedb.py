"""LanceDB: an embedding function, which a table keeps by its model's name."""

from typing import Any

from ..encoders import TextEncoder, load
from ..errors import require
from ..types import Floats
from . import check_revision, encode_passages, encode_query, revision_of

require("lancedb", extra="lancedb", purpose="malmoi.integrations.lancedb")

from lancedb.embeddings import EmbeddingFunction, register  # noqa: E402
from pydantic import ConfigDict, PrivateAttr  # noqa: E402


@register("malmoi")
class LanceDBEmbeddingFunction(EmbeddingFunction):
    """A model by its name or folder, with its prompts for queries and passages.

    `revision` is what a table remembers of its model; another model is refused.
    """

    model_config = ConfigDict(extra="forbid")

    name: str | None = None
    revision: str | None = None
    max_retries: int = 0  # a second try would fail like the first
    _encoder: TextEncoder = PrivateAttr()

    def model_post_init(self, context: Any) -> None:
        """Open the model."""
        super().model_post_init(context)
        self._encoder = load(self.name)
        check_revision(self._encoder, self.revision)

    def compute_query_embeddings(self, query: str) -> list[Floats]:
        """Encode a query."""
        return list(encode_query(self._encoder, self.sanitize_input(query)))

    def compute_source_embeddings(self, texts: Any) -> list[Floats]:
        """Encode passages."""
        return list(encode_passages(self._encoder, self.sanitize_input(texts)))

    def ndims(self) -> int:
        """How many dimensions the vectors have."""
        return self._encoder.dimension

    def safe_model_dump(self) -> dict[str, Any]:
        """What a table keeps."""
        return {"name": self.name or self._encoder.name, "revision": revision_of(self._encoder)}
