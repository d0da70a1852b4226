"""Filters for an engine that compares JSON: what of a document is stored, and what is asked.

Milvus compares single values, and a field of ours may hold a list, or numbers in one document
and text in another. So each field's least and greatest number and text are stored, and every
value once more as a key: any value is below x just when the least is.

English stems without another library: SQLite's Porter stemmer, asked word by word.

A corpus in Milvus: the same contract over a server, a cluster, or a local Milvus Lite file.

An address is `milvus://HOST:PORT/NAME` (also milvus+https://, with the token in MILVUS_TOKEN) or
`milvus:FILE.db`. Documents stand in the collection NAME, what the corpus was made for and how far
files were read in NAME_state. Milvus has no transactions over several requests: a batch is one
request, and the progress of a file is written after it, so that after a crash the last batch is
put in again, under the same ids.
"""

import contextlib
import functools
import itertools
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ..errors import CorpusError, DataError, MalmoiError, OptionError, require
from ..runtime.precision import from_int8, to_precision
from . import keywords
from .filters import Atom, Filter, atoms, check_fields
from .schema import Create, about_from
from .sqlite import digest
from .store import (
    Document,
    Progress,
    ScoredId,
    Store,
    Stored,
    StoreInfo,
    Vector,
    WriteMode,
    check_mode,
    last_of_each,
)

KEYS = "keys"


def facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine compares of a document's metadata.

    >>> facts({"year": [2023, 2024]})
    {'keys': ['year=2023.0', 'year=2024.0'], 'least:year': 2023.0, 'most:year': 2024.0}
    """
    found: dict[str, Any] = {KEYS: []}
    for name, value in metadata.items():
        values = atoms(value)
        found[KEYS] += [_key(name, one) for one in values]
        numbers = [float(one) for one in values if not isinstance(one, str)]
        texts = [one for one in values if isinstance(one, str)]
        if numbers:
            found |= {f"least:{name}": min(numbers), f"most:{name}": max(numbers)}
        if texts:
            found |= {f"first:{name}": min(texts), f"last:{name}": max(texts)}
    return found


def expression(filters: Sequence[Filter], *, column: str = "facts") -> str:
    """The filters as one condition in Milvus's language.

    >>> expression([Filter("year", ">=", 2020)])
    '(facts["most:year"] >= 2020.0 or facts["last:year"] >= "")'
    """
    return " and ".join(_condition(one, column) for one in filters)


def any_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column holds one of these texts."""
    return f"{column} in [{', '.join(quoted(value) for value in values)}]"


def quoted(text: str) -> str:
    """A text as the language writes it; nothing in it can end it early."""
    return json.dumps(text, ensure_ascii=False)


def _condition(one: Filter, column: str) -> str:
    if one.operator in ("=", "!="):
        holds = f"json_contains({column}[{quoted(KEYS)}], {quoted(_key(one.field, one.value))})"
        return holds if one.operator == "=" else f"not {holds}"
    below = one.operator.startswith("<")
    # As in SQLite: every number comes before every text.
    if isinstance(one.value, str):
        own = _place(column, "first" if below else "last", one.field)
        other = f"{_place(column, 'least', one.field)} <= 1.7e308" if below else ""
        holds = f"{own} {one.operator} {quoted(one.value)}"
    else:
        own = _place(column, "least" if below else "most", one.field)
        other = "" if below else f'{_place(column, "last", one.field)} >= ""'
        holds = f"{own} {one.operator} {float(one.value)!r}"
    return f"({holds} or {other})" if other else f"({holds})"


def _place(column: str, kind: str, field: str) -> str:
    return f"{column}[{quoted(f'{kind}:{field}')}]"


def _key(name: str, value: Atom) -> str:
    return f"{name}={value}" if isinstance(value, str) else f"{name}={float(value)!r}"


_MANY = 65536


class _Stemmer:
    """A table in memory whose vocabulary is what the stemmer made of the words put in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.executescript(
            "CREATE VIRTUAL TABLE w USING fts5(x, tokenize='porter unicode61 remove_diacritics 0');"
            "CREATE VIRTUAL TABLE v USING fts5vocab(w, instance);"
        )

    def __call__(self, word: str) -> str:
        with self._lock:
            self._connection.execute("INSERT INTO w(rowid, x) VALUES (1, ?)", (word,))
            found = self._connection.execute("SELECT term FROM v ORDER BY offset").fetchall()
            self._connection.execute("DELETE FROM w WHERE rowid = 1")
        return " ".join(term for (term,) in found)


@functools.cache
def _stemmer() -> _Stemmer:
    return _Stemmer()


@functools.lru_cache(maxsize=_MANY)
def stem(word: str) -> str:
    """A word's stem as SQLite's full-text search has it; nothing where it has no letter.

    >>> stem("arriving"), stem("배송"), stem("*")
    ('arriv', '배송', '')
    """
    return _stemmer()(word)


def stems(words: Sequence[str]) -> list[str]:
    """The stems of words, those without letters left out."""
    return [found for found in map(stem, words) if found]


_TEXT = 65535  # bytes in Milvus's longest text
_ID = 512
_AT_ONCE = 1000
_MOST = 16384  # rows that one search may ask for
_SHOWN = ["id", "text", "metadata"]


@dataclass(frozen=True)
class Address:
    """Where a corpus in Milvus is: the client's address, and the collection."""

    uri: str
    name: str
    local: bool

    @classmethod
    def parse(cls, text: str) -> "Address":
        """Read an address.

        >>> Address.parse("milvus://db:19530/faq")
        Address(uri='http://db:19530', name='faq', local=False)
        >>> Address.parse("milvus:faq.db")
        Address(uri='faq.db', name='corpus', local=True)
        """
        scheme, _, rest = text.partition(":")
        if not rest.startswith("//"):
            if not rest.endswith(".db"):
                raise OptionError(
                    f"{text} names no Milvus; expected milvus://HOST:PORT/NAME, or milvus:FILE.db "
                    "for a local file. Correct it."
                )
            return cls(rest, "corpus", True)
        host, _, name = rest[2:].partition("/")
        if not host or not name.isidentifier():
            raise OptionError(
                f"{text} names no collection; expected milvus://HOST:PORT/NAME, the name of "
                "letters, digits and _. Correct it."
            )
        kind = "https" if scheme.endswith("+https") else "http"
        return cls(f"{kind}://{host}", name, False)


def is_milvus(path: object) -> bool:
    """Tell whether a corpus's name is an address in Milvus."""
    return str(path).startswith(("milvus:", "milvus+https:"))


class MilvusStore(Store):
    """Documents in Milvus; keyword search by its BM25 over words cut here."""

    def __init__(self, address: str, *, create: Create | None = None) -> None:
        self.address = Address.parse(address)
        self._milvus = require("pymilvus", extra="milvus", purpose="a corpus in Milvus")
        self._name, self._state = self.address.name, f"{self.address.name}_state"
        # They log requests that fail, with the texts in them; what matters is raised here anyway.
        for talker in ("pymilvus", "grpc._server", "milvus_lite"):
            logging.getLogger(talker).setLevel(logging.CRITICAL + 1)
        with self._renaming():
            token = os.environ.get("MILVUS_TOKEN", "")
            self._client: Any = self._milvus.MilvusClient(self.address.uri, token=token)
            self._prepare(create)
            self.about = about_from(json.loads(self._read_state("about") or "{}"))
        self._fields: set[str] = set(json.loads(self._read_state("fields") or "[]"))

    def _prepare(self, create: Create | None) -> None:
        if self._client.has_collection(self._state):
            return
        if create is None:
            raise CorpusError(
                f"there is no corpus {self._name} at {self.address.uri}; expected one. "
                "Make it with: malmoi index"
            )
        if self._client.has_collection(self._name):
            raise CorpusError(
                f"{self.address.uri} has a collection {self._name} that is no corpus of malmoi's. "
                "Choose another name."
            )
        about = create()
        self._make_documents(about)
        self._make_state()
        self._write_state("about", json.dumps(asdict(about)))

    def _make_documents(self, about: StoreInfo) -> None:
        m, kind = self._milvus, self._milvus.DataType
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", kind.VARCHAR, max_length=_ID, is_primary=True)
        schema.add_field("text", kind.VARCHAR, max_length=_TEXT)
        schema.add_field("digest", kind.VARCHAR, max_length=64)
        schema.add_field("serial", kind.INT64)
        schema.add_field("metadata", kind.JSON)
        schema.add_field("facts", kind.JSON)
        schema.add_field(
            "words",
            kind.VARCHAR,
            max_length=_TEXT,
            enable_analyzer=True,
            # Texts arrive cut and stemmed: nothing is left to do but to part them at spaces.
            analyzer_params={"tokenizer": "standard" if self.address.local else "whitespace"},
        )
        schema.add_field("sparse", kind.SPARSE_FLOAT_VECTOR)
        schema.add_field("vector", kind.FLOAT_VECTOR, dim=about.dimension)
        schema.add_function(
            m.Function(
                name="bm25",
                function_type=m.FunctionType.BM25,
                input_field_names=["words"],
                output_field_names=["sparse"],
            )
        )
        index = self._client.prepare_index_params()
        dense = (
            {"index_type": "FLAT"}
            if self.address.local
            else {"index_type": "HNSW", "params": {"M": 32, "efConstruction": 200}}
        )
        index.add_index("vector", metric_type="IP", **dense)
        index.add_index("sparse", index_type="SPARSE_INVERTED_INDEX", metric_type="BM25")
        self._client.create_collection(
            self._name, schema=schema, index_params=index, consistency_level="Strong"
        )

    def _make_state(self) -> None:
        kind = self._milvus.DataType
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", kind.VARCHAR, max_length=_ID, is_primary=True)
        schema.add_field("value", kind.VARCHAR, max_length=_TEXT)
        schema.add_field("vector", kind.FLOAT_VECTOR, dim=2)  # Milvus wants one everywhere
        index = self._client.prepare_index_params()
        index.add_index("vector", index_type="FLAT", metric_type="IP")
        self._client.create_collection(
            self._state, schema=schema, index_params=index, consistency_level="Strong"
        )

    def _write_state(self, key: str, value: str) -> None:
        self._client.upsert(self._state, [{"key": key, "value": value, "vector": [1.0, 0.0]}])

    def _read_state(self, key: str) -> str | None:
        found = self._client.get(self._state, ids=[key], output_fields=["value"])
        return str(found[0]["value"]) if found else None

    def __len__(self) -> int:
        with self._renaming():
            [row] = self._client.query(self._name, filter="", output_fields=["count(*)"])
            return int(row["count(*)"])

    def write(
        self, batch: Sequence[Stored], *, rule: WriteMode = "any", progress: Progress | None = None
    ) -> None:
        """Put documents in by one request; when it returns they can be found."""
        batch = last_of_each(batch, rule)
        with self._renaming():
            if rule != "any":
                known = self._query(any_of("id", [s.document.id for s in batch]), ["id"], batch)
                check_mode(len(batch), len(known), rule)
            rows = self._rows(batch)
            for start in range(0, len(rows), _AT_ONCE):
                self._client.upsert(self._name, rows[start : start + _AT_ONCE])
            new = {name for one in batch for name in one.document.metadata} - self._fields
            if new:
                self._fields |= set(json.loads(self._read_state("fields") or "[]")) | new
                self._write_state("fields", json.dumps(sorted(self._fields)))
            if progress is not None:
                self._write_state(_source(progress.source), json.dumps(asdict(progress)))

    def _rows(self, batch: Sequence[Stored]) -> list[dict[str, Any]]:
        cut = keywords.cut([one.document.text for one in batch], self.about.words)
        now = time.time_ns()
        return [
            {
                "id": _short(one.document.id, _ID, "id"),
                "text": _short(one.document.text, _TEXT, "text"),
                "digest": digest(one.document.text).hex(),
                "serial": now + i,
                "metadata": dict(one.document.metadata),
                "facts": facts(one.document.metadata),
                "words": _within(" ".join(stems(found)), _TEXT),
                "vector": self._floats(one.vector).tolist(),
            }
            for i, (one, found) in enumerate(zip(batch, cut, strict=True))
        ]

    def foresee(self, texts: Sequence[str]) -> None:
        """Find the words of texts that will soon be written."""
        keywords.foresee(texts, self.about.words)

    def delete(self, ids: Sequence[str]) -> int:
        """Take documents out; gives how many were there."""
        with self._renaming():
            known = [row["id"] for row in self._query(any_of("id", ids), ["id"], ids)]
            for start in range(0, len(known), _AT_ONCE):
                self._client.delete(self._name, ids=known[start : start + _AT_ONCE])
            return len(known)

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        """The documents under these ids; those that are not there are left out."""
        with self._renaming():
            found = self._query(any_of("id", ids), _SHOWN, ids)
        return {row["id"]: _document(row) for row in found}

    def vectors_for(self, texts: Sequence[str]) -> dict[str, Vector]:
        """The vectors of those texts that some document has already, by text."""
        digests = {digest(text).hex(): text for text in texts}
        with self._renaming():
            found = []
            for block in _blocks(list(digests)):
                found += self._query(any_of("digest", block), ["digest", "vector"], block)
        return {digests[row["digest"]]: self._kept(row["vector"]) for row in found}

    def nearest(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredId]:
        """The documents of highest cosine with a unit float32 vector (dim,), best first."""
        wide = {} if self.address.local else {"params": {"ef": _MOST if exact else max(128, 2 * k)}}
        return self._search([np.asarray(vector, np.float32).tolist()], "vector", k, filters, wide)

    def matching(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredId]:
        """The documents that share words with the query, best first by BM25."""
        asked = " ".join(stems(words))
        if not asked:
            check_fields(filters, self.fields() if filters else ())
            return []
        return self._search([asked], "sparse", k, filters, {})

    def _search(
        self, data: list[Any], field: str, k: int, filters: Sequence[Filter], params: dict[str, Any]
    ) -> list[ScoredId]:
        check_fields(filters, self.fields() if filters else ())
        with self._renaming():
            [found] = self._client.search(
                self._name,
                data=data,
                anns_field=field,
                limit=min(k, _MOST),
                filter=expression(filters),
                search_params=params,
                output_fields=["id"],
            ) or [[]]
        # Lite gives BM25 below zero, the server above; both grow with likeness in size.
        return [ScoredId(str(one["id"]), _size(one["distance"], field)) for one in found]

    def fields(self) -> list[str]:
        """The names of all metadata fields that any document has had."""
        with self._renaming():
            self._fields |= set(json.loads(self._read_state("fields") or "[]"))
        return sorted(self._fields)

    def everything(self) -> Iterator[Stored]:
        """Every document with its vector, in the order of writing."""
        for block in _blocks(self._in_order()):
            with self._renaming():
                found = self._query(any_of("id", block), [*_SHOWN, "vector"], block)
            rows = {row["id"]: row for row in found}
            for id in block:
                if id in rows:  # not deleted meanwhile
                    yield Stored(_document(rows[id]), self._kept(rows[id]["vector"]))

    def _in_order(self) -> list[str]:
        """All ids, by when they were written."""
        found: list[tuple[int, str]] = []
        last = ""
        with self._renaming():
            while True:
                condition = f"id > {json.dumps(last, ensure_ascii=False)}" if last else ""
                rows = self._client.query(
                    self._name, filter=condition, output_fields=["id", "serial"], limit=_MOST
                )
                found += [(row["serial"], row["id"]) for row in rows]
                if len(rows) < _MOST:
                    break
                last = max(row["id"] for row in rows)
        return [id for _, id in sorted(found)]

    def progress(self, source: str) -> Progress | None:
        """How far a file has been taken in."""
        with self._renaming():
            found = self._read_state(_source(source))
        return Progress(**json.loads(found)) if found else None

    def sample(self, count: int) -> list[str]:
        """The texts of some documents from all over the store, the same ones every time."""
        ids = self._in_order()
        chosen = [ids[len(ids) * i // count] for i in range(min(count, len(ids)))]
        return [found.text for found in self.get(chosen).values()]

    def close(self) -> None:
        """Let go of the connection."""
        with contextlib.suppress(Exception):
            self._client.close()

    def _query(self, condition: str, columns: list[str], keys: Sequence[Any]) -> list[Any]:
        if not keys:
            return []
        found: list[Any] = self._client.query(self._name, filter=condition, output_fields=columns)
        return found

    def _floats(self, vector: Vector) -> Vector:
        """Milvus keeps float32, whatever the corpus's precision rounds to."""
        if self.about.precision == "int8":
            floats: Vector = from_int8(vector)
            return floats
        if self.about.precision == "binary":
            bits = np.unpackbits(vector, count=self.about.dimension).astype(np.float32)
            signs: Vector = (bits * 2 - 1) / np.float32(np.sqrt(self.about.dimension))
            return signs
        return np.asarray(vector, dtype=np.float32)

    def _kept(self, values: Sequence[float]) -> Vector:
        row = np.asarray(values, dtype=np.float32)[None]
        kept: Vector = to_precision(row, self.about.precision)[0]
        return kept

    @contextlib.contextmanager
    def _renaming(self) -> Iterator[None]:
        """Turn Milvus's errors into malmoi's; its messages may quote text, and are left out."""
        try:
            yield
        except MalmoiError:
            raise
        except Exception as error:
            code = getattr(error, "code", "")
            raise CorpusError(
                f"Milvus at {self.address.uri} did not do what was asked "
                f"({type(error).__name__}{f' {code}' if code else ''}); expected an answer. "
                "Check that it runs, the address and MILVUS_TOKEN."
            ) from error


def _document(row: Any) -> Document:
    return Document(row["id"], row["text"], row["metadata"])


def _source(name: str) -> str:
    return "source:" + digest(name).hex()


def _size(distance: float, field: str) -> float:
    return abs(float(distance)) if field == "sparse" else float(distance)


def _blocks(items: Sequence[str]) -> Iterator[list[str]]:
    pending = iter(items)
    while block := list(itertools.islice(pending, _AT_ONCE)):
        yield block


def _short(text: str, most: int, what: str) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise DataError(
            f"a document's {what} has half a character (a lone surrogate); Milvus takes whole "
            "ones. Clean the text first."
        ) from error
    if size > most:
        raise DataError(
            f"a document's {what} takes {size:,} bytes; Milvus takes up to {most:,}. Cut the "
            "text into several documents."
        )
    return text


def _within(text: str, most: int) -> str:
    """As many whole words as fit."""
    raw = text.encode("utf-8")
    return text if len(raw) <= most else raw[:most].decode("utf-8", "ignore").rsplit(" ", 1)[0]
