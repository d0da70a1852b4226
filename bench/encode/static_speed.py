"""Sentences a second and quality: a static twin next to the encoder it was made from.

    python bench/run.py static_speed ENCODER STATIC [--rounds 5] [--sentences 4000]

Both encode the same short Korean and English sentences in turns, in one process. A static encoder
remembers words, so it is measured twice: opened again before each round ("first texts", every word
is new to it), and after it has read other texts of the kind ("warm"; the sentences themselves are
new to it all the same). Then both are judged on KorSTS dev.
"""

import argparse
import statistics
import time
from collections.abc import Iterator

import numpy as np

import malmoi
from bench.common import Row, sentences, spread, sts_rows
from malmoi.evaluation.measures import spearman, value

PAIRS = {"Korean": ("ko1", "ko2"), "English": ("en1", "en2"), "across": ("ko1", "en2")}


def seconds(encoder: malmoi.TextEncoder, texts: list[str]) -> float:
    """Time a text, in a list of them."""
    start = time.perf_counter()
    encoder.encode(texts)
    return (time.perf_counter() - start) / len(texts)


def speeds(encoder: malmoi.TextEncoder, folder: str, count: int, rounds: int) -> Iterator[Row]:
    """Take turns; gives the median rate of each with its ratio to the encoder."""
    texts = sentences(10**9)
    measured, others = texts[:count], texts[count:]
    warm = malmoi.load(folder)
    warm.encode(others)
    encoder.encode(measured[:200])
    times: dict[str, list[float]] = {"encoder": [], "static, first texts": [], "static, warm": []}
    for round_ in range(rounds):
        part = measured[round_ * 1000 % count :][:1000]  # the encoder needs a second for these
        times["encoder"].append(seconds(encoder, part))
        times["static, first texts"].append(seconds(malmoi.load(folder), measured))
        times["static, warm"].append(seconds(warm, measured))
        warm = malmoi.load(folder)  # so that it has not read the measured ones themselves
        warm.encode(others)
    for name, found in times.items():
        ratios = [one / other for one, other in zip(times["encoder"], found, strict=True)]
        rate = round(1 / statistics.median(found))
        yield {"way": name, "sentences/s": rate, "×": spread(ratios, 1)}


def quality(encoder: malmoi.TextEncoder) -> Row:
    """Spearman's rank correlation with people's scores, a hundredfold."""
    rows = sts_rows("korsts-dev")
    gold = np.array([float(row["score"]) for row in rows])
    found: Row = {}
    for name, (a, b) in PAIRS.items():
        left, right = (encoder.encode([row[side] for row in rows]) for side in (a, b))
        score = value(spearman(np.sum(left * right, axis=1), gold), len(gold))
        found[f"KorSTS dev, {name}"] = round(100 * score, 1)
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("encoder")
    parser.add_argument("static")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=4000)


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.encoder)
    yield {"way": "encoder"} | quality(encoder)
    yield {"way": "static"} | quality(malmoi.load(options.static))
    yield from speeds(encoder, options.static, options.sentences, options.rounds)
