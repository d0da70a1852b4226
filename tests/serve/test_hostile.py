"""A quick part of the hostile requests; bench/serve_hostile.py sends ten thousand."""

import itertools
import socket
import time
from collections.abc import Iterator

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis.checks import not_a_server_error

from malmoi.serve.app import ROUTES
from malmoi.serve.settings import Limits, ServerSettings
from malmoi.serve.state import Resources
from tests.support.hostile import MARK, PATHS, Hostile, hostile
from tests.support.servers import Served, serving


@pytest.fixture(scope="module")
def patient(resources: Resources) -> Iterator[Served]:
    limits = Limits(body_seconds=1, header_seconds=1)
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
        answer = link.recv(1 << 16)
        assert (b" 408 " in answer) if i % 2 else answer == b""
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
        from hypothesis import given

        given(case=strategy)(check)()
