"""Clusters of texts by their vectors, and topics: clusters with names, for new texts too.

Up to some thousand texts are clustered pair by pair (agglomerative: average linkage, or Ward's
when a number of small groups is asked for), more by communities around dense spots, and very many,
or a given number of large groups, by k-means. A label of -1 is a text in no group.

The name of a topic consists of the terms that are frequent in its group and rare in the others
(class-based TF-IDF): noun phrases, and words counted by morphemes, so that 환불이 and 환불을 are
one term.
"""

import json
import math
import re
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..encoders import TextEncoder
from ..errors import DataError, OptionError, require
from ..index.join import pairs_above
from ..io.files import writing
from ..runtime.pooling import normalize
from ..text import morphemes
from ..types import Floats
from .keywords import STOPWORDS

Method = Literal["agglomerative", "community", "kmeans"]
Labels = NDArray[np.int64]

METHODS = ("agglomerative", "community", "kmeans")
_AGGLOMERATIVE = 3_000  # rows; its table of distances grows with the square
_COMMUNITY = 30_000
_GROUP = 50  # rows; larger groups are left to k-means
_TRIES = 4
_BLOCK = 16_384
# The threshold lies this far between the cosine of unrelated texts and that of copies. Models
# differ in the former: it may be near 0 or above 0.5.
_CLOSER = 0.35
_SAMPLE = 2_000
_SMALL = 6  # groups that may be found among few rows
_NEARER = 0.1
_WORD = re.compile(r"[A-Za-z]{2,}|[가-힣]{2,}")
OTHERS = "others"  # the name of texts in no topic
_TERMS = 5
_FREQUENT = 1.5
_SENTENCES = 3
_TEXTS_AT_ONCE = 5_000  # whose morphemes are held


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
    """The method that suits this many rows; communities cannot give a fixed number of groups.

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
        labels = _kmeans(vectors, centres_of(sample, labels), seed)
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


def _kmeans(vectors: Floats, start: int | Floats, seed: int) -> Labels:
    """K-means from `start`: a number of groups, or their first centres (k, dim)."""
    sklearn = require("sklearn.cluster", extra="clusters", purpose="clustering")
    if isinstance(start, int):
        tries = _TRIES if len(vectors) <= _COMMUNITY else 1
        model = sklearn.KMeans(min(start, len(vectors)), n_init=tries, random_state=seed)
    else:
        model = sklearn.KMeans(len(start), init=start, n_init=1, random_state=seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # there may be fewer different texts than groups
        labels: Labels = model.fit_predict(vectors).astype(np.int64)
    return labels


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
    kinds: dict[int, Counter[object]] = {}
    for label, kind in zip(labels, gold, strict=True):
        kinds.setdefault(int(label), Counter())[kind] += 1
    right = kinds.pop(-1, Counter()).total() + sum(max(own.values()) for own in kinds.values())
    return right / max(len(labels), 1)


@dataclass(frozen=True)
class Topic:
    """A group of texts: its number, size, typical terms, and the texts nearest to its centre."""

    number: int
    size: int
    terms: tuple[str, ...]
    sentences: tuple[str, ...]

    @property
    def name(self) -> str:
        """The terms in one line."""
        return ", ".join(self.terms) or (self.sentences[0] if self.sentences else "")


@dataclass(frozen=True)
class Topics:
    """Named groups with their centres (k, dim) and the model that made the vectors."""

    model: str
    topics: tuple[Topic, ...]
    centres: Floats
    least: float

    def assign(self, encoder: TextEncoder, texts: Sequence[str]) -> tuple[Labels, Floats]:
        """The topic of each text, or -1 where none is near, and the cosine with its centre."""
        if encoder.dimension != self.centres.shape[1]:
            raise DataError(
                f"the topics were made with {self.model} of {self.centres.shape[1]} dimensions, "
                f"and {encoder.name} has {encoder.dimension}; expected the same. "
                f"Name the model with --model {self.model}"
            )
        return assign(normalize(encoder.encode(list(texts))), self.centres, least=self.least)

    def save(self, path: str | Path) -> None:
        """Write the topics as JSON."""
        data = {
            "malmoi": "topics",
            "model": self.model,
            "least": self.least,
            "topics": [asdict(topic) for topic in self.topics],
            "centres": [[round(float(value), 6) for value in row] for row in self.centres],
        }
        with writing(path) as file:
            file.write(json.dumps(data, ensure_ascii=False).encode("utf-8", "replace") + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> "Topics":
        """Read topics that `save` wrote."""
        try:
            data = json.loads(Path(path).read_text("utf-8"))
            topics = tuple(
                Topic(one["number"], one["size"], tuple(one["terms"]), tuple(one["sentences"]))
                for one in data["topics"]
            )
            centres = np.array(data["centres"], dtype=np.float32).reshape(len(topics), -1)
            return cls(str(data["model"]), topics, centres, float(data["least"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"cannot read {path} as topics ({type(error).__name__}); expected JSON that "
                "malmoi text topics --save wrote. Run that command again."
            ) from error


def name_topics(
    texts: Sequence[str], vectors: Floats, labels: Labels, *, stopwords: frozenset[str] = STOPWORDS
) -> list[Topic]:
    """Describe every group by its terms and its nearest texts, sorted by number."""
    counts = _terms_by_group(texts, labels, stopwords)
    centres = centres_of(vectors, labels)
    topics = []
    for group in sorted(counts):
        rows = np.flatnonzero(labels == group)
        near = rows[np.argsort(-(vectors[rows] @ centres[group]), kind="stable")[:_SENTENCES]]
        terms = typical_terms(counts, group)
        topics.append(Topic(group, len(rows), terms, tuple(texts[row] for row in near)))
    return topics


def make_topics(
    model: str, texts: Sequence[str], vectors: Floats, labels: Labels, *, least: float
) -> Topics:
    """Name groups, renumbered without gaps, the largest first, and keep their centres."""
    again = number_by_size(labels)
    topics = name_topics(texts, vectors, again)
    return Topics(model, tuple(topics), centres_of(vectors, again), least)


def typical_terms(
    counts: dict[int, Counter[str]], group: int, *, top: int = _TERMS
) -> tuple[str, ...]:
    """The terms of highest class-based TF-IDF in a group.

    Counts are raised to the power of 1.5: terms of few texts of a group seldom belong together.
    A phrase takes the place of its words where it is nearly as frequent (once is chance), and what
    has a word of a term that is chosen already is left out.

    >>> counts = {0: Counter({"환불": 3, "주문": 1}), 1: Counter({"배송": 3, "주문": 2})}
    >>> typical_terms(counts, 0, top=1)
    ('환불',)
    >>> typical_terms({0: Counter({"문장": 4, "유사도": 4, "문장 유사도": 3})}, 0)
    ('문장 유사도',)
    >>> counts = {0: Counter({"일정": 9, "보고서 제출": 2}), 1: Counter({"일정": 9, "배송": 9})}
    >>> typical_terms(counts, 0, top=1)
    ('일정',)
    """
    totals: Counter[str] = Counter()
    for own in counts.values():
        totals.update(own)
    average = sum(totals.values()) / max(len(counts), 1)
    size = max(sum(counts[group].values()), 1)
    worth = {
        term: count**_FREQUENT / size * math.log(1 + average / totals[term]) * _telling(term)
        for term, count in counts[group].items()
        if count > 1 or " " not in term
    }
    chosen: list[str] = []
    for term in sorted(worth, key=lambda term: (-worth[term], term)):
        words = set(term.split())
        if len(chosen) < top and not any(words & set(one.split()) for one in chosen):
            chosen.append(term)
    return tuple(chosen)


def _telling(term: str) -> float:
    """How much a term says: a phrase, rarer than its words, more, a syllable or a letter less."""
    return 2.0 if " " in term else 0.1 if len(term) == 1 else 1.0


def _terms_by_group(
    texts: Sequence[str], labels: Labels, stopwords: frozenset[str]
) -> dict[int, Counter[str]]:
    groups = np.unique(labels[labels >= 0]).tolist()
    counts: dict[int, Counter[str]] = {group: Counter() for group in groups}
    for terms, label in zip(_terms(texts), labels.tolist(), strict=True):
        if label >= 0:
            counts[label].update(term for term in terms if term not in stopwords)
    return counts


def _terms(texts: Sequence[str]) -> Iterator[list[str]]:
    """Nouns and noun phrases by morphology, or plain words where kiwipiepy is not installed."""
    if not morphemes.available():
        yield from ([word.lower() for word in _WORD.findall(text)] for text in texts)
        return
    for start in range(0, len(texts), _TEXTS_AT_ONCE):
        block = texts[start : start + _TEXTS_AT_ONCE]
        analysed = list(morphemes.morphemes_of(block))
        phrases = morphemes.phrases_in(block, analysed, longest=4)
        for found, own in zip(analysed, phrases, strict=True):
            joined = [phrase.text.lower() for phrase in own if " " in phrase.text]
            yield [one.text.lower() for one in found if one.is_noun] + joined
