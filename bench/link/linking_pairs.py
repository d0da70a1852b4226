"""A Korean term → its English name among all of KCD-9, and the reverse, on pairs held out.

    python bench/run.py linking_pairs [--model MODEL] [--count 1000]

A tenth of the codes (sha1 % 10 == 0) was held out of the shipped model's training; their strict
pairs are asked for here. Three ways, one table: spelling alone, vectors alone, both joined.
"""

import argparse
import random
from collections.abc import Iterator

import numpy as np

import malmoi
from bench.common import Row
from bench.link.data import held_out, lexicon, open_linker, shares, terms
from malmoi.runtime.pooling import normalize
from malmoi.terms import Linker


def ranks(linker: Linker, asked: list[str], right: list[str]) -> list[int]:
    found = []
    for linked, name in zip(linker.link_iter(asked, k=10), right, strict=True):
        codes = [candidate.code for candidate in linked.candidates]
        found.append(codes.index(name) + 1 if name in codes else 0)
    return found


def dense(
    linker: Linker, encoder: malmoi.TextEncoder, asked: list[str], right: list[str]
) -> list[int]:
    """Ranks by cosine with every name: what a plain bi-encoder does."""
    vectors = normalize(np.asarray(encoder.encode(asked), np.float32))
    store = linker.indexes[0].vectors
    assert store is not None
    codes = [linker.lexicon.codes[n] for n in np.asarray(linker.lexicon.concepts)]
    found = []
    for query, name in zip(vectors, right, strict=True):
        scores = store.codes.astype(np.float32) @ query
        best: list[str] = []
        for row in np.argsort(-scores)[:60]:
            if codes[row] not in best:
                best.append(codes[row])
        found.append(best[:10].index(name) + 1 if name in best[:10] else 0)
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=1000)


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.model)
    pairs = [row for row in terms("pairs") if row["ko"].strip() and row["en"].strip()]
    random.seed(0)
    for source, target in (("ko", "en"), ("en", "ko")):
        names = {name: f"N{i:06}" for i, name in enumerate(dict.fromkeys(r[target] for r in pairs))}
        folder = lexicon(
            f"pairs-{target}", ([code, n] for n, code in names.items()), ["code", target]
        )
        asked = random.sample([r for r in pairs if held_out(r["code"])], options.count)
        mentions, right = [r[source] for r in asked], [names[r[target]] for r in asked]
        joined = open_linker(folder, encoder)
        spelling = Linker(folder, keep=False)
        yield {
            "direction": f"{source} → {target}",
            "terms": len(asked),
            "names": len(names),
            "spelling alone, at 1 / 5 / 10": shares(ranks(spelling, mentions, right)),
            "vectors alone": shares(dense(joined, encoder, mentions, right)),
            "joined": shares(ranks(joined, mentions, right)),
        }
