"""Development questions of five kinds with the passages that answer them.

Korean questions to paragraphs (KoBEST BoolQ), English sentences to Korean passages, a sentence or
words of a bill to the rest of it, chat, and documentation where query and passage are in either
language.
"""

import csv
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from bench.common import data_root

csv.field_size_limit(10**9)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*⏎\s*")
_GUIDES = ("transformers-docs", "godot", "debian-guide")
_MANUALS = ("kubernetes", "react", "mdn", "libreoffice")


class DevSet(NamedTuple):
    """Queries, passages, and for each query the numbers of the passages that answer it."""

    queries: list[str]
    passages: list[str]
    right: list[set[int]]


def dev_sets(count: int = 400) -> dict[str, DevSet]:
    """All sets, with up to `count` queries each."""
    drawn = np.random.default_rng(0)
    boolq, across = _boolq(count), _across(count, drawn)
    bills, chat = _bills(count, drawn), _chat(count, drawn)
    return {
        "boolq": boolq,
        "en>ko": across,
        "bills": bills,
        "chat": chat,
        "docs": _docs(count, drawn),
    }


def _rows(name: str) -> Iterator[dict[str, str]]:
    with (Path(data_root()) / name).open(encoding="utf-8") as file:
        names = file.readline().rstrip("\n").split("\t")
        for line in file:
            cells = line.rstrip("\n").split("\t")
            if len(cells) == len(names):
                yield dict(zip(names, cells, strict=True))


def _boolq(count: int) -> DevSet:
    rows = [row for row in _rows("contrast/kobest-boolq.tsv") if row["split"] == "dev"]
    passages = list(dict.fromkeys(row["paragraph"] for row in rows))
    number = {text: i for i, text in enumerate(passages)}
    rows = rows[:count]
    return DevSet(
        [row["question"] for row in rows], passages, [{number[row["paragraph"]]} for row in rows]
    )


def _across(count: int, drawn: np.random.Generator) -> DevSet:
    found = []
    for name in _GUIDES:
        rows = list(_rows(f"parallel/{name}.tsv"))
        for i in range(0, len(rows) - 3, 3):
            three = rows[i : i + 3]
            if len(three[1]["en"].split()) >= 5:
                found.append((three[1]["en"], " ".join(row["ko"] for row in three)))
    chosen = [found[i] for i in sorted(drawn.choice(len(found), 800, replace=False))]
    queries = [query for query, _ in chosen][:count]
    return DevSet(queries, [text for _, text in chosen], [{i} for i in range(len(queries))])


def _bills(count: int, drawn: np.random.Generator) -> DevSet:
    split = (
        [s.strip() for s in _SENTENCE.split(row["reason"]) if s.strip()]
        for row in _rows("text/assembly-bills.tsv")
    )
    bills = [sentences for sentences in split if len(sentences) > 2]
    queries, passages = [], []
    for i in drawn.choice(len(bills), 3000, replace=False):
        sentences = bills[i]
        at = int(drawn.integers(len(sentences)))
        words = [word.strip(".,“”\"'()") for word in sentences[at].split()]
        words = [word for word in words if len(word) > 1]
        if drawn.random() < 0.5 and len(words) >= 6:
            places = sorted(drawn.choice(len(words), 5, replace=False))
            query, rest = " ".join(words[j] for j in places), sentences
        else:
            query, rest = sentences[at], sentences[:at] + sentences[at + 1 :]
        queries.append(query)
        passages.append(" ".join(rest)[:900])
    return DevSet(queries[:count], passages, [{i} for i in range(count)])


def _chat(count: int, drawn: np.random.Generator) -> DevSet:
    rows = list(_rows("faq/chatbot.tsv"))
    rows = [rows[i] for i in drawn.choice(len(rows), 3000, replace=False)]
    passages = list(dict.fromkeys(row["answer"] for row in rows))
    number = {text: i for i, text in enumerate(passages)}
    rows = rows[:count]
    return DevSet(
        [row["question"] for row in rows], passages, [{number[row["answer"]]} for row in rows]
    )


def _docs(count: int, drawn: np.random.Generator) -> DevSet:
    found = []
    for name in _MANUALS:
        rows = list(_rows(f"parallel/{name}.tsv"))
        for i in range(0, len(rows) - 4, 4):
            four = rows[i : i + 4]
            if all(len(row["ko"]) > 15 for row in four):
                found.append(four)
    queries, passages = [], []
    for i in drawn.choice(len(found), 2000, replace=False):
        four, at = found[i], int(drawn.integers(4))
        korean_passage, korean_query = drawn.random() < 0.5, drawn.random() < 0.5
        query = four[at]["ko" if korean_query else "en"]
        words = [word for word in re.findall(r"\w+", query) if len(word) > 1]
        if korean_query == korean_passage and len(words) > 5:
            places = sorted(drawn.choice(len(words), 4, replace=False))
            query = " ".join(words[j] for j in places)
        queries.append(query)
        passages.append(" ".join(row["ko" if korean_passage else "en"] for row in four))
    return DevSet(queries[:count], passages, [{i} for i in range(count)])
