"""How fast: malmoi and its peers on the same weights, each in its own process, taken in turns.

    python bench/run.py speed [--rounds 7] [--fresh 3] [--sentences 512] [--paragraphs 64]
                              [--peer-python PATH] [--fastembed-python PATH]

Peers that cannot be installed next to the current sentence-transformers run under a Python of
their own: --peer-python has sentence-transformers[onnx] 5.7, --fastembed-python has fastembed,
which is given the graph that sentence-transformers exported. Each has its best batch size, found
in a first round. One process may be a tenth faster than another of the same kind, because its
memory lies elsewhere, so all are started again every --fresh rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from bench.common import BUILD, Row, english, exported, minilm, paragraphs, spread

BATCHES = (8, 16, 32, 64)


class Worker:
    """A process that encodes on demand."""

    def __init__(self, name: str, way: str, folder: Path, python: str = sys.executable) -> None:
        self.name = name
        self.batch = 0  # ours needs none
        self._command = [python, str(Path(__file__).parent / "worker.py"), way, str(folder)]
        self.start()

    def start(self) -> None:
        """Start a process."""
        self.process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        if "ready\n" not in iter(self.process.stdout.readline, ""):
            raise SystemExit(f"{self.name} did not start")

    def run(self, texts: Path, *, single: bool = False) -> float:
        """Seconds per text."""
        order = {"texts": str(texts), "single": single, "batch": self.batch}
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        for line in iter(self.process.stdout.readline, ""):
            if line.startswith("{"):
                answer = json.loads(line)
                return answer["seconds"] / answer["texts"]
        raise SystemExit(f"{self.name} stopped")

    def choose_batch(self, texts: Path) -> None:
        """Keep the batch size that was fastest, the best of two tries each."""
        found = {}
        for self.batch in BATCHES:
            found[self.batch] = min(self.run(texts) for _ in range(2))
        self.batch = min(found, key=lambda batch: found[batch])

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def measure(
    workers: list[Worker], texts: Path, rounds: int, *, single: bool = False, fresh: int = 3
) -> dict[str, list[float]]:
    """Take turns; gives each one's seconds a text, by round."""
    times: dict[str, list[float]] = {worker.name: [] for worker in workers}
    for turn in range(rounds):
        if turn % fresh == 0:
            for worker in workers:
                worker.close()
                worker.start()
                worker.run(texts, single=single)
        for worker in workers:
            times[worker.name].append(worker.run(texts, single=single))
    return times


def matmul_rate(seconds: float = 2.0) -> float:
    """The machine's float32 multiply-add rate in Gflop/s, on a product of the model's shape."""
    import torch

    a, b = torch.randn(1024, 384), torch.randn(384, 1536)
    rates = []
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        start = time.perf_counter()
        for _ in range(20):
            a @ b
        rates.append(20 * 2 * 1024 * 384 * 1536 / (time.perf_counter() - start) / 1e9)
    return statistics.median(rates)


def share_of_machine(worker: Worker, texts: Path) -> Row:
    """What part of the matrix-multiply rate the float32 path reaches on real text."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(256)
    lengths = np.array([len(e.ids) for e in tokenizer.encode_batch(json.loads(texts.read_text()))])
    hidden, layers, inner = 384, 6, 1536
    # Four projections and two feed-forward products a token, and attention's two a pair.
    flops = layers * (lengths * 2 * (4 * hidden**2 + 2 * hidden * inner) + 4 * lengths**2 * hidden)
    rates, peaks = [], []
    for _ in range(5):
        peaks.append(matmul_rate(1.0))
        rates.append(flops.mean() / worker.run(texts) / 1e9)
    rate, peak = statistics.median(rates), statistics.median(peaks)
    return {"way": "share of the machine, float32", "Gflop/s": round(rate), "of": round(peak)}


def plain_graph(python: str) -> Path:
    """The folder with the graph that sentence-transformers[onnx] makes of the model, made once."""
    folder = BUILD / "minilm-plain"
    if not (folder / "onnx/model.onnx").exists():
        code = (
            "import sys; from sentence_transformers import SentenceTransformer as S; "
            "S(sys.argv[1], backend='onnx', model_kwargs={'provider': 'CPUExecutionProvider',"
            " 'export': True}).save_pretrained(sys.argv[2])"
        )
        subprocess.run([python, "-c", code, str(minilm()), str(folder)], check=True)
    return folder


def texts_file(name: str, texts: list[str]) -> Path:
    BUILD.mkdir(parents=True, exist_ok=True)
    path = BUILD / f"{name}.json"
    path.write_text(json.dumps(texts), "utf-8")
    return path


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fresh", type=int, default=3)
    parser.add_argument("--sentences", type=int, default=512)
    parser.add_argument("--paragraphs", type=int, default=64)
    parser.add_argument("--peer-python")
    parser.add_argument("--fastembed-python")


def run(options: argparse.Namespace) -> Iterator[Row]:
    short = texts_file("short", english(options.sentences))
    long = texts_file("long", paragraphs(options.paragraphs))
    one = texts_file("one", english(50))
    peers = [Worker("sentence-transformers", "st", minilm())]
    if options.peer_python:
        plain = plain_graph(options.peer_python)
        peers.append(Worker("its onnx backend", "st-onnx", plain, options.peer_python))
        if options.fastembed_python:
            peers.append(Worker("fastembed", "fastembed", plain, options.fastembed_python))
    ours = [
        Worker("malmoi float32", "malmoi", exported("float32")),
        Worker("malmoi int8", "malmoi", exported("int8")),
    ]
    rows: dict[str, Row] = {worker.name: {"way": worker.name} for worker in peers + ours}
    for title, texts, single in (
        ("sentences", short, False),
        ("200-token paragraphs", long, False),
        ("one sentence", one, True),
    ):
        if not single:
            for peer in peers:
                peer.choose_batch(texts)
        times = measure(peers + ours, texts, options.rounds, single=single, fresh=options.fresh)
        base = times[peers[0].name]
        for name, found in times.items():
            middle = statistics.median(found)
            if single:
                rows[name][f"{title}, ms"] = round(1000 * middle, 2)
            else:
                rows[name][f"{title}/s"] = round(1 / middle)
            ratios = [one / other for one, other in zip(base, found, strict=True)]
            rows[name][f"× {title}"] = spread(ratios)
    yield from rows.values()
    yield share_of_machine(ours[0], short)
    for worker in peers + ours:
        worker.close()
