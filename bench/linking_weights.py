"""Choose the linker's weights: how much spelling, meaning and the rest count.

    python bench/linking_weights.py [--model MODEL] [--count 400] [--steps 400]

Dev data come from the tables themselves: Korean inclusion terms of KCD-9, each asked for with its
own row hidden from the linker, English names of ICD-10-CM, DOID and HPO that KCD-9 words
otherwise, and KCD-9's names with a slip of the finger or without spaces. A seeded random walk
keeps what raises accuracy at 1 and the mean reciprocal rank; the result goes into
`malmoi.linking.Weights` by hand, with `centre` and `steep` fitted to whether a first candidate is
right.
"""

import argparse
import random
import unicodedata
from dataclasses import dataclass

import numpy as np
from linking_common import lexicon, open_linker, shares, terms
from numpy.typing import NDArray

import malmoi
from malmoi.linking import Linker, Weights
from malmoi.linking.evidence import COLUMNS


@dataclass(frozen=True)
class Asked:
    kind: str
    mention: str
    code: str
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ready:
    kind: str
    features: NDArray[np.float32]  # (names, columns), by concept
    starts: NDArray[np.intp]  # where each concept's names begin
    right: NDArray[np.bool_]  # (concepts,)


def dev(count: int) -> list[Asked]:
    rows, seeded = terms("kcd9"), random.Random(5)
    inclusions = [
        r for r in rows
        if r["kind"] == "inclusion" and r["code"][0] not in "MSTVWXY" and 3 <= len(r["ko"]) <= 40
    ]  # fmt: skip
    others = [r for r in terms("names") if r["source"] in ("DOID", "ICD10CM", "HPO")]
    titles = [r for r in rows if r["kind"] == "headword" and 4 <= len(r["ko"]) <= 16]
    found = [
        Asked("inclusion", r["ko"], r["code"], (r["ko"], r["en"]))
        for r in seeded.sample(inclusions, count)
    ]
    found += [Asked("English", r["name"], r["code"]) for r in seeded.sample(others, count)]
    found += [Asked("typo", slip(r["ko"], seeded), r["code"]) for r in seeded.sample(titles, count)]
    return found


def slip(text: str, seeded: random.Random) -> str:
    if seeded.random() < 0.5:
        return text.replace(" ", "")
    letters = list(unicodedata.normalize("NFD", text))
    del letters[seeded.randrange(len(letters))]
    return unicodedata.normalize("NFC", "".join(letters))


def prepare(linker: Linker, asked: list[Asked]) -> list[Ready]:
    concepts, found = np.asarray(linker.lexicon.concepts), []
    for one, evidence in zip(asked, linker.evidence([a.mention for a in asked]), strict=True):
        if not evidence:
            continue
        rows = np.concatenate([part.rows for part in evidence])
        features = np.concatenate([part.features for part in evidence])
        if one.hidden:
            shown = [linker.lexicon.name(int(row)).original not in one.hidden for row in rows]
            rows, features = rows[shown], features[shown]
        numbers, owner = np.unique(concepts[rows], return_inverse=True)
        order = np.argsort(owner, kind="stable")
        right = numbers == linker.lexicon.codes.number(one.code)
        starts = np.searchsorted(owner[order], np.arange(len(numbers)))
        found.append(Ready(one.kind, features[order], starts, right))
    return found


def ranks(ready: list[Ready], weights: NDArray[np.float32]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for one in ready:
        scores = np.maximum.reduceat(one.features @ weights, one.starts)
        place = 1 + int((scores > scores[one.right].max()).sum()) if one.right.any() else 0
        found.setdefault(one.kind, []).append(place)
    return found


def worth(found: dict[str, list[int]]) -> float:
    return sum(
        (sum(rank == 1 for rank in kind) + 0.3 * sum(1 / rank for rank in kind if rank)) / len(kind)
        for kind in found.values()
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--steps", type=int, default=400)
    options = parser.parse_args()
    rows = [[r["code"], r["kind"], r["ko"], r["en"]] for r in terms("kcd9")]
    folder = lexicon("kcd9", rows, ["code", "kind", "ko", "en"])
    ready = prepare(open_linker(folder, malmoi.load(options.model)), dev(options.count))
    weights, seeded = Weights().array(), np.random.default_rng(0)
    for kind, found in ranks(ready, weights).items():
        print(f"before  {kind:<10} {shares(found)}")
    best = worth(ranks(ready, weights))
    for step in range(options.steps):
        tried = weights.copy()
        for column in seeded.choice(len(COLUMNS), size=2, replace=False):
            tried[column] += seeded.normal() * (0.25, 0.1, 0.04)[step % 3]
        now = worth(ranks(ready, tried))
        if now >= best:
            best, weights = now, tried
    for kind, found in ranks(ready, weights).items():
        print(f"after   {kind:<10} {shares(found)}")
    print(", ".join(f"{name}={value:.2f}" for name, value in zip(COLUMNS, weights, strict=True)))


if __name__ == "__main__":
    main()
