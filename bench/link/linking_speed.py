"""How fast mentions are linked over KCD-9, next to a plain script on the same model.

    python bench/run.py linking_speed [--count 512] [--rounds 3] [--model MODEL]

The plain script does what SapBERT's example does: encode the mentions, multiply with the float32
vectors of all names, sort. It knows neither spelling nor concepts nor abbreviations. Both take
turns in one run; the first answer is timed from the start of a process.
"""

import argparse
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np

import malmoi
from bench.common import Row, spread
from bench.link.data import lexicon, open_linker, terms
from malmoi.runtime.pooling import normalize
from malmoi.terms import Linker


class Plain:
    """Encode all, full product, sort."""

    def __init__(self, linker: Linker, encoder: malmoi.TextEncoder) -> None:
        store = linker.indexes[0].vectors
        assert store is not None
        self.names = normalize(store.codes.astype(np.float32))  # (names, dim)
        self.encoder = encoder

    def link(self, mentions: list[str]) -> None:
        for start in range(0, len(mentions), 256):
            vectors = normalize(self.encoder.encode(mentions[start : start + 256]))
            np.argsort(-(vectors @ self.names.T), axis=1)[:, :5]


def seconds(work: object, mentions: list[str]) -> float:
    start = time.perf_counter()
    work.link(mentions)  # type: ignore[attr-defined]
    return time.perf_counter() - start


def first_answer(folder: str, model: str | None) -> float:
    start = time.perf_counter()
    command = [sys.executable, "-m", "malmoi", "link", folder, "당뇨병성 신증"]
    subprocess.run(
        [*command, *(["--model", model] if model else [])], check=True, capture_output=True
    )
    return time.perf_counter() - start


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)


def run(options: argparse.Namespace) -> Iterator[Row]:
    rows = [[r["code"], r["kind"], r["ko"], r["en"]] for r in terms("kcd9")]
    folder = lexicon("kcd9", rows, ["code", "kind", "ko", "en"])
    encoder = malmoi.load(options.model)
    linker = open_linker(folder, encoder)
    plain = Plain(linker, encoder)
    random.seed(1)
    asked = random.sample([row[2][:40] for row in rows], options.count)
    linker.link(asked[:32])
    times: dict[str, list[float]] = {"plain": [], "malmoi": []}
    for _ in range(options.rounds):
        times["plain"].append(seconds(plain, asked))
        times["malmoi"].append(seconds(linker, asked))
    rates = {name: round(options.count / statistics.median(times[name])) for name in times}
    ratios = [a / b for a, b in zip(times["plain"], times["malmoi"], strict=True)]
    starts = [first_answer(str(folder), options.model) for _ in range(options.rounds)]
    yield {
        "names": len(linker.names),
        "mentions/s": rates["malmoi"],
        "plain script": rates["plain"],
        "× the plain script": spread(ratios),
        "first answer after, s": round(statistics.median(starts), 2),
    }
