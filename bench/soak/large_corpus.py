"""A corpus of more than two gigabytes, once: made, killed while written, opened, searched, served.

    python bench/run.py large_corpus [--gigabytes 2.2] [--model ko-en-static] [--folder FOLDER]

Documents are made of real Korean and English sentences, go through `Corpus.put` as anybody's, and
the file is deleted at the end. A writer is killed while it adds to the file; `malmoi corpus check`
and `malmoi corpus backup` run on it, and a server is started on it, killed and started again.
"""

import argparse
import json
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import malmoi
from bench.common import Row, peak, resident, texts
from bench.soak.soak import write_on
from malmoi.corpus import Corpus
from tests.support.servers import process

SENTENCES, ORIGINAL, BATCH = 12, 4000, 64
OPEN = """
import json, sys, time
began = time.perf_counter(), time.process_time()
import malmoi
from malmoi.corpus import Corpus
with Corpus.open(sys.argv[1], malmoi.load(sys.argv[2])) as corpus:
    opened = time.perf_counter(), time.process_time()
    found = {"documents": len(corpus), "opened, s": opened[0] - began[0],
             "opened, s of processor": opened[1] - began[1]}
    for name, options in (("words", {"mode": "keyword"}), ("vectors", {"mode": "dense"}),
                          ("both", {}), ("a filter", {"filter": "year=2024"})):
        took = []
        for query in json.loads(sys.argv[3]):
            at = time.process_time()
            hits = corpus.search(query, 10, **options)
            took.append(time.process_time() - at)
            assert len(hits) == 10, (name, len(hits))
        found[f"{name}: first, s of processor"] = took[0]
        found[f"{name}: p50, ms of processor"] = 1000 * sorted(took)[len(took) // 2]
    status = open("/proc/self/status").read()
    found["peak, MB"] = int(status.split("VmHWM:")[1].split()[0]) / 1024
    print(json.dumps(found))
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--gigabytes", type=float, default=2.2)
    parser.add_argument("--model", default="ko-en-static")
    parser.add_argument("--words", default="bigrams")
    parser.add_argument("--folder", type=Path)


def make(path: Path, options: argparse.Namespace, listed: list[str]) -> Row:
    """Add documents until the file is large enough."""
    began, busy, count = time.perf_counter(), time.process_time(), 0
    with Corpus.open(path, malmoi.load(options.model), words=options.words) as corpus:
        while not path.exists() or path.stat().st_size < options.gigabytes * 1e9:
            corpus.upsert(document(count + i, listed) for i in range(BATCH))
            count += BATCH
        stored = time.perf_counter()
        corpus.store.flush()
        passages = corpus.store.passage_count()
    return {
        "step": "made",
        "documents": count,
        "passages": passages,
        "documents/s": round(count / (stored - began)),
        "s of processor": round(time.process_time() - busy),
        "index, s": round(time.perf_counter() - stored, 1),
        "file, GB": round(path.stat().st_size / 1e9, 2),
        "index, GB": round(path.with_name(path.name + ".index").stat().st_size / 1e9, 2),
        "peak, MiB": round(peak()),
    }


def document(number: int, listed: list[str]) -> dict[str, object]:
    """A document of a dozen sentences, no two alike, with a long field that is not searched."""
    at = number * 7919
    own = [listed[(at + i * (number % 97 + 1)) % len(listed)] for i in range(SENTENCES)]
    text = " ".join([*own, f"문서번호 {number}."])
    first = at % (len(listed) - ORIGINAL)
    original = " ".join(listed[first : first + ORIGINAL])
    about = {"title": own[0][:60], "year": 2015 + number % 10, "original": original}
    return {"id": f"a{number}", "text": text} | about


def kill_writer(path: Path, options: argparse.Namespace) -> Row:
    """Kill a writer of the file, and look whether what it acknowledged is there."""
    writer = write_on(path, Path(options.model), 0)
    assert writer.stdout is not None
    lines = [writer.stdout.readline() for _ in range(20)]
    writer.kill()
    out, _ = writer.communicate()
    lines += [line for line in out.splitlines(keepends=True) if line.endswith("\n")]
    began = time.perf_counter()
    with Corpus.open(path, malmoi.load(options.model)) as corpus:
        there = corpus.store.get([str(i) for i in range(len(lines))])
        found = [hit.id for hit in corpus.search(f"dog {len(lines) - 1} pear", 3)]
    return {
        "step": "killed while written",
        "documents acknowledged": len(lines),
        "lost": len(lines) - len(there),
        "the last is found": str(len(lines) - 1) in found,
        "opened again and searched, s": round(time.perf_counter() - began, 1),
    }


def command(*args: object) -> Row:
    """Run a command of malmoi; its seconds by the clock, and what it said."""
    began = time.perf_counter()
    run = [sys.executable, "-W", "ignore", "-m", "malmoi", *map(str, args)]
    done = subprocess.run(run, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"malmoi {args[0]} {args[1]} failed: {done.stderr[-500:]}")
    return {"step": f"malmoi {args[0]} {args[1]}", "s": round(time.perf_counter() - began, 1)}


def serve(path: Path, options: argparse.Namespace, folder: Path) -> Row:
    """Serve the corpus, kill the server and start it again."""
    args = ("--model", options.model, "--no-samples", "--reranker", "none", "--corpus", path)
    starts, waits, held = list[float](), list[float](), 0.0
    for _ in range(2):
        began = time.perf_counter()
        with process(*args, cwd=folder, seconds=600) as (server, running):
            starts.append(time.perf_counter() - began)
            for query in ("환자의 혈당", "how to install", "회의 일정을 바꾸다") * 5:
                began = time.perf_counter()
                answer = server.post("/v1/search", {"query": query, "k": 10})
                waits.append(time.perf_counter() - began)
                assert answer.status == 200 and len(answer.json["hits"]) == 10
            held = resident(running.pid)
            running.send_signal(signal.SIGKILL)
    return {
        "step": "served",
        "ready, s": round(starts[0], 1),
        "ready after a kill, s": round(starts[1], 1),
        "a search, ms": round(1000 * statistics.median(waits), 1),
        "memory, MiB": round(held),
    }


def run(options: argparse.Namespace) -> Iterator[Row]:
    listed, queries = texts(400_000), texts(20)
    with tempfile.TemporaryDirectory(dir=options.folder) as place:
        path, copy = Path(place) / "large.malmoi", Path(place) / "copy.malmoi"
        yield make(path, options, listed)
        code = [sys.executable, "-W", "ignore", "-c", OPEN, str(path), options.model]
        done = subprocess.run([*code, json.dumps(queries)], check=True, stdout=-1, text=True)
        found = json.loads(done.stdout)
        rounded = {key: round(value, 2) for key, value in found.items()}
        yield {"step": "opened by a new process"} | rounded
        yield kill_writer(path, options)
        yield serve(path, options, Path(place))
        yield command("corpus", "check", path)
        yield command("corpus", "backup", path, copy)
        with Corpus.open(copy, malmoi.load(options.model)) as corpus:
            found = len(corpus.search(queries[0], 10))
            yield {"step": "the copy", "documents": len(corpus), "found": found}
