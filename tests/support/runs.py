"""Tiny training runs: a few lines of data, a recipe for them, a random transformer as base."""

import contextlib
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from malmoi.training.recipe import make_recipe
from tests.support import tiny

WORDS = [
    *("배가", "아파서", "병원에", "갔다", "ship", "harbour", "dawn", "DM", "nephropathy"),
    *("보았다", "left", "the", "was"),
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
    if objective == "margin-mse":
        columns["score"] = "score"
    if objective in ("triplet", "margin-mse"):
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


_COLUMNS = {"a": "a", "b": "b", "score": "score"}
_SCORED = {"files": ["pairs.tsv"], "columns": _COLUMNS, "range": [0, 5]}
_NOTES = {"files": ["notes.tsv"], "columns": {"text": "text", "label": "label"}}
# Every kind of recipe, by the file it learns from and what it has of its own.
KINDS: dict[str, tuple[str, dict[str, Any]]] = {
    "encoder": ("pairs.tsv", {}),
    "reranker": ("pairs.tsv", {"kind": "reranker", "data": [_SCORED], "objective": "regression"}),
    "tag": ("marked.tsv", {"data": {"train": ["marked.tsv"], "dev": ["marked.tsv"]}}),
    "note-classification": ("notes.tsv", {"data": _NOTES}),
    "answer": ("asked.jsonl", {"data": {"train": ["asked.jsonl"], "dev": ["asked.jsonl"]}}),
    "pretrain": ("text.txt", {"data": {"files": ["text.txt"], "held_out": 0.3, "lines": True}}),
}


def recipe(kind: str, folder: Path, **changes: Any) -> Any:
    """A recipe of one kind on the files of `prepare_kinds`, long enough to be stopped."""
    made = table(folder, schedule={"epochs": 9, "learning_rate": 1e-3}, max_tokens=32)
    made["output"] = {"folder": str(folder / f"run-{kind}"), "checkpoint_steps": 2}
    made |= KINDS[kind][1] | changes
    if kind not in ("encoder", "reranker"):
        made["objective"] = kind
    return make_recipe(made)


def prepare_kinds(folder: Path) -> Path:
    """Write the base and the data of every kind into `folder`."""
    prepare(folder)
    words = [f"{word}\t{'B-X' if i % 2 else 'O'}" for i, word in enumerate(WORDS)]
    (folder / "marked.tsv").write_text("\n\n".join(words) + "\n", "utf-8")
    lines = [f"{word} the ship {i}" for i, word in enumerate(WORDS * 3)]
    (folder / "text.txt").write_text("\n".join(lines) + "\n", "utf-8")
    asked = [
        {"question": word, "context": line, "answers": {"text": [word], "answer_start": [0]}}
        for word, line in zip(WORDS * 3, lines, strict=True)
    ]
    rows = "".join(json.dumps(row) + "\n" for row in asked)
    (folder / "asked.jsonl").write_text(rows, "utf-8")
    notes = [f"{line}\t{'yes' if i % 2 else 'no'}" for i, line in enumerate(lines)]
    (folder / "notes.tsv").write_text("\n".join(["text\tlabel", *notes]) + "\n", "utf-8")
    return folder


@contextlib.contextmanager
def stopping_at(step: int) -> Iterator[None]:
    """Stop the run inside as Ctrl-C would, at one of its steps."""
    from malmoi.training import loop

    real = loop.check_loss

    def check(loss: float, number: int) -> None:
        if number == step:
            raise KeyboardInterrupt
        real(loss, number)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(loop, "check_loss", check)
        yield


def as_toml(table: dict[str, object]) -> str:
    """JSON's values are TOML's, written inline; keys need no quotes here."""
    return "".join(f"{key} = {_inline(value)}\n" for key, value in table.items())


def _inline(value: object) -> str:
    if isinstance(value, dict):
        return "{ " + ", ".join(f"{k} = {_inline(v)}" for k, v in value.items()) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(_inline(item) for item in value) + "]"
    return json.dumps(value)
