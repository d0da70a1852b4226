"""How pure clusters are: malmoi's, against k-means on TF-IDF.

    python bench/clusters.py

ParaKQC: ten ways to ask one question make a set. Genres: which collection a Korean sentence of the
parallel texts is from. Both peers are told the number of groups.
"""

import random

import common
from sklearn.cluster import KMeans
from sklearn.feature_extraction.text import TfidfVectorizer

import malmoi
from malmoi.io.tables import read_rows
from malmoi.mining.clusters import cluster, purity
from malmoi.runtime.pooling import normalize

GENRES = ("bible", "news", "tatoeba", "python-docs", "kubernetes", "libreoffice")
SETS = 200
EACH = 250


def main() -> None:
    """Print a table."""
    encoder = malmoi.load()
    print(
        f"{'data':<10} {'rows':>6} {'groups':>6} {'malmoi':>8} {'tf-idf words':>13} {'letters':>8}"
    )
    for name, rows in (("ParaKQC", _parakqc()), ("genres", _genres())):
        texts, gold = [text for _, text in rows], [kind for kind, _ in rows]
        groups = len(set(gold))
        found = cluster(normalize(encoder.encode(texts)), count=groups)
        words = _kmeans(texts, groups, TfidfVectorizer())
        letters = _kmeans(texts, groups, TfidfVectorizer(analyzer="char_wb", ngram_range=(2, 3)))
        print(
            f"{name:<10} {len(rows):>6} {groups:>6} {purity(found.labels.tolist(), gold):>8.3f} "
            f"{purity(words, gold):>13.3f} {purity(letters, gold):>8.3f}"
        )


def _kmeans(texts: list[str], groups: int, vectorizer: TfidfVectorizer) -> list[int]:
    table = vectorizer.fit_transform(texts)
    labels: list[int] = KMeans(groups, n_init=2, random_state=0).fit_predict(table).tolist()
    return labels


def _parakqc() -> list[tuple[str, str]]:
    path = common.data_root() / "paraphrase/parakqc.tsv"
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()[1:]]
    return [(kind, text) for kind, text in rows if int(kind) < SETS]


def _genres() -> list[tuple[str, str]]:
    draw = random.Random(0)
    rows = []
    for genre in GENRES:
        path = common.data_root() / f"parallel/{genre}.tsv"
        texts = [row["ko"] for row in read_rows(path) if len(row["ko"]) > 12]
        rows += [(genre, text) for text in draw.sample(texts, EACH)]
    return rows


if __name__ == "__main__":
    main()
