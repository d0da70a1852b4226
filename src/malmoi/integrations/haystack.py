"""Haystack: embedders, a retriever over a corpus, and a ranker."""

from dataclasses import replace
from typing import Any

from ..corpus import Corpus
from ..corpus.corpus import Mode
from ..encoders import TextEncoder
from ..errors import require
from ..heads.reranker import Reranker, load_reranker
from . import encode_passages, encode_query, open_encoder

require("haystack", extra="haystack", purpose="malmoi.integrations.haystack")

from haystack import Document, component  # noqa: E402


@component
class MalmoiTextEmbedder:
    """Turns a query into a vector."""

    def __init__(self, model: str | TextEncoder | None = None) -> None:
        self.encoder = open_encoder(model)

    @component.output_types(embedding=list[float])
    def run(self, text: str) -> dict[str, list[float]]:
        """Encode it, with the model's prompt for queries."""
        return {"embedding": encode_query(self.encoder, text).tolist()}


@component
class MalmoiDocumentEmbedder:
    """Gives documents their vectors."""

    def __init__(self, model: str | TextEncoder | None = None) -> None:
        self.encoder = open_encoder(model)

    @component.output_types(documents=list[Document])
    def run(self, documents: list[Document]) -> dict[str, list[Document]]:
        """Encode them, with the model's prompt for passages."""
        rows = encode_passages(self.encoder, [one.content or "" for one in documents])
        pairs = zip(documents, rows.tolist(), strict=True)
        return {"documents": [replace(one, embedding=row) for one, row in pairs]}


@component
class MalmoiRetriever:
    """Searches a corpus by meaning and words."""

    def __init__(self, corpus: Corpus, *, top_k: int = 10, mode: Mode = "hybrid") -> None:
        self.corpus, self.top_k, self.mode = corpus, top_k, mode

    @component.output_types(documents=list[Document])
    def run(self, query: str, top_k: int | None = None) -> dict[str, list[Document]]:
        """Find the passages that fit best."""
        hits = self.corpus.search(query, top_k or self.top_k, mode=self.mode)
        found = [
            Document(
                id=f"{hit.id}#{hit.number}",
                content=hit.text,
                meta={"document": hit.id, **hit.metadata},
                score=hit.score,
            )
            for hit in hits
        ]
        return {"documents": found}


@component
class MalmoiRanker:
    """Sorts documents by how well they answer a query."""

    def __init__(self, model: str | Reranker | None = None, *, top_k: int = 10) -> None:
        self.reranker = model if isinstance(model, Reranker) else load_reranker(model)
        self.top_k = top_k

    @component.output_types(documents=list[Document])
    def run(
        self, query: str, documents: list[Document], top_k: int | None = None
    ) -> dict[str, list[Any]]:
        """Give the best documents, the best first, with their scores."""
        texts = [one.content or "" for one in documents]
        ranked = self.reranker.rank(query, texts, k=top_k or self.top_k) if texts else []
        return {"documents": [replace(documents[one.index], score=one.score) for one in ranked]}
