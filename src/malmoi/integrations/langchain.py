"""LangChain: embeddings, a vector store over a corpus (and its retriever), a reranker."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..corpus import Corpus
from ..corpus.corpus import Mode
from ..corpus.ranking import Hit
from ..encoders import TextEncoder
from ..errors import OptionError, require
from ..heads.reranker import Reranker, load_reranker
from ..io.fingerprint import hash_text
from . import encode_passages, encode_query, open_encoder

require("langchain_core", extra="langchain", purpose="malmoi.integrations.langchain")

from langchain_core.documents import BaseDocumentCompressor, Document  # noqa: E402
from langchain_core.embeddings import Embeddings  # noqa: E402
from langchain_core.vectorstores import VectorStore  # noqa: E402
from langchain_core.vectorstores.utils import maximal_marginal_relevance  # noqa: E402


class MalmoiEmbeddings(Embeddings):
    """A model as LangChain's Embeddings, with its prompts for queries and passages."""

    def __init__(self, model: str | Path | TextEncoder | None = None) -> None:
        self.encoder = open_encoder(model)

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Encode passages."""
        rows: list[list[float]] = encode_passages(self.encoder, texts).tolist()
        return rows

    def embed_query(self, text: str) -> list[float]:
        """Encode a query."""
        row: list[float] = encode_query(self.encoder, text).tolist()
        return row


class CorpusVectorStore(VectorStore):
    """A corpus as a vector store: `as_retriever()` searches it by meaning and words.

    What is found are passages. The first of a document has the document's id, the others have
    `#passage=` and their number behind it; metadata have `passage` (the number), and where they are
    known `headings`, `page`, `title` and `source`.
    """

    def __init__(self, corpus: Corpus, *, mode: Mode = "hybrid") -> None:
        self.corpus, self.mode = corpus, mode

    @property
    def embeddings(self) -> MalmoiEmbeddings:
        """The corpus's encoder."""
        return MalmoiEmbeddings(self.corpus.encoder)

    def add_texts(
        self,
        texts: Iterable[str],
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: Sequence[str | None] | None = None,
    ) -> list[str]:
        """Put texts into the corpus; a text without an id gets one from what it says."""
        listed = list(texts)
        given = ids if ids is not None else [None] * len(listed)
        made = [one or hash_text(text) for one, text in zip(given, listed, strict=True)]
        rows = zip(made, listed, metadatas or [{}] * len(listed), strict=True)
        self.corpus.upsert({**about, "id": one, "text": text} for one, text, about in rows)
        return made

    def delete(self, ids: list[str] | None = None) -> bool:
        """Delete documents by their ids; all of them only by deleting the file."""
        if ids is None:
            raise OptionError("no ids were given; expected those to delete. Name them.")
        return self.corpus.delete(ids) == len(ids)

    def get_by_ids(self, ids: Sequence[str]) -> list[Document]:
        """Give the documents that are there."""
        found = (self.corpus.get(one) for one in ids)
        return [
            Document(id=one.id, page_content=one.text, metadata=dict(one.metadata))
            for one in found
            if one is not None
        ]

    def similarity_search(
        self,
        query: str,
        k: int = 4,
        *,
        filter: Mapping[str, Any] | str | None = None,
        mode: Mode | None = None,
    ) -> list[Document]:
        """Find the passages that fit best."""
        found = self.similarity_search_with_score(query, k, filter=filter, mode=mode)
        return [document for document, _ in found]

    def _similarity_search_with_relevance_scores(
        self,
        query: str,
        k: int = 4,
        *,
        filter: Mapping[str, Any] | str | None = None,
        mode: Mode | None = None,
    ) -> list[tuple[Document, float]]:
        """Find passages with their relevance, 0 to 1: what `score_threshold` is compared with."""
        hits = self.corpus.search(query, k, mode=mode or self.mode, filter=filter)
        return [(_document(hit), hit.relevance) for hit in hits]

    def max_marginal_relevance_search(
        self,
        query: str,
        k: int = 4,
        fetch_k: int = 20,
        lambda_mult: float = 0.5,
        *,
        filter: Mapping[str, Any] | str | None = None,
        mode: Mode | None = None,
    ) -> list[Document]:
        """Choose k of the first fetch_k passages: near the query, and not near each other."""
        hits = self.corpus.search(query, fetch_k, mode=mode or self.mode, filter=filter)
        if not hits:
            return []
        encoder = self.corpus.encoder
        vectors = encode_passages(encoder, [hit.text for hit in hits])
        chosen = maximal_marginal_relevance(
            encode_query(encoder, query), list(vectors), lambda_mult, k
        )
        return [_document(hits[i]) for i in chosen]

    def similarity_search_with_score(
        self,
        query: str,
        k: int = 4,
        *,
        filter: Mapping[str, Any] | str | None = None,
        mode: Mode | None = None,
    ) -> list[tuple[Document, float]]:
        """Find the passages that fit best, with scores that grow with similarity."""
        hits = self.corpus.search(query, k, mode=mode or self.mode, filter=filter)
        return [(_document(hit), hit.score) for hit in hits]

    @classmethod
    def from_texts(
        cls,
        texts: list[str],
        embedding: MalmoiEmbeddings,
        metadatas: list[dict[str, Any]] | None = None,
        *,
        ids: list[str] | None = None,
        path: str | Path,
    ) -> "CorpusVectorStore":
        """Make a corpus file at `path` from texts."""
        if not isinstance(embedding, MalmoiEmbeddings):
            raise OptionError("a corpus needs malmoi's encoder; expected MalmoiEmbeddings.")
        store = cls(Corpus.open(path, embedding.encoder))
        store.add_texts(texts, metadatas, ids=ids)
        return store


def _document(hit: Hit) -> Document:
    own = {"title": hit.title, "source": hit.source, "page": hit.page}
    about: dict[str, Any] = {name: value for name, value in own.items() if value}
    if hit.headings:
        about["headings"] = list(hit.headings)
    id = f"{hit.id}#passage={hit.number}" if hit.number else hit.id
    about |= {"passage": hit.number} | dict(hit.metadata)
    return Document(id=id, page_content=hit.text, metadata=about)


class MalmoiReranker(BaseDocumentCompressor):
    """A reranker that keeps the documents which answer best."""

    model: Any = None
    top_n: int = 5

    def model_post_init(self, context: Any) -> None:
        """Open the model."""
        if not isinstance(self.model, Reranker):
            self.model = load_reranker(self.model)

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: Any = None
    ) -> list[Document]:
        """Give the best documents, the best first, with `relevance_score` in their metadata."""
        texts = [one.page_content for one in documents]
        ranked = self.model.rank(query, texts, k=self.top_n) if texts else []
        return [
            documents[one.index].model_copy(
                update={"metadata": documents[one.index].metadata | {"relevance_score": one.score}}
            )
            for one in ranked
        ]
