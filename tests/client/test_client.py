"""The client: the local objects' methods over HTTP, and patience with a busy server."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import numpy as np
import pytest

import malmoi
from malmoi.client import Client, ServerError
from malmoi.errors import CutWarning, OptionError, TextError
from malmoi.serve.state import Resources
from tests.support import graphs
from tests.support.servers import Served, serving

TEXTS = ["배를 타고 바다", "the cat sleeps", "당뇨 신증 환자"]


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    folder = tmp_path_factory.mktemp("models")
    encoder = malmoi.load(graphs.write_bundle(folder / "tiny"))
    return Resources(encoder, malmoi.load(graphs.write_reranker(folder / "r")))


@pytest.fixture(scope="module")
def server(resources: Resources) -> Iterator[Served]:
    with serving(resources) as served:
        yield served


@pytest.fixture
def client(server: Served) -> Iterator[Client]:
    client = Client(server.url)
    yield client
    client.close()


def test_it_gives_what_the_local_encoder_gives(client: Client, resources: Resources) -> None:
    here = resources.encoder
    assert (client.name, client.dimension, client.max_tokens) == ("tiny", 16, 12)
    np.testing.assert_allclose(client.encode(TEXTS), here.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(client.encode("배", dim=4), here.encode("배", dim=4), atol=1e-6)
    assert client.encode([]).shape == (0, 16)
    for precision in ("int8", "binary"):
        found = client.encode(TEXTS, precision=precision)
        assert (found == here.encode(TEXTS, precision=precision)).all()
    many = [f"cat {i}" for i in range(600)]
    rows = np.stack(list(client.encode_iter(iter(many))))
    np.testing.assert_allclose(rows, here.encode(many), atol=1e-6)
    assert client.similarity("배", "배") == pytest.approx(1, abs=1e-5)
    assert client.similarity(TEXTS, "배").shape == (3,)
    odd = ["\ud800 배", "a\x00b", ""]
    np.testing.assert_allclose(client.encode(odd), here.encode(odd), atol=1e-6)


def test_it_ranks_as_the_local_reranker(client: Client, resources: Resources) -> None:
    assert resources.reranker is not None
    here, there = resources.reranker.rank("배", TEXTS, k=2), client.rank("배", TEXTS, k=2)
    assert [hit.index for hit in there] == [hit.index for hit in here]
    assert [hit.text for hit in there] == [hit.text for hit in here]
    assert client.rank("배", []) == []


def test_cut_texts_are_told_as_they_are_locally(client: Client) -> None:
    with pytest.warns(CutWarning, match="1 of 2 texts"):
        client.encode(["cat " * 50, "cat"])
    client.encode(["cat " * 50], on_long="windows")


def test_what_the_server_refuses_is_an_error_with_its_reason(client: Client) -> None:
    with pytest.raises(ServerError, match="400: .* have 16 dimensions") as refused:
        client.encode("배", dim=99)
    assert refused.value.status == 400 and refused.value.code == "too_many_dimensions"
    with pytest.raises(TextError, match=r"texts\[1\] is int"):
        client.encode(["배", 3])  # type: ignore[list-item]
    with pytest.raises(OptionError, match="not the address of a server"):
        Client("nowhere")
    with pytest.raises(ServerError, match="cannot be reached"):
        Client("http://127.0.0.1:9", retries=0).encode("배")


def test_it_comes_again_when_told_to(monkeypatch: pytest.MonkeyPatch) -> None:
    statuses, waits = [429, 503, 200], []
    monkeypatch.setattr("malmoi.client.transport.time.sleep", waits.append)

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status = statuses.pop(0)
            body = b'{"encoder": {"id": "x"}}'
            self.send_response(status)
            if status == 429:
                self.send_header("retry-after", "3")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            pass

    with HTTPServer(("127.0.0.1", 0), Handler) as plain:
        thread = threading.Thread(target=plain.serve_forever)
        thread.start()
        client = Client(f"http://127.0.0.1:{plain.server_port}")
        assert client.name == "x"
        client.close()
        plain.shutdown()
        thread.join()
    assert statuses == []
    assert 3 <= waits[0] <= 3.1 and 0.2 <= waits[1] <= 0.4
