"""What ko-en-reranker is trained on, from the data root and the encoder: one file of scored pairs.

    python recipes/prepare/reranker_pairs.py --data DATA --encoder runs/ko-en-small/bundle \
        --model runs/ko-en-small/model --out runs/ko-en-reranker-data
    malmoi train recipes/ko-en-reranker.toml --data runs/ko-en-reranker-data

Gold pairs keep their scores. Sentences of the parallel text are paired with near and far ones;
their score is how alike the encoder finds them in English, brought to the scale of the gold, so
that a Korean pair learns the judgement of its English side. Negatives of paraphrases are mined.
The base is the encoder with the pieces that these pairs need most, for its size.
"""

import argparse
import csv
import hashlib
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import malmoi
from malmoi.export.shrink import shrink
from malmoi.io.files import writing
from malmoi.mining.negatives import NegativeChoice, mine_negatives
from malmoi.train.distil.lessons.base import similarity_rows

Row = tuple[str, str, float, str]

# How alike two sentences are that entail, or contradict, or neither; graders of similarity still
# see the same subject in a contradiction.
ENTAILED = {"entailment": 0.85, "neutral": 0.45, "contradiction": 0.25}
DRAWN = {"news": 3800, "tatoeba": 3000, "bible": 4000, "microsoft-docs": 3000,
         "debian-software": 3000, "debian-descriptions": 1000}  # fmt: skip
ALIKE = 40_000  # pairs of sentences of the parallel text
NLI = 6000
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


def _scale(data: Path, encoder: malmoi.Encoder) -> tuple[list[float], list[float]]:
    """Say which gold score a cosine stands for: equal shares of the pairs lie below both."""
    graded = list(rows(data / "sts/korsts-train.tsv"))
    one, two = (encoder.encode([row[name] for row in graded]) for name in ("en1", "en2"))
    shares = np.linspace(0, 1, 21)
    cosines = np.quantile((one * two).sum(1), shares)
    scores = np.quantile([float(row["score"]) / 5 for row in graded], shares)
    return cosines.tolist(), scores.tolist()


def main() -> None:
    """Write pairs.tsv, the dev file and the smaller base."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("data", "model", "out"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    parser.add_argument("--encoder", default="ko-en-small")
    parser.add_argument("--pieces", type=int, default=29500)
    given = parser.parse_args()
    encoder, random_ = malmoi.load(given.encoder), random.Random(0)
    made: list[Row] = [
        *gold(given.data, random_),
        *paraphrases(given.data, encoder),
        *likeness(given.data, encoder, random_),
    ]
    given.out.mkdir(parents=True, exist_ok=True)
    with writing(given.out / "pairs.tsv") as file:
        file.write(b"a\tb\tscore\tsource\n")
        for a, b, score, source in made:
            one, two = (" ".join(text.split()) for text in (a, b))
            file.write(f"{one}\t{two}\t{score:.4f}\t{source}\n".encode())
    dev = (given.data / "sts/korsts-dev.tsv").read_bytes()
    (given.out / "korsts-dev.tsv").write_bytes(dev)
    texts = [text for a, b, _, _ in made for text in (a, b)]
    done = shrink(given.model, given.out / "base", texts, pieces=given.pieces)
    sys.stdout.write(f"{len(made):,} pairs; {done}\n")


if __name__ == "__main__":
    main()
