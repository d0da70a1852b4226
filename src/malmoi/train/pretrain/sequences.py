"""Ids on disk → sequences for a model: packed blocks, pairs of segments, and what is masked."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .corpus import Ints, Packed

NOTHING = -100  # what torch's cross-entropy passes over


@dataclass(frozen=True)
class Pairs:
    """Two stretches of ids each, (n, 4) from and to, and whether the second follows, (n,)."""

    spans: Ints
    follows: NDArray[np.bool_]


def blocks(packed: Packed, size: int, *, seed: int, epoch: int) -> Pairs:
    """Cut all ids into blocks of `size`, full but the last; each epoch begins elsewhere.

    A block may hold the end of one document and the beginning of another.
    """
    count = len(packed.ids)
    shift = int(np.random.default_rng([seed, epoch]).integers(size)) if epoch else 0
    edges = np.unique(np.array([0, *range(shift, count, size), count], dtype=np.int64))
    spans = np.stack([edges[:-1], edges[1:], edges[1:], edges[1:]], axis=1)
    spans = spans[spans[:, 1] - spans[:, 0] > 1]
    return Pairs(spans, np.zeros(len(spans), dtype=bool))


def segment_pairs(packed: Packed, size: int, *, seed: int, epoch: int) -> Pairs:
    """Fill sequences with whole sentences of a document, as BERT does.

    Each is cut between two sentences. Half of the time the second segment is what follows; else
    it comes from another document, and what would have followed begins the next sequence.
    """
    rng = np.random.default_rng([seed, epoch, 7])
    spans: list[list[int]] = []
    follows: list[bool] = []
    following = 0
    documents = len(packed.documents) - 1
    for document in range(documents):
        first, last = int(packed.documents[document]), int(packed.documents[document + 1])
        while first < last:
            # Two sentences at least, however long: they are cut to fit.
            end = max(_fill(packed, first, last, size), min(first + 2, last))
            alone = end - first < 2
            middle = first + 1 if alone else first + int(rng.integers(1, end - first))
            # The last sentence of a document has nothing after it; others make up for it.
            behind = 2 * following < len(follows)
            real = not alone and (documents < 2 or behind or rng.random() < 0.5)
            if real:
                other, stop = middle, end
            elif documents > 1:
                other, stop = _elsewhere(packed, document, size, rng)
            else:
                first = end
                continue
            spans.append(_ids(packed, first, middle, other, stop, size))
            follows.append(real)
            following += real
            first = end if real else middle
    return Pairs(np.array(spans, dtype=np.int64).reshape(-1, 4), np.array(follows, dtype=bool))


def _fill(packed: Packed, first: int, last: int, size: int) -> int:
    """The sentence after the last that fits into `size` ids, from `first` on; one at least."""
    limit = int(packed.sentences[first]) + size
    inside = packed.sentences[first + 1 : min(last, first + size) + 1]
    return first + max(1, int(np.searchsorted(inside, limit, side="right")))


def _elsewhere(
    packed: Packed, document: int, size: int, rng: np.random.Generator
) -> tuple[int, int]:
    other = int(rng.integers(len(packed.documents) - 2))
    other += other >= document
    first, last = int(packed.documents[other]), int(packed.documents[other + 1])
    start = first + int(rng.integers(last - first))
    return start, _fill(packed, start, last, max(size // 2, 1))


def _ids(packed: Packed, first: int, middle: int, other: int, stop: int, size: int) -> list[int]:
    """Turn sentences into places of ids, the longer segment cut at its end until both fit."""
    a0, a1 = int(packed.sentences[first]), int(packed.sentences[middle])
    b0, b1 = int(packed.sentences[other]), int(packed.sentences[stop])
    over = (a1 - a0) + (b1 - b0) - size
    if over > 0:
        half = size // 2
        a_room = max(half, size - (b1 - b0))
        a1 = min(a1, a0 + a_room)
        b1 = min(b1, b0 + size - (a1 - a0))
    return [a0, a1, b0, b1]


@dataclass(frozen=True)
class Masked:
    """Ids with some hidden, and what stood there: both (n, length); NOTHING where all is shown."""

    ids: Ints
    targets: Ints


def mask(
    ids: Ints,
    begins: NDArray[np.bool_],
    real: NDArray[np.bool_],
    *,
    share: float,
    mask_id: int,
    vocabulary: int,
    rng: np.random.Generator,
) -> Masked:
    """Hide whole words until `share` of the real pieces is hidden.

    Of the hidden pieces eight in ten become the mask, one in ten any piece, one in ten itself.
    """
    chosen = np.zeros(ids.shape, dtype=bool)
    for row in range(len(ids)):
        places = np.flatnonzero(real[row])
        if not len(places):
            continue
        word = np.cumsum(begins[row, places])  # which word a piece belongs to
        word -= word[0]
        order = rng.permutation(int(word[-1]) + 1)
        sizes = np.bincount(word, minlength=len(order))[order]
        wanted = max(1, round(share * len(places)))
        count = int(np.searchsorted(np.cumsum(sizes), wanted)) + 1
        chosen[row, places] = np.isin(word, order[:count])
    targets = np.where(chosen, ids, NOTHING)
    dice = rng.random(ids.shape)
    hidden = np.where(chosen & (dice < 0.8), mask_id, ids)
    swapped = chosen & (dice >= 0.8) & (dice < 0.9)
    hidden = np.where(swapped, rng.integers(0, vocabulary, ids.shape), hidden)
    return Masked(hidden, targets)
