"""What each side of a search finds, and both together, on sets of different kinds.

    python bench/run.py fusion_quality [--sets parakqc,boolq,...] [--queries 300] [--half test|dev]
        [--reranker MODEL]

Hybrid search should never be behind the better of its two sides. The sets:

- parakqc: a sentence looks for another one of its set; chatbot: a question looks for one that has
  the same answer;
- boolq: a question looks for the Wikipedia paragraph that answers it (those of BoolQ's dev part,
  among all paragraphs; the other questions have trained the shipped models);
- sections-ko, sections-en: a heading of the Kubernetes documentation looks for its section;
- sections-mixed: Korean headings, where every other section is in English; sections-other: the
  heading is in the language that its section is not in;
- company: questions of four kinds about a small folder of documents (tests/support/company.py).

Every second set (or question, or section) is the dev half, on which the weights were chosen. A
row gives the share of queries whose first hit is right, with its interval by bootstrap, and the
difference between hybrid search and the better side. With a reranker: what the first hit is after
it, the difference to hybrid search alone, and how likely chance makes such a one (sign test).
"""

import argparse
import contextlib
import itertools
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import binomtest

import malmoi
from bench.common import Row, data_root
from malmoi.corpus import Corpus
from malmoi.corpus.corpus import MODES
from malmoi.encoders import TextEncoder
from malmoi.io.tables import read_rows
from tests.support import company

DEPTH = 10


@dataclass(frozen=True)
class Query:
    """A query, the documents that are right, and the one it was taken from."""

    text: str
    right: frozenset[str]
    own: str = ""
    kind: str = ""
    answer: str = ""


@dataclass(frozen=True)
class Searches:
    """Texts by their ids, or a folder of files, and queries."""

    texts: dict[str, str]
    queries: list[Query]
    folder: Path | None = None


def of_half(items: Sequence[object], half: str) -> list[int]:
    """Every second one, in an order of chance."""
    rows = list(range(half == "test", len(items), 2))
    random.Random(0).shuffle(rows)
    return rows


def alike(file: str, same: str, text: str) -> Callable[[str, int], Searches]:
    """Texts that belong together look for each other."""

    def make(half: str, count: int) -> Searches:
        rows = list(read_rows(data_root() / file))
        together: dict[str, list[int]] = {}
        for number, row in enumerate(rows):
            together.setdefault(row[same], []).append(number)
        sets = [own for own in together.values() if len(own) > 1]
        queries = []
        for number in of_half(sets, half)[:count]:
            own = random.Random(number).choice(sets[number])
            right = frozenset(str(one) for one in sets[number] if one != own)
            queries.append(Query(rows[own][text], right, str(own)))
        return Searches({str(i): row[text] for i, row in enumerate(rows)}, queries)

    return make


def boolq(half: str, count: int) -> Searches:
    """Questions look for the paragraphs that answer them."""
    rows = list(read_rows(data_root() / "contrast/kobest-boolq.tsv"))
    ids = {text: str(i) for i, text in enumerate(dict.fromkeys(row["paragraph"] for row in rows))}
    asked = [row for row in rows if row["split"] != "train"]
    chosen = [asked[number] for number in of_half(asked, half)[:count]]
    queries = [Query(row["question"], frozenset([ids[row["paragraph"]]])) for row in chosen]
    return Searches({id: text for text, id in ids.items()}, queries)


def headed_sections() -> list[tuple[dict[str, str], list[dict[str, str]]]]:
    """Headings and the sentences under them, in both languages."""
    found: dict[str, tuple[dict[str, str], list[dict[str, str]]]] = {}
    heading: dict[str, str] | None = None
    body: list[dict[str, str]] = []
    end = {"en": "End of all", "ko": ""}
    for row in itertools.chain(read_rows(data_root() / "parallel/kubernetes.tsv"), [end]):
        text = row["en"].strip()
        if len(text) < 60 and text[-1:].isalnum() and text[:1].isupper():
            if heading and 2 <= len(body) <= 12 and len(heading["en"].split()) > 1:
                found.setdefault(heading["en"], (heading, body))
            heading, body = row, []
        else:
            body.append(row)
    return list(found.values())


def sections(query: str, text: str) -> Callable[[str, int], Searches]:
    """Headings look for their sections; "mixed" and "other" as above."""

    def make(half: str, count: int) -> Searches:
        found = headed_sections()

        def language(which: str, number: int) -> str:
            of_text = ("ko", "en")[number // 2 % 2] if text == "mixed" else text
            if which == "text":
                return of_text
            return query if query != "other" else {"ko": "en", "en": "ko"}[of_text]

        texts = {
            str(i): " ".join(row[language("text", i)] for row in body)
            for i, (_, body) in enumerate(found)
        }
        queries = [
            Query(found[i][0][language("query", i)], frozenset([str(i)]))
            for i in of_half(found, half)[:count]
        ]
        return Searches(texts, queries)

    return make


def company_folder(half: str, count: int) -> Searches:
    """All questions about the small folder, whatever half."""
    queries = [
        Query(one.text, frozenset([one.file]), kind=one.kind, answer=one.answer)
        for one in company.QUESTIONS
    ]
    return Searches({}, queries, Path(tempfile.mkdtemp()) / "docs")


SETS: dict[str, Callable[[str, int], Searches]] = {
    "parakqc": alike("paraphrase/parakqc.tsv", "set", "sentence"),
    "chatbot": alike("faq/chatbot.tsv", "answer", "question"),
    "boolq": boolq,
    "sections-ko": sections("ko", "ko"),
    "sections-en": sections("en", "en"),
    "sections-mixed": sections("ko", "mixed"),
    "sections-other": sections("other", "mixed"),
    "company": company_folder,
}


def first_is_right(
    corpus: Corpus, query: Query, mode: str, reranker: malmoi.Reranker | None = None
) -> bool:
    """Whether the best hit, other than the query itself, is right."""
    hits = corpus.search(query.text, DEPTH, mode=mode, reranker=reranker)  # type: ignore[arg-type]
    hit = next((hit for hit in hits if hit.id != query.own), None)
    return hit is not None and hit.id in query.right and query.answer in hit.text


def interval(right: np.ndarray, rounds: int = 2000) -> list[float]:  # type: ignore[type-arg]
    """The mean in percent, and the interval that holds 95 % of resampled means."""
    drawn = np.random.default_rng(0).integers(0, len(right), (rounds, len(right)))
    low, high = np.percentile(right[drawn].mean(axis=1), [2.5, 97.5])
    return [round(100 * float(value), 1) for value in (right.mean(), low, high)]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--half", choices=("dev", "test"), default="test")
    parser.add_argument("--model", default=None)
    parser.add_argument("--reranker", default="")


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.model)
    reranker = None
    if options.reranker:
        reranker = malmoi.load(options.reranker, encoder=encoder)
    for name in options.sets.split(","):
        searches = SETS[name](options.half, options.queries)
        with indexed(searches, encoder) as corpus:
            yield from compared(name, corpus, searches.queries, reranker)


@contextlib.contextmanager
def indexed(searches: Searches, encoder: TextEncoder) -> Iterator[Corpus]:
    """A corpus of what is searched, for as long as it is needed."""
    with (
        tempfile.TemporaryDirectory() as folder,
        Corpus.open(Path(folder) / "x.malmoi", encoder) as corpus,
    ):
        if searches.folder is not None:
            corpus.sync(company.write_folder(searches.folder))
        else:
            corpus.add({"id": id, "text": text} for id, text in searches.texts.items())
        yield corpus


def chance(difference: np.ndarray) -> float:  # type: ignore[type-arg]
    """How likely at least such a difference is by chance: the two-sided sign test."""
    better, worse = int((difference > 0).sum()), int((difference < 0).sum())
    return float(binomtest(better, better + worse).pvalue) if better + worse else 1.0


def compared(
    name: str, corpus: Corpus, queries: Sequence[Query], reranker: malmoi.Reranker | None
) -> Iterator[Row]:
    """The row of a set, and one for each kind of its queries."""
    ways = [(mode, mode, None) for mode in MODES]
    if reranker is not None:
        ways.append(("reranked", "hybrid", reranker))
    right = {
        name: np.array([first_is_right(corpus, query, mode, then) for query in queries], float)
        for name, mode, then in ways
    }
    kinds = dict.fromkeys(query.kind for query in queries)
    for kind in ["", *kinds] if len(kinds) > 1 else [""]:
        rows = [i for i, query in enumerate(queries) if kind in ("", query.kind)]
        own = {mode: found[rows] for mode, found in right.items()}
        better = max(("dense", "keyword"), key=lambda mode: own[mode].mean())
        row: Row = {"set": f"{name}, {kind}" if kind else name, "queries": len(rows)}
        row |= {f"{mode} at 1": interval(found) for mode, found in own.items()}
        row["hybrid against the better"] = interval(own["hybrid"] - own[better])
        if reranker is not None:
            gain = own["reranked"] - own["hybrid"]
            row |= {"reranked against hybrid": interval(gain), "p": round(chance(gain), 5)}
        yield row
