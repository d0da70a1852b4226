"""What a corpus finds on real data: by words, by meaning, by both, and reranked.

    python bench/run.py search_quality [--data parakqc|chatbot|chatbot-answers] [--queries 500]
                                   [--half test|dev] [--reranker NAME] [--weights 0.25,0.5,1]
                                   [--words morphemes,word-morphemes]

ParaKQC: a sentence looks for the nine others of its set among 10,000. Chatbot: a question looks
for those that have the same answer; "chatbot-answers": for its answer. Every second set (or
question) is the dev half, on which weights are chosen with `--weights`; the other half is
reported. Intervals and p values are by paired bootstrap over sets. `--words A,B` compares two ways
of cutting words for the keyword side.
"""

import argparse
import random
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import malmoi
from bench.common import Row, data_root
from malmoi.bundle.bundle import shipped_models
from malmoi.corpus import Corpus
from malmoi.evaluation import Outcome, make_report, retrieval
from malmoi.evaluation.examples import ExampleSource
from malmoi.evaluation.tasks.retrieval import Searches, outcome_of

FILES = {
    "parakqc": "paraphrase/parakqc.tsv",
    "chatbot": "faq/chatbot.tsv",
    "chatbot-answers": "faq/chatbot.tsv",
}
# Questions that are answered alike ask alike.
COLUMNS = {"chatbot": {"set": "answer", "text": "question"}}
NOT_FOUND = 10**6
DEPTH = 50


def half_of(searches: Searches, half: str, count: int) -> Searches:
    """One query of every second set, as many as asked."""
    of_set: dict[int, list[int]] = {}
    for row, unit in enumerate(searches.units):
        of_set.setdefault(int(unit), []).append(row)
    chosen = [unit for unit in of_set if unit % 2 == (half == "test")]
    random.Random(0).shuffle(chosen)
    rows = [random.Random(unit).choice(of_set[unit]) for unit in chosen[:count]]
    return Searches(
        queries=[searches.queries[row] for row in rows],
        documents=searches.documents,
        relevant=[searches.relevant[row] for row in rows],
        own=searches.own[rows],
        units=np.arange(len(rows)),
    )


def outcome(search: Callable[[str], list[str]], searches: Searches) -> Outcome:
    """Search for every query and measure where its documents stand."""
    ranks = []
    for query, relevant, own in zip(searches.queries, searches.relevant, searches.own, strict=True):
        found = [int(id) for id in search(query) if int(id) != own]
        places = {row: rank for rank, row in enumerate(found, start=1)}
        ranks.append({row: places.get(row, NOT_FOUND) for row in relevant})
    return outcome_of(ranks, searches, (1, 10))


def ways(
    corpus: Corpus, reranker: malmoi.Reranker | None, weights: list[float]
) -> dict[str, Callable[[str], list[str]]]:
    """The searches to compare, by name."""

    def way(**options: object) -> Callable[[str], list[str]]:
        return lambda query: [
            hit.id
            for hit in corpus.search(query, DEPTH + 1, **options)  # type: ignore[arg-type]
        ]

    found = {mode: way(mode=mode) for mode in ("keyword", "dense", "hybrid")}
    for weight in weights:
        found[f"hybrid keyword={weight}"] = way(weights={"dense": 1.0, "keyword": weight})
    if reranker is not None:
        found["dense, reranked"] = way(mode="dense", reranker=reranker)
        found["hybrid, reranked"] = way(mode="hybrid", reranker=reranker)
    return found


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", choices=FILES, default="parakqc")
    parser.add_argument("--queries", type=int, default=500)
    parser.add_argument("--half", choices=("dev", "test"), default="dev")
    parser.add_argument("--model", default=None)
    parser.add_argument("--words", default=None)
    parser.add_argument("--reranker", default="none")
    parser.add_argument("--weights", default="")


def run(options: argparse.Namespace) -> Iterator[Row]:
    weights = [float(one) for one in options.weights.split(",") if one]
    path = data_root() / FILES[options.data]
    examples = retrieval.read(path, columns=COLUMNS.get(options.data))
    searches, source = examples.rows, examples.source
    some = half_of(searches, options.half, options.queries)
    there = options.reranker in shipped_models() or Path(options.reranker).is_dir()
    reranker = malmoi.load(options.reranker) if there else None
    encoder = malmoi.load(options.model)
    done: list[tuple[str, Outcome]] = []
    for kind in options.words.split(",") if options.words else [None]:
        with (
            tempfile.TemporaryDirectory() as folder,
            Corpus.open(Path(folder) / "x.malmoi", encoder, words=kind) as corpus,
        ):
            corpus.add({"id": str(i), "text": text} for i, text in enumerate(searches.documents))
            corpus.store.flush()
            found = ways(corpus, reranker, weights)
            if done:  # by meaning it is the same again
                found = {f"{name}, {kind}": way for name, way in found.items() if name != "dense"}
            yield from report(found, some, source, done)


def report(
    searches_by: dict[str, Callable[[str], list[str]]],
    some: Searches,
    source: ExampleSource,
    done: list[tuple[str, Outcome]],
) -> Iterator[Row]:
    """Each way's figures, and how its nDCG stands against those done before it."""
    for name, search in searches_by.items():
        found = outcome(search, some)
        made = make_report("retrieval", name, found, source, against=done)
        row: Row = {"way": name, "queries": len(some.queries)}
        for key in ("hit@1", "hit@10", "ndcg@10", "mrr@10"):
            metric = made.metrics[key]
            row[key] = [round(value, 3) for value in (metric.value, metric.low, metric.high)]
        for comparison in made.comparisons:
            other = comparison.differences["ndcg@10"]
            gain = f"{other.difference.value:+.3f}, p = {other.p:.3f}"
            row[f"ndcg@10 against {comparison.model}"] = gain
        yield row
        done.append((name, found))
