"""Chroma: an embedding function, which a collection keeps by its model's name."""

from typing import Any

from ..encoders import load
from ..errors import require
from . import check_revision, encode_passages, encode_query, revision_of

require("chromadb", extra="chroma", purpose="malmoi.integrations.chroma")

from chromadb.api.types import Documents, EmbeddingFunction, Embeddings  # noqa: E402
from chromadb.utils.embedding_functions import register_embedding_function  # noqa: E402


@register_embedding_function
class MalmoiEmbeddingFunction(EmbeddingFunction[Documents]):
    """A model by its name or folder, with its prompts for queries and passages.

    `revision` is what a collection remembers of its model; another model is refused.
    """

    def __init__(self, model: str | None = None, *, revision: str | None = None) -> None:
        self.encoder = load(model)
        check_revision(self.encoder, revision)
        self.model = model or self.encoder.name

    def __call__(self, input: Documents) -> Embeddings:
        """Encode passages."""
        return list(encode_passages(self.encoder, input))

    def embed_query(self, input: Documents) -> Embeddings:
        """Encode queries."""
        return list(encode_query(self.encoder, input))

    @staticmethod
    def name() -> str:
        """The name by which Chroma stores it."""
        return "malmoi"

    def default_space(self) -> Any:
        """Vectors are compared by their cosine."""
        return "cosine"

    def get_config(self) -> dict[str, Any]:
        """What a collection keeps."""
        return {"model": self.model, "revision": revision_of(self.encoder)}

    @staticmethod
    def build_from_config(config: dict[str, Any]) -> "MalmoiEmbeddingFunction":
        """Open the model of a stored collection."""
        return MalmoiEmbeddingFunction(config["model"], revision=config["revision"])
