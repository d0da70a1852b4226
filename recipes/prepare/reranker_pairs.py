"""What ko-en-reranker is trained on, from the data root and the encoder: two files of scored pairs.

    python recipes/prepare/reranker_pairs.py --data DATA --out runs/ko-en-reranker-data
    malmoi train recipes/ko-en-reranker.toml --data runs/ko-en-reranker-data

`passages.tsv`: questions and the paragraphs that answer them, headings and their sections, in and
across both languages, a few words of a passage and the passage. Each has negatives that a hybrid
search finds for it, which is what a reranker sees.
`pairs.tsv`: sentences. Gold pairs keep their scores. Sentences of the parallel text are paired
with near and far ones; their score is how alike the encoder finds them in English, brought to the
scale of the gold, so that a Korean pair learns the judgement of its English side.
"""

import argparse
import csv
import hashlib
import itertools
import random
import re
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import malmoi
from malmoi.corpus import Corpus
from malmoi.io.files import writing
from malmoi.mining.negatives import NegativeChoice, mine_negatives

Row = tuple[str, str, float, str]
Both = tuple[str, str]  # a sentence in English and in Korean

# How alike two sentences are that entail, or contradict, or neither; graders of similarity still
# see the same subject in a contradiction.
ENTAILED = {"entailment": 0.85, "neutral": 0.45, "contradiction": 0.25}
DRAWN = {"news": 3800, "tatoeba": 3000, "bible": 4000, "microsoft-docs": 3000,
         "debian-software": 3000, "debian-descriptions": 1000}  # fmt: skip
ALIKE = 12_000  # pairs of sentences of the parallel text
NLI = 3000
HEADED = ("microsoft-docs", "tensorflow", "mdn", "react", "adobe", "python-docs",
          "transformers-docs")  # fmt: skip  # kubernetes measures
SECTIONS = 4000
WIKI = 4000
FOUND = 30  # hits among which negatives are chosen: some of the first, some of the others
NEAR, FAR = 3, 1
LANGUAGES = (("ko", "ko"), ("ko", "en"), ("en", "ko"), ("en", "en"))


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Read a TSV file with a header."""
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def held(text: str) -> bool:
    """Whether a row belongs to the tenth that measures."""
    return int(hashlib.sha1(text.encode()).hexdigest(), 16) % 10 == 0


def gold(data: Path, random_: random.Random) -> Iterator[Row]:
    """Yield graded pairs, both languages and across, and those with a label."""
    for row in rows(data / "sts/korsts-train.tsv"):
        for one, two in LANGUAGES:
            yield row[f"{one}1"], row[f"{two}2"], float(row["score"]) / 5, "korsts"
    for row in rows(data / "sts/klue-sts-train.tsv"):
        if not held(row["ko1"]):
            yield row["ko1"], row["ko2"], float(row["score"]) / 5, "klue-sts"
    for row in random_.sample(list(rows(data / "nli/klue-nli-train.tsv")), NLI):
        yield row["premise"], row["hypothesis"], ENTAILED[row["label"]], "klue-nli"
    for row in rows(data / "paraphrase/question-pairs-train.tsv"):
        yield row["question1"], row["question2"], float(row["same"]), "questions"


def paraphrases(data: Path, encoder: malmoi.Encoder) -> Iterator[Row]:
    """Yield pairs of one set of ParaKQC, and mined ones of different sets."""
    sets: dict[str, list[str]] = {}
    for row in rows(data / "paraphrase/parakqc.tsv"):
        if not held(row["set"]):
            sets.setdefault(row["set"], []).append(row["sentence"])
    owner = {text: name for name, texts in sets.items() for text in texts}
    pairs = [
        (texts[i], texts[(i + 1) % len(texts)])
        for texts in sets.values()
        for i in range(len(texts))
    ]
    yield from ((a, b, 1.0, "parakqc") for a, b in pairs)
    choice = NegativeChoice(count=1, last=40, relative_margin=0.0, pick="random")
    for found in mine_negatives(encoder, pairs, documents=owner, choice=choice):
        if owner[found.anchor] != owner.get(found.negative):
            yield found.anchor, found.negative, 0.05, "parakqc-mined"


def likeness(data: Path, encoder: malmoi.Encoder, random_: random.Random) -> Iterator[Row]:
    """Yield pairs of sentences from parallel text, scored by their English sides."""
    texts = [
        (row[f"en{side}"], row[f"ko{side}"])
        for row in rows(data / "sts/korsts-train.tsv")
        for side in (1, 2)
    ]
    for name, most in DRAWN.items():
        found = [(r["en"], r["ko"]) for r in rows(data / f"parallel/{name}.tsv")]
        found = [pair for pair in found if all(pair) and 3 <= len(pair[0].split()) <= 30]
        texts += random_.sample(found, min(most, len(found)))
    texts = list(dict.fromkeys(texts))
    vectors = encoder.encode([english for english, _ in texts])
    drawn = similarity_rows(texts, vectors, np.random.default_rng(0))
    scale = _scale(data, encoder)
    for score, left, right in random_.sample(drawn, min(ALIKE, len(drawn))):
        one, two = random_.choice(LANGUAGES[:3])
        a, b = left[one == "ko"], right[two == "ko"]
        yield a, b, float(np.interp(score, *scale)), "likeness"


def similarity_rows(
    texts: Sequence[Both], vectors: NDArray[np.float32], rng: np.random.Generator, near: int = 300
) -> list[tuple[float, Both, Both]]:
    """Pair sentences, each with its nearest, one of the next few, one of the `near` nearest, any.

    `vectors` (n, dim) are of unit length; the score is their cosine.
    """
    drawn: list[tuple[float, Both, Both]] = []
    near = min(near, len(texts) - 1)
    few = min(8, near)
    for begin in range(0, len(texts), 2000):
        scores = vectors[begin : begin + 2000] @ vectors.T
        best = np.argpartition(-scores, near, axis=1)[:, : near + 1]
        inner = np.argsort(-np.take_along_axis(scores, best, axis=1), axis=1, kind="stable")
        for i, found in enumerate(np.take_along_axis(best, inner, axis=1)):
            ranks = (1, int(rng.integers(2, few)), int(rng.integers(few - 1, near + 1)))
            others = [*(int(found[rank]) for rank in ranks), int(rng.integers(len(texts)))]
            drawn += [
                (float(scores[i, j]), texts[begin + i], texts[j])
                for j in dict.fromkeys(others)
                if j != begin + i
            ]
    return drawn


def _scale(data: Path, encoder: malmoi.Encoder) -> tuple[list[float], list[float]]:
    """Say which gold score a cosine stands for: equal shares of the pairs lie below both."""
    graded = list(rows(data / "sts/korsts-train.tsv"))
    one, two = (encoder.encode([row[name] for row in graded]) for name in ("en1", "en2"))
    shares = np.linspace(0, 1, 21)
    cosines = np.quantile((one * two).sum(1), shares)
    scores = np.quantile([float(row["score"]) / 5 for row in graded], shares)
    return cosines.tolist(), scores.tolist()


@dataclass(frozen=True)
class Ask:
    """A query and the number of the passage that answers it."""

    query: str
    right: int
    source: str


def questions(data: Path) -> tuple[list[str], list[Ask]]:
    """Give the paragraphs of BoolQ's training part, and its questions."""
    found = [r for r in rows(data / "contrast/kobest-boolq.tsv") if r["split"] == "train"]
    numbers = {text: i for i, text in enumerate(dict.fromkeys(r["paragraph"] for r in found))}
    asks = [Ask(row["question"], numbers[row["paragraph"]], "boolq") for row in found]
    return list(numbers), asks


def headed(file: Path) -> Iterator[tuple[dict[str, str], list[dict[str, str]]]]:
    """Yield headings with the sentences under them, in both languages."""
    heading: dict[str, str] | None = None
    body: list[dict[str, str]] = []
    for row in itertools.chain(rows(file), [{"en": "End of all", "ko": ""}]):
        text = row["en"].strip()
        if len(text) < 60 and text[-1:].isalnum() and text[:1].isupper():
            if heading and 2 <= len(body) <= 12 and len(heading["en"].split()) > 1:
                yield heading, body
            heading, body = row, []
        else:
            body.append(row)


def sections(
    data: Path, text: str, query: str, random_: random.Random
) -> tuple[list[str], list[Ask]]:
    """Give sections of documentation in one language, and their headings in one."""
    found = [one for name in HEADED for one in headed(data / f"parallel/{name}.tsv")]
    counts: dict[str, int] = {}
    for heading, _ in found:
        counts[heading["en"]] = counts.get(heading["en"], 0) + 1
    found = [one for one in found if counts[one[0]["en"]] == 1]
    random_.shuffle(found)
    found = found[:SECTIONS]
    passages = [" ".join(row[text] for row in body) for _, body in found]
    asks = [Ask(h[query], i, f"sections-{query}-{text}") for i, (h, _) in enumerate(found)]
    asks += [
        Ask(some_words(passages[i], random_), i, f"words-{text}")
        for i in random_.sample(range(len(found)), len(found) // 4)
    ]
    return passages, asks


def articles(data: Path, random_: random.Random) -> tuple[list[str], list[Ask]]:
    """Give passages of neighbouring sentences, and one sentence or some words of each."""
    sentences = [row["text"] for row in rows(data / "text/kowiki-sentences.tsv")]
    passages, asks, at = [], [], 0
    while len(passages) < WIKI:
        at += random_.randrange(10, 30)
        taken = sentences[at : at + random_.randrange(3, 9)]
        query = random_.choice(taken)
        if random_.random() < 0.5:  # the passage without the sentence: only its subject is shared
            taken = [one for one in taken if one != query]
        else:
            query = some_words(query, random_)
        asks.append(Ask(query, len(passages), "wiki"))
        passages.append(" ".join(taken))
    return passages, asks


def some_words(text: str, random_: random.Random) -> str:
    """A few neighbouring words of a passage without some of them, as people type into a search."""
    words = re.findall(r"[^\s,.;:()\"']+", text)
    start = random_.randrange(max(1, len(words) - 8))
    chosen = words[start : start + random_.randrange(3, 9)]
    return " ".join(word for word in chosen if random_.random() < 0.7) or chosen[0]


def with_negatives(
    passages: list[str], asks: list[Ask], encoder: malmoi.Encoder, random_: random.Random
) -> Iterator[Row]:
    """Yield each query with its passage, and with others that a hybrid search finds."""
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus.open(Path(folder) / "passages.malmoi", encoder)
        corpus.add({"id": str(i), "text": text} for i, text in enumerate(passages))
        for ask in asks:
            yield ask.query, passages[ask.right], 1.0, ask.source
            hits = [hit.id for hit in corpus.search(ask.query, FOUND)]
            others = [int(id) for id in dict.fromkeys(hits) if int(id) != ask.right]
            chosen = random_.sample(others[:8], min(NEAR, len(others[:8])))
            chosen += random_.sample(others[8:], min(FAR, len(others[8:])))
            for other in chosen:
                yield ask.query, passages[other], 0.0, f"{ask.source}-mined"


def write(path: Path, made: Iterable[Row]) -> int:
    """Write pairs as TSV; gives their number."""
    count = 0
    with writing(path) as file:
        file.write(b"a\tb\tscore\tsource\n")
        for count, (a, b, score, source) in enumerate(made, start=1):  # noqa: B007
            one, two = (" ".join(text.split()) for text in (a, b))
            file.write(f"{one}\t{two}\t{score:.4f}\t{source}\n".encode())
    return count


def main() -> None:
    """Write passages.tsv, pairs.tsv and the dev file."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--encoder", default="ko-en-small")
    given = parser.parse_args()
    encoder, random_ = malmoi.load(given.encoder), random.Random(0)
    given.out.mkdir(parents=True, exist_ok=True)
    collections = itertools.chain(
        [questions(given.data), articles(given.data, random_)],
        (sections(given.data, text, query, random_) for text, query in LANGUAGES),
    )
    passages = (row for one in collections for row in with_negatives(*one, encoder, random_))
    counts = [
        write(given.out / "passages.tsv", passages),
        write(
            given.out / "pairs.tsv",
            itertools.chain(
                gold(given.data, random_),
                paraphrases(given.data, encoder),
                likeness(given.data, encoder, random_),
            ),
        ),
    ]
    (given.out / "korsts-dev.tsv").write_bytes((given.data / "sts/korsts-dev.tsv").read_bytes())
    sys.stdout.write(f"{counts[0]:,} pairs with passages, {counts[1]:,} of sentences\n")


if __name__ == "__main__":
    main()
