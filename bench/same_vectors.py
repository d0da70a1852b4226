"""The same vectors: malmoi's float32 and int8 beside sentence-transformers, on real sentences.

python bench/same_vectors.py [--test]

Cosines on 1,000 sentences in both languages; Spearman on STS-B and KorSTS dev (test with --test).
"""

import argparse

import numpy as np
from common import exported, minilm, sentences, sts_rows
from scipy.stats import spearmanr
from sentence_transformers import SentenceTransformer

import malmoi


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--test", action="store_true")
    options = parser.parse_args()
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
        print(
            f"{precision:<8} cosine to sentence-transformers: least {cosines.min():.6f}, mean "
            f"{cosines.mean():.6f}; alone against in a batch: least {steady:.6f}; "
            f"STS-B {found[0]:.2f}, KorSTS {found[1]:.2f}"
        )


if __name__ == "__main__":
    main()
