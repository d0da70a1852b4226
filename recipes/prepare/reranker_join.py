"""Fit how ko-en-reranker weighs other scores with its own, and note it in its bundle.

    python recipes/prepare/reranker_join.py runs/ko-en-reranker/bundle --data DATA \
        [--encoder ko-en-small]

The encoder's similarity is weighed on KorSTS dev, in and across both languages, which neither model
was trained on, and on questions with a right and a wrong passage; the score of a search on the dev
halves of bench/search/fusion_quality.py, where these questions are from too.
"""

import argparse
import csv
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path

import malmoi
from malmoi.corpus.corpus import RERANKED
from malmoi.heads.blend import FoundTexts, fit_found, fit_join, write_join

sys.path.insert(0, str(Path(__file__).parents[2]))  # for the sets of the bench
from bench.search.fusion_quality import SETS, indexed

SETS_FITTED = ("boolq", "sections-ko", "sections-en", "sections-mixed", "sections-other", "chatbot")
QUERIES = 60
PASSAGES = 4  # times that a question counts: KorSTS has many more pairs


def rows(path: Path) -> list[dict[str, str]]:
    """Read a TSV file with a header."""
    with path.open(encoding="utf-8") as file:
        return list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))


def searches(encoder: malmoi.Encoder) -> Iterator[FoundTexts]:
    """Yield what a hybrid search finds, first of all, for questions whose answers are known."""
    for name in SETS_FITTED:
        made = SETS[name]("dev", QUERIES)
        with indexed(made, encoder) as corpus:
            for query in made.queries:
                hits = [hit for hit in corpus.search(query.text, RERANKED) if hit.id != query.own]
                right = [hit.id in query.right for hit in hits]
                yield FoundTexts(
                    query.text, [hit.text for hit in hits], [hit.score for hit in hits], right
                )


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
    reranker, encoder = malmoi.load_reranker(given.bundle), malmoi.load(given.encoder)
    made = list(searches(encoder))
    for search in made:
        if True in search.right and False in search.right:
            dev += [
                ((search.query, search.texts[search.right.index(right)]), float(right))
                for right in (True, False)
            ] * PASSAGES
    pairs, scores = zip(*dev, strict=True)
    found = fit_found(reranker, made)
    join = dataclasses.replace(fit_join(reranker, encoder, pairs, scores), found=found)
    write_join(given.bundle, join)
    sys.stdout.write(f"{len(pairs):,} pairs: {join}\n")


if __name__ == "__main__":
    main()
