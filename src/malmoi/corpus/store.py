"""What a store of documents offers, whatever keeps them; and the small types that pass through.

`Corpus` does the rest (encoding, fusion, reranking) over any store that keeps this contract.

What a write asks of its ids, the same in every store.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from numpy.typing import NDArray

from ..errors import DataError, OptionError, by_number, counted
from ..runtime.precision import check_precision
from .filters import Filter

Value = str | int | float | bool | None | list[Any]
Vector = NDArray[Any]
# What to do when a written document's id is there already, or is not.
WriteMode = Literal["new", "known", "any"]


@dataclass(frozen=True)
class Document:
    """A text under an id of the user's choice, with whatever fields belong to it."""

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


@dataclass(frozen=True)
class StoreInfo:
    """What a store was made for; it stays as it is for the store's whole life.

    `words` is how texts are cut for keyword search. `probes` are the vectors of a few fixed
    texts, by which another model is known even when it has the same name.
    """

    model: str
    dimension: int
    precision: str = "float32"
    words: str = "bigrams"
    probes: tuple[tuple[float, ...], ...] = ()

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if self.dimension < 1:
            raise OptionError(f"dimension is {self.dimension}; expected 1 or more. Correct it.")


@dataclass(frozen=True)
class Progress:
    """How many lines of a file have been taken in; the fingerprint is the file's as it was."""

    source: str
    fingerprint: str
    lines: int


class Store(ABC):
    """Documents, their vectors and their words. Every write is whole or not at all."""

    about: StoreInfo

    @abstractmethod
    def __len__(self) -> int:
        """How many documents there are."""

    @abstractmethod
    def write(
        self, batch: Sequence[Stored], *, rule: WriteMode = "any", progress: Progress | None = None
    ) -> None:
        """Put documents in, in one transaction; when it returns they are there for good.

        A document whose id is known replaces that one. `rule` "new" refuses ids that are known,
        "known" those that are not. `progress` is remembered in the same transaction.
        """

    def foresee(self, texts: Sequence[str]) -> None:
        """Hear of texts that will be written soon, and do ahead what needs no vectors."""
        return

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> int:
        """Take documents out, in one transaction; gives how many were there."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents under these ids; those that are not there are left out."""

    @abstractmethod
    def vectors_for(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those texts that some document has already, by text."""

    @abstractmethod
    def nearest(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredId]:
        """The documents of highest cosine with a unit float32 vector (dim,), best first."""

    @abstractmethod
    def matching(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredId]:
        """The documents that share words with the query, best first by BM25."""

    @abstractmethod
    def fields(self) -> list[str]:
        """The names of all metadata fields that any document has had."""

    @abstractmethod
    def everything(self) -> Iterator[Stored]:
        """Every document with its vector, in the order of writing."""

    def progress(self, source: str) -> Progress | None:
        """How far a file has been taken in, where the store remembers it."""
        return None

    def settle(self) -> None:
        """Bring whatever is derived (an index file, a graph) up to date; may take a while."""
        return

    @abstractmethod
    def sample(self, count: int) -> list[str]:
        """The texts of some documents from all over the store, the same ones every time."""

    @abstractmethod
    def close(self) -> None:
        """Let go of the store; nothing can be asked of it afterwards."""


def last_of_each(batch: Sequence[Stored], rule: WriteMode) -> list[Stored]:
    """Keep the last document of each id; new ones may not repeat an id at all."""
    by_id = {stored.document.id: stored for stored in batch}
    if rule == "new" and len(by_id) < len(batch):
        raise DataError(
            f"{counted(len(batch), 'document')} have {counted(len(by_id), 'different id')}; "
            "expected an id for each. Give every document an id of its own."
        )
    return list(by_id.values())


def check_mode(count: int, known: int, rule: WriteMode) -> None:
    """Raise when ids that must be new are known, or the other way round."""
    if rule == "new" and known:
        raise DataError(
            f"{known} of {counted(count, 'id')} {by_number(known, 'is', 'are')} in the corpus "
            "already; expected new ones. "
            "Use update to replace documents, or other ids."
        )
    new = count - known
    if rule == "known" and new:
        raise DataError(
            f"{new} of {counted(count, 'id')} {by_number(new, 'is', 'are')} not in the corpus; "
            "expected known ones. Use add for new documents."
        )
