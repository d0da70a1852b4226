"""Processor time of one thread, next to sentence-transformers: for a machine that is not quiet.

    python bench/run.py one_core [--rounds 7] [--sentences 96] [--paragraphs 4]

The ways take turns, and the least time of each counts: other work on the machine lengthens some
rounds, and shortens none. sentence-transformers has its best batch of 8, 16, 32 and 64. What two
cores make of it, the bench `speed` measures.
"""

import argparse
import time
from collections.abc import Callable, Iterator

import torch
from sentence_transformers import SentenceTransformer

import malmoi
from bench.common import Row, english, exported, minilm, paragraphs

BATCHES = (8, 16, 32, 64)


def least(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The least seconds of processor time of each, after one turn to warm up."""
    found = {name: float("inf") for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            start = time.process_time()
            way()
            if turn:
                found[name] = min(found[name], time.process_time() - start)
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--sentences", type=int, default=96)
    parser.add_argument("--paragraphs", type=int, default=4)


def run(options: argparse.Namespace) -> Iterator[Row]:
    torch.set_num_threads(1)
    peer = SentenceTransformer(str(minilm()), device="cpu")
    ours = {name: malmoi.load(exported(name), threads=1) for name in ("float32", "int8")}
    for title, texts in (
        ("short sentences", english(options.sentences)),
        ("200-token paragraphs", paragraphs(options.paragraphs)),
        ("one sentence", english(1)),
    ):
        ways: dict[str, Callable[[], object]] = {}
        for size in BATCHES if len(texts) > 1 else (1,):
            ways[f"peer {size}"] = lambda size=size, texts=texts: peer.encode(
                texts, batch_size=size, show_progress_bar=False
            )
        for name, encoder in ours.items():
            ways[f"malmoi {name}"] = lambda encoder=encoder, texts=texts: encoder.encode(texts)
        found = least(ways, options.rounds)
        best = min(seconds for name, seconds in found.items() if name.startswith("peer"))
        row: Row = {"texts": title, "sentence-transformers, ms": round(1000 * best / len(texts), 2)}
        for name in ours:
            seconds = found[f"malmoi {name}"]
            row[f"malmoi {name}, ms"] = round(1000 * seconds / len(texts), 2)
            row[f"× {name}"] = round(best / seconds, 2)
        yield row
