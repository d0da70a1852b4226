"""Models that are functions, for tests of what is measured rather than of models."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


class Letters:
    """Vectors that count letters: texts with the same letters are the same."""

    name = "letters"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(texts), 64), dtype=np.float32)
        for row, text in enumerate(texts):
            for letter in text:
                vectors[row, ord(letter) % 64] += 1
        return vectors


class Noise:
    """Vectors that mean nothing, though the same text always has the same one."""

    name = "noise"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        seeds = [sum(ord(letter) * 31**i for i, letter in enumerate(text)) for text in texts]
        rows = [np.random.default_rng(seed % 2**32).standard_normal(32) for seed in seeds]
        return np.array(rows, dtype=np.float32)


class Constant:
    """One vector for all."""

    name = "constant"

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        return np.ones((len(texts), 4), dtype=np.float32)


class Shared:
    """A reranker: the share of letters that two texts have in common."""

    name = "shared"

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        shares = [len(set(a) & set(b)) / max(len(set(a) | set(b)), 1) for a, b in pairs]
        return np.array(shares, dtype=np.float32)
