"""Connections, signals and the server's process."""

import concurrent.futures
import contextlib
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import malmoi
from malmoi.corpus import Corpus
from malmoi.serve.api_keys import make_key
from malmoi.serve.settings import Limits, ServerSettings
from malmoi.serve.state import Resources
from tests.serve.test_app import answers, request
from tests.support.graphs import Run
from tests.support.servers import Served, process, serving, wait_for

HEALTH = b"GET /health HTTP/1.1\r\nhost: localhost\r\n\r\n"


def connect(server: Served) -> socket.socket:
    return socket.create_connection(("127.0.0.1", server.port), timeout=10)


@pytest.mark.parametrize("pieces", [1, 7])
def test_an_offer_of_http2_is_passed_over(server: Served, pieces: int) -> None:
    offer = (
        b"Connection: Upgrade, HTTP2-Settings",
        b"Upgrade: h2c",
        b"HTTP2-Settings: AAMAAABkAAQ",
    )
    with connect(server) as link:
        for _ in range(2):  # such clients offer it with every request
            sent = request({"input": "cat"}, *offer)
            step = -(-len(sent) // pieces)
            for start in range(0, len(sent), step):
                link.sendall(sent[start : start + step])
                time.sleep(0.002)
            [(head, body)] = answers(link, 1)
            assert head.startswith(b"HTTP/1.1 200") and json.loads(body)["data"]


def test_refusals_of_large_bodies_reach_plain_clients(server: Served) -> None:
    """They send all before they read: the rest is read, and forgotten."""
    for _ in range(3):
        answer = server.post("/v1/embeddings", {"input": "a" * 30_000_000})
        assert answer.status == 413 and answer.json["error"]["code"] == "body_too_large"


def test_too_many_connections_are_refused(resources: Resources) -> None:
    with (
        serving(resources, ServerSettings(limits=Limits(connections=3))) as server,
        contextlib.ExitStack() as all_,
    ):
        links = [all_.enter_context(connect(server)) for _ in range(3)]
        links[-1].sendall(HEALTH)
        assert links[-1].recv(1000).startswith(b"HTTP/1.1 503")
        links[0].close()
        wait_for(lambda: server.get("/health").status == 200)


def test_hosts_methods_and_heads(server: Served) -> None:
    two = b"GET /health HTTP/1.1\r\nhost: localhost\r\nhost: evil.example\r\n\r\n"
    none = b"GET /health HTTP/1.1\r\n\r\n"
    old = b"GET /health HTTP/1.0\r\n%s\r\n"
    for sent in (old % b"", old % b"host: localhost\r\n"):
        with connect(server) as link:
            link.sendall(sent)
            # HTTP/1.0 needs no Host; on loopback it has to name this machine all the same.
            assert link.recv(12) in (b"HTTP/1.1 200", b"HTTP/1.1 403")
    for sent in (two, none):
        with connect(server) as link:
            link.sendall(sent)
            assert link.recv(1000).startswith(b"HTTP/1.1 400")
    for path in ("/", "/health", "/v1/models", "/v1/info", "/openapi.json", "/metrics"):
        whole, head = server.get(path), server.ask("HEAD", path)
        assert (head.status, head.body) == (200, b"")
        if path != "/metrics":
            assert head.headers["content-length"] == str(len(whole.body))
    for method in ("PUT", "PATCH", "DELETE", "GET", "HEAD"):
        answer = server.ask(method, "/v1/embeddings", raw=b"a=1", content_type="text/plain")
        assert (answer.status, answer.headers["allow"]) == (405, "POST")
    answer = server.ask("POST", "/health", raw=b"a=1", content_type="text/plain")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    assert server.ask("POST", "/nowhere", raw=b"a", content_type="text/plain").status == 404


def test_signals_drop_nothing_that_was_accepted(bundle: Path, tmp_path: Path) -> None:
    """Ctrl-C twice and SIGTERM twice, while a request is being answered."""
    options = ("--model", bundle, "--reranker", "none", "--no-samples")
    for first, second in ((signal.SIGINT, signal.SIGINT), (signal.SIGTERM, signal.SIGTERM)):
        with process(*options, cwd=tmp_path) as (served, running), connect(served) as link:
            link.settimeout(60)
            link.sendall(request({"input": [f"cat {i} dog " * 40 for i in range(2048)]}))
            wait_for(lambda: b"in_flight 2" in served.get("/metrics").body)
            running.send_signal(first)
            time.sleep(0.05)
            running.send_signal(second)
            [(head, body)] = answers(link, 1)
            assert head.startswith(b"HTTP/1.1 200") and len(json.loads(body)["data"]) == 2048
            assert running.wait(timeout=20) == 0


def test_sighup_reads_the_keys_again(bundle: Path, tmp_path: Path) -> None:
    keys = tmp_path / "keys"
    first = make_key("first", keys)
    options = ("--model", bundle, "--reranker", "none", "--no-samples", "--api-keys", keys)
    with process(*options, cwd=tmp_path) as (served, running):

        def status(key: str) -> int:
            return served.get("/v1/models", authorization=f"Bearer {key}").status

        assert status(first) == 200
        second = make_key("second", keys)
        assert status(second) == 401
        running.send_signal(signal.SIGHUP)
        wait_for(lambda: status(second) == 200)
        keys.write_text("no key\n")
        running.send_signal(signal.SIGHUP)  # a bad file changes nothing, and is reported
        wait_for(lambda: "is not a key" in (tmp_path / "serve.log").read_text())
        assert status(first) == status(second) == 200
        keys.write_text("# none\n")
        running.send_signal(signal.SIGHUP)
        wait_for(lambda: status(first) == 401)
        assert running.poll() is None


def post(link: socket.socket, body: object, path: bytes = b"/v1/embeddings") -> None:
    data = json.dumps(body).encode()
    link.sendall(
        b"POST %s HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n" % (path, len(data)) + data
    )


def accepted(server: Served) -> float:
    """Requests for vectors and searches that the server has begun or answered."""
    text = server.get("/metrics").body.decode()
    running = re.search(r"^malmoi_requests_in_flight (\S+)", text, re.MULTILINE)
    done = re.findall(r'^malmoi_requests_total\{route="/v1/.*\} (\S+)', text, re.MULTILINE)
    assert running is not None
    return float(running[1]) - 1 + sum(map(float, done))  # one is the question itself


def read(link: socket.socket) -> bytes:
    found = b""
    while part := link.recv(1 << 20):
        found += part
    return found


def test_sigterm_answers_what_was_accepted(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.malmoi"
    with Corpus.open(path, malmoi.load(bundle)) as corpus:
        corpus.add([{"id": "0", "text": "the cat sleeps"}])
    options = ("--model", bundle, "--reranker", "none", "--no-samples", "--corpus", path)
    with process(*options, cwd=tmp_path) as (server, running):
        links = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(24)]
        texts = [f"cat {i} dog" for i in range(1000)]
        for link in links:
            post(link, {"input": texts, "encoding_format": "base64"})
        searches = [socket.create_connection(("127.0.0.1", server.port)) for _ in range(4)]
        for link in searches:  # they wait behind the others for their query's vector
            post(link, {"query": "cat"}, b"/v1/search")
        wait_for(lambda: accepted(server) >= 28)
        running.send_signal(signal.SIGTERM)
        with concurrent.futures.ThreadPoolExecutor(28) as pool:
            answers = list(pool.map(read, [*links, *searches]))
        assert running.wait(timeout=30) == 0
        for link in (*links, *searches):
            link.close()
    answers, found = answers[:24], answers[24:]
    assert [b"the cat sleeps" in answer for answer in found] == [True] * 4
    assert [b"HTTP/1.1 200 OK" in answer for answer in answers] == [True] * 24
    for answer in answers:
        assert len(json.loads(answer.partition(b"\r\n\r\n")[2])["data"]) == 1000
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_a_taken_port_is_one_line(bundle: Path, tmp_path: Path, run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run("serve", "--model", bundle, "--no-samples", "--port", port)
    assert done.returncode == 1
    assert f"cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert "Traceback" not in done.stderr


def test_bound_wide_without_keys_is_warned_of(bundle: Path, tmp_path: Path) -> None:
    args = ("--model", bundle, "--no-samples", "--host", "0.0.0.0")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    command = [sys.executable, "-m", "malmoi", "serve", "--port", str(port), *map(str, args)]
    running = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert running.stderr is not None
    lines = [running.stderr.readline()]
    running.kill()
    running.wait()
    running.stderr.close()
    assert "without keys: anyone who reaches this machine may call" in lines[0]


def test_the_key_command(run: Run, tmp_path: Path) -> None:
    done = run("key", "add", "team", "--file", "keys.tsv")
    assert done.returncode == 0 and done.stdout.startswith("mm_")
    assert done.stdout.strip() not in (tmp_path / "keys.tsv").read_text()
    assert run("key", "add", "team", "--file", "keys.tsv").returncode == 1


def test_kill_9_and_restart_lose_no_document(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "notes.malmoi"
    options = ("--model", bundle, "--reranker", "none", "--no-samples", "--corpus", path)
    with Corpus.open(path, malmoi.load(bundle)) as corpus:
        corpus.add([{"id": "0", "text": "the cat sleeps"}])
        with process(*options, cwd=tmp_path) as (server, running):
            assert server.get("/v1/info").json["corpora"][0]["documents"] == 1
            stopped = threading.Event()
            searching = threading.Thread(target=search_until, args=(server, stopped))
            searching.start()
            for i in range(1, 40):  # written next to the server, which is killed half-way
                corpus.add([{"id": str(i), "text": f"dog {i} pear"}])
                if i == 20:
                    running.kill()
            stopped.set()
            searching.join()
    with process(*options, cwd=tmp_path) as (server, _):
        assert server.get("/v1/info").json["corpora"][0]["documents"] == 40
        body = {"query": "dog 39 pear", "k": 40, "mode": "dense"}
        hits = server.post("/v1/search", body).json["hits"]
        assert {hit["id"] for hit in hits} == {str(i) for i in range(40)}


def search_until(server: Served, stopped: threading.Event) -> None:
    """Keep the server busy, whether it lives or not."""
    while not stopped.is_set():
        with contextlib.suppress(OSError, http.client.HTTPException):
            server.post("/v1/search", {"query": "pear", "k": 3})
