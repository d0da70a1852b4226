"""A corpus in Milvus: the same contract over a server, a cluster, or a local Milvus Lite file.

An address is `milvus://HOST:PORT/NAME` (also milvus+https://, with the token in MILVUS_TOKEN) or
`milvus:FILE.db`. Documents are in the collection NAME; what the corpus was made for and how far
files were read is in NAME_state. Milvus has no transactions over several requests: a batch is one
request, and the progress of a file is written after it, so that after a crash the last batch is
written again, under the same ids.

Milvus compares single values, and a field of ours may hold a list, or numbers in one document and
text in another. So each field's least and greatest number and text are stored, and every value
once more as a key: any value is below x just when the least is.
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
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any, NamedTuple

import numpy as np

from ..errors import CorpusError, DataError, MalmoiError, OptionError, require
from ..runtime.precision import from_int8, to_precision
from .filters import Atom, Filter, atoms
from .sqlite import digest
from .store import (
    Batch,
    Create,
    Document,
    Progress,
    ScoredId,
    Store,
    Stored,
    StoreInfo,
    Vector,
    WriteMode,
)

_TEXT = 65535  # bytes in Milvus's longest text
_ID = 512
_AT_ONCE = 1000
_MOST = 16384  # rows that one search may return
_SHOWN = ["id", "text", "metadata"]
_KEYS = "keys"


def facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What Milvus compares of a document's metadata.

    >>> facts({"year": [2023, 2024]})
    {'keys': ['year=2023.0', 'year=2024.0'], 'least:year': 2023.0, 'most:year': 2024.0}
    """
    found: dict[str, Any] = {_KEYS: []}
    for name, value in metadata.items():
        values = atoms(value)
        found[_KEYS] += [_key(name, one) for one in values]
        numbers = [float(one) for one in values if not isinstance(one, str)]
        texts = [one for one in values if isinstance(one, str)]
        if numbers:
            found |= {f"least:{name}": min(numbers), f"most:{name}": max(numbers)}
        if texts:
            found |= {f"first:{name}": min(texts), f"last:{name}": max(texts)}
    return found


def expression(filters: Sequence[Filter], *, column: str = "facts") -> str:
    """The filters as one expression in Milvus's filter language.

    >>> expression([Filter("year", ">=", 2020)])
    '(facts["most:year"] >= 2020.0 or facts["last:year"] >= "")'
    """
    return " and ".join(_condition(one, column) for one in filters)


def quoted(text: str) -> str:
    """A text as a string literal; nothing in it can end the literal early."""
    return json.dumps(text, ensure_ascii=False)


def _condition(one: Filter, column: str) -> str:
    if one.operator in ("=", "!="):
        holds = f"json_contains({column}[{quoted(_KEYS)}], {quoted(_key(one.field, one.value))})"
        return holds if one.operator == "=" else f"not {holds}"
    below = one.operator.startswith("<")
    # As in SQLite: every number comes before every text.
    if isinstance(one.value, str):
        own = _bound(column, "first" if below else "last", one.field)
        other = f"{_bound(column, 'least', one.field)} <= 1.7e308" if below else ""
        holds = f"{own} {one.operator} {quoted(one.value)}"
    else:
        own = _bound(column, "least" if below else "most", one.field)
        other = "" if below else f'{_bound(column, "last", one.field)} >= ""'
        holds = f"{own} {one.operator} {float(one.value)!r}"
    return f"({holds} or {other})" if other else f"({holds})"


def _bound(column: str, kind: str, field: str) -> str:
    return f"{column}[{quoted(f'{kind}:{field}')}]"


def _key(name: str, value: Atom) -> str:
    return f"{name}={value}" if isinstance(value, str) else f"{name}={float(value)!r}"


@functools.cache
def _stemmer() -> tuple[threading.Lock, sqlite3.Connection]:
    """SQLite's Porter stemmer: a table in memory, whose vocabulary holds the stems of its words."""
    connection = sqlite3.connect(":memory:", check_same_thread=False)
    connection.executescript(
        "CREATE VIRTUAL TABLE w USING fts5(x, tokenize='porter unicode61 remove_diacritics 0');"
        "CREATE VIRTUAL TABLE v USING fts5vocab(w, instance);"
    )
    return threading.Lock(), connection


@functools.lru_cache(maxsize=65536)
def stem(word: str) -> str:
    """A word's stem as in SQLite's full-text search; empty for a word without letters.

    >>> stem("arriving"), stem("배송"), stem("*")
    ('arriv', '배송', '')
    """
    lock, connection = _stemmer()
    with lock:
        connection.execute("INSERT INTO w(rowid, x) VALUES (1, ?)", (word,))
        found = connection.execute("SELECT term FROM v ORDER BY offset").fetchall()
        connection.execute("DELETE FROM w WHERE rowid = 1")
    return " ".join(term for (term,) in found)


def stems(words: Sequence[str]) -> list[str]:
    """The stems of words; words without letters are left out."""
    return [found for found in map(stem, words) if found]


class Address(NamedTuple):
    """Where a corpus in Milvus is: the URI for the client, and the collection."""

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
                    f"{text} is not an address in Milvus; expected milvus://HOST:PORT/NAME, or "
                    "milvus:FILE.db for a local file."
                )
            return cls(rest, "corpus", True)
        host, _, name = rest[2:].partition("/")
        if not host or not name.isidentifier():
            raise OptionError(
                f"{text} names no collection; expected milvus://HOST:PORT/NAME, where NAME has "
                "letters, digits and _ only."
            )
        kind = "https" if scheme.endswith("+https") else "http"
        return cls(f"{kind}://{host}", name, False)


class MilvusStore(Store):
    """Documents in Milvus; keyword search is its BM25 over words split by malmoi.

    What the methods do is documented in `Store`.
    """

    def __init__(self, address: str, *, create: Create | None = None) -> None:
        self.address = Address.parse(address)
        self._milvus = require("pymilvus", extra="milvus", purpose="a corpus in Milvus")
        self._name, self._state = self.address.name, f"{self.address.name}_state"
        # They log requests that fail, with the user's texts in them; errors are raised here anyway.
        for name in ("pymilvus", "grpc._server", "milvus_lite"):
            logging.getLogger(name).setLevel(logging.CRITICAL + 1)
        with self._translated_errors():
            token = os.environ.get("MILVUS_TOKEN", "")
            self._client: Any = self._milvus.MilvusClient(self.address.uri, token=token)
            self._prepare(create)
            self.about = StoreInfo.from_json(json.loads(self._read_state("about") or "{}"))
        self._fields: set[str] = set(json.loads(self._read_state("fields") or "[]"))

    def _prepare(self, create: Create | None) -> None:
        if self._client.has_collection(self._state):
            return
        if create is None:
            raise CorpusError(
                f"there is no corpus {self._name} at {self.address.uri}; expected one. "
                "Create it with: malmoi index"
            )
        if self._client.has_collection(self._name):
            raise CorpusError(
                f"{self.address.uri} has a collection {self._name} that is not a corpus. "
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
            # Texts arrive split and stemmed: they only have to be split again at spaces.
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
        index = {"index_type": "HNSW", "params": {"M": 32, "efConstruction": 200}}
        indexes = {
            "vector": {"metric_type": "IP"}
            | ({"index_type": "FLAT"} if self.address.local else index),
            "sparse": {"metric_type": "BM25", "index_type": "SPARSE_INVERTED_INDEX"},
        }
        self._create(self._name, schema, indexes)

    def _make_state(self) -> None:
        kind = self._milvus.DataType
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", kind.VARCHAR, max_length=_ID, is_primary=True)
        schema.add_field("value", kind.VARCHAR, max_length=_TEXT)
        schema.add_field("vector", kind.FLOAT_VECTOR, dim=2)  # Milvus needs one in every collection
        self._create(self._state, schema, {"vector": {"metric_type": "IP", "index_type": "FLAT"}})

    def _create(self, name: str, schema: Any, indexes: Mapping[str, dict[str, Any]]) -> None:
        params = self._client.prepare_index_params()
        for field, options in indexes.items():
            params.add_index(field, **options)
        self._client.create_collection(
            name, schema=schema, index_params=params, consistency_level="Strong"
        )

    def _write_state(self, key: str, value: str) -> None:
        self._client.upsert(self._state, [{"key": key, "value": value, "vector": [1.0, 0.0]}])

    def _read_state(self, key: str) -> str | None:
        found = self._client.get(self._state, ids=[key], output_fields=["value"])
        return str(found[0]["value"]) if found else None

    def __len__(self) -> int:
        with self._translated_errors():
            [row] = self._client.query(self._name, filter="", output_fields=["count(*)"])
            return int(row["count(*)"])

    def _write(self, batch: Batch, mode: WriteMode, progress: Progress | None) -> None:
        with self._translated_errors():
            if mode != "upsert":
                known = self._query("id", [one.document.id for one, _ in batch], ["id"])
                self._check_mode(len(batch), len(known), mode)
            rows = self._rows(batch)
            for start in range(0, len(rows), _AT_ONCE):
                self._client.upsert(self._name, rows[start : start + _AT_ONCE])
            new = {name for one, _ in batch for name in one.document.metadata} - self._fields
            if new:
                self._fields |= set(json.loads(self._read_state("fields") or "[]")) | new
                self._write_state("fields", json.dumps(sorted(self._fields)))
            if progress is not None:
                self._write_state(_source(progress.source), json.dumps(asdict(progress)))

    def _rows(self, batch: Batch) -> list[dict[str, Any]]:
        now = time.time_ns()
        return [
            {
                "id": _short(one.document.id, _ID, "id"),
                "text": _short(one.document.text, _TEXT, "text"),
                "digest": digest(one.document.text).hex(),
                "serial": now + i,
                "metadata": dict(one.document.metadata),
                "facts": facts(one.document.metadata),
                "words": _within(" ".join(stems(words)), _TEXT),
                "vector": self._floats(one.vector).tolist(),
            }
            for i, (one, words) in enumerate(batch)
        ]

    def delete(self, ids: Sequence[str]) -> int:
        with self._translated_errors():
            known = [row["id"] for row in self._query("id", ids, ["id"])]
            for start in range(0, len(known), _AT_ONCE):
                self._client.delete(self._name, ids=known[start : start + _AT_ONCE])
            return len(known)

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        with self._translated_errors():
            found = self._query("id", ids, _SHOWN)
        return {row["id"]: _document(row) for row in found}

    def vectors_for(self, texts: Sequence[str]) -> dict[str, Vector]:
        digests = {digest(text).hex(): text for text in texts}
        with self._translated_errors():
            found = []
            for block in _blocks(list(digests)):
                found += self._query("digest", block, ["digest", "vector"])
        return {digests[row["digest"]]: self._kept(row["vector"]) for row in found}

    def vector_search(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredId]:
        wide = {} if self.address.local else {"params": {"ef": _MOST if exact else max(128, 2 * k)}}
        return self._search([np.asarray(vector, np.float32).tolist()], "vector", k, filters, wide)

    def keyword_search(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredId]:
        query = " ".join(stems(words))
        return self._search([query], "sparse", k, filters, {}) if query else []

    def _search(
        self, data: list[Any], field: str, k: int, filters: Sequence[Filter], params: dict[str, Any]
    ) -> list[ScoredId]:
        with self._translated_errors():
            [found] = self._client.search(
                self._name,
                data=data,
                anns_field=field,
                limit=min(k, _MOST),
                filter=expression(filters),
                search_params=params,
                output_fields=["id"],
            ) or [[]]
        # Milvus Lite gives negative BM25 scores, the server positive ones, equal in size.
        score = abs if field == "sparse" else float
        return [ScoredId(str(one["id"]), float(score(one["distance"]))) for one in found]

    def fields(self) -> list[str]:
        with self._translated_errors():
            self._fields |= set(json.loads(self._read_state("fields") or "[]"))
        return sorted(self._fields)

    def scan(self) -> Iterator[Stored]:
        for block in _blocks(self._in_order()):
            with self._translated_errors():
                found = self._query("id", block, [*_SHOWN, "vector"])
            rows = {row["id"]: row for row in found}
            for id in block:
                if id in rows:  # not deleted in the meantime
                    yield Stored(_document(rows[id]), self._kept(rows[id]["vector"]))

    def _in_order(self) -> list[str]:
        """All ids, in the order of writing."""
        found: list[tuple[int, str]] = []
        last = ""
        with self._translated_errors():
            while True:
                condition = f"id > {quoted(last)}" if last else ""
                rows = self._client.query(
                    self._name, filter=condition, output_fields=["id", "serial"], limit=_MOST
                )
                found += [(row["serial"], row["id"]) for row in rows]
                if len(rows) < _MOST:
                    break
                last = max(row["id"] for row in rows)
        return [id for _, id in sorted(found)]

    def progress(self, source: str) -> Progress | None:
        with self._translated_errors():
            found = self._read_state(_source(source))
        return Progress(**json.loads(found)) if found else None

    def sample(self, count: int) -> list[str]:
        ids = self._in_order()
        chosen = [ids[len(ids) * i // count] for i in range(min(count, len(ids)))]
        return [found.text for found in self.get(chosen).values()]

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._client.close()

    def _query(self, column: str, values: Sequence[str], fields: list[str]) -> list[Any]:
        """The rows whose column has one of these values."""
        if not values:
            return []
        condition = f"{column} in [{', '.join(map(quoted, values))}]"
        found: list[Any] = self._client.query(self._name, filter=condition, output_fields=fields)
        return found

    def _floats(self, vector: Vector) -> Vector:
        """A stored vector as float32, which Milvus keeps whatever the corpus's precision is."""
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
    def _translated_errors(self) -> Iterator[None]:
        """Turn Milvus's errors into malmoi's; its messages are left out, they may quote texts."""
        try:
            yield
        except MalmoiError:
            raise
        except Exception as error:
            code = getattr(error, "code", "")
            raise CorpusError(
                f"Milvus at {self.address.uri} failed ({type(error).__name__}"
                f"{f' {code}' if code else ''}); expected an answer. Check that it runs, the "
                "address and MILVUS_TOKEN."
            ) from error


def _document(row: Any) -> Document:
    return Document(row["id"], row["text"], row["metadata"])


def _source(name: str) -> str:
    return "source:" + digest(name).hex()


def _blocks(items: Sequence[str]) -> Iterator[list[str]]:
    pending = iter(items)
    while block := list(itertools.islice(pending, _AT_ONCE)):
        yield block


def _short(text: str, most: int, what: str) -> str:
    try:
        size = len(text.encode("utf-8"))
    except UnicodeEncodeError as error:
        raise DataError(
            f"a document's {what} has a lone surrogate, which is half a character; Milvus takes "
            "whole ones. Clean the text first."
        ) from error
    if size > most:
        raise DataError(
            f"a document's {what} takes {size:,} bytes; Milvus takes up to {most:,}. Cut the "
            "text into several documents."
        )
    return text


def _within(text: str, most: int) -> str:
    """As many whole words as fit into `most` bytes."""
    raw = text.encode("utf-8")
    return text if len(raw) <= most else raw[:most].decode("utf-8", "ignore").rsplit(" ", 1)[0]
