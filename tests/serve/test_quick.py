"""Small bodies go the quick way: whole, in pieces, one after the other, too slowly, left alone."""

import json
import re
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from malmoi.encoder import Encoder
from malmoi.serve.house import Stock
from malmoi.serve.keys import make_key
from malmoi.serve.settings import Limits, Settings
from tests.support.servers import Served, serving, wait_for


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


def test_a_body_in_pieces_is_put_together(link: socket.socket, stock: Stock) -> None:
    whole = request({"input": ["cat", "the dog sleeps"]})
    for start in range(0, len(whole), 40):
        link.sendall(whole[start : start + 40])
        threading.Event().wait(0.002)
    [(head, body)] = answers(link, 1)
    assert head.startswith(b"HTTP/1.1 200 OK") and b"content-security-policy" in head
    own = stock.encoder.encode(["cat", "the dog sleeps"])
    assert np.allclose(vectors(body), own, atol=1e-4)


def test_requests_sent_at_once_are_answered_in_order(link: socket.socket, stock: Stock) -> None:
    texts = ["cat", "the dog sleeps", "pear", "a cat and a dog"]
    odd = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"
    sent = [request({"input": text}) for text in texts]
    link.sendall(sent[0] + sent[1] + odd + sent[2] + request({"input": 3}) + sent[3])
    found = answers(link, 6)
    assert [head[9:12] for head, _ in found] == [b"200", b"200", b"200", b"200", b"422", b"200"]
    given = [vectors(found[i][1])[0] for i in (0, 1, 3, 5)]
    assert np.allclose(given, stock.encoder.encode(texts), atol=1e-4)


def test_what_is_large_or_odd_goes_the_other_way(link: socket.socket) -> None:
    link.sendall(request({"input": "cat " * 20_000}) + request({"input": "cat"}, b"upgrade: h2c"))
    chunked = (
        b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    )
    link.sendall(chunked + b'transfer-encoding: chunked\r\n\r\nf\r\n{"input":"cat"}\r\n0\r\n\r\n')
    found = answers(link, 3)
    assert [head[9:12] for head, _ in found] == [b"200"] * 3
    assert np.allclose(vectors(found[1][1]), vectors(found[2][1]))


def test_a_small_body_that_does_not_come_is_not_waited_for(stock: Stock) -> None:
    with serving(stock, Settings(limits=Limits(body_seconds=0.2, held_bytes=100))) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
            link.sendall(request({"input": "cat"})[:-3])
            [(head, body)] = answers(link, 1)
            assert head.startswith(b"HTTP/1.1 408") and b"connection: close" in head
            assert b"slow_body" in body and link.recv(10) == b""
        answer = server.post("/v1/embeddings", {"input": "cat " * 50})
        assert answer.status == 429 and answer.headers["connection"] == "close"
        assert server.post("/v1/embeddings", {"input": "cat"}).status == 200
        assert server.app is not None and server.app.house.running == 0


def test_strangers_are_refused_before_their_body_comes(stock: Stock, tmp_path: Path) -> None:
    key = make_key("team", tmp_path / "keys")
    with serving(stock, Settings(keys=tmp_path / "keys")) as server:
        with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
            whole = request({"input": "cat"})
            link.sendall(whole[:-5])
            [(head, _)] = answers(link, 1)
            assert head.startswith(b"HTTP/1.1 401") and b"connection: close" not in head
            link.sendall(whole[-5:])  # the rest is passed over, and the connection is good
            link.sendall(request({"input": "cat"}, b"authorization: Bearer " + key.encode()))
            assert answers(link, 1)[0][0].startswith(b"HTTP/1.1 200")


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """What the encoder waits for before it encodes."""
    gate = threading.Event()
    own = Encoder.encode_ids

    def slow(self: Encoder, *args: object, **options: object) -> object:
        gate.wait(10)
        return own(self, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Encoder, "encode_ids", slow)
    return gate


def test_who_leaves_is_forgotten_at_once(stock: Stock, gate: threading.Event) -> None:
    with serving(stock, workers=1) as server:
        assert server.app is not None
        house = server.app.house
        links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(3)]
        for link in links:
            link.sendall(request({"input": "cat"}))
        wait_for(lambda: house.running == 3)
        for link in links:
            link.close()
        wait_for(lambda: house.running == 0)
        gate.set()
        assert server.post("/v1/embeddings", {"input": "dog"}).status == 200
        text = server.get("/metrics").body.decode()
        assert 'malmoi_requests_total{route="/v1/embeddings",status="499"} 3.0' in text


def test_who_leaves_with_requests_in_line_is_not_written_to(
    stock: Stock, gate: threading.Event, caplog: pytest.LogCaptureFixture
) -> None:
    large = request({"input": "cat " * 20_000})
    with serving(stock, workers=1) as server:
        assert server.app is not None
        house = server.app.house
        for sent in (large * 2, large + request({"input": "cat"}), request({"input": "cat"}) * 2):
            with socket.create_connection(("127.0.0.1", server.port)) as link:
                link.sendall(sent)
                wait_for(lambda: house.running == 1)
        gate.set()  # who sent two small ones at once is read again when the first is answered
        wait_for(lambda: house.running == 0)
        assert server.post("/v1/embeddings", {"input": "dog"}).status == 200
    assert not caplog.records
