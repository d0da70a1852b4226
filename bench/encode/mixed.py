"""Korean sentences with some nouns in English: does the nearest neighbour stay?

    python bench/run.py mixed --model ko-en-small

A small dictionary is learnt from the parallel text: a Korean noun and the English word that come
together in sentence pairs far more often than apart (Dice's coefficient). In the Korean sentences
of KorSTS dev up to three nouns are replaced, their particles kept ("고양이가" → "cat가"), and the
nearest other sentence is looked for before and after.
"""

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

import malmoi
from bench.common import Row, data_root, sts_rows
from malmoi.io.tables import read_rows

PARTICLES = re.compile(
    "(에서는|에서|으로|에게|까지|부터|을|를|이|가|은|는|에|의|와|과|도|로|만)$"
)  # the common ones
WORD = re.compile("[a-z]+")
HANGUL = re.compile("[가-힣]+")
# English words that stand in every other sentence are nobody's translation.
COMMON = set(
    "the a an is are was were of to in on and for with that this it his her he she they "  # noqa: SIM905
    "be by at as from not have has had their its will you your i we one".split()
)
FILES = {"parallel/tatoeba.tsv": ("en", "ko"), "parallel/news.tsv": ("en", "ko"),
         "sts/korsts-train.tsv": ("en1", "ko1")}  # fmt: skip


def stem(word: str) -> str:
    """Take the particle off a Korean word, if two letters or more would be left, or a lone one."""
    left = PARTICLES.sub("", word)
    return left if len(left) >= 2 else word


def pairs() -> Iterator[tuple[set[str], set[str]]]:
    """Yield the distinct Korean stems and English words of each sentence pair."""
    for file, (english, korean) in FILES.items():
        for row in read_rows(data_root() / file):
            one = {stem(word) for word in HANGUL.findall(row[korean] or "")}
            yield one, set(WORD.findall((row[english] or "").lower())) - COMMON


def dictionary(*, least: float = 0.5, fewest: int = 5) -> dict[str, str]:
    """Learn which English word goes with a Korean noun."""
    korean: Counter[str] = Counter()
    english: Counter[str] = Counter()
    together: Counter[tuple[str, str]] = Counter()
    for one, two in pairs():
        korean.update(one)
        english.update(two)
        together.update((a, b) for a in one for b in two)
    best: dict[str, tuple[float, str]] = {}
    for (a, b), count in together.items():
        if count >= fewest:
            dice = 2 * count / (korean[a] + english[b])
            if dice > max(least, best.get(a, (0.0, ""))[0]):
                best[a] = (dice, b)
    # A verb's stem is no noun: 했다, 있다 and their kin end in 다 or carry an ending.
    return {
        a: b
        for a, (_, b) in best.items()
        if len(a) > 1 and not a.endswith(("다", "고", "는", "며"))
    }


@dataclass(frozen=True)
class Mixed:
    """A sentence before and after, and how many words were replaced."""

    before: str
    after: str
    count: int


def mix(sentence: str, words: dict[str, str], *, most: int = 3) -> Mixed:
    """Replace up to `most` nouns by their English words."""
    count, made = 0, []
    for word in sentence.split():
        found = stem(word)
        if count < most and found in words and word.startswith(found):
            made.append(words[found] + word[len(found) :])
            count += 1
        else:
            made.append(word)
    return Mixed(sentence, " ".join(made), count)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="ko-en-small")


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load(options.model)
    words = dictionary()
    graded = sts_rows("korsts-dev")
    sentences = list(dict.fromkeys(row[name] for row in graded for name in ("ko1", "ko2")))
    made = [mix(sentence, words) for sentence in sentences]
    changed = [i for i, each in enumerate(made) if each.count]
    plain = encoder.encode(sentences)
    mixed = encoder.encode([made[i].after for i in changed])
    before = plain[changed] @ plain.T
    after = mixed @ plain.T
    own = after.argmax(1) == np.array(changed)
    for scores in (before, after):
        scores[np.arange(len(changed)), changed] = -2.0  # not the sentence itself
    nearest = before.argmax(1)
    ranked = np.argsort(-after, axis=1)[:, :5]
    yield {
        "model": encoder.name,
        "dictionary": len(words),
        "sentences": len(changed),
        "words replaced": sum(made[i].count for i in changed),
        "nearest to its original, %": percent(own),
        "same nearest other, %": percent(ranked[:, 0] == nearest),
        "that among five, %": percent((ranked == nearest[:, None]).any(1)),
        "cosine to its original": round(float((mixed * plain[changed]).sum(1).mean()), 3),
    }


def percent(right: NDArray[np.bool_]) -> float:
    return round(100 * float(right.mean()), 1)
