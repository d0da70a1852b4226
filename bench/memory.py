"""How much memory: a million short lines from a generator, above what the opened model takes.

python bench/memory.py [--lines 1000000] [--model BUNDLE]
"""

import argparse
import resource
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from common import exported

import malmoi

MIB = 1 << 20


def resident() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize()


def lines(count: int) -> Iterator[str]:
    """Distinct short lines, so that none is answered from another."""
    korean = "배", "바다", "항구", "고양이", "잔다", "환자", "당뇨"
    english = "cat", "sea", "ship", "harbour", "patient", "fever", "nephropathy"
    for i in range(count):
        yield f"{korean[i % 7]} {english[i // 7 % 7]} {i}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=1_000_000)
    parser.add_argument("--model")
    options = parser.parse_args()
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
    print(f"{count:,} lines in {took:.0f} s ({count / took:,.0f}/s)")
    print(f"model opened: {before / MIB:.0f} MiB; peak above it: {(peak - before) / MIB:.0f} MiB")


if __name__ == "__main__":
    main()
