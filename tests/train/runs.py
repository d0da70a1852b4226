"""Tiny training runs: a few lines of data, a recipe for them, a random transformer as base."""

import random
from pathlib import Path
from typing import Any

import tiny

WORDS = [
    "배가",
    "아파서",
    "병원에",
    "갔다",
    "ship",
    "harbour",
    "dawn",
    "DM",
    "nephropathy",
    "보았다",
    "left",
    "the",
    "was",
]


def sentence(rng: random.Random) -> str:
    """A few words at random."""
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 9)))


def write_pairs(path: Path, *, rows: int = 48, seed: int = 0) -> Path:
    """Write pairs with a score from 0 to 5, a label, and a sentence that is neither's."""
    rng = random.Random(seed)
    lines = ["a\tb\tother\tscore\tlabel"]
    for i in range(rows):
        texts = [f"{sentence(rng)} {i}" for _ in range(3)]
        lines.append("\t".join([*texts, f"{rng.uniform(0, 5):.3f}", rng.choice(["yes", "no"])]))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def table(folder: Path, *, objective: str = "cosent", **changes: Any) -> dict[str, Any]:
    """A recipe on `folder/pairs.tsv`, from the random transformer in `folder/base`."""
    columns = {"a": "a", "b": "b"}
    entry: dict[str, Any] = {"files": ["pairs.tsv"], "columns": columns, "objective": objective}
    if objective in ("cosine", "cosent", "angle"):
        columns["score"] = "score"
        entry["range"] = [0, 5]
    if objective == "softmax":
        columns["label"] = "label"
    if objective == "triplet":
        columns["negative"] = "other"
    made: dict[str, Any] = {
        "name": "tiny",
        "base": str(folder / "base"),
        "max_tokens": 64,
        "data": [entry],
        "schedule": {"epochs": 2, "batch_size": 8, "learning_rate": 1e-3},
        "output": {"folder": str(folder / "run")},
    }
    for key, value in changes.items():
        made[key] = made[key] | value if isinstance(made.get(key), dict) else value
    return made


def prepare(folder: Path, *, rows: int = 48) -> Path:
    """Write the base and the data of `table` into `folder`."""
    tiny.tiny_transformer(folder / "base")
    write_pairs(folder / "pairs.tsv", rows=rows)
    return folder
