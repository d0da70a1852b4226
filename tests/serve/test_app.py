"""Requests and answers of the server."""

import base64
import json
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.serve.api_keys import make_key
from malmoi.serve.settings import Limits, ServerSettings
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


def test_the_openapi_document_has_examples(server: Served) -> None:
    """What it lists is pinned in tests/pins/test_http.py."""
    document = server.get("/openapi.json").json
    shapes = document["components"]["schemas"]
    assert set(re.findall(r'"#/components/schemas/(\w+)"', json.dumps(document))) == set(shapes)
    ids = {one["operationId"] for path in document["paths"].values() for one in path.values()}
    assert len(ids) == 25 and "embeddings_v1_embeddings_post" in ids
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


def request(body: object, *headers: bytes, path: bytes = b"/v1/embeddings") -> bytes:
    data = json.dumps(body).encode()
    head = [b"POST %s HTTP/1.1" % path, b"host: localhost", b"content-type: application/json"]
    head += [b"content-length: %d" % len(data), *headers, b"", b""]
    return b"\r\n".join(head) + data


def answers(link: socket.socket, count: int) -> list[tuple[bytes, bytes]]:
    """Read so many answers, heads and bodies, from a connection that stays open."""
    found, rest = [], b""
    while len(found) < count:
        head, mark, body = rest.partition(b"\r\n\r\n")
        size = re.search(rb"content-length: (\d+)", head)
        if mark and size and len(body) >= int(size[1]):
            found.append((head, body[: int(size[1])]))
            rest = body[int(size[1]) :]
        else:
            part = link.recv(1 << 16)
            assert part, rest
            rest += part
    return found


@pytest.fixture
def link(server: Served) -> Iterator[socket.socket]:
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as opened:
        yield opened


def vectors(body: bytes) -> np.ndarray:
    return np.array([row["embedding"] for row in json.loads(body)["data"]])


def test_a_body_in_pieces_is_put_together(link: socket.socket, resources: Resources) -> None:
    whole = request({"input": ["cat", "the dog sleeps"]})
    for start in range(0, len(whole), 40):
        link.sendall(whole[start : start + 40])
        threading.Event().wait(0.002)
    [(head, body)] = answers(link, 1)
    assert head.startswith(b"HTTP/1.1 200 OK") and b"content-security-policy" in head
    own = resources.encoder.encode(["cat", "the dog sleeps"])
    assert np.allclose(vectors(body), own, atol=1e-4)


def test_requests_sent_at_once_are_answered_in_order(
    link: socket.socket, resources: Resources
) -> None:
    texts = ["cat", "the dog sleeps", "pear", "a cat and a dog"]
    odd = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    sent = [request({"input": text}) for text in texts]
    link.sendall(sent[0] + sent[1] + odd + sent[2] + request({"input": 3}) + sent[3])
    found = answers(link, 6)
    assert [head[9:12] for head, _ in found] == [b"200", b"200", b"200", b"200", b"422", b"200"]
    given = [vectors(found[i][1])[0] for i in (0, 1, 3, 5)]
    assert np.allclose(given, resources.encoder.encode(texts), atol=1e-4)


def test_large_upgrading_and_chunked_requests_are_answered(link: socket.socket) -> None:
    link.sendall(request({"input": "cat " * 20_000}) + request({"input": "cat"}, b"upgrade: h2c"))
    chunked = (
        b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    )
    link.sendall(chunked + b'transfer-encoding: chunked\r\n\r\nf\r\n{"input":"cat"}\r\n0\r\n\r\n')
    found = answers(link, 3)
    assert [head[9:12] for head, _ in found] == [b"200"] * 3
    assert np.allclose(vectors(found[1][1]), vectors(found[2][1]))


def test_a_small_body_that_does_not_come_is_not_waited_for(resources: Resources) -> None:
    with serving(
        resources, ServerSettings(limits=Limits(body_seconds=0.2, held_bytes=100))
    ) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
            link.sendall(request({"input": "cat"})[:-3])
            [(head, body)] = answers(link, 1)
            assert head.startswith(b"HTTP/1.1 408") and b"connection: close" in head
            assert b"slow_body" in body and link.recv(10) == b""
        answer = server.post("/v1/embeddings", {"input": "cat " * 50})
        assert answer.status == 429
        assert server.post("/v1/embeddings", {"input": "cat"}).status == 200
        assert server.state.running == 0


def test_strangers_are_refused_before_their_body_comes(
    resources: Resources, tmp_path: Path
) -> None:
    key = make_key("team", tmp_path / "keys")
    with serving(resources, ServerSettings(keys=tmp_path / "keys")) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
            whole = request({"input": "cat"})
            link.sendall(whole[:-5])
            [(head, _)] = answers(link, 1)
            assert head.startswith(b"HTTP/1.1 401") and b"connection: close" not in head
            link.sendall(whole[-5:])  # the rest is passed over, and the connection is good
            link.sendall(request({"input": "cat"}, b"authorization: Bearer " + key.encode()))
            assert answers(link, 1)[0][0].startswith(b"HTTP/1.1 200")


def test_bodies_of_another_shape_are_described(server: Served) -> None:
    cases = [
        (b'{"input": "cat"', "no JSON"),
        (b"[" * 1000, "no JSON"),
        (b'{"input": "cat", "dimension": 3}', "dimension: no such field"),
        (b'{"input": "cat", "dimensions": "3"}', "dimensions: Input should be a valid integer"),
        (b"[]", "the body: Input should be an object"),
        (b'{"input": "\\ud800"}', "no JSON"),
        (b'{"input": "\xff"}', "no JSON"),
    ]
    for raw, message in cases:
        answer = server.ask("POST", "/v1/embeddings", raw=raw)
        assert answer.status == 422 and message in answer.json["error"]["message"]
        assert answer.json["error"]["code"] == "invalid_body"


@pytest.mark.parametrize(
    ("path", "field"),
    [
        ("/v1/embeddings", "input"),
        ("/v1/similarity", "a"),
        ("/v1/rerank", "documents"),
        ("/v1/link", "mentions"),
        ("/v1/words", "texts"),
    ],
)
def test_long_lists_are_refused_without_an_error_for_each_element(
    server: Served, path: str, field: str
) -> None:
    others = {"query": "cat"} if path == "/v1/rerank" else {}
    for bad in (-1, [], {}, None):
        answer = server.post(path, {field: [bad] * 20_000, **others})
        assert answer.status in (413, 422) and len(answer.body) < 2000
        assert len(answer.body) < 1000
    if path == "/v1/words":
        return  # its list is shorter
    answer = server.post(path, {field: ["cat"] * 2049, **others})
    assert answer.status == 413
    assert answer.json["error"]["code"] == "too_many_texts"


def test_errors_carry_the_headers_of_the_site_that_may_call(
    resources: Resources, tmp_path: Path
) -> None:
    key = make_key("team", tmp_path / "keys")
    settings = ServerSettings(cors=("https://app.example",), keys=tmp_path / "keys")
    with serving(resources, settings) as allowed:
        origin = {"origin": "https://app.example"}
        bodies = ({"input": "cat"}, {"input": 3}, {"input": "cat", "model": "other"})
        for body, status in zip(bodies, (200, 422, 404), strict=True):
            sent = origin | {"authorization": f"Bearer {key}"}
            answer = allowed.post("/v1/embeddings", body, **sent)
            assert answer.status == status
            assert answer.headers["access-control-allow-origin"] == "https://app.example"
        stranger = allowed.post("/v1/embeddings", bodies[0], **origin)
        assert stranger.status == 401
        assert stranger.headers["access-control-allow-origin"] == "https://app.example"
        asked = origin | {"access_control_request_method": "POST"}
        assert allowed.ask("OPTIONS", "/v1/embeddings", **asked).status == 200


def test_other_methods_and_paths_are_explained(server: Served) -> None:
    answer = server.get("/v1/embeddings")
    assert answer.status == 405 and answer.headers["allow"] == "POST"
    assert answer.json["error"]["code"] == "wrong_method"
    answer = server.get("/v1/nowhere")
    assert answer.status == 404 and answer.json["error"]["code"] == "not_found"
    assert server.ask("HEAD", "/health").status == 200
    page = server.get("/")
    assert server.get("/", if_none_match=page.headers["etag"]).status == 304


def test_headers_without_end_are_refused(server: Served, link: socket.socket) -> None:
    link.sendall(b"GET /health HTTP/1.1\r\nhost: localhost\r\nx-long: ")
    for _ in range(5):
        link.sendall(b"v" * 10_000)
        time.sleep(0.01)
    assert link.recv(1000).startswith(b"HTTP/1.1 400")
    answer = server.get("/health", **{f"x_{i}": "v" * 1000 for i in range(40)})
    assert answer.status == 431 and answer.json["error"]["code"] == "headers_too_large"


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch, resources: Resources) -> threading.Event:
    """What the encoder waits for before it encodes."""
    return hold_encoder(monkeypatch, resources.encoder)


def test_who_leaves_is_forgotten_at_once(resources: Resources, gate: threading.Event) -> None:
    with serving(resources, workers=1) as server:
        state = server.state
        links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        for link in links:
            link.sendall(request({"input": "cat"}))
        wait_for(lambda: state.running == 3)
        for link in links:
            link.close()
        wait_for(lambda: state.running == 0)
        gate.set()
        assert server.post("/v1/embeddings", {"input": "dog"}).status == 200
        text = server.get("/metrics").body.decode()
        assert 'malmoi_requests_total{route="/v1/embeddings",status="499"} 3.0' in text


def test_who_leaves_with_requests_in_line_is_not_written_to(
    resources: Resources, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    large = request({"input": "cat " * 20_000})
    with serving(resources, workers=1) as server:
        state = server.state
        for sent in (large * 2, large + request({"input": "cat"}), request({"input": "cat"}) * 2):
            with socket.create_connection(("127.0.0.1", server.port)) as link:
                link.sendall(sent)
                wait_for(lambda: state.running == 1)
        gate.set()  # who sent two small ones at once is read again when the first is answered
        wait_for(lambda: state.running == 0)
        assert server.post("/v1/embeddings", {"input": "dog"}).status == 200
    assert not [record for record in caplog.records if record.levelname != "INFO"]


def test_a_client_that_leaves_after_a_large_body_is_noticed(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_encoder(monkeypatch, resources.encoder)
    with serving(resources) as server:
        whole = request({"input": ["the cat sleeps " * 10] * 2000})
        assert len(whole) > 200_000
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
            link.sendall(whole)
            wait_for(lambda: server.state.running == 1)
            time.sleep(0.2)
        try:
            wait_for(lambda: server.state.running == 0, 3)
        finally:
            gate.set()
        assert server.post("/v1/embeddings", {"input": "cat"}).status == 200
