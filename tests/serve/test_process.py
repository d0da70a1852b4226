"""`malmoi serve` as a process: started, stopped under load, and killed."""

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
from pathlib import Path

import pytest

import malmoi
from malmoi.corpus import Corpus
from tests.support.graphs import Run
from tests.support.servers import Served, process, wait_for


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
    # Some may have been ready just before; the others say that they are the last.
    assert sum(b"connection: close" in answer for answer in answers) > 12
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", server.port))


def test_ctrl_c_stops_in_order(bundle: Path, tmp_path: Path) -> None:
    with process("--model", bundle, "--reranker", "none", "--no-samples", cwd=tmp_path) as (
        server,
        running,
    ):
        assert server.get("/ready").status == 200
        running.send_signal(signal.SIGINT)
        assert running.wait(timeout=20) == 0
    assert "Traceback" not in (tmp_path / "serve.log").read_text()


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
    done = run("key", "team", "--file", "keys.tsv")
    assert done.returncode == 0 and done.stdout.startswith("mm_")
    assert done.stdout.strip() not in (tmp_path / "keys.tsv").read_text()
    assert run("key", "team", "--file", "keys.tsv").returncode == 1


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
