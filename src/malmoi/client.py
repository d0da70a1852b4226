"""A server's models from afar, by the same methods as the local objects.

    encoder = malmoi.load()                          # here
    encoder = malmoi.client.Client("http://nlp:8010")  # there

Needs nothing beyond the standard library and numpy. Refusals that pass (429 and 503), and
connections that break, are tried again, each time after a longer and partly random wait.
"""

import base64
import http.client
import json
import random
import threading
import time
import urllib.parse
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from .corpus import Hit as Found
from .errors import CutWarning, MalmoiError, OptionError, TextError
from .linking import Candidate, Linked, NoteMention
from .pooling import Floats, normalize
from .precision import Precision, check_precision, to_precision
from .reranker import Hit
from .text import as_text

_PASSING = (429, 503)
_FIRST_WAIT = 0.2
_LONGEST_WAIT = 20.0
# One request brings at most so many texts and characters: well inside a server's limits, and
# enough to fill its batches.
_TEXTS, _CHARACTERS = 256, 400_000


class ServerError(MalmoiError):
    """The server said no, or could not be reached; `status` is 0 then."""

    def __init__(self, message: str, *, status: int = 0, code: str = "") -> None:
        super().__init__(message)
        self.status, self.code = status, code


@dataclass(frozen=True)
class _Answer:
    status: int
    headers: dict[str, str]
    body: bytes


class Client:
    """A malmoi server, used like the objects it serves. Safe to share among threads.

    `timeout` is the seconds that one try may take, `retries` how often a try is repeated.
    """

    def __init__(
        self,
        url: str,
        *,
        api_key: str | None = None,
        timeout: float = 60.0,
        retries: int = 5,
    ) -> None:
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise OptionError(
                "url is no address of a server; expected one like http://127.0.0.1:8010. "
                "Correct it."
            )
        self._parts, self._path = parts, parts.path.rstrip("/")
        self._headers = {"content-type": "application/json", "accept": "application/json"}
        if api_key is not None:
            self._headers["authorization"] = f"Bearer {api_key}"
        self._timeout, self._retries = timeout, retries
        self._local = threading.local()
        self._info: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<Client {self._parts.scheme}://{self._parts.netloc}{self._path}>"

    @property
    def info(self) -> dict[str, Any]:
        """What the server serves, and its limits; asked for once."""
        if self._info is None:
            self._info = self._get("/v1/info")
        return self._info

    @property
    def name(self) -> str:
        """The served encoder's name."""
        return str(self.info["encoder"]["id"])

    @property
    def dimension(self) -> int:
        """The length of the served encoder's vectors."""
        return int(self.info["encoder"]["dimension"])

    @property
    def max_tokens(self) -> int:
        """The most tokens that the served encoder reads of a text."""
        return int(self.info["encoder"]["max_tokens"])

    def encode(
        self,
        texts: str | Iterable[str],
        *,
        dim: int | None = None,
        precision: Precision = "float32",
        prompt: str | None = None,
        on_long: str = "cut",
        progress: bool = False,
    ) -> NDArray[Any]:
        """Turn texts into vectors, as `TextEncoder.encode` does: (n, dim), or (dim,) for a string.

        `progress` is there so that calls need no change; nothing is shown.
        """
        listed = _as_list(texts)
        blocks = list(self._blocks(listed, dim, precision, prompt, on_long))
        if not blocks:
            empty = np.zeros((1, dim or self.dimension), dtype=np.float32)
            return to_precision(empty, precision)[:0]
        vectors: NDArray[Any] = np.concatenate(blocks)
        return vectors[0] if isinstance(texts, str) else vectors

    def encode_iter(
        self,
        texts: Iterable[str],
        *,
        dim: int | None = None,
        precision: Precision = "float32",
        prompt: str | None = None,
        on_long: str = "cut",
        progress: bool = False,
    ) -> Iterator[NDArray[Any]]:
        """Yield one vector a text, in order, in memory that does not grow with the texts."""
        check_precision(precision)
        for block in self._blocks(texts, dim, precision, prompt, on_long):
            yield from block

    @overload
    def similarity(self, a: str, b: str) -> float: ...  # type: ignore[overload-overlap]
    @overload
    def similarity(self, a: str | Sequence[str], b: str | Sequence[str]) -> Floats: ...
    def similarity(self, a: str | Sequence[str], b: str | Sequence[str]) -> float | Floats:
        """Cosine of two texts as a float; of lists as a matrix (len(a), len(b))."""
        left, right = normalize(self.encode(a)), normalize(self.encode(b))
        if isinstance(a, str) and isinstance(b, str):
            return float(left @ right)
        scores: Floats = left @ right.T
        return scores

    def rank(self, query: str, texts: Sequence[str], *, k: int | None = None) -> list[Hit]:
        """Sort texts by the reranker's score beside the query, as `Reranker.rank` does."""
        listed = _as_list(texts)
        if not listed:
            return []
        body = {"query": as_text(query, where="query"), "documents": listed}
        if k is not None:
            body["top_n"] = k  # type: ignore[assignment]
        found = self.post("/v1/rerank", body)["results"]
        return [Hit(one["index"], listed[one["index"]], one["relevance_score"]) for one in found]

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: str = "hybrid",
        filter: Mapping[str, Any] | None = None,
        rerank: bool = False,
        depth: int = 50,
        corpus: str | None = None,
    ) -> list[Found]:
        """Find documents, as `Corpus.search` does; the server's first corpus when none is named."""
        body = {
            "query": as_text(query, where="query"),
            "k": k,
            "mode": mode,
            "filter": dict(filter or {}),
            "rerank": rerank,
            "depth": depth,
            "corpus": corpus,
        }
        return [
            Found(hit["id"], hit["text"], hit["score"], hit["metadata"], hit["scores"])
            for hit in self.post("/v1/search", body)["hits"]
        ]

    @overload
    def link(  # type: ignore[overload-overlap]
        self, mentions: str, *, k: int = ..., lexicon: str | None = ...
    ) -> Linked: ...
    @overload
    def link(
        self, mentions: Sequence[str], *, k: int = ..., lexicon: str | None = ...
    ) -> list[Linked]: ...
    def link(
        self, mentions: str | Sequence[str], *, k: int = 5, lexicon: str | None = None
    ) -> Linked | list[Linked]:
        """Rank concepts for a mention, or for each of a list, as `Linker.link` does."""
        found: list[Linked] = []
        for portion in _portions(_as_list(mentions)):
            body = {"mentions": portion, "k": k, "lexicon": lexicon}
            found += [_linked(one) for one in self.post("/v1/link", body)["results"]]
        return found[0] if isinstance(mentions, str) else found

    def read(self, note: str, *, k: int = 5, lexicon: str | None = None) -> list[NoteMention]:
        """Give the linked mentions of a note in order, as `NoteReader.read` does."""
        body = {"text": as_text(note, where="note"), "k": k, "lexicon": lexicon}
        return [
            NoteMention(
                one["start"],
                one["end"],
                one["mention"],
                tuple(one["attributes"]),
                one["by"],
                _linked(one),
            )
            for one in self.post("/v1/link/note", body)["mentions"]
        ]

    def post(self, path: str, body: object) -> Any:
        """Send JSON to a path and give the JSON that comes back."""
        return json.loads(self._call("POST", path, _written(body)).body)

    def close(self) -> None:
        """Close this thread's connection."""
        connection = getattr(self._local, "connection", None)
        if connection is not None:
            connection.close()
            self._local.connection = None

    def _get(self, path: str) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self._call("GET", path, None).body)
        return found

    def _blocks(
        self,
        texts: Iterable[str],
        dim: int | None,
        precision: Precision,
        prompt: str | None,
        on_long: str,
    ) -> Iterator[NDArray[Any]]:
        """Encode texts request by request; (n, dim) each."""
        check_precision(precision)
        options = {"dimensions": dim, "prompt": prompt, "on_long": on_long}
        options = {name: value for name, value in options.items() if value is not None}
        cut = count = 0
        for chunk in _portions(texts):
            body = {"input": chunk, "encoding_format": "base64", **options}
            answer = self._call("POST", "/v1/embeddings", _written(body))
            rows = [base64.b64decode(row["embedding"]) for row in json.loads(answer.body)["data"]]
            vectors = np.frombuffer(b"".join(rows), dtype="<f4").reshape(len(rows), -1)
            cut, count = cut + int(answer.headers.get("x-malmoi-cut", 0)), count + len(rows)
            kept = vectors.astype(np.float32)
            yield kept if precision == "float32" else to_precision(normalize(kept), precision)
        if cut:
            warnings.warn(
                f"{cut:,} of {count:,} texts were longer than the model reads and were cut; "
                'on_long="windows" reads them whole',
                CutWarning,
                stacklevel=3,
            )

    def _call(self, method: str, path: str, body: bytes | None) -> _Answer:
        """Ask until there is an answer that lasts, or the tries are used up."""
        for left in range(self._retries, -1, -1):
            try:
                answer = self._ask(method, path, body)
            except (OSError, http.client.HTTPException) as error:
                self.close()
                if not left:
                    raise ServerError(
                        f"the server at {self._parts.netloc} cannot be reached "
                        f"({type(error).__name__}). Check that it runs, and its address."
                    ) from error
                answer = _Answer(503, {}, b"")
            if answer.status < 400:
                return answer
            if answer.status not in _PASSING or not left:
                raise _said_no(answer)
            time.sleep(self._wait(self._retries - left, answer.headers.get("retry-after")))
        raise AssertionError("the last try returns or raises")

    def _ask(self, method: str, path: str, body: bytes | None) -> _Answer:
        connection = self._connection()
        connection.request(method, self._path + path, body, self._headers)
        response = connection.getresponse()
        headers = {name.lower(): value for name, value in response.getheaders()}
        return _Answer(response.status, headers, response.read())

    def _connection(self) -> http.client.HTTPConnection:
        """This thread's connection, which stays open between calls."""
        connection: http.client.HTTPConnection | None = getattr(self._local, "connection", None)
        if connection is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            assert self._parts.hostname is not None
            connection = kind(self._parts.hostname, self._parts.port, timeout=self._timeout)
            self._local.connection = connection
        return connection

    def _wait(self, tried: int, told: str | None) -> float:
        """Twice as long each time, and partly by chance, so that clients do not come in step."""
        longest = min(_FIRST_WAIT * 2**tried, _LONGEST_WAIT)
        chance = random.uniform(longest / 2, longest)
        asked = float(told) if told and told.isdigit() else 0.0
        return min(max(chance, asked + chance / 4 if asked else 0.0), _LONGEST_WAIT)


def _linked(one: Mapping[str, Any]) -> Linked:
    candidates = (
        Candidate(**(candidate | {"names": tuple(candidate["names"])}))
        for candidate in one["candidates"]
    )
    return Linked(one["mention"], tuple(candidates))


def _said_no(answer: _Answer) -> ServerError:
    try:
        error = json.loads(answer.body)["error"]
        message, code = str(error["message"]), str(error["code"])
    except (ValueError, KeyError, TypeError):
        message, code = "it gave no reason", ""
    return ServerError(
        f"the server answered {answer.status}: {message}", status=answer.status, code=code
    )


def _written(body: object) -> bytes:
    """JSON in UTF-8, half the size of escaped Korean; lone surrogates, which it cannot hold, go."""
    text = json.dumps(body, ensure_ascii=False)
    try:
        return text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode("utf-8")


def _portions(texts: Iterable[str]) -> Iterator[list[str]]:
    """Cut a stream of texts into what one request brings.

    >>> [len(portion) for portion in _portions(["배"] * 300)]
    [256, 44]
    """
    portion: list[str] = []
    characters = 0
    for i, text in enumerate(texts):
        size = len(as_text(text, where=f"texts[{i}]"))
        if portion and (len(portion) == _TEXTS or characters + size > _CHARACTERS):
            yield portion
            portion, characters = [], 0
        portion.append(text)
        characters += size
    if portion:
        yield portion


def _as_list(texts: str | Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        return [texts]
    if isinstance(texts, bytes):
        raise TextError("texts is bytes; expected str or a list of them. Decode it first.")
    return [as_text(text, where=f"texts[{i}]") for i, text in enumerate(texts)]
