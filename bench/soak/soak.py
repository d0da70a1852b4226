"""Half an hour of everything at once: a server under mixed load, killed, starved and restarted.

    python bench/run.py soak [--minutes 30] [--clients 8]

Clients ask all routes, some of them badly, some of them leaving in the middle, and upload files; a
process adds documents to the corpus that is served, and is killed now and then. The server is
killed with SIGKILL, stopped with SIGTERM, told to read its keys again, its clock jumps a day back
and a day ahead, and it is started with 96 open files, with files of a bounded size (a disk that is
full) and on a corpus in a read-only mount. At the end every acknowledged document and file must be
there.

The clock is the one that Python reads: that of the machine is not ours to set. A mount cannot
become read-only while a file of it is open for writing, so the server is started on one that is.
"""

import argparse
import base64
import contextlib
import ctypes
import http.client
import json
import os
import random
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import malmoi
from bench.common import Row
from malmoi.corpus import Corpus
from tests.support import graphs
from tests.support.hostile import hostile
from tests.support.lexicons import write_lexicon
from tests.support.servers import Served, process

PEACE = 60  # seconds between two events
_LONG = ["the cat sleeps, a dog barks. " * 200]
_NOTE = "pt는 HTN, DM 있으며 CXR상 pneumonia 의심. 기침 없음. "
_TYPES = ["float", "base64", "int8", "uint8", "binary", "ubinary"]
# Asks whether the server lives, on one connection; for each answer a line with the milliseconds by
# the clock, those that the thread of the event loop worked in the meantime, and those that it and
# this process, which is ready to run, waited for a core: they say how busy the machine is.
PROBE = """
import http.client, os, sys, time
def schedule(where):
    with open(f"/proc/{where}/schedstat") as file:
        worked, waited, _ = file.read().split()
    return int(worked) / 1e6, int(waited) / 1e6
link = pid = None
while True:
    time.sleep(0.02)
    try:
        with open(sys.argv[1]) as file:
            now = file.read().split()
        if now != pid:
            pid = now
            link = http.client.HTTPConnection("127.0.0.1", int(pid[0]), timeout=60) if pid else None
            continue
        if link is None:
            continue
        loop = f"{pid[1]}/task/{pid[1]}"
        began, worked, own = time.perf_counter(), schedule(loop), schedule("self")
        link.request("GET", "/health")
        link.getresponse().read()
        took = 1e3 * (time.perf_counter() - began)
        after, later = schedule(loop), schedule("self")
        with open(sys.argv[1]) as file:
            if file.read().split() == pid:
                waited = after[1] - worked[1] + later[1] - own[1]
                print(took, after[0] - worked[0], waited, flush=True)
    except (OSError, http.client.HTTPException):
        link, pid = None, None
"""
WRITER = """
import sys, malmoi
from malmoi.corpus import Corpus
with Corpus.open(sys.argv[1], malmoi.load(sys.argv[2])) as corpus:
    i = int(sys.argv[3])
    while True:
        corpus.upsert([{"id": str(i), "text": f"dog {i} pear"}])  # it may be there, unacknowledged
        print(i, flush=True)
        i += 1
"""


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this bench's options."""
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=8)


class Load:
    """Clients of a server that comes and goes, and what they saw."""

    def __init__(self, encoder: malmoi.TextEncoder) -> None:
        self.port, self.ended, self.quiet = 0, threading.Event(), threading.Event()
        self.counts, self._lock = Counter[str](), threading.Lock()
        self._texts = [f"cat {i} dog" for i in range(50)]
        self._vectors = encoder.encode(self._texts)
        self.uploaded = set[str]()

    def count(self, what: str) -> None:
        with self._lock:
            self.counts[what] += 1

    def client(self, seed: int) -> None:
        """Ask one thing after the other until the end."""
        chance, bad = random.Random(seed), hostile(seed)
        acts: list[Callable[[], None]] = [
            lambda: self._embed(chance.randrange(50)),
            lambda: self._post("/v1/search", {"query": chance.choice(self._texts), "k": 5}),
            lambda: self._post("/v1/similarity", {"a": self._texts[:9]}),
            lambda: self._post("/v1/embeddings", {"input": self._texts * 9}),
            lambda: self._post("/v1/embeddings", {"input": _LONG, "on_long": "windows"}),
            lambda: self._post("/v1/words", {"texts": self._texts[:3], "word": "cat"}),
            lambda: self._post("/v1/keywords", {"text": "환자는 투석을 받았다. a cat"}),
            lambda: self._post("/v1/passages", {"id": "0"}),
            lambda: self._post("/embed", {"inputs": self._texts[:5]}),
            lambda: self._post("/api/embed", {"model": "tiny", "input": self._texts[:5]}),
            lambda: self._post("/v2/embed", {"texts": self._texts, "embedding_types": _TYPES}),
            lambda: self._post("/v1/rerank", {"query": "cat", "documents": self._texts}),
            lambda: self._post("/v2/rerank", {"query": "cat", "documents": self._texts[:9]}),
            lambda: self._post("/rerank", {"query": "cat", "texts": self._texts[:9]}),
            lambda: self._post("/v1/link", {"mentions": ["간경변", "HTN", "fever"], "k": 3}),
            lambda: self._post("/v1/link/note", {"text": _NOTE * chance.choice((1, 1, 1, 400))}),
            lambda: self._post("/v1/corpus", {}),
            lambda: self._post("/v1/map", {"groups": 3}),
            lambda: self._upload(f"{seed}-{chance.randrange(50)}.md"),
            lambda: self._get("/v1/info"),
            lambda: self._get("/metrics"),
            lambda: self._raw(next(bad).wire()),
            lambda: self._leave(),
        ]
        while not self.ended.is_set():
            if self.quiet.is_set():  # the server is being started
                time.sleep(0.2)
                continue
            try:
                chance.choice(acts)()
            except (OSError, http.client.HTTPException):
                self.count("no connection")
                time.sleep(0.05)

    def _embed(self, i: int) -> None:
        answer = self._post("/v1/embeddings", {"input": self._texts[i]})
        if answer is not None:
            vector = np.array(answer["data"][0]["embedding"])
            right = np.allclose(vector, self._vectors[i], atol=1e-3)
            self.count("right vectors" if right else "wrong vectors")

    def _upload(self, name: str) -> None:
        content = base64.b64encode(f"# A note\n\nThe cat of {name}.".encode()).decode()
        body = {"corpus": "notes", "files": [{"name": name, "content": content}]}
        answer = self._post("/v1/documents", body)
        if answer is not None and answer["files"][0]["documents"]:
            self.uploaded.add(str(answer["files"][0]["id"]))
            self.count("files acknowledged")

    def _post(self, path: str, body: object) -> "dict[str, list[dict[str, object]]] | None":
        answer = Served(self.port).post(path, body)
        self.count(str(answer.status))
        return answer.json if answer.status == 200 else None

    def _get(self, path: str) -> None:
        self.count(str(Served(self.port).get(path).status))

    def _raw(self, data: bytes) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as link:
            link.sendall(data)
            self.count(link.recv(1 << 16)[9:12].decode("latin-1") or "closed")

    def _leave(self) -> None:
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as link:
            link.sendall(b"POST /v1/embeddings HTTP/1.1\r\nhost: localhost\r\ncontent-le")
        self.count("left")


def write_on(path: Path, bundle: Path, first: int) -> "subprocess.Popen[str]":
    """Start a process that adds documents and says so after each."""
    command = [sys.executable, "-W", "ignore", "-c", WRITER, str(path), str(bundle), str(first)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# A module that Python imports on its own: the clock is as far off as a file says.
CLOCK = """
import os, time
_real = time.time
def _shifted():
    try:
        with open(os.environ["SOAK_CLOCK"]) as file:
            return _real() + float(file.read() or 0)
    except OSError:
        return _real()
if "SOAK_CLOCK" in os.environ:
    time.time = _shifted
"""
DAY = 86_400


def jump(clock: Path, seconds: float) -> None:
    """Let the clock of the server be so many seconds off."""
    new = clock.with_suffix(".new")
    new.write_text(str(seconds))
    new.replace(clock)


def read_only(folder: Path) -> Callable[[], None]:
    """Give the new process a mount of its own in which a folder may only be read."""

    def preexec() -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        place, bind, private, again = str(folder).encode(), 0x1000, 0x4C000, 0x1020 | 1
        steps = (
            libc.unshare(0x20000),
            libc.mount(b"none", b"/", None, private, None),
            libc.mount(place, place, None, bind, None),
            libc.mount(b"none", place, None, again, None),
        )
        if any(steps):
            raise OSError(ctypes.get_errno(), "no read-only mount")

    return preexec


def may_mount(folder: Path) -> bool:
    """Tell whether this machine gives mounts to new processes."""
    try:
        subprocess.run(["true"], preexec_fn=read_only(folder), check=True)
    except (OSError, subprocess.SubprocessError):
        return False
    return True


def few_files() -> None:
    """Allow the new process few open files."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (96, 96))


def full_disk() -> None:
    """Let every file of the new process end after a megabyte, as on a full disk."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))


def memory(pid: int) -> float:
    """The resident memory of a process, in MB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def watch_memory(pid: int, seconds: int) -> list[float]:
    """The resident memory of a process, in MB, in each of so many seconds."""
    found = []
    for _ in range(seconds):
        time.sleep(1)
        found.append(memory(pid))
    return found


def processor(pid: int) -> float:
    """The seconds that a process has worked so far."""
    times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(times[11]) + int(times[12])) / os.sysconf("SC_CLK_TCK")


def run(options: argparse.Namespace) -> Iterator[Row]:
    """One row with everything that was counted."""
    until = time.monotonic() + 60 * options.minutes
    with tempfile.TemporaryDirectory() as place, contextlib.ExitStack() as stack:
        folder = Path(place)
        (folder / "data").mkdir()
        bundle, path = graphs.write_bundle(folder / "tiny"), folder / "data" / "notes.malmoi"
        encoder = malmoi.load(bundle)
        with Corpus.open(path, encoder) as corpus:
            corpus.add([{"id": "0", "text": "the cat sleeps"}])
        load, starts, acknowledged, grown = Load(encoder), list[float](), 0, list[float]()
        threads = [threading.Thread(target=load.client, args=(i,)) for i in range(options.clients)]
        seen, measured = folder / "seen", (folder / "waits").open("w")
        seen.touch()
        probe = subprocess.Popen([sys.executable, "-c", PROBE, str(seen)], stdout=measured)
        stack.callback(probe.kill)
        reranker = graphs.write_reranker(folder / "tiny-reranker")
        lexicon = write_lexicon(folder / "lexicon")
        served: tuple[object, ...] = ("--model", bundle, "--reranker", reranker, "--allow-upload")
        served += ("--corpus", path, "--lexicon", lexicon)
        log, round_, clock, worked = "", 0, folder / "clock", list[float]()
        (folder / "site").mkdir()
        (folder / "site" / "sitecustomize.py").write_text(CLOCK)
        os.environ["SOAK_CLOCK"] = str(clock)
        paths = [str(folder / "site"), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        limits: list[Callable[[], None] | None] = [None, few_files, None, full_disk]
        limits += [read_only(path.parent)] if may_mount(path.parent) else []
        stack.callback(load.ended.set)
        while time.monotonic() < until:
            began, limit = time.monotonic(), limits[round_ % len(limits)]
            frozen = round_ % len(limits) == 4
            if frozen:  # what a killed writer has left in the log is merged first
                Corpus.open(path, encoder).close()
                began = time.monotonic()
            writer = None if frozen else write_on(path, bundle, acknowledged + 1)
            if writer is not None:
                stack.callback(writer.kill)
            with process(*served, cwd=folder, preexec=limit, seconds=600) as (server, running):
                starts.append(time.monotonic() - began)
                worked.append(processor(running.pid))
                load.port = server.port
                seen.write_text(f"{server.port} {running.pid}")
                if not round_:
                    for thread in threads:
                        thread.start()
                load.quiet.clear()
                held = watch_memory(running.pid, PEACE // 2)
                running.send_signal(signal.SIGHUP)
                jump(clock, DAY if round_ % 2 else -DAY)
                held += watch_memory(running.pid, PEACE // 2)
                # The first third is for warming up; a map or a note takes some for a while.
                second, third = np.median(np.reshape(held, (3, -1))[1:], axis=1)
                grown.append(float(third / second))
                load.quiet.set()
                seen.write_text("")
                if writer is not None:
                    writer.kill()
                    out, _ = writer.communicate()
                    whole = out.splitlines(keepends=True)
                    said = [int(line) for line in whole if line.endswith("\n")]
                    acknowledged = max([acknowledged, *said])
                if round_ % 2:
                    running.send_signal(signal.SIGTERM)
                    load.count(f"exit code {running.wait(timeout=60)}")
            log += (folder / "serve.log").read_text()
            round_ += 1
        load.ended.set()
        for thread in threads:
            thread.join()
        probe.kill()
        probe.wait()
        with Corpus.open(path, encoder) as corpus:
            there = set(corpus.store.get([str(i) for i in range(acknowledged + 1)]))
            lost = acknowledged + 1 - len(there)
            files = len(load.uploaded) - len(corpus.store.get(sorted(load.uploaded)))
            healthy = corpus.store.check()
        lines = [line.split() for line in (folder / "waits").read_text().splitlines()]
        waits = np.array([line for line in lines if len(line) == 3], dtype=float)  # (n, 3)
        shares = {
            "by the clock": waits[:, 0],
            "without waiting for a core": np.maximum(waits[:, 0] - waits[:, 2], 0),
            "work of the loop": waits[:, 1],
        }
        counts = load.counts
        failed = sum(
            n for status, n in counts.items() if status.startswith("5") and status != "503"
        )
        yield {
            "minutes": options.minutes,
            "requests": sum(counts.values()),
            "5xx": failed,
            "tracebacks": log.count("Traceback"),
            "wrong vectors": counts["wrong vectors"],
            "right vectors": counts["right vectors"],
            "documents acknowledged": acknowledged + 1,
            "documents lost": lost,
            "files acknowledged": counts["files acknowledged"],
            "files lost": files,
            "faults of the corpus": str(healthy),
            "restarts": len(starts),
            "of these on a read-only mount": len(starts) // 5
            if len(limits) > 4
            else "no mounts here",
            "jumps of the clock": len(grown),
            "recovery, s": round(float(np.median(starts)), 2),
            "recovery, s of processor": round(float(np.median(worked)), 2),
            "probes": len(waits),
            **{
                f"standstill {name}, {which}, ms": round(float(np.quantile(own, at)), 1)
                for name, own in shares.items()
                for which, at in (("p99", 0.99), ("most", 1.0))
            },
            "memory grew, ×": round(float(np.median(grown)), 3),
            "memory grew, × at most": round(max(grown), 3),
            "statuses": json.dumps(dict(sorted(counts.items()))),
        }
