"""The contract of a document store, and the small types that pass through it.

A document is stored as passages, and a passage has several vectors: its own, one for each of its
sentences, and one of the headings above it. `Corpus` does the rest (splitting, encoding, fusion,
reranking) over any store that keeps this contract.
"""

import datetime
import hashlib
import json
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..documents import Passage
from ..errors import DataError, OptionError, by_number, counted
from ..runtime.pooling import check_precision, from_int8
from ..text.cleanup import as_text, mend_surrogates
from ..types import Floats
from . import keywords
from .filters import Filter

Value = str | int | float | bool | None | list[Any]
Vector = NDArray[Any]
# "insert" refuses ids that exist, "update" refuses those that do not, "upsert" takes both.
WriteMode = Literal["insert", "update", "upsert"]
MOST_VECTORS = 64  # of one passage


@dataclass(frozen=True)
class Document:
    """A text under an id of the user's choice, with metadata of any fields.

    Attributes:
        id: for a file, its path relative to the folder that was indexed.
        text: the whole text; that of a file is its passages, with an empty line between them.
        metadata: by these fields searches are filtered.
        title: counts more than the text.
        source: where the document is from, for people to open.
        type: "pdf", "docx", ...; empty for a document that is not from a file.
        modified: when the file was changed, in seconds since the epoch.
    """

    id: str
    text: str
    metadata: Mapping[str, Value] = field(default_factory=dict)
    title: str = ""
    source: str = ""
    type: str = ""
    modified: float | None = None

    @property
    def fields(self) -> dict[str, Value]:
        """What searches are filtered by: the metadata, and of a file its type, folder and date.

        The date is what the file itself says, or else the day on which it was changed.
        """
        if not self.type:
            return dict(self.metadata)
        parts = self.id.split("/")[:-1]
        folders: list[Any] = ["/".join(parts[: i + 1]) for i in range(len(parts))]
        found: dict[str, Value] = {"type": self.type, "folder": folders}
        if self.modified:
            found["date"] = datetime.date.fromtimestamp(self.modified).isoformat()
        return {**found, **self.metadata}


class PassageKey(NamedTuple):
    """A passage is known by its document's id and its number in it, from 0."""

    document: str
    number: int = 0


class PassageVectors(NamedTuple):
    """What a passage is compared by.

    Attributes:
        vectors: (n, width), its own first, in the store's precision.
        tokens: its packed token vectors; None where there are none.
    """

    vectors: Vector
    tokens: bytes | None = None


TitledPassage = tuple[str, Passage]  # the title of its document, and the passage


@dataclass(frozen=True)
class StoredDocument:
    """A document as it is stored.

    Attributes:
        document: its text is kept apart only if it is not that of its passages.
        passages: in their order; a vector (width,) instead makes the whole text one passage.
        vectors: of each passage (n, width), its own first, in the store's precision; empty until
            the passages are encoded.
        tokens: the packed token vectors of each passage, or None; empty if no passage has any.
        file: the resolved path of the file it is from; empty if it was added from a program.
        digest: by which a later sync tells whether the document has changed.
    """

    document: Document
    passages: tuple[Passage, ...]
    vectors: tuple[Vector, ...] = ()
    file: str = ""
    digest: str = ""
    tokens: tuple[bytes | None, ...] = ()

    def __post_init__(self) -> None:
        if isinstance(self.passages, np.ndarray):
            object.__setattr__(self, "vectors", (np.atleast_2d(self.passages),))
            object.__setattr__(self, "passages", (Passage(self.document.text),))

    @property
    def vector(self) -> Vector:
        """The vector (width,) of the first passage."""
        first: Vector = self.vectors[0][0]
        return first

    @property
    def compared(self) -> tuple[PassageVectors, ...]:
        """What each passage is compared by."""
        tokens = self.tokens or (None,) * len(self.vectors)
        return tuple(map(PassageVectors, self.vectors, tokens))

    def with_vectors(self, found: Sequence[PassageVectors]) -> "StoredDocument":
        """The same with what its passages are compared by."""
        tokens = tuple(one.tokens for one in found)
        kept = () if all(one is None for one in tokens) else tokens
        return replace(self, vectors=tuple(one.vectors for one in found), tokens=kept)

    @cached_property
    def passage_digests(self) -> tuple[bytes, ...]:
        """A hash for each passage of everything that its vectors are made of."""
        return tuple(passage_digest(self.document.title, one) for one in self.passages)

    def with_digest(self) -> "StoredDocument":
        """The same with the hash of all that is stored of it."""
        one = self.document
        parts = [one.id, one.title, one.source, one.type, self.file]
        parts += [json.dumps(one.metadata, sort_keys=True), "" if self.file else one.text]
        parts += map(repr, self.passages)
        text = "\0".join(parts).encode("utf-8", "surrogatepass")
        return replace(self, digest=hashlib.blake2b(text, digest_size=16).hexdigest())


@dataclass(frozen=True, slots=True)
class ScoredPassage:
    """A passage, by its document's id and its number, and how well it fits a query.

    `hangul` is the share of its letters that are Hangul, in percent, where that is known, and
    `best` the number of its vector that is nearest to the query's.
    """

    id: str
    score: float
    number: int = 0
    hangul: int | None = None
    best: int = 0

    @property
    def key(self) -> PassageKey:
        """What the passage is known by."""
        return PassageKey(self.id, self.number)


@dataclass(frozen=True)
class PassageWithDocument:
    """A passage with its document, whose text is left empty."""

    passage: Passage
    document: Document


Batch = Sequence[
    tuple[StoredDocument, Sequence[Sequence[str]]]
]  # documents, and the words of passages


@dataclass(frozen=True)
class StoreInfo:
    """What a store was made for; it never changes.

    Attributes:
        model: the name of the encoder.
        dimension: of its vectors, as they are stored.
        precision: of the vectors.
        words: what keyword search counts.
        probes: the vectors of a few fixed texts, by which another model is recognised even when
            it has the same name.
        prompts: the names of the encoder's prompts for queries and for passages; an empty name
            means no prompt. None in a corpus of 0.1, whose texts had the encoder's default prompt.
        tokens: the map to token vectors, as `TokenMap.to_text` writes it; empty in a corpus
            without them.
    """

    model: str
    dimension: int
    precision: str = "float32"
    words: str = "bigrams"
    probes: tuple[tuple[float, ...], ...] = ()
    prompts: tuple[str, str] | None = None
    tokens: str = ""

    def __post_init__(self) -> None:
        check_precision(self.precision)
        if self.dimension < 1:
            raise OptionError(
                f"dimension is {self.dimension}; expected 1 or more. Use the encoder's dimension."
            )

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> "StoreInfo":
        """Read what `dataclasses.asdict` and JSON made of one."""
        prompts = data.get("prompts")
        probes = tuple(tuple(probe) for probe in data["probes"])
        return cls(**data | {"probes": probes, "prompts": tuple(prompts) if prompts else None})

    def to_json(self) -> str:
        """Write it for `from_json`; without token vectors as earlier versions read it."""
        return json.dumps({k: v for k, v in asdict(self).items() if k != "tokens" or v})

    def floats(self, vectors: Vector) -> Floats:
        """Turn stored vectors (…, width) into unit ones in float32, (…, dim)."""
        if self.precision == "int8":
            return from_int8(vectors)
        if self.precision == "binary":
            bits = np.unpackbits(vectors, axis=-1, count=self.dimension)
            signs: Floats = (bits.astype(np.float32) * 2 - 1) / np.float32(np.sqrt(self.dimension))
            return signs
        return np.asarray(vectors, dtype=np.float32)


Create = Callable[[], StoreInfo]


@dataclass(frozen=True)
class Progress:
    """How many lines of a file are stored; the fingerprint tells whether the file has changed."""

    source: str
    fingerprint: str
    lines: int


@dataclass(frozen=True)
class SyncedFile:
    """A file whose documents are in the store.

    Attributes:
        path: resolved.
        root: the resolved folder that it was found in.
        id: with which the ids of its documents start.
        fingerprint: its size, time and the settings it was read with; empty until all of its
            documents are stored.
    """

    path: str
    root: str
    id: str
    fingerprint: str


def context_of(title: str, passage: Passage) -> str:
    """What is above a passage: the title of its document and its headings.

    >>> context_of("휴가", Passage("15일이다.", ("휴가", "연차")))
    '휴가 연차'
    """
    return " ".join(dict.fromkeys(part for part in (title, *passage.headings) if part))


def searched_text(title: str, passage: Passage) -> str:
    """The text whose words are searched for: a passage with what is above it."""
    above = context_of(title, passage)
    return f"{above}\n{passage.text}" if above else passage.text


def vector_texts(title: str, passage: Passage) -> list[str]:
    """The texts whose vectors a passage has: all of it, its sentences, and what is above.

    A passage of one sentence with nothing above it has one vector.

    >>> vector_texts("휴가", Passage("15일이다. 더 길다.", (), None, ((0, 6), (7, 13))))
    ['휴가\\n15일이다. 더 길다.', '15일이다.', '더 길다.', '휴가']
    """
    above = context_of(title, passage)
    spans = sentence_spans(passage)
    alone = len(spans) < 2 and not above
    sentences = [] if alone else [passage.text[start:end] for start, end in spans]
    return [searched_text(title, passage), *sentences, *([above] if above else ())]


def sentence_spans(passage: Passage) -> list[tuple[int, int]]:
    """The sentences that have vectors; neighbours are joined where there are too many."""
    spans = list(passage.sentences) or [(0, len(passage.text))]
    step = -(-len(spans) // (MOST_VECTORS - 2))
    groups = (spans[i : i + step] for i in range(0, len(spans), step))
    return [(group[0][0], group[-1][1]) for group in groups]


def passage_digest(title: str, passage: Passage) -> bytes:
    """A hash of everything that a passage's vectors are made of."""
    text = "\0".join(vector_texts(title, passage)).encode("utf-8", "surrogatepass")
    return hashlib.blake2b(text, digest_size=16).digest()


def rows_for(k: int) -> int:
    """How many vectors a search looks at for `k` passages.

    A passage has several vectors, and its score is not that of its best one alone: more rows are
    looked at than passages are wanted, but each costs a hundred proposals.
    """
    return max(k + 20, min(4 * k, 80))


def passage_score(cosines: Floats) -> tuple[float, int]:
    """The score of a passage by the cosines (n,) of its vectors, and the number of the best."""
    best = int(cosines.argmax())
    return float(cosines[0] + cosines[best]) / 2, best


_HANGUL, _LETTER = re.compile("[가-힣]"), re.compile("[A-Za-z가-힣]")


def hangul_share(text: str) -> int | None:
    """The share of a text's letters that are Hangul, in percent; None without letters.

    >>> hangul_share("VPN을 켠다"), hangul_share("VPN"), hangul_share("123")
    (50, 0, None)
    """
    letters = len(_LETTER.findall(text))
    return round(100 * len(_HANGUL.findall(text)) / letters) if letters else None


@dataclass(frozen=True)
class DocumentInfo:
    """A line of the list of documents; its text is left empty."""

    document: Document
    passages: int


def checked_document(given: Document | Mapping[str, Any], number: int) -> Document:
    """Make a Document of what was given, or say what is wrong with document `number`."""
    where = f"document {number}"
    about: dict[str, Any] = {}
    if isinstance(given, Document):
        id, text, metadata = given.id, given.text, dict(given.metadata)
        about = {"source": given.source, "type": given.type, "modified": given.modified}
        title = given.title
    elif isinstance(given, Mapping) and {"id", "text"} <= given.keys():
        metadata = {key: value for key, value in given.items() if key not in ("id", "text")}
        id, text = given["id"], given["text"]
        title = str(metadata["title"]) if isinstance(metadata.get("title"), str) else ""
    else:
        raise DataError(
            f"{where} is {type(given).__name__} without an id and a text; expected a Document or "
            'a mapping with "id" and "text". Give it both.'
        )
    id = as_text(str(id) if isinstance(id, int) else id, where=f"the id of {where}")
    if not id:
        raise DataError(f"{where} has an empty id; expected some text. Give it one.")
    text = mend_surrogates(as_text(text, where=f"the text of {where}"))
    checked = _checked_metadata(metadata, where)
    return Document(mend_surrogates(id), text, checked, mend_surrogates(title), **about)


def _checked_metadata(metadata: dict[Any, Any], where: str) -> dict[str, Any]:
    if not metadata:  # as in most files of plain text
        return {}
    try:
        written = mend_surrogates(json.dumps(metadata, ensure_ascii=False, allow_nan=False))
        read: dict[str, Any] = json.loads(written)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"the fields of {where} cannot be written as JSON; expected text, finite numbers, "
            "true, false, null and lists of these. Turn other values into text."
        ) from error
    return read


class Store(ABC):
    """Documents, their vectors and their keywords. A write is done whole or not at all."""

    about: StoreInfo

    @abstractmethod
    def __len__(self) -> int:
        """How many documents there are."""

    def write(
        self,
        batch: Sequence[StoredDocument],
        *,
        mode: WriteMode = "upsert",
        progress: Progress | None = None,
        delete: Sequence[str] = (),
        files: Sequence[SyncedFile] = (),
    ) -> None:
        """Write documents in one transaction; when it returns they are durable.

        Of several documents with one id the last is written; an insert refuses them. In the same
        transaction the documents `delete` are deleted, and `progress` and `files` are stored.
        """
        by_id = {stored.document.id: stored for stored in batch}
        if mode == "insert" and len(by_id) < len(batch):
            raise DataError(
                f"{counted(len(batch), 'document')} have {counted(len(by_id), 'different id')}; "
                "expected an id for each. Give every document an id of its own."
            )
        # Analysed before the transaction begins, because other writers wait for it.
        texts = [
            searched_text(one.document.title, passage)
            for one in by_id.values()
            for passage in one.passages
        ]
        words = iter(keywords.cut(texts, self.about.words))
        cut = [(one, [next(words) for _ in one.passages]) for one in by_id.values()]
        self._write(cut, mode, progress, delete, files)

    @abstractmethod
    def _write(
        self,
        batch: Batch,
        mode: WriteMode,
        progress: Progress | None,
        delete: Sequence[str],
        files: Sequence[SyncedFile],
    ) -> None:
        """Write documents with distinct ids, after `_check_mode`."""

    def prefetch(self, passages: Sequence[TitledPassage]) -> None:
        """Analyse the words of passages that will be written soon."""
        keywords.prefetch([searched_text(*one) for one in passages], self.about.words)

    def query_terms(self, query: str) -> keywords.QueryTerms:
        """The keywords of a query, cut as those of the passages were."""
        return keywords.query_terms(query, self.about.words)

    @abstractmethod
    def delete(self, ids: Sequence[str]) -> int:
        """Delete documents in one transaction; returns how many of the ids existed."""

    @abstractmethod
    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents under these ids; ids that do not exist are left out."""

    @abstractmethod
    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        """The digests of those documents that are there."""

    @abstractmethod
    def passages(self, keys: Sequence[PassageKey]) -> dict[PassageKey, PassageWithDocument]:
        """The passages under these keys; keys that do not exist are left out."""

    @abstractmethod
    def vectors_for(self, digests: Sequence[bytes]) -> dict[bytes, PassageVectors]:
        """What passages are compared by that some document has already, by their digest."""

    @abstractmethod
    def tokens_of(self, keys: Sequence[PassageKey]) -> dict[PassageKey, bytes]:
        """The packed token vectors of those passages that have them."""

    @abstractmethod
    def vector_search(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredPassage]:
        """The passages of highest cosine with a unit float32 vector (dim,), best first.

        A passage's score is the mean of its own vector's cosine and of the best one of all its
        vectors (its sentences and headings).
        """

    @abstractmethod
    def vector_scores(self, vector: Vector, keys: Sequence[PassageKey]) -> list[ScoredPassage]:
        """Score given passages as `vector_search` does, in any order."""

    @abstractmethod
    def keyword_search(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredPassage]:
        """The passages that share words with the query, best first by BM25."""

    def keyword_candidates(
        self,
        words: Sequence[str],
        k: int,
        keys: Collection[PassageKey],
        *,
        depth: int,
        filters: Sequence[Filter] = (),
    ) -> list[ScoredPassage]:
        """Of the first `depth` of `keyword_search`, the first `k` and those with these keys."""
        found = self.keyword_search(words, max(k, depth), filters=filters)
        return [*found[:k], *(one for one in found[k:] if one.key in keys)]

    @abstractmethod
    def best_keyword_score(self, words: Sequence[str]) -> float:
        """The most that BM25 can give to a passage, which has all of these words often.

        Where a word is a code that few passages have, the others may be left out.
        """

    def count(self, filters: Sequence[Filter]) -> tuple[int, int]:
        """How many documents fit, and how many passages they have."""
        fitting = [
            one.passages
            for one in self.documents()
            if all(filter.fits(one.document.fields) for filter in filters)
        ]
        return len(fitting), sum(fitting)

    @abstractmethod
    def fields(self) -> list[str]:
        """The names of all fields that any document has had."""

    @abstractmethod
    def scan(self) -> Iterator[StoredDocument]:
        """Yield every document with its passages and vectors, in the order of writing."""

    @abstractmethod
    def documents(self, *, after: str = "", limit: int | None = None) -> Iterator[DocumentInfo]:
        """Yield documents without their texts in the order of their ids."""

    @abstractmethod
    def passage_count(self) -> int:
        """How many passages there are."""

    @abstractmethod
    def sample(self, count: int) -> list[str]:
        """The texts of passages from all over the store, the same ones every time."""

    @abstractmethod
    def files(self) -> dict[str, SyncedFile]:
        """The files that were read in, by their paths."""

    @abstractmethod
    def file_documents(self, path: str) -> dict[str, str]:
        """The ids of a file's documents, with their digests."""

    @abstractmethod
    def remove_files(self, paths: Sequence[str]) -> int:
        """Delete files and their documents; returns how many documents there were."""

    def progress(self, source: str) -> Progress | None:
        """How far a file has been read in, where the store remembers it."""
        return None

    def check(self) -> list[str]:
        """Look for damage; one line for each kind that was found."""
        return []

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
