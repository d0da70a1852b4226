"""LlamaIndex: an embedding, a retriever over a corpus, and a reranker."""

from pathlib import Path
from typing import Any

from ..corpus import Corpus
from ..corpus.corpus import Mode
from ..corpus.ranking import Hit
from ..encoders import TextEncoder
from ..errors import require
from ..heads.reranker import Reranker, load_reranker
from . import encode_passages, encode_query, open_encoder

require("llama_index.core", extra="llama-index", purpose="malmoi.integrations.llama_index")

from llama_index.core.base.embeddings.base import BaseEmbedding  # noqa: E402
from llama_index.core.postprocessor.types import BaseNodePostprocessor  # noqa: E402
from llama_index.core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core.schema import MetadataMode, NodeWithScore, TextNode  # noqa: E402


class MalmoiEmbedding(BaseEmbedding):
    """A model as LlamaIndex's embedding, with its prompts for queries and passages."""

    def __init__(self, model: str | Path | TextEncoder | None = None, **options: Any) -> None:
        encoder = open_encoder(model)
        super().__init__(model_name=encoder.name, **options)
        self._encoder = encoder

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex stores it."""
        return "MalmoiEmbedding"

    def _get_query_embedding(self, query: str) -> list[float]:
        row: list[float] = encode_query(self._encoder, query).tolist()
        return row

    async def _aget_query_embedding(self, query: str) -> list[float]:
        return self._get_query_embedding(query)

    def _get_text_embedding(self, text: str) -> list[float]:
        return self._get_text_embeddings([text])[0]

    def _get_text_embeddings(self, texts: list[str]) -> list[list[float]]:
        rows: list[list[float]] = encode_passages(self._encoder, texts).tolist()
        return rows


class CorpusRetriever(BaseRetriever):
    """Searches a corpus by meaning and words."""

    def __init__(self, corpus: Corpus, *, k: int = 10, mode: Mode = "hybrid") -> None:
        self._corpus, self._k, self._mode = corpus, k, mode
        super().__init__()

    def _retrieve(self, query_bundle: Any) -> list[NodeWithScore]:
        hits = self._corpus.search(query_bundle.query_str, self._k, mode=self._mode)
        return [NodeWithScore(node=_node(hit), score=hit.score) for hit in hits]


def _node(hit: Hit) -> TextNode:
    return TextNode(
        id_=f"{hit.id}#{hit.number}", text=hit.text, metadata={"document": hit.id, **hit.metadata}
    )


class MalmoiRerank(BaseNodePostprocessor):
    """A reranker that keeps the nodes which answer best."""

    top_n: int = 5

    def __init__(self, model: str | Path | Reranker | None = None, *, top_n: int = 5) -> None:
        super().__init__(top_n=top_n)
        self._reranker = model if isinstance(model, Reranker) else load_reranker(model)

    def _postprocess_nodes(
        self, nodes: list[NodeWithScore], query_bundle: Any = None
    ) -> list[NodeWithScore]:
        if query_bundle is None or not nodes:
            return nodes[: self.top_n]
        texts = [one.node.get_content(MetadataMode.NONE) for one in nodes]
        ranked = self._reranker.rank(query_bundle.query_str, texts, k=self.top_n)
        return [NodeWithScore(node=nodes[one.index].node, score=one.score) for one in ranked]
