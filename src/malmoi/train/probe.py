"""Does the graph on disk compute what torch computes? Asked of every graph before it is kept."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ..session import Session
from ..tokens import Batch, Piece, Tokens
from .module import GraphModule

Arrays = list[NDArray[np.float32]]

# Real words of both languages: the rounding of int8 is judged on them, and a tokenizer that
# does not know its own model's words would show here.
SAMPLES = (
    "배가 아파서 병원에 갔다.",
    "The ship left the harbour at dawn.",
    "pt는 DM nephropathy로 f/u 중",
    "Café, naïve, ｆｕｌｌ width — ㅋㅋ 1,234.5",
    "서울의 봄은 짧고, 여름은 길다. 그래도 사람들은 강가를 걷는다.",
    "How do I reset my password?",
    "비밀번호를 잊어버렸어요",
    "a",
)
_RANDOM_ROWS = 4


def probes(tokens: Tokens, vocabulary: int) -> list[Batch]:
    """Make batches with padding, of several shapes: real words, random ids, an empty row."""
    pieces, _ = tokens.cut(SAMPLES)
    words = next(tokens.batches(pieces, budget=1 << 30))
    single = next(tokens.batches(pieces[-1:]))
    random = np.random.default_rng(0)
    longest = min(tokens.max_tokens, 64)
    lengths = [longest, *random.integers(1, longest, _RANDOM_ROWS - 2), 0]
    rows = [Piece(i, random.integers(0, vocabulary, n).tolist()) for i, n in enumerate(lengths)]
    return [words, single, next(tokens.batches(rows, budget=1 << 30))]


def run_torch(module: GraphModule, batches: Sequence[Batch]) -> list[Arrays]:
    """Run the module; gives the outputs of each batch."""
    results = []
    with torch.inference_mode():
        for batch in batches:
            arrays = (batch.ids, batch.mask, batch.types)[: len(module.inputs)]
            found = module(*(torch.from_numpy(array) for array in arrays))
            results.append([output.numpy() for output in found])
    return results


def run_graph(path: Path, batches: Sequence[Batch]) -> list[Arrays]:
    """Run the graph on disk; gives the outputs of each batch."""
    session = Session(path)
    return [session.run(batch, session.outputs) for batch in batches]


def agree(found: list[Arrays], expected: list[Arrays], batches: Sequence[Batch]) -> bool:
    """Tell whether float32 outputs are equal but for the order of sums.

    A thousandth of the largest value is thirty times what kernels differ by, and a hundredth of
    what a wrong mask or a wrong scale does. States of padding are nobody's, and not compared.
    """
    for ours, theirs, batch in zip(found, expected, batches, strict=True):
        if len(ours) != len(theirs) or not all(np.isfinite(array).all() for array in ours):
            return False
        used = [batch.mask.any(axis=1), *[batch.mask.astype(bool)] * (len(ours) - 1)]
        for a, b, rows in zip(ours, theirs, used, strict=True):
            if a.shape != b.shape or np.abs(a - b)[rows].max() > 1e-3 * np.abs(b[rows]).max():
                return False
    return True


def rounding(found: list[Arrays], expected: list[Arrays]) -> float:
    """Measure int8's error in sentence vectors against the distances it must keep apart.

    Gives the largest distance of a vector to its float32 self, divided by the median distance
    between two different sentences. A cosine would flatter a model whose vectors all lean one
    way; this does not.
    """
    ours, theirs = found[0][0], expected[0][0]  # the batch of real words: (n, dim) each
    if not all(np.isfinite(array).all() for batch in found for array in batch):
        return float("inf")
    apart = np.linalg.norm(theirs[:, None] - theirs[None, :], axis=2)
    between = np.median(apart[np.triu_indices(len(theirs), k=1)])
    return float(np.linalg.norm(ours - theirs, axis=1).max() / between)
