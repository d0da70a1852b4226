"""How fast alike texts and hard negatives are found, and in how much memory.

    python bench/run.py mining pair        # the most similar pair of 10,000 real sentences
    python bench/run.py mining million     # all pairs above 0.9 of 1,000,000 static vectors
    python bench/run.py mining negatives   # hard negatives among 1,000,000 texts

The second may be stopped early (`--seconds`); the record says how far it came. The vectors of the
third are random: what is measured is malmoi's own memory. It does not depend on how many anchors
are searched, for they come and go in blocks, so only the first `--anchors` are.
"""

import argparse
import itertools
import time
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

import malmoi
from bench.common import Row, data_root, peak
from malmoi.index.join import pairs_above
from malmoi.mining.negatives import NegativeChoice, mine_negatives
from malmoi.mining.pairs import mine_pairs
from malmoi.mining.texts import gather, vectors_of


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("what", choices=["pair", "million", "negatives"])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--dim", type=int, default=384, help="negatives: dimensions")
    parser.add_argument("--anchors", type=int, default=4096, help="negatives: how many to search")


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.what == "pair":
        row = _pair()
    elif options.what == "million":
        row = _million(options.count, options.seconds)
    else:
        row = _negatives(options.count, options.dim, options.anchors)
    yield row | {"peak, GiB": round(peak() / 1024, 2)}


def _pair() -> Row:
    lines = (data_root() / "paraphrase/parakqc.tsv").read_text("utf-8").splitlines()[1:]
    texts = [line.split("\t")[1] for line in lines][:10_000]
    start, cpu = time.perf_counter(), time.process_time()
    encoder = malmoi.load()
    found = gather(texts, where="parakqc")
    [best] = mine_pairs(encoder, found, top=1, least=0.5) if not found.again else [None]
    if best is None:  # exact repeats come first; the nearest distinct texts are wanted
        distinct = gather(found.texts, where="parakqc")
        [best] = mine_pairs(encoder, distinct, top=1, least=0.5)
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    return {"sentences": len(found.texts), "s": round(wall, 1), "processor, s": round(used, 1)}


def _million(count: int, seconds: float) -> Row:
    encoder = malmoi.load("ko-en-static")
    start = time.perf_counter()
    texts = []
    for text in _sentences():
        texts.append(text)
        if len(texts) == count:
            break
    vectors = vectors_of(encoder, texts)
    encoded = time.perf_counter() - start
    del texts
    start, cpu, pairs, row = time.perf_counter(), time.process_time(), 0, 0
    for block in pairs_above(vectors, least=0.9):
        pairs += len(block.left)
        row = max(row, int(block.left.max()))
        if time.perf_counter() - start > seconds:
            break
    else:
        row = len(vectors)
    share = 1 - (1 - row / len(vectors)) ** 2  # later rows have fewer partners left
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    return {
        "vectors": len(vectors),
        "dimensions": vectors.shape[1],
        "encoded in, s": round(encoded),
        "pairs above 0.9": pairs,
        "s": round(wall),
        "processor, s": round(used),
        "share looked at": round(share, 3),
    }


def _sentences() -> Iterator[str]:
    """Distinct Korean and English sentences of the parallel texts."""
    seen: set[int] = set()
    for path in sorted((data_root() / "parallel").glob("*.tsv")):
        with path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                for text in line.rstrip("\n").split("\t")[:2]:
                    if len(text) > 8 and hash(text) not in seen:
                        seen.add(hash(text))
                        yield text


class RandomEncoder:
    """Unit vectors from a seeded stream; counts how many it made."""

    def __init__(self, dim: int) -> None:
        self.dim, self.made = dim, 0
        self._random = np.random.default_rng(0)

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Give any vectors, (n, dim)."""
        self.made += len(texts)
        return self._random.standard_normal((len(texts), self.dim), dtype=np.float32)


def _negatives(count: int, dim: int, anchors: int) -> Row:
    encoder = RandomEncoder(dim)
    # As many anchors as documents: a file of a million pairs.
    pairs = (
        (f"{i}번째 질문은 무엇을 묻고 있는지 알 수 있을까요?", f"{i}번째 문장이며 길이는 이쯤이다.")
        for i in range(count)
    )
    choice = NegativeChoice(relative_margin=None, last=50, count=1)
    started = time.perf_counter()
    triplets = mine_negatives(encoder, pairs, choice=choice)
    next(triplets)  # everything is read and encoded, and the first block is searched
    ready = time.perf_counter()
    found = 1 + sum(1 for _ in itertools.islice(triplets, anchors - 1))
    return {
        "pairs": count,
        "dimensions": dim,
        "ready, s": round(ready - started, 1),
        "anchors searched": encoder.made - count,
        "triplets": found,
        "s after the first block": round(time.perf_counter() - ready, 1),
    }
