"""Topics next to BERTopic's: how pure they are, and how well their terms belong together.

    python bench/run.py topics [--texts 600] [--rounds 3]

BERTopic must be installed (pip install bertopic). It gets malmoi's vectors, so that only the way
from vectors to topics and their terms differs: by its defaults for other languages than English
(UMAP, HDBSCAN, words between spaces), and with nouns by kiwi in place of such words, as its users
do in Korean.

- ParaKQC: sets of about ten sentences that ask the same; StyleKQC: six subjects; sources: which
  collection a sentence is from.
- purity is of the texts that are in a topic, NMI of all, with "others" as a topic of its own.
- coherence: mean NPMI of the first five terms of a topic, two by two. A term stands in a text if
  its letters do, so that words with particles and phrases are counted alike; the texts are those
  of the whole set, not only the ones in topics.

UMAP draws by chance: the row of BERTopic is a median with the least and the greatest of its seeds.
"""

import argparse
import itertools
import math
import random
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

import malmoi
from bench.common import Row, data_root, spread
from malmoi.io.tables import read_rows
from malmoi.mining.clusters import cluster, make_topics, purity
from malmoi.runtime.pooling import normalize
from malmoi.text.morphemes import morphemes_of
from malmoi.types import Floats

SOURCES = ("bible", "news", "tatoeba", "python-docs", "kubernetes", "libreoffice", "mdn", "adobe")
TERMS = 5
Rows = list[tuple[str, str]]  # the kind of a text, and the text
Found = tuple[Sequence[int], list[Sequence[str]]]  # the topic of each text, and topics' terms


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--texts", type=int, default=600)
    parser.add_argument("--rounds", type=int, default=3, help="seeds of BERTopic")


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load()
    for name, rows in (("ParaKQC", parakqc()), ("StyleKQC", stylekqc()), ("sources", sources())):
        chosen = sample(rows, options.texts, whole_kinds=name == "ParaKQC")
        gold, texts = [kind for kind, _ in chosen], [text for _, text in chosen]
        reference = [text for _, text in rows]
        vectors = normalize(encoder.encode(texts))
        seeds = range(options.rounds)
        ways = {
            "malmoi": [by_malmoi(encoder.name, texts, vectors)],
            "BERTopic": [by_bertopic(texts, vectors, seed) for seed in seeds],
            "BERTopic, nouns": [by_bertopic(texts, vectors, seed, nouns=True) for seed in seeds],
        }
        for way, found in ways.items():
            yield {"texts, way": f"{name}, {way}"} | figures(found, gold, reference)


def figures(found: Sequence[Found], gold: Sequence[str], reference: Sequence[str]) -> Row:
    """The figures of one or several runs."""
    each = [
        {
            "topics": len(terms),
            "others": sum(label < 0 for label in labels),
            "purity": _pure(labels, gold),
            "NMI": float(normalized_mutual_info_score(gold, labels)),
            "coherence": coherence(terms, reference),
        }
        for labels, terms in found
    ]
    digits = {"topics": 0, "others": 0}
    return {
        key: spread([one[key] for one in each], digits.get(key, 3))
        if len(each) > 1
        else round(each[0][key], digits.get(key, 3) or None)
        for key in each[0]
    }


def _pure(labels: Sequence[int], gold: Sequence[str]) -> float:
    held = [(label, kind) for label, kind in zip(labels, gold, strict=True) if label >= 0]
    return purity([label for label, _ in held], [kind for _, kind in held])


def coherence(topics: Sequence[Sequence[str]], texts: Sequence[str]) -> float:
    """The mean over topics of the NPMI of their terms, two by two; -1 if never together.

    >>> round(coherence([["a", "b"]], ["a b", "a b", "c", "d"]), 2)
    1.0
    >>> coherence([["a", "c"]], ["a b", "a b", "c", "d"])
    -1.0
    """
    lowered = [text.lower() for text in texts]
    names = {term.lower() for terms in topics for term in terms}
    held = {term: {i for i, text in enumerate(lowered) if term in text} for term in names}
    means = []
    for terms in topics:
        pairs = itertools.combinations([term.lower() for term in terms], 2)
        own = [_npmi(held[a], held[b], len(texts)) for a, b in pairs]
        if own:
            means.append(float(np.mean(own)))
    return float(np.mean(means)) if means else math.nan


def _npmi(a: set[int], b: set[int], texts: int) -> float:
    both = len(a & b)
    if not both:
        return -1.0
    if both == texts:
        return 1.0
    return math.log(both * texts / (len(a) * len(b))) / -math.log(both / texts)


def by_malmoi(model: str, texts: Sequence[str], vectors: Floats) -> Found:
    """`malmoi text topics` without options."""
    found = cluster(vectors)
    made = make_topics(model, texts, vectors, found.labels, least=found.least)
    return found.labels.tolist(), [topic.terms[:TERMS] for topic in made.topics]


def by_bertopic(texts: Sequence[str], vectors: Floats, seed: int, *, nouns: bool = False) -> Found:
    """BERTopic with its defaults but the seed, over our vectors."""
    try:
        from bertopic import BERTopic  # type: ignore[import-not-found]
    except ImportError:
        sys.exit("bertopic is not installed: pip install bertopic")
    from sklearn.feature_extraction.text import CountVectorizer
    from umap import UMAP  # type: ignore[import-not-found]

    # BERTopic's own defaults, to which only the seed is added.
    umap = UMAP(n_neighbors=15, n_components=5, min_dist=0.0, metric="cosine", random_state=seed)
    words: Any = CountVectorizer(analyzer=_nouns) if nouns else None
    # Its "english" deletes every letter but a to z.
    model = BERTopic(language="multilingual", umap_model=umap, vectorizer_model=words)
    labels, _ = model.fit_transform(list(texts), np.asarray(vectors))
    topics = model.get_topics()
    terms = [[word for word, _ in topics[one] if word][:TERMS] for one in topics if one >= 0]
    return [int(label) for label in labels], terms


def _nouns(text: str) -> list[str]:
    [found] = morphemes_of([text])
    return [one.text.lower() for one in found if one.is_noun]


def sample(rows: Rows, count: int, *, whole_kinds: bool) -> Rows:
    """So many rows by chance; of small kinds all of some kinds."""
    draw = random.Random(0)
    if not whole_kinds:
        return draw.sample(rows, count)
    kinds = sorted({kind for kind, _ in rows})
    draw.shuffle(kinds)
    chosen: Rows = []
    for kind in kinds:
        own = [row for row in rows if row[0] == kind]
        if len(chosen) + len(own) <= count:
            chosen += own
    return chosen


def parakqc() -> Rows:
    """Ten ways to ask one question are a kind."""
    lines = (data_root() / "paraphrase/parakqc.tsv").read_text("utf-8").splitlines()[1:]
    return [(kind, text) for kind, text in (line.split("\t") for line in lines)]


def stylekqc() -> Rows:
    """Six subjects of requests."""
    return [(r["topic"], r["sentence"]) for r in read_rows(data_root() / "paraphrase/stylekqc.tsv")]


def sources() -> Rows:
    """Sentences of eight collections, as many of each."""
    draw = random.Random(0)
    found: Rows = []
    for name in SOURCES:
        rows = read_rows(data_root() / f"parallel/{name}.tsv")
        texts = [row["ko"] for row in rows if len(row["ko"]) > 12]
        found += [(name, text) for text in draw.sample(texts, 1500)]
    return found
