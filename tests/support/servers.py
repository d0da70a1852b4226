"""A real server over a real socket, in a thread of the test or in a process of its own."""

import contextlib
import dataclasses
import http.client
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from malmoi.serve.app import make_app
from malmoi.serve.server import configure
from malmoi.serve.settings import ServerSettings
from malmoi.serve.state import AppState, Resources


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body, read as JSON."""
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    """A running server's address."""

    port: int
    app_state: AppState | None = None  # of a server in this process

    @property
    def url(self) -> str:
        """Where it answers."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def state(self) -> AppState:
        """What the server works on."""
        assert self.app_state is not None, "the server runs in another process"
        return self.app_state

    def ask(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        raw: bytes | None = None,
        **headers: str,
    ) -> Answer:
        """Send one request on a connection of its own."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        sent = {"content-type": "application/json"} if body is not None or raw is not None else {}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        data = raw if raw is not None else json.dumps(body).encode() if body is not None else None
        try:
            connection.request(method, path, data, sent)
            response = connection.getresponse()
            found = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, found, response.read())
        finally:
            connection.close()

    def post(self, path: str, body: object, **headers: str) -> Answer:
        """Send JSON."""
        return self.ask("POST", path, body, **headers)

    def get(self, path: str, **headers: str) -> Answer:
        """Ask for a page."""
        return self.ask("GET", path, **headers)


@contextlib.contextmanager
def serving(
    resources: Resources, settings: ServerSettings | None = None, **options: Any
) -> Iterator[Served]:
    """Serve from a thread until the block ends."""
    settings = dataclasses.replace(settings or ServerSettings(), port=0, stop_seconds=10)
    state = AppState(resources, settings)
    server = uvicorn.Server(configure(make_app(state, **options), settings))
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    wait_for(lambda: server.started)
    try:
        yield Served(listener.getsockname()[1], state)
    finally:
        server.should_exit = True
        thread.join(timeout=20)
        assert not thread.is_alive(), "the server did not stop"


@contextlib.contextmanager
def process(
    *args: object, cwd: Path, preexec: Callable[[], None] | None = None, seconds: float = 60
) -> Iterator[tuple[Served, "subprocess.Popen[str]"]]:
    """Run `malmoi serve …` in a process of its own, and end it with the block.

    `preexec` is called in the new process before the command, which has so many seconds to start.
    """
    log = cwd / "serve.log"
    with log.open("w") as out:
        running = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", "malmoi", "serve", "--port", "0"]
            + [str(arg) for arg in args],
            stdout=out,
            stderr=out,
            cwd=cwd,
            env=os.environ | {"NO_COLOR": "1"},
            text=True,
            preexec_fn=preexec,
        )
    try:
        wait_for(lambda: "serving on" in log.read_text() or running.poll() is not None, seconds)
        found = re.search(r"serving on http://127\.0\.0\.1:(\d+)/", log.read_text())
        assert found, log.read_text()
        yield Served(int(found[1])), running
    finally:
        running.kill()
        running.wait(timeout=20)


def hold_encoder(monkeypatch: pytest.MonkeyPatch, encoder: Any) -> threading.Event:
    """Let every batch of an encoder wait for the event that is returned, 10 seconds at most."""
    gate, encode_ids = threading.Event(), encoder.encode_ids

    def held(ids: list[list[int]], **options: bool) -> object:
        gate.wait(10)
        return encode_ids(ids, **options)

    monkeypatch.setattr(encoder, "encode_ids", held, raising=False)
    return gate


def wait_for(happened: Any, seconds: float = 20.0) -> None:
    """Wait until something is so, or fail."""
    deadline = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)
