"""Kill a writer of a corpus again and again, and look whether everything it promised is there.

    python bench/run.py corpus_kill [--kills 500] [--file /some/disk/x.malmoi]

A process adds, replaces and deletes documents and says so after each transaction; another ends
it with SIGKILL at a moment nobody chose, opens the file and checks: every acknowledged change is
there, the one that was under way is there whole or not at all, and documents, vectors, fields,
words and the index file agree.
"""

import argparse
import os
import random
import signal
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.common import Row
from malmoi.corpus import Document, StoredDocument, StoreInfo
from malmoi.corpus.filters import Filter
from malmoi.corpus.sqlite import SqliteStore

DIM = 16
BATCH = 5


def about() -> StoreInfo:
    """A corpus without a model: vectors are made of the texts' numbers."""
    return StoreInfo("none", DIM, "float32", "bigrams")


def vector(number: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """A unit vector that only this number has."""
    drawn = np.random.default_rng(number).standard_normal(DIM)
    return (drawn / np.linalg.norm(drawn)).astype(np.float32)


def stored(step: int, slot: int) -> StoredDocument:
    """A document whose every part names the step it was written in."""
    document = Document(f"d{slot}", f"문서 {step} step{step}", {"step": step, "slot": slot})
    return StoredDocument(document, vector(step * 1000 + slot))


def slots(step: int) -> list[int]:
    """The documents that a step writes: a few, some of them for the second time."""
    return random.Random(step).sample(range(60), BATCH)


def write(path: Path, step: int, pipe: int) -> None:
    """Change the corpus for ever, writing each change that is safe to the pipe."""
    store = SqliteStore(path, create=about)
    while True:
        if step % 7 == 6:
            store.delete([f"d{slot}" for slot in slots(step)])
        else:
            store.write([stored(step, slot) for slot in slots(step)])
        os.write(pipe, step.to_bytes(4, "little"))
        if step % 11 == 0:
            store.flush()
        step += 1


def expected(steps: int) -> dict[str, int]:
    """Which step each document should be of, once so many steps are done."""
    found: dict[str, int] = {}
    for step in range(steps):
        for slot in slots(step):
            if step % 7 == 6:
                found.pop(f"d{slot}", None)
            else:
                found[f"d{slot}"] = step
    return found


def check(path: Path, done: int) -> int:
    """Fail unless the file is as after `done` steps, or one more; gives how many it is."""
    store = SqliteStore(path, create=about)
    there = {one.document.id: one for one in store.scan()}
    steps = {id: one.document.metadata["step"] for id, one in there.items()}
    for count in (done, done + 1):
        if steps == expected(count):
            break
    else:
        raise SystemExit(f"after {done} acknowledged steps the file holds something else")
    for id, one in there.items():
        step, slot = one.document.metadata["step"], one.document.metadata["slot"]
        assert one.document == stored(step, slot).document  # type: ignore[arg-type]
        assert (one.vector == stored(step, slot).vector).all()  # type: ignore[arg-type]
        assert id in {hit.id for hit in store.keyword_search([f"step{step}"], 60)}
        assert id in {hit.id for hit in store.vector_search(one.vector, 2)}
        fitting = store.vector_search(one.vector, 1, filters=[Filter("slot", "=", int(slot))])  # type: ignore[call-overload]
        assert [hit.id for hit in fitting] == [id]
    assert len(store) == len(there)
    [[state]] = sqlite3.connect(path).execute("PRAGMA integrity_check")
    assert state == "ok", state
    store.close()
    return count


def kill_once(path: Path, done: int) -> int:
    """Let a writer run for a moment and kill it; gives how many steps are in the file."""
    out, into = os.pipe()
    child = os.fork()
    if not child:
        os.close(out)
        write(path, done, into)
    os.close(into)
    heard = b""
    for _ in range(random.randrange(9)):
        heard += os.read(out, 4)
    time.sleep(random.uniform(0, 0.03))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while block := os.read(out, 65_536):
        heard += block
    os.close(out)
    return check(path, done + len(heard) // 4)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--file", type=Path)


def run(options: argparse.Namespace) -> Iterator[Row]:
    started, done = time.perf_counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = options.file or Path(folder) / "x.malmoi"
        for _ in range(options.kills):
            done = kill_once(path, done)
    seconds = round(time.perf_counter() - started, 1)
    yield {"kills": options.kills, "transactions": done, "lost": 0, "half": 0, "s": seconds}
