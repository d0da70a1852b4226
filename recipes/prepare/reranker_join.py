"""Fit how ko-en-reranker joins the encoder's similarity to its own, and note it in its bundle.

    python recipes/prepare/reranker_join.py runs/ko-en-reranker/bundle --data DATA \
        [--encoder ko-en-small]

It is fitted on KorSTS dev, in and across both languages, which neither model was trained on.
"""

import argparse
import csv
import sys
from pathlib import Path

import malmoi
from malmoi.reranker.blend import fit_join, write_join


def rows(path: Path) -> list[dict[str, str]]:
    """Read a TSV file with a header."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def main() -> None:
    """Fit, print the weights, and write them into the bundle's manifest."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--encoder", default="ko-en-small")
    given = parser.parse_args()
    dev = [
        ((row[f"{one}1"], row[f"{two}2"]), float(row["score"]) / 5)
        for row in rows(given.data / "sts/korsts-dev.tsv")
        for one, two in (("ko", "ko"), ("ko", "en"), ("en", "en"))
    ]
    pairs, scores = zip(*dev, strict=True)
    reranker, encoder = malmoi.load_reranker(given.bundle), malmoi.load(given.encoder)
    join = fit_join(reranker, encoder, pairs, scores)
    write_join(given.bundle, join)
    sys.stdout.write(f"{len(pairs):,} pairs: {join}\n")


if __name__ == "__main__":
    main()
