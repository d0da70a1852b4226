"""Clustering of texts by their vectors.

Up to some thousand texts are clustered pair by pair (agglomerative: average linkage, or Ward's
when a number of small groups is asked for), more by communities around dense spots, and very many,
or a given number of large groups, by spherical k-means. A label of -1 is a text in no group.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError, require
from ..index.join import pairs_above
from ..runtime.pooling import normalize
from ..types import Floats

Method = Literal["agglomerative", "community", "kmeans"]
Labels = NDArray[np.int64]

METHODS = ("agglomerative", "community", "kmeans")
_AGGLOMERATIVE = 3_000  # rows; its table of distances grows with the square
_COMMUNITY = 30_000
_GROUP = 50  # rows; larger groups are left to k-means
_ROUNDS = 25
_TRIES = 4
_BLOCK = 16_384
# The threshold lies this far between the cosine of unrelated texts and that of copies. Models
# differ in the former: it may be near 0 or above 0.5.
_CLOSER = 0.35
_SAMPLE = 2_000
_SMALL = 6  # so many groups may be found among few rows
_NEARER = 0.1


@dataclass(frozen=True)
class Clusters:
    """The group of each row, (n,), the groups' centres (k, dim), and how they were found.

    `least` is the cosine that was required within a group, given or estimated.
    """

    labels: Labels
    centres: Floats
    method: str
    least: float


def choose_method(rows: int, count: int | None) -> Method:
    """The method that suits so many rows; communities cannot give a fixed number of groups.

    Without a number this is for groups of a given cosine; see `cluster` for neither of both.

    >>> choose_method(500, None), choose_method(10_000, None), choose_method(10_000, 20)
    ('agglomerative', 'community', 'kmeans')
    """
    few = count is None or rows <= _GROUP * count  # k-means is better with few large groups
    if rows <= _AGGLOMERATIVE and few:
        return "agglomerative"
    return "community" if rows <= _COMMUNITY and count is None else "kmeans"


def cluster(
    vectors: Floats,
    *,
    method: Method | None = None,
    count: int | None = None,
    least: float | None = None,
    smallest: int = 2,
    seed: int = 0,
) -> Clusters:
    """Group unit vectors (n, dim); the largest group is number 0.

    Args:
        method: chosen by the number of rows when left out.
        count: how many groups; without it `least` decides (k-means takes the root of half the
            rows).
        least: the cosine required within a group; estimated by `find_threshold` when left out.
        smallest: smaller groups are dissolved into -1, unless nothing else is left.

    With neither method, count nor least there are few groups, some from a third of the root of the
    rows to the root: as many as separate best, and -1 for what is near to none.
    """
    few = method is None and count is None and least is None
    least = find_threshold(vectors) if least is None else least
    _check(method, count, least)
    if few and len(vectors) > 3 and np.ptp(vectors, axis=0).max() >= 1e-6:
        return _few(vectors, least, smallest, seed)
    chosen = method or choose_method(len(vectors), count)
    if len(vectors) < 3 or np.ptp(vectors, axis=0).max() < 1e-6:  # too few, or all equal
        labels = np.zeros(len(vectors), dtype=np.int64)
        if len(vectors) == 2 and float(vectors[0] @ vectors[1]) < least:
            labels = np.arange(2)
        return Clusters(labels, centres_of(vectors, labels), chosen, least)
    if chosen == "agglomerative":
        labels = _agglomerative(vectors, count, least)
    elif chosen == "community":
        labels = _communities(vectors, least, smallest)
    else:
        labels = _kmeans(vectors, count or max(2, round((len(vectors) / 2) ** 0.5)), seed)
    labels = number_by_size(labels, smallest=1 if count else smallest)
    return Clusters(labels, centres_of(vectors, labels), chosen, least)


def find_threshold(vectors: Floats) -> float:
    """The cosine to require within groups of these vectors, from the cosines of all pairs.

    >>> round(find_threshold(np.eye(4, dtype=np.float32)), 2)
    0.35
    """
    sample = vectors[:: max(1, len(vectors) // _SAMPLE)]
    if len(sample) < 2:
        return _CLOSER
    scores = (sample @ sample.T)[np.triu_indices(len(sample), 1)]
    # A quarter of the pairs is across groups even if there are only two groups.
    apart = float(np.clip(np.quantile(scores, 0.25), 0, 1))
    return apart + _CLOSER * (1 - apart)


def centres_of(vectors: Floats, labels: Labels) -> Floats:
    """The mean direction of each group, (k, dim)."""
    sums = np.zeros((int(labels.max(initial=-1)) + 1, vectors.shape[1]), dtype=np.float32)
    np.add.at(sums, labels[labels >= 0], vectors[labels >= 0])
    return normalize(sums)


def assign(vectors: Floats, centres: Floats, *, least: float = -1.0) -> tuple[Labels, Floats]:
    """Each row's nearest centre and the cosine with it; -1 where that is below `least`."""
    labels = np.empty(len(vectors), dtype=np.int64)
    scores = np.empty(len(vectors), dtype=np.float32)
    for at in range(0, len(vectors), _BLOCK):
        found = vectors[at : at + _BLOCK] @ centres.T
        labels[at : at + _BLOCK] = found.argmax(axis=1)
        scores[at : at + _BLOCK] = found.max(axis=1)
    labels[scores < least] = -1
    return labels, scores


@dataclass(frozen=True)
class Merge:
    """Two groups that became one, and the cosine of their centres."""

    kept: int
    gone: int
    score: float


def merge_to(clusters: Clusters, count: int) -> tuple[Labels, list[Merge]]:
    """Join the two most similar groups again and again until `count` are left.

    Returns new labels (a group keeps the number of its larger part) and the steps taken.
    """
    if count < 1:
        raise OptionError(f"merge is {count}; expected 1 or more groups. Choose a greater number.")
    labels = clusters.labels.copy()
    sizes = np.bincount(labels[labels >= 0], minlength=len(clusters.centres)).astype(np.float32)
    sums = clusters.centres * sizes[:, None]
    alive = [group for group in range(len(sizes)) if sizes[group]]
    steps: list[Merge] = []
    while len(alive) > count:
        unit = normalize(sums[alive])
        scores = unit @ unit.T
        np.fill_diagonal(scores, -np.inf)
        a, b = divmod(int(scores.argmax()), len(alive))
        kept, gone = sorted((alive[a], alive[b]), key=lambda group: (-sizes[group], group))
        steps.append(Merge(kept, gone, float(scores[a, b])))
        sums[kept] += sums[gone]
        sizes[kept] += sizes[gone]
        labels[labels == gone] = kept
        alive.remove(gone)
    return labels, steps


def _few(vectors: Floats, least: float, smallest: int, seed: int) -> Clusters:
    """As many groups as separate best, by Ward's tree over a sample, then by k-means."""
    sample = vectors[:: -(-len(vectors) // _AGGLOMERATIVE)]
    hierarchy = require("scipy.cluster.hierarchy", extra="clusters", purpose="clustering")
    tree = hierarchy.linkage(sample.astype(np.float64), method="ward")
    root = len(vectors) ** 0.5
    most = max(2, min(len(sample) // 2, max(round(root), _SMALL)))
    found: list[tuple[float, Labels]] = []
    for count in range(max(2, min(round(root / 3), most)), most + 1):
        labels: Labels = hierarchy.fcluster(tree, count, "maxclust").astype(np.int64) - 1
        found.append((_separation(sample, labels), labels))
    labels = max(found, key=lambda one: one[0])[1]
    chosen = "agglomerative"
    if len(sample) < len(vectors):
        chosen = "kmeans"
        labels = _moved(vectors, centres_of(sample, labels))[0]
    centres = centres_of(vectors, labels)
    own = (vectors * centres[labels]).sum(axis=1)
    labels = np.where(own < _outside(vectors, centres, labels), -1, labels)
    labels = number_by_size(labels, smallest=smallest)
    return Clusters(labels, centres_of(vectors, labels), chosen, least)


def _separation(vectors: Floats, labels: Labels) -> float:
    """The mean silhouette by centres: how much nearer rows are to their centre than to others."""
    scores = vectors @ centres_of(vectors, labels).T
    rows = np.arange(len(vectors))
    own = 1 - scores[rows, labels]
    scores[rows, labels] = -np.inf
    other = 1 - scores.max(axis=1)
    return float(((other - own) / np.maximum(np.maximum(own, other), 1e-6)).mean())


def _outside(vectors: Floats, centres: Floats, labels: Labels) -> float:
    """The cosine with its centre below which a row belongs to no group.

    It lies a little above the cosine that rows have with centres of other groups.
    """
    step = max(1, len(vectors) // _SAMPLE)
    scores = vectors[::step] @ centres.T
    scores[np.arange(len(scores)), labels[::step]] = np.nan
    apart = float(np.clip(np.nanquantile(scores, 0.5), 0, 1))
    return apart + _NEARER * (1 - apart)


def _agglomerative(vectors: Floats, count: int | None, least: float) -> Labels:
    sklearn = require("sklearn.cluster", extra="clusters", purpose="agglomerative clustering")
    if count is None:
        model = sklearn.AgglomerativeClustering(
            n_clusters=None, distance_threshold=1 - least, metric="cosine", linkage="average"
        )
    else:  # average linkage would give one huge group and many single rows
        model = sklearn.AgglomerativeClustering(min(count, len(vectors)), linkage="ward")
    labels: Labels = model.fit_predict(vectors).astype(np.int64)
    return labels


def _communities(vectors: Floats, least: float, smallest: int) -> Labels:
    """Make a group of the row with most neighbours and these, then of the next free row."""
    neighbours: list[list[int]] = [[i] for i in range(len(vectors))]
    for block in pairs_above(vectors, least=least):
        for a, b in zip(block.left.tolist(), block.right.tolist(), strict=True):
            neighbours[a].append(b)
            neighbours[b].append(a)
    labels = np.full(len(vectors), -1, dtype=np.int64)
    group = 0
    for row in sorted(range(len(vectors)), key=lambda i: (-len(neighbours[i]), i)):
        free = [i for i in neighbours[row] if labels[i] < 0]
        if labels[row] < 0 and len(free) >= smallest:
            labels[free] = group
            group += 1
    return labels


def _kmeans(vectors: Floats, count: int, seed: int) -> Labels:
    """Spherical k-means, started several times from rows that are far from each other."""
    random = np.random.default_rng(seed)
    tries = _TRIES if len(vectors) <= _COMMUNITY else 1
    found = [_kmeans_once(vectors, min(count, len(vectors)), random) for _ in range(tries)]
    return max(found, key=lambda one: one[1])[0]


def _kmeans_once(vectors: Floats, count: int, random: np.random.Generator) -> tuple[Labels, float]:
    """Labels, and the sum of the rows' cosines with their centres."""
    return _moved(vectors, vectors[_far_apart(vectors, count, random)])


def _moved(vectors: Floats, centres: Floats) -> tuple[Labels, float]:
    """Assign rows to centres and move these to the middle of theirs, until nothing changes."""
    count = len(centres)
    labels = np.full(len(vectors), -1, dtype=np.int64)
    total = -np.inf
    for _ in range(_ROUNDS):
        found, scores = assign(vectors, centres)
        total = float(scores.sum())
        # An empty group takes the row that is farthest from its own centre.
        for group in np.setdiff1d(np.arange(count), found):
            worst = int(scores.argmin())
            found[worst], scores[worst] = group, 1.0
        if np.array_equal(found, labels):
            break
        labels, centres = found, centres_of(vectors, found)
    return labels, total


def _far_apart(vectors: Floats, count: int, random: np.random.Generator) -> list[int]:
    """k-means++: each next centre is drawn by its distance from those before."""
    chosen = [int(random.integers(len(vectors)))]
    distance = np.maximum(1 - vectors @ vectors[chosen[0]], 0).astype(np.float64)
    while len(chosen) < count:
        total = distance.sum()
        weights = distance / total if total > 0 else None
        chosen.append(int(random.choice(len(vectors), p=weights)))
        distance = np.minimum(distance, np.maximum(1 - vectors @ vectors[chosen[-1]], 0))
    return chosen


def number_by_size(labels: Labels, *, smallest: int = 1) -> Labels:
    """Number groups by size, the largest 0, and dissolve those that are too small into -1.

    >>> number_by_size(np.array([7, 3, 3, -1])).tolist()
    [1, 0, 0, -1]
    """
    groups, sizes = np.unique(labels[labels >= 0], return_counts=True)
    order = np.lexsort((groups, -sizes))
    kept = [group for group in order if sizes[group] >= smallest] or order[:1].tolist()
    found = np.full(len(labels), -1, dtype=np.int64)
    for number, group in enumerate(kept):
        found[labels == groups[group]] = number
    return found


def _check(method: str | None, count: int | None, least: float) -> None:
    if method is not None and method not in METHODS:
        raise OptionError(
            f"method is {method!r}; known are {', '.join(METHODS)}. Choose one of these."
        )
    if method == "community" and count is not None:
        raise OptionError(
            "count was given, and communities find their own number; expected one of the two. "
            'Leave count out, or choose "kmeans".'
        )
    if count is not None and count < 1:
        raise OptionError(f"count is {count}; expected 1 or more. Choose a greater number.")
    if not -1 <= least <= 1:
        raise OptionError(f"least is {least}; a cosine is expected, from -1 to 1. Try 0.5.")


def purity(labels: Sequence[int], gold: Sequence[object]) -> float:
    """The share of rows that have the most frequent kind of their group; -1 is a group of its own.

    >>> purity([0, 0, 1, 1], ["a", "a", "a", "b"])
    0.75
    """
    kinds: dict[int, dict[object, int]] = {}
    alone = 0
    for label, kind in zip(labels, gold, strict=True):
        if label < 0:
            alone += 1
        else:
            own = kinds.setdefault(int(label), {})
            own[kind] = own.get(kind, 0) + 1
    return (alone + sum(max(own.values()) for own in kinds.values())) / max(len(labels), 1)
