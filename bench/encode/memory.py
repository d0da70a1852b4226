"""How much memory: a million short lines from a generator, above what the opened model takes.

python bench/run.py memory [--lines 1000000] [--model BUNDLE]
"""

import argparse
import threading
import time
from collections.abc import Iterator

import malmoi
from bench.common import Row, exported, resident


def lines(count: int) -> Iterator[str]:
    """Distinct short lines, so that none is answered from another."""
    korean = "배", "바다", "항구", "고양이", "잔다", "환자", "당뇨"
    english = "cat", "sea", "ship", "harbour", "patient", "fever", "nephropathy"
    for i in range(count):
        yield f"{korean[i % 7]} {english[i // 7 % 7]} {i}"


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--model")


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.model or exported("int8"))
    encoder.encode(["준비 운동", "warm up"])
    before, peak, done = resident(), resident(), threading.Event()

    def watch() -> None:
        nonlocal peak
        while not done.wait(0.02):
            peak = max(peak, resident())

    watcher = threading.Thread(target=watch)
    watcher.start()
    start = time.perf_counter()
    count = sum(1 for _ in encoder.encode_iter(lines(options.lines), progress=True))
    took = time.perf_counter() - start
    done.set()
    watcher.join()
    yield {
        "lines": count,
        "s": round(took),
        "opened, MiB": round(before),
        "at most more, MiB": round(peak - before),
    }
