"""Kill a writer of a Milvus Lite file and the Milvus in it, and look whether what it said is there.

    python bench/run.py milvus_kill [--kills 10]

The writer adds documents one after the other and says so after each; then it and all that it has
started get SIGKILL at a moment nobody chose. After every kill the file is opened by a new process,
and each acknowledged document must be there, found by its words and by its vector.
"""

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.common import Row
from tests.support import graphs

WRITER = """
import sys, malmoi
from malmoi.corpus import Corpus
with Corpus.open(sys.argv[1], malmoi.load(sys.argv[2])) as corpus:
    i = int(sys.argv[3])
    print("open", flush=True)
    while True:
        corpus.put([{"id": str(i), "text": f"dog w{i} pear"}])
        print(i, flush=True)
        i += 1
"""
READER = """
import sys, malmoi
from malmoi.corpus import Corpus
with Corpus.open(sys.argv[1], malmoi.load(sys.argv[2])) as corpus:
    wanted = [str(i) for i in range(int(sys.argv[3]))]
    there = corpus.store.get(wanted)
    lost = len(wanted) - len(there)
    wrong = sum(one.text != f"dog w{id} pear" for id, one in there.items())
    for id in wanted[-3:]:
        hits = corpus.search(f"w{id}", 1, mode="keyword")
        wrong += [hit.id for hit in hits] != [id]
        hits = corpus.search(f"dog w{id} pear", 20, mode="dense")
        wrong += not hits
    print(lost, wrong)
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=10)


def start(code: str, *args: object) -> "subprocess.Popen[str]":
    """A process in a group of its own, which Milvus Lite's own process joins."""
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, args)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, start_new_session=True)


def kill(running: "subprocess.Popen[str]") -> list[str]:
    """SIGKILL the group; gives the lines that were written whole."""
    os.killpg(running.pid, signal.SIGKILL)
    out, _ = running.communicate()
    return [line.strip() for line in out.splitlines(keepends=True) if line.endswith("\n")]


def run(options: argparse.Namespace) -> Iterator[Row]:
    """One row with everything that was counted."""
    chance, done, lost, wrong, opened = random.Random(0), 0, 0, 0, list[float]()
    with tempfile.TemporaryDirectory() as folder:
        bundle = graphs.write_bundle(Path(folder) / "tiny")
        place = f"milvus:{folder}/x.db"
        for _ in range(options.kills):
            writer = start(WRITER, place, bundle, done)
            assert writer.stdout is not None
            writer.stdout.readline()  # it is open
            time.sleep(chance.uniform(1, 4))
            done = max([done, *(int(line) + 1 for line in kill(writer) if line.isdecimal())])
            began = time.monotonic()
            reader = start(READER, place, bundle, done)
            out, errors = reader.communicate(timeout=600)
            opened.append(time.monotonic() - began)
            if reader.returncode:
                sys.exit(f"the file could not be read after a kill: {errors[-2000:]}")
            numbers = out.split()
            lost, wrong = lost + int(numbers[0]), wrong + int(numbers[1])
    yield {
        "kills": options.kills,
        "documents acknowledged": done,
        "lost": lost,
        "wrong": wrong,
        "opened and read after a kill, s": round(sorted(opened)[len(opened) // 2], 1),
    }
