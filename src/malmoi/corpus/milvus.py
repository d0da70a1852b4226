"""A corpus in Milvus: the same contract over a server, a cluster, or a local Milvus Lite file.

An address is `milvus://HOST:PORT/NAME` (also milvus+https://, with the token in MILVUS_TOKEN) or
`milvus:FILE.db`. The collection NAME has a row for each vector; the first row of a passage (part
0) holds its text, and the first row of a document its digest. What the corpus was made for and how
far files were read is in NAME_state. Milvus has no transactions over several requests, so all rows
of a document go in one: further rows of an older state are overwritten with rows of
part -1, which no search gives, and deleted afterwards. The progress of a file is written last, so
that after a crash the last batch is written again, under the same ids.

Milvus compares single values, and a field of ours may hold a list, or numbers in one document and
text in another. So each field's least and greatest number and text are stored, and every value
once more as a key: any value is below x just when the least is.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import logging
import math
import os
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, NamedTuple

import numpy as np

from ..documents import Passage
from ..errors import CorpusError, DataError, MalmoiError, OptionError, require
from ..runtime.pooling import to_precision
from . import keywords
from .filters import Atom, Filter, GroupFilter, atoms
from .store import (
    Batch,
    Create,
    Document,
    DocumentInfo,
    PassageKey,
    PassageVectors,
    PassageWithDocument,
    Progress,
    ScoredPassage,
    Store,
    StoredDocument,
    StoreInfo,
    SyncedFile,
    Vector,
    WriteMode,
    hangul_share,
    passage_score,
    rows_for,
)

_TEXT = 65535  # bytes in Milvus's longest text
_PACKED = (_TEXT - 1) // 5 * 4 // 32 * 32  # bytes of token vectors that fit into one
_ID = 512
_AT_ONCE = 200  # passages or documents in one request
_ROWS = 1000  # in one write
_MOST = 16384  # rows that one search may return
_VERSION = 2
_FIRST = "part == 0 and number == 0"  # the row that a document is known by
_SHOWN = ["document", "number", "text", "about"]
_KEYS = "keys"
_NO_GROUPS = "groups"  # a key of documents that name none; other keys have a "=" in them
_NO_WORDS = "0"  # of rows that are not searched by words; Milvus wants some text
_NO_TEXTS = ("passage", "document", "file", "digest", "text")
# What a word adds to a passage's score at most, in inverse frequencies, and in scores of the best
# passage for this word alone.
_AT_MOST, _OF_BEST = 2.2, 1.5


def facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What Milvus compares of a document's metadata.

    >>> facts({"year": [2023, 2024]})
    {'keys': ['groups', 'year=2023.0', 'year=2024.0'], 'least:year': 2023.0, 'most:year': 2024.0}
    """
    found: dict[str, Any] = {_KEYS: []}
    if not atoms(metadata.get(GroupFilter.field)):
        found[_KEYS].append(_NO_GROUPS)
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
    if isinstance(one, GroupFilter):
        allowed = [_NO_GROUPS, *(_key(one.field, name) for name in one.groups)]
        return f"json_contains_any({column}[{quoted(_KEYS)}], {json.dumps(allowed)})"
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


def stems(words: Sequence[str]) -> list[str]:
    """The stems of words; words without letters are left out."""
    return [found for found in map(keywords.stem, words) if found]


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
            about = StoreInfo.from_json(json.loads(self._read_state("about") or "{}"))
            parts = itertools.takewhile(bool, map(self._read_state, map(_tokens_key, range(_MOST))))
            self.about = replace(about, tokens="".join(map(str, parts)))
        self._fields = set[str]()
        self.fields()

    def _prepare(self, create: Create | None) -> None:
        if self._client.has_collection(self._state):
            # A file that was not closed, and a server after a restart, hold them unloaded.
            for name in (self._state, self._name):
                self._client.load_collection(name)
            if self._read_state("version") != str(_VERSION):
                raise CorpusError(
                    f"the corpus {self._name} at {self.address.uri} was made by an earlier malmoi, "
                    "without passages. Make it again under another name with: malmoi index"
                )
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
        self._make_passages(about)
        self._make_state()
        for i, start in enumerate(range(0, len(about.tokens), _TEXT)):  # longer than one text
            self._write_state(_tokens_key(i), about.tokens[start : start + _TEXT])
        self._write_state("about", replace(about, tokens="").to_json())
        self._write_state("version", str(_VERSION))

    def _make_passages(self, about: StoreInfo) -> None:
        m, kind = self._milvus, self._milvus.DataType
        schema = self._client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("key", kind.VARCHAR, max_length=64, is_primary=True)
        schema.add_field("passage", kind.VARCHAR, max_length=64)
        schema.add_field("document", kind.VARCHAR, max_length=_ID)
        schema.add_field("file", kind.VARCHAR, max_length=64)
        schema.add_field("digest", kind.VARCHAR, max_length=64)
        for name in ("number", "part", "serial", "hangul"):
            schema.add_field(name, kind.INT64)
        schema.add_field("text", kind.VARCHAR, max_length=_TEXT)
        if about.tokens:
            schema.add_field("tokens", kind.VARCHAR, max_length=_TEXT)
        schema.add_field("about", kind.JSON)
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
        row = {"key": key, "value": value, "vector": [1.0, 0.0]}
        self._call("upsert", self._state, [row])

    def _read_state(self, key: str) -> str | None:
        found = self._call("get", self._state, ids=[key], output_fields=["value"])
        return str(found[0]["value"]) if found else None

    def __len__(self) -> int:
        return self._count(_FIRST)

    def passage_count(self) -> int:
        return self._count("part == 0")

    def _count(self, condition: str) -> int:
        [row] = self._call("query", self._name, filter=condition, output_fields=["count(*)"])
        return int(row["count(*)"])

    def _write(
        self,
        batch: Batch,
        mode: WriteMode,
        progress: Progress | None,
        delete: Sequence[str],
        files: Sequence[SyncedFile],
    ) -> None:
        ids = [one.document.id for one, _ in batch]
        if mode != "upsert":
            known = self._query("document", ids, ["document"], _FIRST)
            self._check_mode(len(batch), len(known), mode)
        now = time.time_ns()
        older = _by("document", self._query("document", ids, ["document", "key", "part"]))
        documents = []
        for i, (one, words) in enumerate(batch):
            rows = list(self._rows(one, words, now + i))
            surplus = {row["key"] for row in older.get(one.document.id, ())}
            surplus -= {row["key"] for row in rows}
            documents.append(rows + [self._hidden(key, now) for key in sorted(surplus)])
        for request in _requests(documents):
            self._call("upsert", self._name, request)
        if any(row["part"] < 0 for rows in documents for row in rows):
            self._call("delete", self._name, filter="part < 0")
        self.delete(delete)
        new = {name for one, _ in batch for name in one.document.fields} - self._fields
        if new:
            self._fields |= {*self.fields(), *new}
            self._write_state("fields", json.dumps(sorted(self._fields)))
        if progress is not None:
            self._write_state(_state_key("source", progress.source), _json(progress))
        for file in files:
            self._write_state(_state_key("file", file.path), _json(file))

    def _hidden(self, key: str, serial: int) -> dict[str, Any]:
        """A row that takes the place of one which its document has no longer."""
        texts = {"key": key, "words": _NO_WORDS} | dict.fromkeys(_NO_TEXTS, "")
        numbers = {"number": -1, "part": -1, "hangul": -1, "serial": serial}
        vector = [0.0] * self.about.dimension
        texts |= {"tokens": ""} if self.about.tokens else {}
        return texts | numbers | {"about": {}, "facts": facts({}), "vector": vector}

    def _rows(
        self, stored: StoredDocument, words: Sequence[Sequence[str]], serial: int
    ) -> Iterator[dict[str, Any]]:
        """The rows of a document: one for each vector of each passage."""
        document = stored.document
        id = _short(document.id, _ID, "id")
        values = facts(document.fields)
        about: dict[str, Any] = {"title": document.title, "source": document.source}
        about |= {
            "type": document.type,
            "modified": document.modified,
            "metadata": dict(document.metadata),
        }
        parts = zip(stored.passages, stored.compared, stored.passage_digests, words, strict=True)
        for number, (passage, compared, digest, cut) in enumerate(parts):
            known = about | {"headings": passage.headings, "page": passage.page}
            known |= {"sentences": passage.sentences, "digest": stored.digest, "file": stored.file}
            share = hangul_share(passage.text)
            tokens = {"tokens": _as_text(compared.tokens)} if self.about.tokens else {}
            for part, vector in enumerate(self.about.floats(compared.vectors)):
                key = _passage_key(id, number)
                yield {
                    "key": f"{key}:{part}",
                    "passage": key,
                    "document": id,
                    "file": _hash(stored.file) if stored.file else "",
                    "digest": digest.hex(),
                    "number": number,
                    "part": part,
                    "serial": serial,
                    "hangul": -1 if share is None else share,
                    "text": "" if part else _short(passage.text, _TEXT, "passage"),
                    "about": {} if part else known,
                    "facts": values,
                    "words": _NO_WORDS if part else _within(" ".join(stems(cut)), _TEXT),
                    "vector": vector.tolist(),
                } | (tokens if not part else dict.fromkeys(tokens, ""))

    def delete(self, ids: Sequence[str]) -> int:
        rows = self._query("document", ids, ["document"], _FIRST)
        for block in _blocks([row["document"] for row in rows]):
            listed = ", ".join(map(quoted, block))
            self._call("delete", self._name, filter=f"document in [{listed}]")
        return len(rows)

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        found = _by("document", self._query("document", ids, _SHOWN, "part == 0"), "number")
        return {
            id: _document(own[0], "\n\n".join(row["text"] for row in own))
            for id, own in found.items()
        }

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        rows = self._query("document", ids, ["document", "about"], _FIRST)
        return {row["document"]: row["about"]["digest"] for row in rows}

    def passages(self, keys: Sequence[PassageKey]) -> dict[PassageKey, PassageWithDocument]:
        wanted = [_passage_key(*key) for key in keys]
        found = {}
        for row in self._query("passage", wanted, _SHOWN, "part == 0"):
            key = PassageKey(row["document"], row["number"])
            found[key] = PassageWithDocument(_passage(row), _document(row))
        return found

    def vectors_for(self, digests: Sequence[bytes]) -> dict[bytes, PassageVectors]:
        wanted = [digest.hex() for digest in digests]
        rows = self._query("digest", wanted, ["digest", "passage", *self._compared])
        # Several passages may be the same; the vectors of one of them are enough.
        own = {row["digest"]: row["passage"] for row in rows}
        found = _by("digest", (row for row in rows if own[row["digest"]] == row["passage"]))
        return {bytes.fromhex(digest): self._vectors(rows) for digest, rows in found.items()}

    @property
    def _compared(self) -> list[str]:
        return ["part", "vector", *(["tokens"] if self.about.tokens else [])]

    def _vectors(self, rows: Sequence[Any]) -> PassageVectors:
        """The vectors (n, width) of the rows of a passage, in the store's precision."""
        floats = np.asarray([row["vector"] for row in rows], dtype=np.float32)
        vectors = to_precision(floats, self.about.precision)
        return PassageVectors(vectors, _as_bytes(rows[0].get("tokens", "")))

    def tokens_of(self, keys: Sequence[PassageKey]) -> dict[PassageKey, bytes]:
        if not self.about.tokens:
            return {}
        shown = ["document", "number", "tokens"]
        rows = self._query("passage", [_passage_key(*key) for key in keys], shown, "part == 0")
        found = ((row, _as_bytes(row["tokens"])) for row in rows)
        return {
            PassageKey(row["document"], row["number"]): raw for row, raw in found if raw is not None
        }

    def vector_search(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredPassage]:
        wanted = rows_for(k)
        wide = {"params": {"ef": _MOST if exact else max(128, 2 * wanted)}}
        params = {} if self.address.local else wide
        query = [np.asarray(vector, np.float32).tolist()]
        found = self._search(query, "vector", wanted, expression(filters), params)[0]
        keys = dict.fromkeys(one.key for one in found)
        return sorted(self.vector_scores(vector, list(keys)), key=lambda one: -one.score)[:k]

    def vector_scores(self, vector: Vector, keys: Sequence[PassageKey]) -> list[ScoredPassage]:
        shown = ["passage", "document", "number", "part", "hangul", "vector"]
        rows = self._query("passage", [_passage_key(*key) for key in keys], shown)
        scored = []
        for own in _by("passage", rows).values():
            floats = np.asarray([row["vector"] for row in own], dtype=np.float32)
            score, best = passage_score(floats @ np.asarray(vector, dtype=np.float32))
            first = own[0]
            share = _share(first["hangul"])
            scored.append(ScoredPassage(first["document"], score, first["number"], share, best))
        return scored

    def keyword_search(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredPassage]:
        query = " ".join(stems(words))
        condition = " and ".join(filter(None, ("part == 0", expression(filters))))
        return self._search([query], "sparse", k, condition, {})[0] if query else []

    def best_keyword_score(self, words: Sequence[str]) -> float:
        queries = stems(words)
        if not queries:
            return 0.0
        found = self._search(queries, "sparse", 1, "part == 0", {})
        # A word that no passage has is as rare as can be.
        rarest = _AT_MOST * math.log(1 + self.passage_count())
        return sum(_OF_BEST * own[0].score if own else rarest for own in found)

    def _search(
        self, data: list[Any], field: str, k: int, condition: str, params: dict[str, Any]
    ) -> list[list[ScoredPassage]]:
        """Search for several queries at once."""
        found = self._call(
            "search",
            self._name,
            data=data,
            anns_field=field,
            limit=min(k, _MOST),
            filter=condition,
            search_params=params,
            output_fields=["document", "number", "hangul"],
        ) or [[] for _ in data]
        # Milvus Lite gives negative BM25 scores, the server positive ones, equal in size.
        score = abs if field == "sparse" else float
        return [
            [
                ScoredPassage(
                    one["document"], score(distance), one["number"], _share(one["hangul"])
                )
                for one, distance in ((hit["entity"], hit["distance"]) for hit in own)
                if one["number"] >= 0
            ]
            for own in found
        ]

    def fields(self) -> list[str]:
        self._fields |= set(json.loads(self._read_state("fields") or "[]"))
        return sorted(self._fields)

    def scan(self) -> Iterator[StoredDocument]:
        for block in _blocks(self._in_order()):
            rows = self._query("document", block, [*_SHOWN, "passage", *self._compared])
            own = _by("document", rows, "number")
            for id in block:
                if id in own:  # not deleted in the meantime
                    yield self._stored(own[id])

    def _stored(self, rows: Sequence[Any]) -> StoredDocument:
        parts = _by("passage", rows)
        firsts = [own[0] for own in parts.values()]
        about, text = firsts[0]["about"], "\n\n".join(row["text"] for row in firsts)
        passages = tuple(map(_passage, firsts))
        document = _document(firsts[0], text)
        file, digest = about["file"], about["digest"]
        stored = StoredDocument(document, passages, (), file, digest)
        return stored.with_vectors([self._vectors(own) for own in parts.values()])

    def documents(self, *, after: str = "", limit: int | None = None) -> Iterator[DocumentInfo]:
        ids = sorted(id for id in self._in_order() if id > after)[:limit]
        for block in _blocks(ids):
            rows = self._query("document", block, ["document", "number", "about"], "part == 0")
            counts = Counter(row["document"] for row in rows)
            firsts = {row["document"]: row for row in rows if row["number"] == 0}
            for id in block:
                if id in firsts:
                    yield DocumentInfo(_document(firsts[id]), counts[id])

    def _in_order(self) -> list[str]:
        """The ids of all documents, in the order of writing."""
        rows = self._all(self._name, _FIRST, "document", "serial")
        return [id for _, id in sorted((row["serial"], row["document"]) for row in rows)]

    def _all(self, collection: str, condition: str, key: str, field: str) -> Iterator[Any]:
        """Yield all rows for which a condition holds, in as many requests as they need."""
        after = ""
        while True:
            more = f"{condition} and {key} > {quoted(after)}" if after else condition
            options = {"filter": more, "output_fields": [key, field], "limit": _MOST}
            rows = self._call("query", collection, **options)
            yield from rows
            if len(rows) < _MOST:
                return
            after = max(row[key] for row in rows)

    def files(self) -> dict[str, SyncedFile]:
        rows = self._all(self._state, 'key > "file:" and key < "file;"', "key", "value")
        files = (SyncedFile(**json.loads(row["value"])) for row in rows)
        return {file.path: file for file in files}

    def file_documents(self, path: str) -> dict[str, str]:
        rows = self._query("file", [_hash(path)], ["document", "about"], _FIRST)
        return {row["document"]: row["about"]["digest"] for row in rows}

    def remove_files(self, paths: Sequence[str]) -> int:
        removed = 0
        for path in paths:
            removed += self.delete(list(self.file_documents(path)))
            self._call("delete", self._state, ids=[_state_key("file", path)])
        return removed

    def progress(self, source: str) -> Progress | None:
        found = self._read_state(_state_key("source", source))
        return Progress(**json.loads(found)) if found else None

    def sample(self, count: int) -> list[str]:
        ids = self._in_order()
        chosen = [ids[len(ids) * i // count] for i in range(min(count, len(ids)))]
        found = self.passages([PassageKey(id) for id in chosen])
        return [one.passage.text for one in found.values()]

    def close(self) -> None:
        """Close the connection."""
        with contextlib.suppress(Exception):
            self._client.close()

    def _query(
        self, column: str, values: Sequence[str], fields: list[str], also: str = ""
    ) -> list[Any]:
        """The rows whose column has one of these values, and for which `also` holds."""
        found: list[Any] = []
        for block in _blocks(list(dict.fromkeys(values))):
            condition = f"{column} in [{', '.join(map(quoted, block))}]"
            condition += f" and {also}" if also else ""
            found += self._call("query", self._name, filter=condition, output_fields=fields)
        return found

    def _call(self, method: str, *values: Any, **options: Any) -> Any:
        with self._translated_errors():
            return getattr(self._client, method)(*values, **options)

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


def _document(row: Any, text: str = "") -> Document:
    about = row["about"]
    names = ("metadata", "title", "source", "type", "modified")
    return Document(row["document"], text, *(about[name] for name in names))


def _passage(row: Any) -> Passage:
    about = row["about"]
    spans = tuple((start, end) for start, end in about["sentences"])
    return Passage(row["text"], tuple(about["headings"]), about["page"], spans)


def _by(field: str, rows: Iterable[Any], order: str = "part") -> dict[str, list[Any]]:
    """Rows grouped by one field, in the order of another."""
    found: dict[str, list[Any]] = {}
    for row in sorted(rows, key=lambda row: int(row[order])):
        found.setdefault(row[field], []).append(row)
    return found


def _tokens_key(number: int) -> str:
    return f"tokens:{number}"


def _as_text(packed: bytes | None) -> str:
    """Packed token vectors as Milvus keeps them; the end of a very long passage has none."""
    return "" if packed is None else f"={base64.b85encode(packed[:_PACKED]).decode('ascii')}"


def _as_bytes(text: str) -> bytes | None:
    return base64.b85decode(text[1:]) if text else None


def _share(hangul: int) -> int | None:
    return hangul if hangul >= 0 else None


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def _passage_key(id: str, number: int) -> str:
    return f"{_hash(id)}:{number}"


def _state_key(kind: str, name: str) -> str:
    return f"{kind}:{_hash(name)}"


def _json(value: Progress | SyncedFile) -> str:
    return json.dumps(asdict(value), ensure_ascii=False)


def _blocks(items: Sequence[str]) -> Iterator[list[str]]:
    pending = iter(items)
    while block := list(itertools.islice(pending, _AT_ONCE)):
        yield block


def _requests(documents: Sequence[list[dict[str, Any]]]) -> Iterator[list[dict[str, Any]]]:
    """The rows of documents in requests, which are done whole or not at all.

    A document is never in two of them, unless it has more rows than one may have; then its first
    row, without which it is not there, is in the last.
    """
    request: list[dict[str, Any]] = []
    for rows in documents:
        if request and len(request) + len(rows) > _ROWS:
            yield request
            request = []
        request += reversed(rows)
        while len(request) > _MOST:
            yield request[:_MOST]
            request = request[_MOST:]
    if request:
        yield request


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
