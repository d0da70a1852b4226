"""Bounds: hostile bodies, memory, large answers."""

import itertools
import json
import os
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error

from malmoi.corpus import Corpus
from malmoi.serve.app import ROUTES
from malmoi.serve.settings import Limits, ServerSettings
from malmoi.serve.state import Resources
from tests.support.hostile import MARK, PATHS, Hostile, hostile
from tests.support.servers import Served, process, serving

MB = 1_000_000

BODY = 4 * 1024 * 1024

POSTS = [one.path for one in ROUTES if one.request is not None]


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, int]]:
    """The shipped model behind a server in a process of its own, and the id of the process."""
    with process(cwd=tmp_path_factory.mktemp("alone")) as (server, running):
        server.post("/v1/embeddings", {"input": "배"})
        yield server, running.pid


def cpu(pid: int) -> float:
    """Seconds of processor time that a process has taken."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def memory(pid: int, name: str = "VmHWM") -> int:
    """The most memory that a process has had since `forget_peak`, in bytes."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name)) * 1024


def forget_peak(pid: int) -> int:
    """Let the highest memory be what the process has now."""
    Path(f"/proc/{pid}/clear_refs").write_text("5")
    return memory(pid)


def filled(start: str, part: str, end: str) -> bytes:
    """A body of 4 MiB that is one part again and again."""
    return (start + part * ((BODY - len(start) - len(end)) // len(part)) + end).encode()


def huge_bodies(path: str) -> dict[str, bytes]:
    """Bodies as large as they may be, none of which can be answered."""
    schema = next(one.request for one in ROUTES if one.path == path)
    assert schema is not None
    fields = schema.model_json_schema()["properties"]
    lists = [name for name, one in fields.items() if '"array"' in json.dumps(one)]
    name = (lists or list(fields))[0]
    inner = {"-1": "-1,", "1": "1,", "[]": "[],", "[1]": "[1],", "{}": "{},", '""': '"",'}
    bodies = {mark: filled(f'{{"{name}":[', part, "-1]}") for mark, part in inner.items()}
    return bodies | {
        "ids": filled(f'{{"{name}":[', "[%s-1]," % ("1," * 127), "0]}"),
        "at the limit": f'{{"{name}":[{"1," * 262_000}-1]}}'.encode(),
        "fields": ("{" + ",".join(f'"f{i}":1' for i in range(350_000)) + "}").encode(),
        "same field": filled("{", f'"{name}":1,', '"a":1}'),
        "filter": filled('{"query":"a","filter":{', '"a":[],', '"b":1}}'),
        "deep": b"[" * BODY,
        "deep object": filled("", f'{{"{name}":', ""),
        "commas": b"," * BODY,
        "backslashes": filled(f'{{"{name}":"', "\\\\", '"'),
        "escapes": filled(f'{{"{name}":"', "\\u0041", '"'),
        "digits": filled(f'{{"{name}":', "9", "}"),
        "spaces": b" " * BODY,
    }


@pytest.mark.parametrize("path", POSTS)
def test_a_hostile_body_takes_little_time_and_memory(alone: tuple[Served, int], path: str) -> None:
    server, pid = alone
    for kind, body in huge_bodies(path).items():
        before, began = forget_peak(pid), cpu(pid)
        answer = server.ask("POST", path, raw=body)
        took, more = cpu(pid) - began, memory(pid) - before
        assert 400 <= answer.status < 500 and len(answer.body) < 1000, (kind, answer)
        assert took <= 2 and more < 400 * MB, (kind, took, more / MB)


def test_nobody_waits_while_a_large_body_is_refused(alone: tuple[Served, int]) -> None:
    server, _ = alone
    bodies = [body for path in POSTS[:3] for body in huge_bodies(path).values()]
    with ThreadPoolExecutor(2) as pool:
        sent = [
            pool.submit(server.ask, "POST", POSTS[i % 3], raw=body) for i, body in enumerate(bodies)
        ]
        answered = 0
        while not all(one.done() for one in sent):
            assert server.get("/health").status == 200
            answered += 1
    assert answered > 2 * len(sent)  # a blocked loop would answer once between two bodies


def test_answers_too_large_are_refused_before_they_are_made(alone: tuple[Served, int]) -> None:
    server, pid = alone
    text = "배를 타고 바다에 나가서 배를 먹었더니 배가 아프다 " * 30
    words = {"texts": [text] * 64, "layer": [6] * 32, "vectors": True}
    before, began = forget_peak(pid), cpu(pid)
    for body in (
        words,
        words | {"layer": "concat-all"},
        {"texts": ["배 " * 250] * 64, "word": "배", "layer": 6},
    ):
        answer = server.post("/v1/words", body)
        assert answer.status == 413 and answer.json["error"]["code"] == "answer_too_large"
    query = {"query": "배" * 100_000, "documents": ["배"] * 2000}
    assert server.post("/v1/rerank", query).json["error"]["code"] == "text_too_long"
    assert cpu(pid) - began < 0.5 and memory(pid) - before < 50 * MB


def test_few_bytes_do_not_make_long_texts(alone: tuple[Served, int]) -> None:
    server, pid = alone
    documents = [{"text": "a" * 6000}] * 600
    before = forget_peak(pid)
    for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
        body = {"query": "a", "documents": documents, "rank_fields": ["text"] * 32}
        answer = server.post(path, body)
        assert answer.status == 400 and answer.json["error"]["code"] == "repeated_field"
    assert memory(pid) - before < 50 * MB


def test_an_answer_longer_than_estimated_is_not_written(
    resources: Resources, tmp_path: Path
) -> None:
    with Corpus.open(tmp_path / "notes.malmoi", resources.encoder) as corpus:
        corpus.upsert(
            {"id": str(i), "text": "the cat", "original": "a" * 100_000} for i in range(9)
        )
        served = replace(resources, corpora={"notes": corpus})
        with serving(served, ServerSettings(limits=Limits(answer_bytes=800_000))) as server:
            answer = server.post("/v1/search", {"query": "cat", "k": 9, "rerank": False})
            assert answer.status == 413 and answer.json["error"]["code"] == "answer_too_large"
            assert server.post("/v1/search", {"query": "cat", "k": 3}).status == 200


def test_a_corpus_that_cannot_be_trusted_is_the_servers_fault(
    resources: Resources, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "notes.malmoi"
    with Corpus.open(path, resources.encoder) as corpus:
        corpus.upsert({"id": str(i), "text": "the cat"} for i in range(9))
        with serving(replace(resources, corpora={"notes": corpus})) as server:
            assert server.post("/v1/search", {"query": "cat"}).status == 200
            path.rename(tmp_path / "other")
            answer = server.post("/v1/search", {"query": "cat"})
            assert answer.status == 503 and answer.json["error"]["code"] == "corpus_unusable"
            assert server.post("/v1/embeddings", {"input": "cat"}).status == 200
    assert "CorpusError at" in caplog.text and "the cat" not in caplog.text


@pytest.mark.parametrize("path", POSTS)
def test_every_list_of_a_request_has_a_longest_length(path: str) -> None:
    """Otherwise pydantic collects an error for each element of a hostile body."""
    schema = next(one.request for one in ROUTES if one.path == path)
    assert schema is not None
    waiting: list[Any] = [schema.model_json_schema()]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            assert one.get("type") != "array" or "maxItems" in one, one
            mapping = one.get("type") == "object" and "properties" not in one
            assert not mapping or "maxProperties" in one, one
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one


@pytest.fixture(scope="module")
def patient(resources: Resources) -> Iterator[Served]:
    limits = Limits(body_seconds=1)
    with serving(resources, ServerSettings(limits=limits)) as served:
        yield served


def send(server: Served, one: Hostile) -> bytes:
    """Send a request byte by byte as it is, and read until the server closes."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=20) as link:
        found = b""
        try:
            link.sendall(one.wire())
            while part := link.recv(1 << 16):
                found += part
        except ConnectionError:
            pass  # it may close before it has read all of a flood
        return found


def status_of(answer: bytes) -> int:
    """The last status: a 100 may stand before it; 0 when it closed without a word."""
    heads = [part for part in answer.split(b"HTTP/1.1 ")[1:] if not part.startswith(b"100")]
    return int(heads[-1][:3]) if heads else 0


def test_every_route_that_takes_a_body_gets_some() -> None:
    assert set(PATHS) == {one.path for one in ROUTES if one.method == "POST"}


def test_made_by_hand(patient: Served) -> None:
    counts: dict[str, int] = {}
    for one in itertools.islice(hostile(seed=1), 400):
        answer = send(patient, one)
        status = status_of(answer)
        counts[one.kind] = counts.get(one.kind, 0) + 1
        # What opens a path that there is, or asks what a path takes, is no offence: 2xx.
        assert status < 500, (one.kind, one.target, one.body[:80], status)
        assert status >= 400 or status == 0 or one.kind.startswith("odd"), (one, answer[:300])
        if status >= 400:
            assert MARK.encode() not in answer
    assert len(counts) == 7
    assert patient.get("/health").status == 200


def test_slow_bodies_and_many_open_ends(patient: Served) -> None:
    head = b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
    links = []
    for i in range(60):
        link = socket.create_connection(("127.0.0.1", patient.port), timeout=10)
        link.sendall(head + (b"content-length: 99\r\n\r\n{" if i % 2 else b"x-more: "))
        links.append(link)
    began = time.monotonic()
    assert patient.post("/v1/embeddings", {"input": "배"}).status == 200
    assert time.monotonic() - began < 3  # the slow ones are in nobody's way
    for i, link in enumerate(links):
        assert not i % 2 or b" 408 " in link.recv(1 << 16)
        link.close()


def test_by_the_document(server: Served) -> None:
    document = schemathesis.openapi.from_dict(server.get("/openapi.json").json)
    document.config.update(base_url=server.url)

    @settings(
        max_examples=6,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    def check(case: schemathesis.Case) -> None:
        response = case.call()
        case.validate_response(response, checks=[not_a_server_error])

    for found in document.get_all_operations():
        operation = found.ok()
        strategy = operation.as_strategy()

        given(case=strategy)(check)()
