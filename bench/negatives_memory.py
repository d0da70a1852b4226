"""Peak memory of mining hard negatives among a million texts.

    python bench/negatives_memory.py [--texts 1000000] [--dim 384] [--anchors 4096]

The vectors are random and unit: what is measured is malmoi's own memory and speed, not an
encoder's. Memory does not depend on how many anchors are searched, for they come and go in
blocks; so only the first `--anchors` are, and the time for all is reckoned from theirs.
"""

import argparse
import itertools
import json
import resource
import time

import numpy as np
from numpy.typing import NDArray

from malmoi.mining.negatives import NegativeChoice, mine_negatives


class RandomEncoder:
    """Unit vectors from a seeded stream; counts how many it made."""

    def __init__(self, dim: int) -> None:
        self.dim, self.made = dim, 0
        self._random = np.random.default_rng(0)

    def encode(self, texts: list[str]) -> NDArray[np.float32]:
        """Give any vectors, (n, dim)."""
        self.made += len(texts)
        return self._random.standard_normal((len(texts), self.dim), dtype=np.float32)


def main() -> None:
    """Mine, and print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=1_000_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--anchors", type=int, default=4096)
    options = parser.parse_args()

    encoder = RandomEncoder(options.dim)
    # As many anchors as documents: a file of a million pairs.
    pairs = (
        (f"{i}번째 질문은 무엇을 묻고 있는지 알 수 있을까요?", f"{i}번째 문장이며 길이는 이쯤이다.")
        for i in range(options.texts)
    )
    choice = NegativeChoice(relative_margin=None, last=50, count=1)
    started = time.perf_counter()
    triplets = mine_negatives(encoder, pairs, choice=choice)
    next(triplets)  # everything is read and encoded, and the first block is searched
    ready = time.perf_counter()
    found = 1 + sum(1 for _ in itertools.islice(triplets, options.anchors - 1))
    searched = encoder.made - options.texts
    seconds = time.perf_counter() - ready
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    row = {
        "pairs": options.texts,
        "dim": options.dim,
        "peak_gib": round(peak, 2),
        "ready_seconds": round(ready - started, 1),
        "anchors_searched": searched,
        "triplets": found,
        "seconds_after_first_block": round(seconds, 1),
    }
    print(json.dumps(row))


if __name__ == "__main__":
    main()
