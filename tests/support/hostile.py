"""Requests that nobody should send: made by hand, endlessly, from a seed."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field

MARK = "비밀문장마커"  # a text that may stand in no answer that refuses it
_PATHS = """
/v1/embeddings /v1/similarity /v1/rerank /v1/search /v1/link /v1/link/note /v1/redact /v1/words
/v1/keywords /v1/passages /v1/corpus /v1/map /v1/documents /v1/embed /v2/embed /v2/rerank /rerank
/embed /api/embed
"""
PATHS = tuple(_PATHS.split())
_NAMES = """
input a b query documents mentions text texts model dimensions encoding_format k mode filter layer
word corpus lexicon top_n depth groups prompt inputs input_type embedding_types options on_long by
top diversity id number files offset group folder passages vectors special merge return_documents
truncate tokenizer dates lang
"""
_FIELDS = tuple(_NAMES.split())
_BAD = (
    None,
    True,
    -1,
    0,
    1,
    10**30,
    -(10**400),
    1e308,
    float("nan"),
    float("inf"),
    "",
    " ",
    MARK,
    "\x00",
    "a\x00b",
    "\ud800",
    "\udfff\ud800",
    "\u202e" + MARK,
    "../../etc/passwd",
    "file:///etc/passwd",
    "%2e%2e%2f",
    "' OR 1=1 --",
    '" NEAR (',
    "*" * 200,
    "a" * 5000,
    "가" * 5000,
    [],
    {},
    [[]],
    [[[]]],
    [MARK, 3],
    [None],
    [0],
    [[2**40]],
    [[-1]],
    {"$ne": None},
    {MARK: MARK},
    {"lang": {"a": 1}},
    {"lang": [1]},
    {"__proto__": 1},
)
_TARGETS = (
    "/../../etc/passwd",
    "/%2e%2e/%2e%2e/etc/passwd",
    "/page/../../keys.py",
    "/page/%2e%2e%2fkeys.py",
    "/page//etc/passwd",
    "/page/main.js%00.css",
    "/%00",
    "/%ff%fe",
    "/v1/embeddings/",
    "/v1//embeddings",
    "/v1/../health",
    "//evil.example/",
    "/;/v1/models",
    "/" + "a" * 4000,
    "/?" + "q=" * 2000,
    "/docs",
    "/redoc",
)
_METHODS = ("PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "HEAD", "CONNECT", "BREW", "get", "")


@dataclass(frozen=True)
class Hostile:
    """One request, as it goes over the wire."""

    method: str = "POST"
    target: str = "/v1/embeddings"
    headers: tuple[tuple[str, str], ...] = (("content-type", "application/json"),)
    body: bytes = b""
    length: str | None = None  # stated instead of the body's own
    kind: str = field(default="", compare=False)

    def wire(self) -> bytes:
        """The bytes of it."""
        head = f"{self.method} {self.target} HTTP/1.1\r\nhost: localhost\r\n"
        head += "".join(f"{name}: {value}\r\n" for name, value in self.headers)
        stated = self.length if self.length is not None else str(len(self.body))
        head += f"content-length: {stated}\r\nconnection: close\r\n\r\n"
        return head.encode("latin-1", "replace") + self.body


def hostile(seed: int = 0) -> Iterator[Hostile]:
    """Make bad requests without end; the same seed gives the same ones."""
    chance = random.Random(seed)
    makers = (_wrong_fields, _deep, _broken, _odd_target, _odd_headers, _odd_method, _odd_length)
    weights = (10, 2, 4, 3, 3, 1, 1)
    while True:
        yield chance.choices(makers, weights)[0](chance)


def _wrong_fields(chance: random.Random) -> Hostile:
    fields = {name: chance.choice(_BAD) for name in chance.sample(_FIELDS, chance.randint(0, 4))}
    if chance.random() < 0.3:
        body: object = chance.choice(_BAD)
    else:
        body = fields | {MARK: 1, "input": chance.choice(_BAD)}  # one field too many at least
    return Hostile(target=chance.choice(PATHS), body=_json(body), kind="wrong fields")


def _json(body: object) -> bytes:
    return json.dumps(body, ensure_ascii=chanceless(body)).encode("utf-8", "surrogatepass")


def chanceless(body: object) -> bool:
    """Escape when there is a number too large to print twice; else send raw bytes."""
    return "NaN" in str(body)


def _deep(chance: random.Random) -> Hostile:
    depth = chance.choice((50, 500, 5_000, 100_000, 1_000_000))
    opening, closing = chance.choice((("[", "]"), ('{"input":', "}")))
    text = opening * depth + "1" + (closing * depth if chance.random() < 0.7 else "")
    return Hostile(target=chance.choice(PATHS), body=text.encode(), kind="deep")


def _broken(chance: random.Random) -> Hostile:
    whole = _json({"input": MARK, "query": MARK, "extra": 1})
    cut = chance.randrange(len(whole))
    body = chance.choice(
        (
            whole[:cut],
            whole[cut:],
            b"\xff\xfe" + whole,
            b"\xef\xbb\xbf" + whole,
            bytes(chance.randrange(256) for _ in range(200)),
            b'{"input": ' + b"9" * 10_000 + b"}",
            b'{"input": "\\ud800"}',
            b'{"input": "a", "input": 3, "input": [[[1]]]}',
            b"",
            b"null",
            b"input=1&b=2",
            whole.replace(b'"', b"'"),
        )
    )
    return Hostile(target=chance.choice(PATHS), body=body, kind="broken")


def _odd_target(chance: random.Random) -> Hostile:
    return Hostile("GET", chance.choice(_TARGETS), (), kind="odd target")


def _odd_headers(chance: random.Random) -> Hostile:
    kinds = (
        tuple((f"x-{i}", "v" * 50) for i in range(1000)),
        (("x-long", "v" * 60_000),),
        (("content-type", "text/plain"),),
        (("content-type", f"application/json; charset={MARK}"), ("content-encoding", "gzip")),
        (("content-type", "application/xml"),),
        (("host", "evil.example"), ("content-type", "application/json")),
        (("content-type", "application/json"), ("sec-fetch-site", "cross-site")),
        (("content-type", "application/json"), ("authorization", "Bearer " + "x" * 9000)),
        (("upgrade", "websocket"), ("connection", "upgrade")),
        (("expect", "100-continue"), ("content-type", "text/html")),
    )
    return Hostile(target=chance.choice(PATHS), headers=chance.choice(kinds), kind="odd headers")


def _odd_method(chance: random.Random) -> Hostile:
    return Hostile(chance.choice(_METHODS), chance.choice(PATHS), (), kind="odd method")


def _odd_length(chance: random.Random) -> Hostile:
    length = chance.choice(("-1", "99999999999999999999", "1e3", "0x10", "", "5, 5", "500000000"))
    return Hostile(target=chance.choice(PATHS), body=b"{}", length=length, kind="odd length")
