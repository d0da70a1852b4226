"""How soon and how large: process start to first vector, and what an installation weighs.

    python bench/run.py start [--light .venv/bin/python] [--rounds 5]

--light is a Python with the core alone (`make demo` makes one); sentence-transformers runs under
the Python that runs this.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from bench.common import ROOT, Row, exported, minilm

MALMOI = "import malmoi, sys; malmoi.load(sys.argv[1]).encode('고양이가 잔다')"
PEER = (
    "import sys; from sentence_transformers import SentenceTransformer as S;"
    "S(sys.argv[1], device='cpu').encode('고양이가 잔다')"
)
# What an installation weighs: site-packages without pip and setuptools, which every venv has.
WEIGH = (
    "import sysconfig, pathlib; root = pathlib.Path(sysconfig.get_paths()['purelib']);"
    "print(sum(f.stat().st_size for p in root.iterdir() if p.name.split('-')[0] not in "
    "('pip', 'setuptools', 'pkg_resources') for f in p.rglob('*') if f.is_file()))"
)


def seconds(python: str, code: str, folder: Path) -> float:
    start = time.perf_counter()
    subprocess.run([python, "-c", code, str(folder)], check=True, capture_output=True)
    return time.perf_counter() - start


def weigh(python: str) -> float:
    done = subprocess.run([python, "-c", WEIGH], check=True, capture_output=True, text=True)
    return int(done.stdout) / 1e6


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--light", default=str(ROOT / ".venv/bin/python"))
    parser.add_argument("--rounds", type=int, default=5)


def run(options: argparse.Namespace) -> Iterator[Row]:
    ways = {
        "sentence-transformers": (sys.executable, PEER, minilm()),
        "malmoi float32": (options.light, MALMOI, exported("float32")),
        "malmoi int8": (options.light, MALMOI, exported("int8")),
    }
    times: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(options.rounds):
        for name, (python, code, folder) in ways.items():
            times[name].append(seconds(python, code, folder))
    base = statistics.median(times["sentence-transformers"])
    for name, found in times.items():
        median = statistics.median(found)
        yield {
            "way": name,
            "first vector after, s": round(median, 2),
            "of sentence-transformers": round(median / base, 2),
            "installed, MB": round(weigh(ways[name][0])),
        }
