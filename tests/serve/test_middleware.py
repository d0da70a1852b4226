"""Who may call, how much they may send, and what never gets out."""

import logging
import socket
import stat
import time
from pathlib import Path

import pytest

from malmoi.errors import DataError, OptionError
from malmoi.serve.api_keys import Key, KeyRing, make_key, read_keys
from malmoi.serve.settings import Batching, Limits, ServerSettings
from malmoi.serve.state import Resources
from tests.support.servers import Served, hold_encoder, serving, wait_for

SECRET = "당뇨병성신증환자김철수"


def test_keys_are_kept_as_hashes(tmp_path: Path) -> None:
    file = tmp_path / "keys"
    first, second = make_key("team-a", file), make_key("team-b", file, rate=7)
    assert first != second and first not in file.read_text() and first[3:] not in file.read_text()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    ring = KeyRing(read_keys(file))
    found = ring.find(second)
    assert found is not None and (found.name, found.rate) == ("team-b", 7)
    assert ring.find(second + "x") is None and ring.find("") is None
    with pytest.raises(OptionError, match="has a key named team-a already"):
        make_key("team-a", file)
    with pytest.raises(OptionError, match="plain name"):
        make_key("a\tb", file)
    file.write_text("team-a\tsecret\t600\n")
    with pytest.raises(DataError, match="line 1 of .* is not a key"):
        read_keys(file)


def test_a_key_has_its_rate() -> None:
    now = [0.0]
    ring = KeyRing([Key("a", "0" * 64, rate=60)], clock=lambda: now[0])
    key = Key("a", "0" * 64, rate=60)
    assert [ring.take(key) for _ in range(60)] == [0.0] * 60
    assert ring.take(key) == pytest.approx(1.0)
    now[0] = 1.5
    assert ring.take(key) == 0.0 and ring.take(key) == pytest.approx(0.5)


def test_with_keys_nothing_is_open_but_probes_and_the_page(
    resources: Resources, tmp_path: Path
) -> None:
    file = tmp_path / "keys"
    key = make_key("team", file, rate=4)
    with serving(resources, ServerSettings(keys=file)) as server:
        assert server.get("/health").status == server.get("/ready").status == 200
        assert server.get("/").status == server.get("/openapi.json").status == 200
        for path in ("/metrics", "/v1/models", "/v1/info"):
            assert server.get(path).status == 401
        body = {"input": "배"}
        for wrong in ("", "Bearer", "Bearer x", f"Basic {key}", f"Bearer {key[:-1]}"):
            answer = server.post("/v1/embeddings", body, authorization=wrong)
            assert answer.status == 401 and answer.headers["www-authenticate"] == "Bearer"
        statuses = [
            server.post("/v1/embeddings", body, authorization=f"Bearer {key}") for _ in range(5)
        ]
        assert [answer.status for answer in statuses] == [200, 200, 200, 200, 429]
        assert int(statuses[-1].headers["retry-after"]) >= 1


def test_headers_are_strict(server: Served) -> None:
    for path in ("/", "/v1/models", "/nowhere"):
        headers = server.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert "access-control-allow-origin" not in headers
        assert "server" not in headers


def test_other_sites_and_names_are_refused(server: Served, resources: Resources) -> None:
    assert server.get("/v1/models", sec_fetch_site="cross-site").status == 403
    assert server.get("/v1/models", host="evil.example").status == 403
    assert server.get("/v1/models", host=f"localhost:{server.port}").status == 200
    with serving(resources, ServerSettings(cors=("https://app.example",))) as allowed:
        answer = allowed.get("/v1/models", origin="https://app.example")
        assert answer.headers["access-control-allow-origin"] == "https://app.example"
        answer = allowed.get("/v1/models", origin="https://other.example")
        assert "access-control-allow-origin" not in answer.headers


def test_limits(resources: Resources) -> None:
    limits = Limits(body_bytes=2000, texts=4, characters=50, body_seconds=0.3)
    with serving(resources, ServerSettings(limits=limits)) as server:
        large = server.post("/v1/embeddings", {"input": "a" * 3000})
        assert large.status == 413 and large.json["error"]["code"] == "body_too_large"
        assert server.post("/v1/embeddings", {"input": ["a"] * 5}).status == 413
        assert server.post("/v1/embeddings", {"input": "a" * 51}).status == 413
        assert server.post("/v1/rerank", {"query": "a" * 51, "documents": ["a"]}).status == 413
        head = b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\n"
        head += b"content-type: application/json\r\ncontent-length: 100\r\n\r\n"
        assert b" 408 " in talk(server, head + b'{"in')
        chunked = head.replace(b"content-length: 100", b"transfer-encoding: chunked")
        assert b" 413 " in talk(server, chunked + b"bb8\r\n" + b" " * 3000 + b"\r\n0\r\n\r\n")
        assert server.get("/health").status == 200


def talk(server: Served, data: bytes) -> bytes:
    """Send bytes as they are, and give what comes until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as link:
        link.sendall(data)
        found = b""
        while part := link.recv(65536):
            found += part
            if b"\r\n\r\n" in found and b"content-length" in found:
                break
        return found


def test_back_pressure_and_cancelled_clients(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = hold_encoder(monkeypatch, resources.encoder)
    settings = ServerSettings(batching=Batching(queue_tokens=10, together=False))
    with serving(resources, settings, workers=1) as server:
        links = []
        for i in range(3):  # one runs, two wait and fill the queue
            body = b'{"input": "cat cat cat %d"}' % i
            link = socket.create_connection(("127.0.0.1", server.port))
            link.sendall(
                b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
                b"\r\ncontent-length: %d\r\n\r\n" % len(body) + body
            )
            links.append(link)
            time.sleep(0.1)
        refused = server.post("/v1/embeddings", {"input": "cat cat cat cat cat cat"})
        assert refused.status == 429 and int(refused.headers["retry-after"]) >= 1
        links[2].close()
        state = server.state
        wait_for(lambda: state.running == 2)  # the one who left is no longer counted
        gate.set()
        assert b" 200 " in links[0].recv(65536) and b" 200 " in links[1].recv(65536)
        for link in links[:2]:
            link.close()


def test_no_text_in_errors_or_logs(
    server: Served, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    caplog.set_level(logging.DEBUG)
    bodies: list[object] = [
        {"input": [SECRET, 3]},
        {"input": SECRET, SECRET: 1},
        {"input": SECRET, "dimensions": SECRET},
        {"input": SECRET, "encoding_format": SECRET},
        {"input": SECRET, "model": SECRET},
        {"input": SECRET, "prompt": SECRET},
        {"input": {SECRET: SECRET}},
        SECRET,
        {"input": SECRET + "a" * 300_000},
    ]
    answers = [server.post("/v1/embeddings", body) for body in bodies]
    answers.append(server.ask("POST", "/v1/embeddings", raw=b'{"input": "' + SECRET.encode()))
    answers.append(server.get("/" + "%EB%8B%B9" + "?q=%EB%8B%B9"))

    def broken(*args: object, **options: object) -> None:
        raise RuntimeError(SECRET)

    monkeypatch.setattr(server.state.engine, "embed", broken)
    failed = server.post("/v1/embeddings", {"input": SECRET})
    assert failed.status == 500
    for answer in [*answers, failed]:
        assert answer.status >= 400
        assert SECRET not in answer.body.decode() and "\\u" not in answer.body.decode()
    wait_for(lambda: any("RuntimeError at" in one.getMessage() for one in caplog.records))
    # httpx and asyncio log on the client's side; what the server logs is ours and uvicorn's.
    logged = [one for one in caplog.records if one.name.startswith(("malmoi", "uvicorn"))]
    assert logged and not any(SECRET in one.getMessage() + str(one.exc_text) for one in logged)
