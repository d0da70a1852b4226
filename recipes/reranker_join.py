"""Fit how ko-en-reranker joins the encoder's likeness to its own, and note it in its bundle.

    python recipes/reranker_join.py runs/ko-en-reranker/bundle --data DATA [--encoder ko-en-small]

It is fitted on the tenth of KLUE-STS that no training saw and on the questions set aside for
validation.
"""

import argparse
import csv
import hashlib
import sys
from pathlib import Path

import malmoi
from malmoi.train.join import fit_join, write_join


def rows(path: Path) -> list[dict[str, str]]:
    """Read a TSV file with a header."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def held(text: str) -> bool:
    """Tell whether a row belongs to the tenth that measures."""
    return int(hashlib.sha1(text.encode()).hexdigest(), 16) % 10 == 0


def main() -> None:
    """Fit, print the weights, and write them into the bundle's manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="ko-en-small")
    given = parser.parse_args()
    graded = [
        ((row["ko1"], row["ko2"]), float(row["score"]) / 5)
        for row in rows(given.data / "sts/klue-sts-train.tsv")
        if held(row["ko1"])
    ]
    asked = [
        ((row["question1"], row["question2"]), float(row["same"]))
        for row in rows(given.data / "paraphrase/question-pairs-validation.tsv")
    ]
    pairs, scores = zip(*graded, *asked, strict=True)
    reranker, encoder = malmoi.load_reranker(given.bundle), malmoi.load(given.encoder)
    join = fit_join(reranker, encoder, pairs, scores)
    write_join(given.bundle, join)
    sys.stdout.write(f"{len(pairs):,} pairs: {join}\n")


if __name__ == "__main__":
    main()
