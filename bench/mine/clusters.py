"""How pure clusters are: malmoi's, against k-means on TF-IDF.

    python bench/run.py clusters

ParaKQC: ten ways to ask one question make a set. Genres: which collection a Korean sentence of the
parallel texts is from. All are given the number of groups.
"""

import argparse
import random
from collections.abc import Iterator

from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer

import malmoi
from bench.common import Row, data_root
from malmoi.io.tables import read_rows
from malmoi.mining.clusters import cluster, purity
from malmoi.runtime.pooling import normalize

GENRES = ("bible", "news", "tatoeba", "python-docs", "kubernetes", "libreoffice")
SETS = 200
EACH = 250


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default=None)


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.model)
    for name, rows in (("ParaKQC", _parakqc()), ("genres", _genres())):
        texts, gold = [text for _, text in rows], [kind for kind, _ in rows]
        groups = len(set(gold))
        found = cluster(normalize(encoder.encode(texts)), count=groups)
        words = _kmeans(texts, groups, TfidfVectorizer())
        letters = _kmeans(texts, groups, TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)))
        yield {
            "data": name,
            "sentences": len(rows),
            "groups": groups,
            "malmoi": round(purity(found.labels.tolist(), gold), 3),
            "k-means, TF-IDF of words": round(purity(words, gold), 3),
            "of letters": round(purity(letters, gold), 3),
        }


def _kmeans(texts: list[str], groups: int, vectorizer: TfidfVectorizer) -> list[int]:
    table = vectorizer.fit_transform(texts)
    labels: list[int] = KMeans(groups, n_init=2, random_state=0).fit_predict(table).tolist()
    return labels


def _parakqc() -> list[tuple[str, str]]:
    path = data_root() / "paraphrase/parakqc.tsv"
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    return [(kind, text) for kind, text in rows if int(kind) < SETS]


def _genres() -> list[tuple[str, str]]:
    draw = random.Random(0)
    rows = []
    for genre in GENRES:
        path = data_root() / f"parallel/{genre}.tsv"
        texts = [row["ko"] for row in read_rows(path) if len(row["ko"]) > 12]
        rows += [(genre, text) for text in draw.sample(texts, EACH)]
    return rows
