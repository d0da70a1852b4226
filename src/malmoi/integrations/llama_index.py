"""LlamaIndex: an embedding, a vector store and a retriever over a corpus, and a reranker."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..corpus import Corpus
from ..corpus.corpus import Mode
from ..corpus.filters import OPERATORS, Filter, atom
from ..corpus.ranking import WEIGHTS, Hit
from ..corpus.store import Document
from ..encoders import TextEncoder
from ..errors import OptionError, require
from ..heads.reranker import Reranker, load_reranker
from . import encode_passages, encode_query, open_encoder

require("llama_index.core", extra="llama-index", purpose="malmoi.integrations.llama_index")

from llama_index.core.base.embeddings.base import BaseEmbedding  # noqa: E402
from llama_index.core.postprocessor.types import BaseNodePostprocessor  # noqa: E402
from llama_index.core.retrievers import BaseRetriever  # noqa: E402
from llama_index.core.schema import (  # noqa: E402
    BaseNode,
    MetadataMode,
    NodeWithScore,
    TextNode,
)
from llama_index.core.vector_stores.types import (  # noqa: E402
    BasePydanticVectorStore,
    FilterCondition,
    MetadataFilter,
    MetadataFilters,
    VectorStoreQuery,
    VectorStoreQueryResult,
)
from llama_index.core.vector_stores.utils import (  # noqa: E402
    metadata_dict_to_node,
    node_to_metadata_dict,
)

_NODE = "_node"  # the field with the rest of a node; an object, by which nothing is filtered
_SOURCE = "ref_doc_id"
_MODES: dict[str, Mode] = {
    "hybrid": "hybrid", "sparse": "keyword", "text_search": "keyword"
}  # fmt: skip


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


class MalmoiVectorStore(BasePydanticVectorStore):
    """A corpus as a vector store: each node is a passage.

    The corpus encodes nodes and queries with its own model, so that vectors of another one, which
    an index may have made, are never compared. `mode` is how LlamaIndex's mode "default" searches.
    """

    stores_text: bool = True
    is_embedding_query: bool = False
    mode: Mode = "hybrid"
    _corpus: Corpus

    def __init__(self, corpus: Corpus, *, mode: Mode = "hybrid") -> None:
        super().__init__(mode=mode)
        # Nodes have been split already.
        self._corpus = Corpus(corpus.store, corpus.encoder, splitter=lambda source: ())

    @classmethod
    def class_name(cls) -> str:
        """The name by which LlamaIndex stores it."""
        return "MalmoiCorpusVectorStore"

    @property
    def client(self) -> Corpus:
        """The corpus."""
        return self._corpus

    def add(self, nodes: Sequence[BaseNode]) -> list[str]:
        """Put nodes into the corpus, replacing those with the same ids."""
        self._corpus.upsert(
            Document(
                node.node_id,
                node.get_content(MetadataMode.NONE),
                node.metadata
                | ({_SOURCE: node.ref_doc_id} if node.ref_doc_id else {})
                | {_NODE: _rest(node)},
            )
            for node in nodes
        )
        return [node.node_id for node in nodes]

    def get_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> list[BaseNode]:
        """Give the nodes that are there, by their ids or by conditions on their metadata."""
        if node_ids is None:
            node_ids = self._ids(_filters(filters))
        elif filters is not None:
            raise OptionError("both ids and filters were given; expected one of them.")
        found = (self._corpus.get(one) for one in node_ids)
        return [_node(Hit(one.id, one.text, 0.0, one.metadata)) for one in found if one]

    def delete(self, ref_doc_id: str) -> None:
        """Delete the nodes of a source document."""
        self._corpus.delete(self._ids([Filter(_SOURCE, "=", atom(ref_doc_id))]))

    def delete_nodes(
        self, node_ids: list[str] | None = None, filters: MetadataFilters | None = None
    ) -> None:
        """Delete nodes, by their ids or by conditions on their metadata."""
        if (node_ids is None) == (filters is None):
            raise OptionError("ids and filters, or none, were given; expected one of them.")
        self._corpus.delete(self._ids(_filters(filters)) if node_ids is None else node_ids)

    def clear(self) -> None:
        """Delete everything in the corpus."""
        self._corpus.delete(self._ids([]))

    def query(self, query: VectorStoreQuery) -> VectorStoreQueryResult:
        """Find the nodes that fit best; what cannot be honoured is refused."""
        asked = query.mode.value
        if asked != "default" and asked not in _MODES:
            raise OptionError(f"mode is {asked!r}; known are default, {', '.join(_MODES)}.")
        if not query.query_str:
            raise OptionError("the query has no query_str; expected its text. Add it.")
        for name in ("node_ids", "embedding_field", "mmr_threshold", "sparse_top_k"):
            if getattr(query, name):
                raise OptionError(f"{name} is set, which a corpus cannot honour. Leave it out.")
        filters = _filters(query.filters)
        if query.doc_ids:
            if len(query.doc_ids) > 1:
                raise OptionError(f"doc_ids are {len(query.doc_ids)}; expected at most one.")
            filters.append(Filter(_SOURCE, "=", atom(query.doc_ids[0])))
        alpha, mode = query.alpha, self.mode if asked == "default" else _MODES[asked]
        k = (query.hybrid_top_k if mode == "hybrid" else None) or query.similarity_top_k
        weights = WEIGHTS if alpha is None else {"dense": alpha, "keyword": 1 - alpha}
        hits = self._corpus.search(query.query_str, k, mode=mode, filter=filters, weights=weights)
        nodes = [_node(hit) for hit in hits]
        return VectorStoreQueryResult(
            nodes=nodes,
            similarities=[hit.score for hit in hits],
            ids=[node.node_id for node in nodes],
        )

    def _ids(self, filters: Sequence[Filter]) -> list[str]:
        found = (one.document for one in self._corpus.store.documents())
        return [one.id for one in found if all(own.fits(one.fields) for own in filters)]


def _rest(node: BaseNode) -> dict[str, str]:
    whole = node_to_metadata_dict(node, remove_text=True)
    return {name: whole[name] for name in ("_node_content", "_node_type")}


def _node(hit: Hit) -> BaseNode:
    """Give a node as it was put in, or a passage of another document as a node."""
    about = dict(hit.metadata)
    kept: Any = about.pop(_NODE, None)
    if kept is not None:
        return metadata_dict_to_node(kept, text=hit.text)
    return TextNode(
        id_=f"{hit.id}#{hit.number}", text=hit.text, metadata={"document": hit.id, **about}
    )


def _filters(given: MetadataFilters | None) -> list[Filter]:
    """Translate LlamaIndex's conditions; those that a corpus does not have are refused."""
    if given is None:
        return []
    joined = given.condition or FilterCondition.AND
    if joined is not FilterCondition.AND:
        raise OptionError(f"conditions are joined by {joined.value}; expected and.")
    found: list[Filter] = []
    for one in given.filters:
        if not isinstance(one, MetadataFilter):
            found += _filters(one)
            continue
        operator = {"==": "="}.get(one.operator.value, one.operator.value)
        if operator not in OPERATORS or not isinstance(one.value, str | int | float):
            raise OptionError(
                f"a filter compares by {one.operator.value}; known are {' '.join(OPERATORS)}, with "
                "text or a number."
            )
        found.append(Filter(one.key, operator, atom(one.value)))
    return found


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
