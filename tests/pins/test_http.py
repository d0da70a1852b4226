"""The server with files of an earlier malmoi: its OpenAPI document, and the requests it answers."""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.pins.golden import check_json

pytest.importorskip("uvicorn")
from malmoi.serve.state import load_resources
from tests.support.servers import Served, serving

pytestmark = pytest.mark.server

JSON = "application/json"
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
# What is answered: the path, and the body of a POST.
ANSWERED: list[tuple[str, Any]] = [
    ("/health", None),
    ("/ready", None),
    ("/v1/models", None),
    ("/v1/info", None),
    ("/v1/embeddings", {"input": ["the cat", "배"], "model": "tiny"}),
    ("/v1/embeddings", {"input": "the cat", "dimensions": 4}),
    ("/v1/embeddings", {"input": "cat", "encoding_format": "base64"}),
    ("/v1/embeddings", {"input": [[2, 18, 20, 3]], "tokenizer": "own"}),
    ("/v1/embeddings", {"input": "cat " * 40}),
    ("/v1/embeddings", {"input": [[18, 20]], "tokenizer": "own"}),
    ("/v1/models/tiny", None),
    ("/v1/embed", {"texts": ["cat"], "input_type": "search_query"}),
    ("/v2/embed", {"texts": ["cat"], "embedding_types": ["int8", "ubinary"]}),
    ("/v2/rerank", {"query": "cat", "documents": ["dog", "the cat"]}),
    ("/rerank", {"query": "cat", "documents": ["dog", "the cat"], "top_n": 1}),
    ("/rerank", {"query": "cat", "texts": ["dog", "the cat"]}),
    ("/embed", {"inputs": "cat"}),
    ("/v1/similarity", {"a": ["cat"], "b": ["dog", "고양이"]}),
    ("/v1/rerank", {"query": "cat", "documents": ["dog", "the cat"], "top_n": 2}),
    ("/v1/search", {"query": "the cat", "k": 2}),
    ("/v1/search", {"query": "당뇨", "mode": "dense", "filter": {"lang": "ko"}}),
    ("/v1/search", {"query": "cat", "k": 2, "rerank": True, "depth": 3}),
    ("/v1/link", {"mentions": ["DM", "sweet pears"], "k": 1}),
    ("/v1/link/note", {"text": "no diabetes, 배가 아프다", "k": 1}),
    ("/v1/keywords", {"text": "the cat sleeps. patient has diabetes", "top": 2}),
    ("/v1/map", {}),
]
# What is refused: the code and the status, the path, and the body of a POST.
REFUSED: list[tuple[str, int, str, Any]] = [
    ("foreign_tokens", 400, "/v1/embeddings", {"input": [[2, 18, 20, 3]]}),
    ("no_layers", 404, "/v1/words", {"texts": ["the cat"]}),
    ("invalid_body", 422, "/v1/embeddings", {}),
    ("invalid_body", 422, "/v1/embeddings", {"input": "cat", "no_such_field": 1}),
    ("invalid_body", 422, "/v1/embeddings", {"input": 5}),
    ("invalid_body", 422, "/v1/embeddings", {"input": []}),
    ("invalid_body", 422, "/v1/search", {"query": "cat", "k": "3"}),
    ("invalid_body", 422, "/v1/search", {"query": "cat", "k": 101}),
    ("too_many_dimensions", 400, "/v1/embeddings", {"input": "cat", "dimensions": 17}),
    ("model_not_found", 404, "/v1/embeddings", {"input": "cat", "model": "other"}),
    ("corpus_not_found", 404, "/v1/search", {"query": "cat", "corpus": "other"}),
    ("unknown_prompt", 400, "/v1/embeddings", {"input": "cat", "prompt": "other"}),
    ("foreign_tokens", 400, "/v1/embeddings", {"input": [[999999]]}),
    ("invalid_body", 422, "/v1/embeddings", "{"),
    ("not_found", 404, "/v1/nothing", {}),
    ("wrong_method", 405, "/v1/embeddings", None),
]
METRICS = "batch_seconds batch_texts queue_tokens request_seconds requests_in_flight"


@pytest.fixture(scope="module")
def server(packed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    files = Path(shutil.copytree(packed, tmp_path_factory.mktemp("serve") / "files"))
    resources = load_resources(
        files / "tiny",
        reranker=str(files / "tiny-reranker"),
        corpora=[files / "pages.malmoi"],
        lexicons=[str(files / "codes.lexicon")],
    )
    with serving(resources) as served:
        yield served


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


def test_the_openapi_document(server: Served) -> None:
    document = server.get("/openapi.json").json
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


def ask(server: Served, path: str, body: Any) -> tuple[int, Any]:
    if body is None:
        answer = server.get(path)
    elif isinstance(body, str):
        answer = server.ask("POST", path, raw=body.encode())
    else:
        answer = server.post(path, body)
    assert answer.headers["content-type"].startswith(JSON) and answer.headers.keys() >= SECURITY
    return answer.status, answer.json


@pytest.mark.parametrize(("path", "body"), ANSWERED)
def test_answered(server: Served, path: str, body: Any) -> None:
    assert ask(server, path, body)[0] == 200


@pytest.mark.parametrize(("code", "status", "path", "body"), REFUSED)
def test_refused(server: Served, code: str, status: int, path: str, body: Any) -> None:
    found, answer = ask(server, path, body)
    assert (found, answer["error"]["code"]) == (status, code)


def test_the_page_and_the_names_of_metrics(server: Served) -> None:
    page = server.get("/")
    assert page.headers["content-type"].startswith("text/html") and b"malmoi" in page.body
    text = server.get("/metrics").body.decode()
    assert all(f"# TYPE malmoi_{name} " in text for name in METRICS.split())
    assert "# TYPE malmoi_requests_total " in text and "# TYPE malmoi_texts_total " in text
