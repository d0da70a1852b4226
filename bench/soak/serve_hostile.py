"""Ten thousand requests that nobody should send: the server answers each with a 4xx, and lives.

    python bench/run.py serve_hostile [--count 10000] [--seed 0]

Half are made by hand (tests/support/hostile.py), half by schemathesis from the server's own OpenAPI
document. It counts the statuses, and exits with 1 at any 5xx, any text given back in a refusal,
any text in the server's log, or a server that no longer answers.
"""

import argparse
import itertools
import re
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings

from bench.common import ROOT, Row

sys.path.append(str(ROOT))
from tests.support.hostile import MARK, Hostile, hostile


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)


def run(options: argparse.Namespace) -> Iterator[Row]:
    log = Path(tempfile.mkdtemp()) / "log"
    command = [sys.executable, "-m", "malmoi", "serve", "--port", "0", "--access-log"]
    with log.open("w") as out:
        process = subprocess.Popen(command, stderr=out)
    try:
        port = wait_for_port(log, process)
        statuses, leaks = by_hand(port, options.count // 2, options.seed)
        documented = by_document(port, options.count - options.count // 2)
        alive = httpx.get(f"http://127.0.0.1:{port}/health").status_code == 200
    finally:
        process.terminate()
        process.wait(timeout=60)
    yield from report(statuses, documented, leaks, alive, log.read_text("utf-8", "replace"))


def report(
    statuses: Counter, documented: Counter, leaks: int, alive: bool, log: str
) -> Iterator[Row]:
    logged = log.count(MARK)
    failed = sum(count for status, count in (statuses + documented).items() if status >= 500)
    errors = len(re.findall(" ERROR ", log))
    yield {
        "made by hand": statuses.total(),
        "by schemathesis": documented.total(),
        "5xx": failed,
        "errors in the log": errors,
        "refusals that give text back": leaks,
        "lines of the log with text": logged,
        "alive at the end": alive,
        "statuses of those made by hand": by_status(statuses),  # 0: closed without an answer
    }
    if failed or leaks or logged or errors or not alive:
        sys.exit("short of the aim")


def by_status(counts: Counter) -> str:
    return ", ".join(f"{status}: {count:,}" for status, count in sorted(counts.items()))


def wait_for_port(log: Path, process: "subprocess.Popen[bytes]") -> int:
    for _ in range(1200):
        if found := re.search(r"serving on http://127\.0\.0\.1:(\d+)", log.read_text()):
            return int(found[1])
        if process.poll() is not None:
            break
        time.sleep(0.1)
    sys.exit(f"the server did not start: {log.read_text()}")


def by_hand(port: int, count: int, seed: int) -> tuple[Counter, int]:
    """Send hand-made requests, eight at a time."""

    def one(request: Hostile) -> tuple[int, bool]:
        answer = send(port, request)
        heads = [part for part in answer.split(b"HTTP/1.1 ")[1:] if not part.startswith(b"100")]
        status = int(heads[-1][:3]) if heads else 0
        return status, status >= 400 and MARK.encode() in answer

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(one, itertools.islice(hostile(seed), count)))
    return Counter(status for status, _ in found), sum(leak for _, leak in found)


def send(port: int, request: Hostile) -> bytes:
    answer = b""
    with socket.create_connection(("127.0.0.1", port), timeout=90) as link:
        try:
            link.sendall(request.wire())
            while part := link.recv(1 << 16):
                answer += part
        except ConnectionError:
            pass
    return answer


def by_document(port: int, count: int) -> Counter:
    """Send what schemathesis makes of the OpenAPI document, right and wrong shapes alike."""
    url = f"http://127.0.0.1:{port}"
    document = schemathesis.openapi.from_url(f"{url}/openapi.json")
    operations = [found.ok() for found in document.get_all_operations()]
    posts = [one for one in operations if one.method.upper() == "POST"]
    statuses: Counter = Counter()
    modes = list(schemathesis.GenerationMode)
    share = count // (len(posts) * len(modes)) + 1
    for operation, mode in itertools.product(posts, modes):
        strategy = operation.as_strategy(generation_mode=mode)

        @settings(
            max_examples=share,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        @given(case=strategy)
        def check(case: schemathesis.Case) -> None:
            statuses[case.call(base_url=url, timeout=60).status_code] += 1

        check()
    return statuses
