"""Choose the linker's weights: how much spelling, meaning and the rest count.

    python bench/run.py linking_weights [--model MODEL] [--count 400] [--steps 3000]

Dev data come from the tables themselves, in equal numbers of each kind:

    lay        names of the shipped tables (linking/companion.py), with all of these hidden, of
               codes that the shipped model was taught nothing of
    inclusion  Korean inclusion terms of KCD-9, each with its own row hidden
    typo, order, space   KCD-9's titles with a slip of the finger, other order, other spacing
    English    names of ICD-10-CM, DOID and HPO that KCD-9 words otherwise
    across     Korean terms → English names alone, of codes that no test asks for
    MEDIC      mentions of ncbi-disease's devel part

A seeded random walk keeps what raises accuracy at 1 and the mean reciprocal rank. The result goes
into `malmoi.terms.Weights` by hand; `centre` and `steep` are fitted to whether a first
candidate is right.
"""

import argparse
import random
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import malmoi
from bench.common import Row
from bench.link.data import (
    cases,
    dictionary,
    held_out,
    lexicon,
    open_linker,
    shares,
    terms,
)
from malmoi.evaluation.tasks.linking import spelled_out
from malmoi.terms import Linker, Weights
from malmoi.terms.rank import COLUMNS

WORTH = {"lay": 2.0, "inclusion": 0.7, "space": 0.5, "English": 0.7}


@dataclass(frozen=True)
class Asked:
    kind: str
    mention: str
    codes: tuple[str, ...]
    hidden: tuple[str, ...] = ()


@dataclass(frozen=True)
class Ready:
    """All evidence in one table; `starts` are where each concept's names begin."""

    kinds: list[str]
    features: NDArray[np.float32]  # (names, columns)
    starts: NDArray[np.intp]  # (concepts,)
    right: NDArray[np.bool_]  # (concepts,)
    queries: NDArray[np.intp]  # (mentions,), the first concept of each


def changed(count: int, seeded: random.Random) -> Iterator[Asked]:
    rows = terms("kcd9")
    codes: dict[str, list[str]] = {}
    for row in rows:
        codes.setdefault(bare(row["ko"]), []).append(row["code"])
    titles = [
        bare(r["ko"])
        for r in rows
        if r["kind"] == "headword" and "-" not in r["code"] and 4 <= len(bare(r["ko"])) <= 30
    ]
    for kind, change in (("typo", slip), ("order", turned), ("space", spaced)):
        for title in seeded.sample(titles, count):
            mention = change(title, seeded)
            if mention != title:
                yield Asked(kind, mention, tuple(codes[title]))


def bare(title: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"\(.*?\)|\[.*?\]", "", title)).strip()


def slip(text: str, seeded: random.Random) -> str:
    letters = list(unicodedata.normalize("NFD", text))
    at = seeded.randrange(len(letters))
    if seeded.random() < 0.5 and at + 1 < len(text):
        return (
            text[:at] + text[at + 1 :]
            if at % 2
            else text[:at] + text[at : at + 2][::-1] + text[at + 2 :]
        )
    letters[at] = chr(ord(letters[at]) + seeded.choice((-1, 1))) if at % 2 else ""
    return unicodedata.normalize("NFC", "".join(letters))


def turned(text: str, seeded: random.Random) -> str:
    words = [word.removesuffix("의") for word in text.split()]
    at = seeded.randrange(len(words))
    return " ".join(words[at:] + words[:at])


def spaced(text: str, seeded: random.Random) -> str:
    at = seeded.randrange(1, len(text))
    return text.replace(" ", "") if seeded.random() < 0.5 else f"{text[:at]} {text[at:]}"


def named(linker: Linker, count: int, seeded: random.Random) -> Iterator[Asked]:
    rows = terms("kcd9")
    inclusions = [
        r for r in rows
        if r["kind"] == "inclusion" and r["code"][0] not in "MSTVWXY" and 3 <= len(r["ko"]) <= 40
    ]  # fmt: skip
    for row in seeded.sample(inclusions, count):
        yield Asked("inclusion", row["ko"], (row["code"],), (row["ko"], row["en"]))
    others = [r for r in terms("names") if r["source"] in ("DOID", "ICD10CM", "HPO")]
    for row in seeded.sample(others, count):
        yield Asked("English", row["name"], (row["code"],))
    codes: dict[str, list[str]] = {}
    for i in range(len(linker.lexicon), len(linker.names)):
        codes.setdefault(linker.names.text(i), []).append(linker.names.concept_of(i))
    korean = [
        name for name, meant in codes.items()
        if not name.isascii() and not linker.lexicon.find(name) and all(map(held_out, meant))
    ]  # fmt: skip
    for name in seeded.sample(korean, 2 * count):
        yield Asked("lay", name, tuple(codes[name]))


def evidence(linker: Linker, asked: list[Asked]) -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Of each mention its kind, features by concept, and whether each concept is right."""
    concepts = np.asarray(linker.names.concepts)
    own = len(linker.lexicon)
    for one, found in zip(asked, linker.evidence([a.mention for a in asked]), strict=True):
        rows = np.concatenate([part.rows for part in found])
        features = np.concatenate([part.features for part in found])
        shown = rows < own if one.kind == "lay" else np.ones(len(rows), bool)
        if one.hidden:
            shown &= [linker.names.name(int(row)).original not in one.hidden for row in rows]
        numbers, owner = np.unique(concepts[rows[shown]], return_inverse=True)
        codes = [linker.lexicon.codes[n] for n in numbers]
        right = [any(c in [*code.split("|"), code] for c in one.codes) for code in codes]
        order = np.argsort(owner, kind="stable")
        yield (
            one.kind,
            features[shown][order],
            np.array([owner[order], np.array(right)[owner[order]]]),
        )


def gathered(parts: Iterator[tuple[str, np.ndarray, np.ndarray]]) -> Ready:
    kinds, features, starts, right, queries, rows, total = [], [], [], [], [], 0, 0
    for kind, found, (owner, truth) in parts:
        if not len(found):
            continue
        first = np.searchsorted(owner, np.arange(owner.max() + 1))
        kinds.append(kind)
        features.append(found)
        starts.append(first + rows)
        right.append(truth[first].astype(bool))
        queries.append(total)
        rows, total = rows + len(found), total + len(first)
    joined = [np.concatenate(part) for part in (features, starts, right)]
    return Ready(kinds, *joined, np.array(queries))


def ranks(ready: Ready, weights: NDArray[np.float32]) -> NDArray[np.intp]:
    """The place of the right concept of every mention, 0 where it is not among the candidates."""
    scores = np.maximum.reduceat(ready.features @ weights, ready.starts)
    best = np.maximum.reduceat(np.where(ready.right, scores, -np.inf), ready.queries)
    sizes = np.diff([*ready.queries, len(scores)])
    above = np.add.reduceat(scores > np.repeat(best, sizes), ready.queries)
    return np.where(np.isfinite(best), above + 1, 0)


def by_kind(ready: Ready, found: NDArray[np.intp]) -> dict[str, list[int]]:
    kinds: dict[str, list[int]] = {}
    for kind, rank in zip(ready.kinds, found.tolist(), strict=True):
        kinds.setdefault(kind, []).append(rank)
    return kinds


def worth(found: dict[str, list[int]]) -> float:
    return sum(
        WORTH.get(kind, 1.0)
        * (sum(r == 1 for r in places) + 0.5 * sum(1 / r for r in places if r))
        / len(places)
        for kind, places in found.items()
    )


def fitted(ready: Ready, weights: NDArray[np.float32]) -> tuple[float, float]:
    """The sum at which a first candidate is right as often as wrong, and how steep it is there."""
    scores = np.maximum.reduceat(
        np.maximum.reduceat(ready.features @ weights, ready.starts), ready.queries
    )
    right = ranks(ready, weights) == 1
    best = (1e9, 0.0, 0.0)
    for centre in np.arange(0.5, 4, 0.05):
        for steep in np.arange(0.6, 4, 0.1):
            chance = 1 / (1 + np.exp((centre - scores) * steep))
            loss = -np.log(np.where(right, chance, 1 - chance) + 1e-9).mean()
            best = min(best, (float(loss), float(centre), float(steep)))
    return best[1], best[2]


def prepare(model: str | None, count: int) -> Ready:
    seeded, encoder = random.Random(5), malmoi.load(model)
    rows = [[r["code"], r["kind"], r["ko"], r["en"]] for r in terms("kcd9")]
    linker = open_linker(lexicon("kcd9", rows, ["code", "kind", "ko", "en"]), encoder)
    asked = [*changed(count, seeded), *named(linker, count, seeded)]
    parts = list(evidence(linker, asked))
    linker, asked = across(encoder, count, seeded)
    parts += evidence(linker, asked)
    known = dictionary(cases("ncbi-disease", "train"))
    linker = open_linker(lexicon("medic-ncbi-disease-devel", known, ["code", "en"]), encoder)
    devel = [one for one in cases("ncbi-disease", "devel") if len(one.codes) == 1]
    mentions = [
        Asked("MEDIC", spelled_out(one.mention, one.defined), one.codes)
        for one in seeded.sample(devel, min(count, len(devel)))
    ]
    return gathered(iter([*parts, *evidence(linker, mentions)]))


def across(encoder: object, count: int, seeded: random.Random) -> tuple[Linker, list[Asked]]:
    pairs = [row for row in terms("pairs") if row["ko"].strip() and row["en"].strip()]
    names = {name: f"N{i:06}" for i, name in enumerate(dict.fromkeys(r["en"] for r in pairs))}
    table = ([code, name] for name, code in names.items())
    folder: Path = lexicon("pairs-en", table, ["code", "en"])
    chosen = [r for r in pairs if held_out(r["code"], 1)]
    return open_linker(folder, encoder), [
        Asked("across", r["ko"], (names[r["en"]],)) for r in seeded.sample(chosen, count)
    ]


def walked(ready: Ready, steps: int) -> NDArray[np.float32]:
    weights, seeded = Weights().array(), np.random.default_rng(0)
    best = worth(by_kind(ready, ranks(ready, weights)))
    for step in range(steps):
        tried = weights.copy()
        for column in seeded.choice(len(COLUMNS), size=1 + step % 2, replace=False):
            tried[column] += seeded.normal() * (0.3, 0.1, 0.03)[step % 3]
        now = worth(by_kind(ready, ranks(ready, tried)))
        if now >= best:
            best, weights = now, tried
    return weights


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model")
    parser.add_argument("--count", type=int, default=400)
    parser.add_argument("--steps", type=int, default=3000)


def run(options: argparse.Namespace) -> Iterator[Row]:
    ready = prepare(options.model, options.count)
    found = walked(ready, options.steps)
    compared = {"before": Weights().array()} | ({"after": found} if options.steps else {})
    for label, weights in compared.items():
        for kind, places in by_kind(ready, ranks(ready, weights)).items():
            row = {"kind": kind, "mentions": len(places), "at 1 / 5 / 10": shares(places)}
            yield {"weights": label} | row
    chosen = ", ".join(f"{name}={value:.2f}" for name, value in zip(COLUMNS, found, strict=True))
    centre, steep = fitted(ready, found)
    yield {"weights": chosen, "centre": round(centre, 2), "steep": round(steep, 2)}
