"""The contract of a document store, and the small types that pass through it.

`Corpus` does the rest (encoding, fusion, reranking) over any store that keeps this contract.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from numpy.typing import NDArray

from ..errors import DataError, OptionError, by_number, counted
from ..runtime.precision import check_precision
from . import keywords
from .filters import Filter

Value = str | int | float | bool | None | list[Any]
Vector = NDArray[Any]
# "insert" refuses ids that exist, "update" refuses those that do not, "upsert" takes both.
WriteMode = Literal["insert", "update", "upsert"]


@dataclass(frozen=True)
class Document:
    """A text under an id of the user's choice, with metadata of any fields."""

    id: str
    text: str
    metadata: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True)
class Stored:
    """A document with its vector (width,) in the store's precision."""

    document: Document
    vector: Vector


@dataclass(frozen=True, slots=True)
class ScoredId:
    """A document's id and how well it fits a query."""

    id: str
    score: float


Batch = Sequence[tuple[Stored, Sequence[str]]]  # documents with the words of their texts


@dataclass(frozen=True)
class StoreInfo:
    """What a store was made for; it never changes.

    `words` is what keyword search counts. `probes` are the vectors of a few fixed texts, by which
    another model is recognised even when it has the same name.
    """

    model: str
    dimension: int
    precision: str = "float32"
    words: str = "bigrams"
    probes: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if self.dimension < 1:
            raise OptionError(
                f"dimension is {self.dimension}; expected 1 or more. Use the encoder's dimension."
            )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "StoreInfo":
        """Read what `dataclasses.asdict` and JSON made of one."""
        return cls(**data | {"probes": tuple(tuple(probe) for probe in data["probes"])})


Create = Callable[[], StoreInfo]


@dataclass(frozen=True)
class Progress:
    """How many lines of a file are stored; the fingerprint tells whether the file has changed."""

    source: str
    fingerprint: str
    lines: int


_RENAMED = {  # methods of 0.1 → their names now
    "nearest": "vector_search",
    "matching": "keyword_search",
    "everything": "scan",
    "foresee": "prefetch",
    "settle": "flush",
}


class Store(ABC):
    """Documents, their vectors and their keywords. A write is done whole or not at all."""

    about: StoreInfo

    @abstractmethod
    def __len__(self) -> int:
        """How many documents there are."""

    def write(
        self,
        batch: Sequence[Stored],
        *,
        mode: WriteMode = "upsert",
        progress: Progress | None = None,
    ) -> None:
        """Write documents in one transaction; when it returns they are durable.

        Of several documents with one id the last is written; an insert refuses them. `progress`
        is stored in the same transaction.
        """
        by_id = {stored.document.id: stored for stored in batch}
        if mode == "insert" and len(by_id) < len(batch):
            raise DataError(
                f"{counted(len(batch), 'document')} have {counted(len(by_id), 'different id')}; "
                "expected an id for each. Give every document an id of its own."
            )
        # Analysed before the transaction begins, because other writers wait for it.
        texts = [stored.document.text for stored in by_id.values()]
        words = keywords.cut(texts, self.about.words)
        self._write(list(zip(by_id.values(), words, strict=True)), mode, progress)

    @abstractmethod
    def _write(self, batch: Batch, mode: WriteMode, progress: Progress | None) -> None:
        """Write documents with distinct ids, after `_check_mode`."""

    def prefetch(self, texts: Sequence[str]) -> None:
        """Analyse the words of texts that will be written soon."""
        keywords.prefetch(texts, self.about.words)

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents in one transaction; returns how many of the ids existed."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents under these ids; ids that do not exist are left out."""

    @abstractmethod
    def vectors_for(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those texts that some document has already, by text."""

    @abstractmethod
    def vector_search(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredId]:
        """The documents of highest cosine with a unit float32 vector (dim,), best first."""

    @abstractmethod
    def keyword_search(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredId]:
        """The documents that share words with the query, best first by BM25."""

    @abstractmethod
    def fields(self) -> list[str]:
        """The names of all metadata fields that any document has had."""

    @abstractmethod
    def scan(self) -> Iterator[Stored]:
        """Yield every document with its vector, in the order of writing."""

    @abstractmethod
    def sample(self, count: int) -> list[str]:
        """The texts of documents from all over the store, the same ones every time."""

    def progress(self, source: str) -> Progress | None:
        """How far a file has been read in, where the store remembers it."""
        return None

    def flush(self) -> None:
        """Bring whatever is derived (an index file, a graph) up to date; may take a while."""
        return

    @abstractmethod
    def close(self) -> None:
        """Close the store; it cannot be used afterwards."""

    @staticmethod
    def _check_mode(count: int, known: int, mode: WriteMode) -> None:
        """Raise when an insert meets ids that exist, or an update ids that do not."""
        if mode == "insert" and known:
            raise DataError(
                f"{known} of {counted(count, 'id')} {by_number(known, 'is', 'are')} in the corpus "
                "already; expected new ones. Use update to replace documents, or other ids."
            )
        new = count - known
        if mode == "update" and new:
            raise DataError(
                f"{new} of {counted(count, 'id')} {by_number(new, 'is', 'are')} not in the corpus; "
                "expected ids that are. Use add for new documents."
            )

    if not TYPE_CHECKING:  # a type checker sees the new names only

        def __getattr__(self, name: str) -> Any:
            if name in _RENAMED:
                return getattr(self, _RENAMED[name])
            raise AttributeError(f"{type(self).__name__!r} has no attribute {name!r}")
