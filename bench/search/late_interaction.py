"""How often the right passage comes first: one vector, words, both, and with late interaction.

    python bench/run.py late_interaction [--sets boolq,docs] [--queries 400] [--sentences]

On development questions of five kinds. `--sentences` builds the corpora without token vectors,
with vectors of sentences instead, as before late interaction.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import malmoi
from bench.common import Row
from bench.search.dev_sets import DevSet, dev_sets
from malmoi.corpus import Corpus

_WAYS = {
    "one vector": {"mode": "dense", "late": False},
    "BM25": {"mode": "keyword"},
    "hybrid without late": {"late": False},
    "late alone": {"mode": "dense"},
    "hybrid": {},
}


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--queries", type=int, default=400)
    parser.add_argument("--sets", default="boolq,en>ko,bills,chat,docs")
    parser.add_argument("--sentences", action="store_true")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--model")


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.model, threads=options.threads)
    sets = dev_sets(options.queries)
    for name in options.sets.split(","):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "dev.malmoi"
            with open_corpus(path, encoder, sets[name], sentences=options.sentences) as corpus:
                yield measure(name, corpus, sets[name], path)


def open_corpus(
    path: Path, encoder: malmoi.TextEncoder, own: DevSet, *, sentences: bool = False
) -> Corpus:
    """A corpus of a set's passages; one that is there is opened."""
    without = mock.patch("malmoi.corpus.writer.token_map", lambda encoder: "")
    with without if sentences else mock.patch.dict({}):
        corpus = Corpus.open(path, encoder)
    if not len(corpus):
        corpus.add({"id": str(i), "text": text, "n": i} for i, text in enumerate(own.passages))
        corpus.close()  # so that all is in one file
        corpus = Corpus.open(path, encoder)
    return corpus


def measure(name: str, corpus: Corpus, own: DevSet, path: Path) -> Row:
    """The share of queries whose right passage is first, each way, and the time of a search."""
    row: Row = {"set": name, "passages": len(own.passages), "queries": len(own.queries)}
    for way, asked in _WAYS.items():
        started, first = time.perf_counter(), 0
        for query, right in zip(own.queries, own.right, strict=True):
            found = corpus.search(query, 10, **asked)  # type: ignore[arg-type]
            first += bool(found) and int(found[0].id) in right
        seconds = time.perf_counter() - started
        row[way] = round(100 * first / len(own.queries), 1)
        row["ms"] = round(1000 * seconds / len(own.queries), 1)  # of the last way, the whole search
    row["kB a passage"] = round(path.stat().st_size / len(own.passages) / 1000, 1)
    return row
