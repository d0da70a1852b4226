"""The same vectors: malmoi's float32 and int8 next to sentence-transformers, on real sentences.

python bench/run.py same_vectors [--test]

Cosines on 1,000 sentences in both languages; Spearman on STS-B and KorSTS dev (test with --test).
"""

import argparse
from collections.abc import Iterator

import numpy as np
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

import malmoi
from bench.common import Row, exported, minilm, sentences, sts_rows


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--test", action="store_true")


def run(options: argparse.Namespace) -> Iterator[Row]:
    peer = SentenceTransformer(str(minilm()), device="cpu")
    texts = sentences(1000)
    expected = peer.encode(texts, show_progress_bar=False)
    rows = sts_rows("korsts-test" if options.test else "korsts-dev")
    gold = np.array([float(row["score"]) for row in rows])
    for precision in ("float32", "int8"):
        encoder = malmoi.load(exported(precision))
        vectors = encoder.encode(texts)
        cosines = (vectors * expected).sum(axis=1)
        alone = np.stack([encoder.encode(text) for text in texts[:200]])
        steady = (alone * vectors[:200]).sum(axis=1).min()
        found = []
        for language in ("en", "ko"):
            a = encoder.encode([row[f"{language}1"] for row in rows])
            b = encoder.encode([row[f"{language}2"] for row in rows])
            found.append(100 * spearmanr((a * b).sum(axis=1), gold).statistic)
        yield {
            "precision": precision,
            "least cosine": round(float(cosines.min()), 6),
            "mean": round(float(cosines.mean()), 6),
            "alone and in a batch": round(float(steady), 6),
            "STS-B": round(float(found[0]), 2),
            "KorSTS": round(float(found[1]), 2),
        }
