"""Clients for the bench `serve`: many connections that each send a text and wait for its vector.

They share the machine with the server, so they cost as little as they can: requests are made
before, and of an answer only its status and length are read, but for one in a hundred, whose
vector is looked at.
"""

import asyncio
import base64
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np
import uvloop

_LOOKED_AT = 100  # one answer in so many


@dataclass
class Load:
    """What a stretch of load gave."""

    seconds: float
    times: list[float] = field(default_factory=list)  # of each answer, in seconds
    errors: int = 0
    processor: float = 0.0  # seconds that the server's process spent
    own: float = 0.0  # seconds that the clients spent

    @property
    def rate(self) -> float:
        """Answers a second."""
        return len(self.times) / self.seconds

    def quantile(self, share: float) -> float:
        """The time within which a share of the answers came, in milliseconds."""
        ordered = sorted(self.times)
        return 1e3 * ordered[min(int(share * len(ordered)), len(ordered) - 1)]


class _Client(asyncio.Protocol):
    """One connection, on which the next text goes out when a vector has come in."""

    def __init__(self, load: Load, requests: Sequence[bytes], at: int, until: float) -> None:
        self._load, self._requests, self._at, self._until = load, requests, at, until
        self._buffer = b""
        self.closed = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send()

    def _send(self) -> None:
        if time.perf_counter() >= self._until:
            self._transport.close()
            return
        self._at = (self._at + 1) % len(self._requests)
        self._sent = time.perf_counter()
        self._transport.write(self._requests[self._at])

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, mark, body = self._buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        lower = head.lower()
        size = int(lower.partition(b"content-length: ")[2].partition(b"\r\n")[0])
        if len(body) < size:
            return
        took = time.perf_counter() - self._sent
        if head.startswith(b"HTTP/1.1 200") and self._is_vector(body):
            self._load.times.append(took)
        else:
            self._load.errors += 1
        self._buffer = b""
        self._send()

    def _is_vector(self, body: bytes) -> bool:
        """Whether an answer holds a unit vector; most are taken on trust."""
        if len(self._load.times) % _LOOKED_AT:
            return True
        [row] = json.loads(body)["data"]
        vector = np.frombuffer(base64.b64decode(row["embedding"]), dtype="<f4")
        return vector.size > 1 and abs(float(np.linalg.norm(vector)) - 1) < 1e-3

    def connection_lost(self, exc: Exception | None) -> None:
        if time.perf_counter() < self._until:
            self._load.errors += 1
        if not self.closed.done():
            self.closed.set_result(None)


def requests_of(texts: Sequence[str], port: int) -> list[bytes]:
    """Whole HTTP requests, made before the clock runs; base64 as the openai client asks for it."""
    made = []
    for text in texts:
        body = json.dumps({"input": text, "encoding_format": "base64"}).encode()
        head = (
            f"POST /v1/embeddings HTTP/1.1\r\nhost: 127.0.0.1:{port}\r\n"
            f"content-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
        )
        made.append(head.encode() + body)
    return made


def run_load(port: int, texts: Sequence[str], *, clients: int, seconds: float) -> Load:
    """Keep so many clients busy for so many seconds."""
    requests = requests_of(texts, port)
    load = Load(seconds)

    async def main() -> None:
        loop = asyncio.get_running_loop()
        until = time.perf_counter() + seconds
        made = []
        for i in range(clients):
            start = i * len(requests) // clients
            _, client = await loop.create_connection(
                lambda start=start: _Client(load, requests, start, until), "127.0.0.1", port
            )
            made.append(client.closed)
        await asyncio.wait_for(asyncio.gather(*made), seconds + 60)

    began = time.process_time()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
    load.own = time.process_time() - began
    return load
