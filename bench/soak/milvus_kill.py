"""Kill a writer of a Milvus Lite file and the Milvus in it, and look whether what it said is there.

    python bench/run.py milvus_kill [--kills 10]

The writer adds, replaces and deletes documents of several passages, and says so after each batch;
after a few of them it and all that it has started get SIGKILL at a moment nobody chose. Then the
file is opened by a new process: every acknowledged change must be there, and of the batch that was
under way each document whole, as before it or as after it; passages are found by their words and
by their vectors, and none of another time.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np

from bench.common import ROOT, Row
from bench.soak.corpus_kill import about, expected, slots, vector
from malmoi.corpus import Document, StoredDocument
from malmoi.corpus.milvus import MilvusStore
from malmoi.documents import Passage


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--kills", type=int, default=10)


def stored(step: int, slot: int) -> StoredDocument:
    """A document of one to four passages with two vectors each, which name their step."""
    texts = [f"문서 step{step} slot{slot} part{n}" for n in range(1 + (step + slot) % 4)]
    vectors = tuple(
        np.stack([vector((step * 100 + slot) * 10 + number + 5 * half) for half in (0, 1)])
        for number in range(len(texts))
    )
    document = Document(f"d{slot}", "\n\n".join(texts), {"step": step, "slot": slot})
    return StoredDocument(document, tuple(map(Passage, texts)), vectors, "", str(step))


def write(place: str, step: int) -> None:
    """Change the corpus for ever, writing each change that is safe to the output."""
    store = MilvusStore(place, create=about)
    while True:
        if step % 7 == 6:
            store.delete([f"d{slot}" for slot in slots(step)])
        else:
            store.write([stored(step, slot) for slot in slots(step)])
        print(step, flush=True)
        step += 1


def check(place: str, done: int) -> None:
    """Print how much is lost, half or wrong in a file in which so many steps were acknowledged."""
    store = MilvusStore(place, create=about)
    before, after = expected(done), expected(done + 1)
    there = {one.document.id: one for one in store.scan()}
    listed = store.get([f"d{slot}" for slot in range(60)])
    lost = half = wrong = 0
    for slot in range(60):
        id = f"d{slot}"
        steps = {before.get(id), after.get(id)}
        if id not in there:
            lost += None not in steps
            wrong += id in listed  # passages of a document that is not there
            continue
        step = int(there[id].digest)
        whole = stored(step, slot)
        lost += step not in steps
        half += not same(there[id], whole) or listed[id] != whole.document
        keys = {(id, number) for number in range(len(whole.passages))}
        words = [f"step{step}", f"slot{slot}"]
        by_words = store.keyword_search(words, 300)
        best = {one.key for one in by_words if one.score >= by_words[0].score * 0.9}
        wrong += bool(best & {(id, n) for n in range(9)} ^ keys)
        for number, vectors in enumerate(whole.vectors):
            found = store.vector_search(vectors[0], 1)
            wrong += [hit.key for hit in found] != [(id, number)]
    wrong += store.passage_count() != sum(len(one.passages) for one in there.values())
    print(json.dumps({"lost": lost, "half": half, "wrong": wrong, "documents": len(there)}))
    store.close()


def same(found: StoredDocument, whole: StoredDocument) -> bool:
    """Whether a document is as it was written, in all passages and vectors."""
    return (
        found.document == whole.document
        and [one.text for one in found.passages] == [one.text for one in whole.passages]
        and all(
            np.allclose(a, b, atol=1e-6) for a, b in zip(found.vectors, whole.vectors, strict=True)
        )
    )


def start(what: str, *args: object) -> "subprocess.Popen[str]":
    """A function of this file in a process group of its own, which Milvus Lite's process joins."""
    code = f"import sys; from bench.soak.milvus_kill import {what}; "
    code += f"{what}(sys.argv[1], int(sys.argv[2]))"
    command = [sys.executable, "-W", "ignore", "-c", code, *map(str, args)]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command, stdout=pipe, stderr=pipe, text=True, start_new_session=True, cwd=ROOT
    )


def kill_once(place: str, done: int, chance: random.Random) -> int:
    """Let a writer acknowledge a few batches, and kill it; gives how many steps are safe."""
    writer = start("write", place, done)
    assert writer.stdout is not None and writer.stderr is not None
    lines = [writer.stdout.readline() for _ in range(chance.randint(1, 12))]
    if not lines[-1]:
        sys.exit(f"the writer ended by itself: {writer.stderr.read()[-2000:]}")
    time.sleep(chance.uniform(0, 0.1))
    os.killpg(writer.pid, signal.SIGKILL)
    out, _ = writer.communicate()
    lines += [line for line in out.splitlines(keepends=True) if line.endswith("\n")]
    return int(lines[-1]) + 1


def run(options: argparse.Namespace) -> Iterator[Row]:
    """One row with everything that was counted."""
    chance, done, opened = random.Random(0), 0, list[float]()
    lost = half = wrong = least = 0
    with tempfile.TemporaryDirectory() as folder:
        place = f"milvus:{folder}/x.db"
        for number in range(options.kills):
            before, done = done, kill_once(place, done, chance)
            least = min(least, done - before) if number else done
            began = time.monotonic()
            reader = start("check", place, done)
            out, errors = reader.communicate(timeout=600)
            opened.append(time.monotonic() - began)
            if reader.returncode:
                sys.exit(f"the file could not be read after a kill: {errors[-2000:]}")
            found = json.loads(out.splitlines()[-1])
            lost, half, wrong = lost + found["lost"], half + found["half"], wrong + found["wrong"]
    yield {
        "kills": options.kills,
        "batches acknowledged": done,
        "least between two kills": least,
        "documents at the end": found["documents"],
        "lost": lost,
        "half": half,
        "wrong": wrong,
        "opened and read after a kill, s": round(sorted(opened)[len(opened) // 2], 1),
    }
    if lost or half or wrong:
        sys.exit("short of the aim")
