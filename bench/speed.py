"""How fast: malmoi and its peers on the same weights, each in its own process, taken in turns.

    python bench/speed.py [--rounds 7] [--fresh 3] [--peer-python PATH] [--fastembed-python PATH]

Peers that cannot be installed beside the current sentence-transformers run under a Python of
their own: --peer-python has sentence-transformers[onnx] 5.7, --fastembed-python has fastembed,
which is given the graph that sentence-transformers exported. Each has its best batch size, found
in a first round. One process may be a tenth faster than another of the same kind, by where its
memory happens to lie, so all begin anew every --fresh rounds.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from common import BUILD, english, exported, minilm, paragraphs

BATCHES = (8, 16, 32, 64)


class Worker:
    """A process that encodes on demand."""

    def __init__(self, name: str, way: str, folder: Path, python: str = sys.executable) -> None:
        self.name = name
        self.batch = 0  # ours needs none
        self._command = [python, str(Path(__file__).parent / "worker.py"), way, str(folder)]
        self.start()

    def start(self) -> None:
        """Begin a process."""
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
) -> None:
    """Take turns, then print each one's median and its ratio to the first."""
    times: dict[str, list[float]] = {worker.name: [] for worker in workers}
    for turn in range(rounds):
        if turn % fresh == 0:
            for worker in workers:
                worker.close()
                worker.start()
                worker.run(texts, single=single)
        for worker in workers:
            times[worker.name].append(worker.run(texts, single=single))
    base = times[workers[0].name]
    for name, found in times.items():
        ratios = [one / other for one, other in zip(base, found, strict=True)]
        median = statistics.median(found)
        what = f"{1000 * median:8.2f} ms each" if single else f"{1 / median:8.0f} texts/s"
        spread = f"[{min(ratios):.2f}–{max(ratios):.2f}]"
        print(f"  {name:<28} {what}  {statistics.median(ratios):5.2f}×  {spread}", flush=True)


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


def share_of_machine(worker: Worker, texts: Path) -> None:
    """Print what part of the matrix-multiply rate the float32 path reaches on real text."""
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
    print(f"  float32 reaches {rate:.0f} of {peak:.0f} Gflop/s: {100 * rate / peak:.0f} %")


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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--fresh", type=int, default=3)
    parser.add_argument("--peer-python")
    parser.add_argument("--fastembed-python")
    options = parser.parse_args()
    short = texts_file("short", english(512))
    long = texts_file("long", paragraphs(64))
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
    for title, texts, single in (
        ("short sentences", short, False),
        ("200-token paragraphs", long, False),
        ("one sentence, warm", one, True),
    ):
        if not single:
            for peer in peers:
                peer.choose_batch(texts)
        print(f"{title} (batches: {', '.join(f'{p.name} {p.batch}' for p in peers)}):")
        measure(peers + ours, texts, options.rounds, single=single, fresh=options.fresh)
    print("share of the machine:")
    share_of_machine(ours[0], short)
    for worker in peers + ours:
        worker.close()


if __name__ == "__main__":
    main()
