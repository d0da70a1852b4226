"""The HTTP API over a real socket, with a tiny encoder and a tiny reranker."""

import base64
import json
import re
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import openai
import pytest

import malmoi
from malmoi.serve.state import Resources
from tests.support.servers import Served, hold_encoder, serving, wait_for

TEXTS = ["배를 타고 바다", "the cat sleeps", "당뇨 신증 환자"]


def test_embeddings_are_the_encoders_own(server: Served, resources: Resources) -> None:
    expected = resources.encoder.encode(TEXTS)
    found = server.post("/v1/embeddings", {"input": TEXTS, "model": "tiny"}).json
    assert [row["index"] for row in found["data"]] == [0, 1, 2]
    rows = np.array([row["embedding"] for row in found["data"]])
    np.testing.assert_allclose(rows, expected, atol=1e-6)
    assert found["model"] == "tiny" and found["object"] == "list"
    assert found["usage"] == {"prompt_tokens": 15, "total_tokens": 15}
    alone = server.post("/v1/embeddings", {"input": TEXTS[0]}).json["data"]
    np.testing.assert_allclose(alone[0]["embedding"], expected[0], atol=1e-6)


def test_dimensions_and_base64(server: Served, resources: Resources) -> None:
    body = {"input": TEXTS, "dimensions": 4, "encoding_format": "base64"}
    rows = [row["embedding"] for row in server.post("/v1/embeddings", body).json["data"]]
    vectors = np.array([np.frombuffer(base64.b64decode(row), dtype="<f4") for row in rows])
    np.testing.assert_allclose(vectors, resources.encoder.encode(TEXTS, dim=4), atol=1e-6)


def test_token_lists(server: Served, resources: Resources) -> None:
    assert isinstance(resources.encoder, malmoi.Encoder)
    ids = resources.encoder.token_ids(TEXTS)
    expected = resources.encoder.encode(TEXTS)
    for given, rows in ((ids, expected), (ids[1], expected[1:2])):
        found = server.post("/v1/embeddings", {"input": given, "tokenizer": "own"}).json["data"]
        np.testing.assert_allclose([row["embedding"] for row in found], rows, atol=1e-6)


def test_long_texts_are_cut_and_told_or_read_in_windows(
    server: Served, resources: Resources
) -> None:
    long = "cat dog " * 20
    answer = server.post("/v1/embeddings", {"input": [long, "cat"]})
    assert answer.headers["x-malmoi-cut"] == "1"
    answer = server.post("/v1/embeddings", {"input": long, "on_long": "windows"})
    assert "x-malmoi-cut" not in answer.headers
    expected = resources.encoder.encode(long, on_long="windows")
    np.testing.assert_allclose(answer.json["data"][0]["embedding"], expected, atol=1e-6)


def test_windows_of_a_long_text_are_batched_like_texts(
    server: Served, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = resources.encoder
    assert isinstance(encoder, malmoi.Encoder)
    expected = encoder.encode(["cat dog " * 500, "cat"], on_long="windows")
    sizes, encode_ids = list[int](), encoder.encode_ids

    def counting(ids: list[list[int]], **options: bool) -> object:
        sizes.append(sum(map(len, ids)))
        return encode_ids(ids, **options)

    monkeypatch.setattr(encoder, "encode_ids", counting)
    body = {"input": ["cat dog " * 500, "cat"], "on_long": "windows"}
    found = server.post("/v1/embeddings", body).json["data"]
    np.testing.assert_allclose([row["embedding"] for row in found], expected, atol=1e-5)
    # As one item, a long text would keep a worker busy for as long as all of it takes.
    assert sizes and max(sizes) <= server.state.settings.batching.budget


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_openai_client_works(server: Served, resources: Resources) -> None:
    with openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused", max_retries=0) as client:
        found = client.embeddings.create(model="tiny", input=TEXTS)
        rows = [row.embedding for row in found.data]
        np.testing.assert_allclose(rows, resources.encoder.encode(TEXTS), atol=1e-6)
        shorter = client.embeddings.create(
            model="tiny", input="배", dimensions=4, encoding_format="float"
        )
        assert len(shorter.data[0].embedding) == 4
        assert [model.id for model in client.models.list()] == ["tiny", "tiny-reranker"]
        with pytest.raises(openai.NotFoundError, match="served is tiny"):
            client.embeddings.create(model="text-embedding-3-small", input="배")


def test_similarity(server: Served, resources: Resources) -> None:
    found = server.post("/v1/similarity", {"a": TEXTS[0], "b": TEXTS}).json["scores"]
    np.testing.assert_allclose(found, resources.encoder.similarity([TEXTS[0]], TEXTS), atol=1e-5)
    square = np.array(server.post("/v1/similarity", {"a": TEXTS}).json["scores"])
    assert square.shape == (3, 3)
    np.testing.assert_allclose(np.diag(square), 1, atol=1e-5)


def test_rerank_in_the_common_shape(server: Served, resources: Resources) -> None:
    assert resources.reranker is not None
    expected = resources.reranker.rank("배", TEXTS)
    body = {"query": "배", "documents": [TEXTS[0], {"text": TEXTS[1]}, TEXTS[2]]}
    found = server.post("/v1/rerank", body).json["results"]
    assert [row["index"] for row in found] == [hit.index for hit in expected]
    np.testing.assert_allclose(
        [row["relevance_score"] for row in found], [hit.score for hit in expected], atol=1e-6
    )
    found = server.post("/v1/rerank", body | {"top_n": 1, "return_documents": True}).json
    assert len(found["results"]) == 1
    assert found["results"][0]["document"]["text"] == expected[0].text


def test_without_a_reranker_it_says_so(resources: Resources) -> None:
    with serving(Resources(resources.encoder)) as server:
        answer = server.post("/v1/rerank", {"query": "배", "documents": ["cat"]})
        assert answer.status == 404
        assert "--reranker" in answer.json["error"]["message"]


def test_it_says_what_it_is(server: Served) -> None:
    assert server.get("/health").json == {"status": "ok"}
    assert server.get("/ready").json == {"status": "ok"}
    info = server.get("/v1/info").json
    assert info["encoder"]["id"] == "tiny" and info["reranker"]["id"] == "tiny-reranker"
    server.post("/v1/embeddings", {"input": "배"})
    text = server.get("/metrics").body.decode()
    assert 'malmoi_requests_total{route="/v1/embeddings",status="200"}' in text
    assert "malmoi_batch_texts_bucket" in text and "malmoi_queue_tokens" in text


def test_the_openapi_document_lists_every_route(server: Served) -> None:
    document = server.get("/openapi.json").json
    found = {(path, method) for path, methods in document["paths"].items() for method in methods}
    posts = [
        "embeddings",
        "similarity",
        "rerank",
        "search",
        "link",
        "link/note",
        "words",
        "keywords",
        "map",
        "passages",
        "corpus",
        "documents",
    ]
    others = [
        *("/v1/embed", "/v2/embed", "/v2/rerank", "/rerank", "/score", "/embed", "/similarity"),
        "/api/embed",
    ]
    gets = ["/health", "/ready", "/metrics", "/v1/models", "/v1/models/{id}", "/v1/info"]
    gets += ["/info", "/api/tags"]
    posted = {(path, "post") for path in (*(f"/v1/{one}" for one in posts), *others)}
    assert found == posted | {(path, "get") for path in gets}
    text = json.dumps(document)
    used = set(re.findall(r'"#/components/schemas/(\w+)"', text))
    assert used == set(document["components"]["schemas"])
    embeddings = document["components"]["schemas"]["EmbeddingsRequest"]
    assert set(embeddings["properties"]) == {
        *("input", "model", "dimensions", "encoding_format", "user", "prompt", "on_long"),
        *("input_type", "task", "truncate", "tokenizer", "normalize", "normalized", "priority"),
        *("embedding_type", "late_chunking", "truncate_prompt_tokens", "add_special_tokens"),
    }
    assert embeddings["required"] == ["input"] and not embeddings["additionalProperties"]
    ids = {one["operationId"] for path in document["paths"].values() for one in path.values()}
    assert len(ids) == 28 and "embeddings_v1_embeddings_post" in ids


def test_the_openapi_document_has_examples(server: Served) -> None:
    document = server.get("/openapi.json").json
    shapes = document["components"]["schemas"]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            assert operation["description"], f"{method} {path}"
            if method == "post":
                content = operation["requestBody"]["content"]["application/json"]["schema"]
                assert "example" in shapes[content["$ref"].split("/")[-1]], path


def test_requests_that_arrive_while_one_is_encoded_share_a_batch(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_encoder(monkeypatch, resources.encoder)
    with serving(resources, workers=1) as server, ThreadPoolExecutor(16) as pool:
        state = server.state
        bodies = [{"input": f"cat {i}"} for i in range(16)]
        answers = [pool.submit(server.post, "/v1/embeddings", body) for body in bodies]
        wait_for(lambda: state.running == 16)
        gate.set()
        assert {answer.result().status for answer in answers} == {200}
        text = server.get("/metrics").body.decode()
    counts = {
        line.split()[0]: float(line.split()[1])
        for line in text.splitlines()
        if line.startswith("malmoi_batch_texts_")
    }
    assert counts['malmoi_batch_texts_sum{kind="encode"}'] == 16
    assert counts['malmoi_batch_texts_count{kind="encode"}'] <= 3
