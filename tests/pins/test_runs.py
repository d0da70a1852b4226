"""A tiny run of every objective: the files it writes, its log, its scores, its bundle."""

import csv
import random
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from malmoi import load
from tests.pins.bundles import TEXTS, describe
from tests.pins.golden import check_entry, files_of, malmoi, one_thread, to_toml
from tests.support.tiny import tiny_transformer

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning"),
]

WORDS = [
    "배가",
    "아파서",
    "병원에",
    "갔다",
    "ship",
    "harbour",
    "dawn",
    "DM",
    "보았다",
    "left",
    "the",
]
SCORED = {"a": "a", "b": "b", "score": "score"}
LABELLED = {"a": "a", "b": "b", "label": "label"}
DEV = {"task": "sts", "file": "pairs.tsv", "columns": SCORED, "name": "dev"}
FAST = {"epochs": 6, "batch_size": 8, "learning_rate": 1e-2}
TRANSLATED = {"cat": "고양이", "dog": "개", "ship": "배", "sleeps": "잔다", "runs": "달린다"}


def pairs(columns: dict[str, str], objective: str, **changes: Any) -> dict[str, Any]:
    """A recipe of an objective that learns from pairs."""
    entry: dict[str, Any] = {"files": ["pairs.tsv"], "columns": columns, "objective": objective}
    if "score" in columns:
        entry["range"] = [0, 5]
    return {"data": [entry], "evaluation": [DEV]} | changes


RECIPES: dict[str, dict[str, Any]] = {
    "softmax": pairs(LABELLED, "softmax"),
    "cosine": pairs(SCORED, "cosine", base_share=0.25),
    "triplet": pairs({"a": "a", "b": "b", "negative": "other"}, "triplet", pooling="cls"),
    "contrastive": pairs({"a": "a", "b": "b"}, "contrastive", clean=["surrogates", "narrow"]),
    "cosent": pairs(SCORED, "cosent", matryoshka=[32, 8], dropout=0.1),
    "angle": pairs(SCORED, "angle", layers=1),
    "term-alignment": {
        "data": [
            {
                "files": ["names.tsv"],
                "columns": {"name": "name", "concept": "code"},
                "objective": "term-alignment",
                "options": {"siblings": 1},
            }
        ],
        "evaluation": [{"task": "concepts", "file": "names.tsv", "name": "concepts"}],
    },
    "regression": pairs(SCORED, "regression", schedule=FAST, kind="reranker", layers=1),
    "mse": pairs(SCORED, "mse", schedule=FAST, kind="reranker", layers=1),
    "cross-encoder-classification": pairs(
        LABELLED, "cross-encoder-classification", schedule=FAST, kind="reranker", evaluation=[]
    ),
    "tag": {
        "objective": "tag",
        "schedule": {"epochs": 10, "batch_size": 6, "learning_rate": 3e-3},
        "data": {"train": ["marked.tsv"], "dev": ["marked.tsv"], "test": ["marked.tsv"]},
    },
    "note-classification": {
        "objective": "note-classification",
        "schedule": FAST,
        "data": {
            "files": ["notes.tsv"],
            "columns": {"text": "text", "label": "label"},
            "shares": {"dev": 0.25, "test": 0.25},
        },
    },
    "pretrain": {
        "objective": "pretrain",
        "data": {"files": ["text.txt"], "held_out": 0.3, "lines": True},
        "masking": {"next_sentence": False},
    },
}
DISTIL = {
    "name": "tiny",
    "objective": "distil",
    "max_tokens": 32,
    "precision": "float32",
    "parallel": [{"files": ["parallel.tsv"], "source": ["en"], "target": ["ko"]}],
    "held_out": {"files": ["parallel.tsv"], "source": "en", "target": "ko", "pairs": 2},
    "distil": {"steps": 6, "tokens": 64, "longest": 16, "average": 0.9},
    "evaluation": [DEV],
}


def sentence(rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 6)))


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the base and the data of every recipe."""
    folder = tmp_path_factory.mktemp("pinned")
    tiny_transformer(folder / "base")
    rng = random.Random(0)
    lines = ["a\tb\tother\tscore\tlabel"]
    for i in range(24):
        texts = [f"{sentence(rng)} {i}" for _ in range(3)]
        lines.append("\t".join([*texts, f"{rng.uniform(0, 5):.3f}", rng.choice(["yes", "no"])]))
    write(folder / "pairs.tsv", lines)
    names = [f"C{i // 3}\t{WORDS[i // 3]} {WORDS[i // 3 + 1]} {i}" for i in range(24)]
    write(folder / "names.tsv", ["code\tname", *names])
    marked = [f"{word}\t{'B-X' if i % 2 else 'O'}" for i, word in enumerate(WORDS)]
    (folder / "marked.tsv").write_text("\n\n".join(marked) + "\n", "utf-8")
    texts = [f"{word} the ship {i}." for i, word in enumerate(WORDS * 2)]
    write(folder / "text.txt", texts)
    notes = [f"{line}\t{'yes' if i % 2 else 'no'}" for i, line in enumerate(texts)]
    write(folder / "notes.tsv", ["text\tlabel", *notes])
    english = [f"{a} {b}" for a in ("cat", "dog", "ship") for b in ("sleeps", "runs")]
    korean = [" ".join(TRANSLATED[word] for word in line.split()) for line in english]
    both = [f"{a}\t{b}" for a, b in zip(english, korean, strict=True)]
    write(folder / "parallel.tsv", ["en\tko", *both])
    with one_thread():
        yield folder


def write(path: Path, lines: list[str]) -> None:
    path.write_text("\n".join(lines) + "\n", "utf-8")


def run(root: Path, name: str, table: dict[str, Any]) -> tuple[Path, list[Any]]:
    """Train by the command line, and give the run's folder with the rows that were printed."""
    folder = root / f"run-{name}"
    recipe = root / f"{name}.toml"
    made = {"base": str(root / "base"), "output": {"folder": str(folder)}} | table
    recipe.write_text(to_toml(made), "utf-8")
    done = malmoi("train", recipe, "--data", root, "--threads", 1)
    assert done.code == 0, done.err
    return folder, done.rows


def scores_of(rows: list[Any]) -> list[Any]:
    """The printed rows, without the time that something took and with the bundle's name alone."""
    return [
        {
            key: Path(value).name if key == "bundle" else round(value, 3)
            for key, value in row.items()
        }
        for row in rows
    ]


def log_of(folder: Path) -> dict[str, Any]:
    """The losses of a run's log.csv, and the columns that it has."""
    if not (folder / "log.csv").exists():
        return {}
    with (folder / "log.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    losses = [round(float(row["loss"]), 3) for row in rows if row["loss"]]
    return {"columns": list(rows[0]), "loss": losses}


def answers(folder: Path, bundle: str, kind: str) -> Any:
    """What the run's model says."""
    path = folder / bundle
    if kind == "encoder":
        return np.round(load(path).encode(TEXTS[:2]).astype(float), 3)[:, :8].tolist()
    if kind == "reranker":
        reranker = load(path)
        give = reranker.probabilities if reranker.labels else reranker.score
        found = give([(TEXTS[0], text) for text in TEXTS])
        return np.round(found.astype(float), 3).tolist()
    if kind == "tagger":
        return [[one.text, one.type, one.start, one.end] for one in load(path).tag(TEXTS[1])]
    found = load(path).classify(TEXTS[1])
    return {label: round(value, 3) for label, value in found.probabilities.items()}


@pytest.mark.parametrize("name", [*RECIPES, "distil"])
def test_a_tiny_run(root: Path, name: str) -> None:
    table = {
        "name": "tiny",
        "max_tokens": 32,
        "schedule": {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3},
    } | RECIPES.get(name, {})
    folder, rows = run(root, name, DISTIL if name == "distil" else table)
    found: dict[str, Any] = {"printed": scores_of(rows), "log": log_of(folder)}
    bundle = folder / "bundle"
    if (bundle / "malmoi.json").exists():
        found["bundle"] = describe(bundle, layout=False)
        found["answers"] = answers(folder, "bundle", found["bundle"]["manifest"]["kind"])
    found["files"] = [
        re.sub(r"[0-9a-f]{16}", "#", path)
        for path in files_of(folder)
        if not path.startswith("bundle/") and path != "training.png"  # needs matplotlib
    ]
    again = malmoi("train", root / f"{name}.toml", "--data", root, "--threads", 1, "--resume")
    assert scores_of(again.rows) == found["printed"]
    check_entry("runs.json", name, found, within=0.003)
