"""The server: its OpenAPI document without names, and what it answers to a few requests.

It is started by the command line and asked over a socket, so that what serves may be replaced.
"""

import base64
import http.client
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.pins.golden import check_entry, check_json

pytest.importorskip("uvicorn")
pytestmark = [pytest.mark.slow, pytest.mark.server]

JSON = "application/json"
PLAIN = {"content-type", "content-length", "date", "connection", "keep-alive"}
SECURITY = {
    "content-security-policy",
    "cross-origin-opener-policy",
    "cross-origin-resource-policy",
    "permissions-policy",
    "referrer-policy",
    "x-content-type-options",
}
# Words for people, which may change, and names that follow the code.
PROSE = ("title", "description", "summary", "example", "examples", "operationId", "tags")
# Requests, by a name each: the path, and the body of a POST.
REQUESTS: dict[str, tuple[str, Any]] = {
    "health": ("/health", None),
    "ready": ("/ready", None),
    "models": ("/v1/models", None),
    "info": ("/v1/info", None),
    "embeddings": ("/v1/embeddings", {"input": ["the cat", "배"], "model": "tiny"}),
    "embeddings short": ("/v1/embeddings", {"input": "the cat", "dimensions": 4}),
    "embeddings base64": ("/v1/embeddings", {"input": "cat", "encoding_format": "base64"}),
    "embeddings of ids": ("/v1/embeddings", {"input": [[2, 18, 20, 3]], "tokenizer": "own"}),
    "embeddings cut": ("/v1/embeddings", {"input": "cat " * 40}),
    "foreign ids": ("/v1/embeddings", {"input": [[2, 18, 20, 3]]}),
    "own ids": ("/v1/embeddings", {"input": [[18, 20]], "tokenizer": "own"}),
    "model": ("/v1/models/tiny", None),
    "cohere v1": ("/v1/embed", {"texts": ["cat"], "input_type": "search_query"}),
    "cohere v2": ("/v2/embed", {"texts": ["cat"], "embedding_types": ["int8", "ubinary"]}),
    "cohere v2 rerank": ("/v2/rerank", {"query": "cat", "documents": ["dog", "the cat"]}),
    "vllm rerank": ("/rerank", {"query": "cat", "documents": ["dog", "the cat"], "top_n": 1}),
    "vllm score": ("/score", {"text_1": "cat", "text_2": ["dog", "the cat"]}),
    "tei rerank": ("/rerank", {"query": "cat", "texts": ["dog", "the cat"]}),
    "tei embed": ("/embed", {"inputs": "cat"}),
    "tei similarity": (
        "/similarity",
        {"inputs": {"source_sentence": "cat", "sentences": ["dog", "cat"]}},
    ),
    "tei info": ("/info", None),
    "ollama tags": ("/api/tags", None),
    "similarity": ("/v1/similarity", {"a": ["cat"], "b": ["dog", "고양이"]}),
    "rerank": ("/v1/rerank", {"query": "cat", "documents": ["dog", "the cat"], "top_n": 2}),
    "search": ("/v1/search", {"query": "the cat", "k": 2}),
    "search dense": ("/v1/search", {"query": "당뇨", "mode": "dense", "filter": {"lang": "ko"}}),
    "search reranked": ("/v1/search", {"query": "cat", "k": 2, "rerank": True, "depth": 3}),
    "link": ("/v1/link", {"mentions": ["DM", "sweet pears"], "k": 1}),
    "note": ("/v1/link/note", {"text": "no diabetes, 배가 아프다", "k": 1}),
    "keywords": ("/v1/keywords", {"text": "the cat sleeps. patient has diabetes", "top": 2}),
    "map": ("/v1/map", {}),
    "words": ("/v1/words", {"texts": ["the cat"]}),
    "no body": ("/v1/embeddings", {}),
    "unknown field": ("/v1/embeddings", {"input": "cat", "no_such_field": 1}),
    "wrong type": ("/v1/embeddings", {"input": 5}),
    "empty list": ("/v1/embeddings", {"input": []}),
    "text for a number": ("/v1/search", {"query": "cat", "k": "3"}),
    "k above its range": ("/v1/search", {"query": "cat", "k": 101}),
    "too many dimensions": ("/v1/embeddings", {"input": "cat", "dimensions": 17}),
    "unknown model": ("/v1/embeddings", {"input": "cat", "model": "other"}),
    "unknown corpus": ("/v1/search", {"query": "cat", "corpus": "other"}),
    "unknown prompt": ("/v1/embeddings", {"input": "cat", "prompt": "other"}),
    "id outside the vocabulary": ("/v1/embeddings", {"input": [[999999]]}),
    "not JSON": ("/v1/embeddings", "{"),
    "no such path": ("/v1/nothing", {}),
    "wrong method": ("/v1/embeddings", None),
}


class Client:
    """One request on a connection of its own."""

    def __init__(self, port: int) -> None:
        self.port = port

    def ask(self, path: str, body: Any = None, **headers: str) -> tuple[int, dict[str, str], bytes]:
        """Give the status, the headers and the body."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            if body is None:
                connection.request("GET", path, headers=headers)
            else:
                raw = body if isinstance(body, str) else json.dumps(body)
                sent = {"content-type": JSON} | headers
                connection.request("POST", path, raw.encode(), sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return response.status, found, response.read()
        finally:
            connection.close()


@pytest.fixture(scope="module")
def server(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """`malmoi serve` in a process of its own, with the files of an earlier malmoi."""
    folder = tmp_path_factory.mktemp("serve")
    files = Path(shutil.copytree(packed, folder / "files"))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = ["--port", port, "--model", files / "tiny", "--reranker", files / "tiny-reranker"]
    options += ["--corpus", files / "pages.malmoi", "--lexicon", files / "codes.lexicon"]
    log = folder / "serve.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "malmoi", "serve", *map(str, options)],
            stdout=out,
            stderr=out,
            cwd=folder,
            env=os.environ | {"XDG_CACHE_HOME": str(folder)},
        )
    client, deadline = Client(port), time.monotonic() + 60
    try:
        while True:
            try:
                if client.ask("/ready")[0] == 200:
                    break
            except OSError:
                assert running.poll() is None and time.monotonic() < deadline, log.read_text()
            time.sleep(0.05)
        yield client
    finally:
        running.kill()
        running.wait(timeout=20)


def resolve(schema: Any, document: Any) -> Any:
    """Put definitions in the place of references, and leave words for people out."""
    if isinstance(schema, list):
        return [resolve(one, document) for one in schema]
    if isinstance(schema, float) and schema.is_integer():
        return int(schema)  # a bound of 1.0 is one of 1
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        found = document
        for key in schema["$ref"].removeprefix("#/").split("/"):
            found = found[key]
        return resolve(found, document)
    made = {}
    for key, value in sorted(schema.items()):
        if key == "properties":
            made[key] = {name: resolve(one, document) for name, one in sorted(value.items())}
        elif key == "required" and isinstance(value, list):
            made[key] = sorted(value)
        elif key not in PROSE:
            made[key] = resolve(value, document)
    return made


def body_of(part: Any, document: Any) -> Any:
    """The schema of a JSON body."""
    content = part.get("content", {})
    return resolve(content[JSON].get("schema"), document) if JSON in content else sorted(content)


def test_the_openapi_document(server: Client) -> None:
    status, _, raw = server.ask("/openapi.json")
    assert status == 200
    document = json.loads(raw)
    assert document["openapi"].startswith("3.") and document["info"]["title"] == "malmoi"
    found: dict[str, Any] = {}
    refusals = []
    for path, methods in sorted(document["paths"].items()):
        for method, operation in sorted(methods.items()):
            entry: dict[str, Any] = {}
            if "parameters" in operation:
                entry["parameters"] = resolve(operation["parameters"], document)
            if "requestBody" in operation:
                entry["asked"] = body_of(operation["requestBody"], document)
            answers = operation["responses"]
            entry["given"] = body_of(answers["200"], document)
            entry["refused with"] = " ".join(sorted(code for code in answers if code != "200"))
            refusals += [body_of(one, document) for code, one in answers.items() if code != "200"]
            found[f"{method.upper()} {path}"] = entry
    assert all(one == refusals[0] for one in refusals)
    check_json("openapi.json", found | {"every refusal": refusals[0]})


def shown(data: Any) -> Any:
    """An answer without the wording of its error, with fewer digits."""
    if isinstance(data, dict):
        if set(data) == {"error"} and "message" in data["error"]:
            return {"error": data["error"] | {"message": "..."}}
        return {key: shown(value) for key, value in data.items()}
    if isinstance(data, list):
        return [shown(one) for one in data]
    return round(data, 4) if isinstance(data, float) else data


@pytest.mark.parametrize("name", REQUESTS)
def test_an_answer(server: Client, name: str) -> None:
    path, body = REQUESTS[name]
    status, headers, raw = server.ask(path, body)
    assert headers["content-type"].startswith(JSON)
    assert set(headers) >= SECURITY
    further = sorted(set(headers) - SECURITY - PLAIN)
    answer = shown(json.loads(raw))
    if name in ("info", "tei info"):
        answer["version"] = "..."
    if name == "embeddings base64":
        coded = answer["data"][0]["embedding"]
        vector = np.frombuffer(base64.b64decode(coded), "<f4").astype(float)
        answer["data"][0]["embedding"] = np.round(vector, 4).tolist()
    found = {"status": status, "body": answer} | ({"headers": further} if further else {})
    check_entry("answers.json", name, found, within=3e-4)


def test_pages_and_metrics(server: Client) -> None:
    status, headers, page = server.ask("/")
    assert status == 200 and headers["content-type"].startswith("text/html") and b"malmoi" in page
    status, _, raw = server.ask("/metrics")
    names = sorted({line.split()[2] for line in raw.decode().splitlines() if line[:6] == "# TYPE"})
    assert status == 200
    ours = [name for name in names if name.startswith("malmoi")]
    check_entry("answers.json", "metrics", ours)


def test_another_host_is_refused(server: Client) -> None:
    status, _, raw = server.ask("/v1/models", Host="elsewhere.example")
    check_entry("answers.json", "another host", {"status": status, "body": shown(json.loads(raw))})
