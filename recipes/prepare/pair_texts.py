"""What recipes/pairs-pretrain.toml reads: sentences two by two, translations and related ones.

    python recipes/prepare/pair_texts.py --data DATA --out runs/pair-texts
    malmoi train recipes/pairs-pretrain.toml --data runs/pair-texts

Every line of pairs.jsonl is a document of two sentences, so that an encoder which guesses hidden
words learns to look them up in the other one: translations either way, and sentences that stand
side by side in the data for similarity, entailment and paraphrase, whose labels are not read.
"""

import argparse
import csv
import hashlib
import json
import random
import sys
from collections.abc import Iterator
from pathlib import Path

from malmoi.io.files import writing
from malmoi.training.distil.recipe import is_plain

Pair = tuple[str, str]

# How many pairs of a collection, and how often each; general language counts more.
DRAWN = {"news": (9000, 3), "tatoeba": (9000, 3), "bible": (20000, 1), "microsoft-docs": (8000, 1),
         "debian-software": (4000, 1), "debian-descriptions": (2000, 1), "react": (1500, 1),
         "python-docs": (1500, 1)}  # fmt: skip
GENERAL = ("news", "tatoeba")
LONGEST = 45  # words of the English side


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Read a TSV file with a header."""
    with path.open(encoding="utf-8") as file:
        yield from csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)


def held(text: str) -> bool:
    """Whether a row belongs to the tenth that measures."""
    return int(hashlib.sha1(text.encode()).hexdigest(), 16) % 10 == 0


def translations(data: Path, random_: random.Random) -> Iterator[Pair]:
    """Yield sentences with their translations, in either order."""
    for name, (most, times) in DRAWN.items():
        found = [
            (row["en"], row["ko"])
            for row in rows(data / f"parallel/{name}.tsv")
            if len(row["en"].split()) <= LONGEST
            and (name in GENERAL or is_plain(row["en"], row["ko"]))
        ]
        for english, korean in random_.sample(found, min(most, len(found))) * times:
            yield (korean, english) if random_.random() < 0.5 else (english, korean)


def related(data: Path, random_: random.Random) -> Iterator[Pair]:
    """Yield sentences that belong together in some way."""
    for row in rows(data / "sts/korsts-train.tsv"):
        for one, two in (("en1", "ko1"), ("ko2", "en2"), ("ko1", "ko2"), ("en1", "en2")):
            yield row[one], row[two]
    for row in rows(data / "nli/klue-nli-train.tsv"):
        yield row["premise"], row["hypothesis"]
    for row in rows(data / "sts/klue-sts-train.tsv"):
        if not held(row["ko1"]):
            yield row["ko1"], row["ko2"]
    for row in rows(data / "paraphrase/question-pairs-train.tsv"):
        yield row["question1"], row["question2"]
    sets: dict[str, list[str]] = {}
    for row in rows(data / "paraphrase/parakqc.tsv"):
        if not held(row["set"]):
            sets.setdefault(row["set"], []).append(row["sentence"])
    for texts in sets.values():
        random_.shuffle(texts)
        yield from zip(texts[::2], texts[1::2], strict=False)


def main() -> None:
    """Write the file."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    random_ = random.Random(0)
    pairs = [*translations(options.data, random_), *related(options.data, random_)]
    pairs = [pair for pair in pairs if all(text.strip() for text in pair)]
    random_.shuffle(pairs)
    options.out.mkdir(parents=True, exist_ok=True)
    with writing(options.out / "pairs.jsonl") as file:
        for one, two in pairs:
            file.write(json.dumps({"a": one, "b": two}, ensure_ascii=False).encode() + b"\n")
    sys.stderr.write(f"{len(pairs):,} pairs\n")


if __name__ == "__main__":
    main()
