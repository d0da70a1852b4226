"""BioBERT's tasks: entities and answers, learnt by a tiny model from the files of such sets."""

import json
from pathlib import Path
from typing import Any

import pytest

import malmoi
from malmoi.evaluate import evaluate
from tests.support.graphs import Run

pytest.importorskip("torch")

# As NCBI-disease is distributed: a word and its mark a line, an empty line after a sentence.
MARKED = [
    "병원에서 DM/B nephropathy/I 로 보았다",
    "the DM/B was at dawn",
    "배가 아파서 병원에 갔다",
    "DM/B nephropathy/I the harbour",
    "the ship left 병원에서",
]
# What a text says of whom; a question asks for one of both.
PLACES = ["harbour", "병원에서", "dawn"]
THINGS = ["DM", "nephropathy", "배가"]


def conll(sentences: list[str]) -> str:
    lines = []
    for sentence in sentences:
        for cell in sentence.split():
            word, _, mark = cell.partition("/")
            lines.append(f"{word}\t{mark}-Disease" if mark else f"{word}\tO")
        lines.append("")
    return "\n".join(lines) + "\n"


def squad() -> dict[str, Any]:
    """Questions in the form of SQuAD 2.0 and KorQuAD: "at" asks where, "was" what."""
    paragraphs: list[dict[str, Any]] = []
    for i, place in enumerate(PLACES * 4):
        thing = THINGS[i % 3 if i < 6 else (i + 1) % 3]
        with_place = i % 4 != 3
        context = f"the ship was {thing} left at {place}" if with_place else f"the ship was {thing}"
        asked: list[dict[str, Any]] = [{"id": f"{i}-a", "question": "was", "answers": [thing]}]
        asked.append({"id": f"{i}-b", "question": "at", "answers": [place] * with_place})
        for one in asked:
            one["answers"] = [
                {"text": text, "answer_start": context.index(text)} for text in one["answers"]
            ]
            one["is_impossible"] = not one["answers"]
        paragraphs.append({"context": context, "qas": asked})
    return {"version": "v2.0", "data": [{"title": "ships", "paragraphs": paragraphs}]}


def learn(folder: Path, objective: str, file: str, **options: Any) -> Path:
    from malmoi.train.recipe import make_recipe
    from malmoi.train.run import train
    from tests.support import tiny

    tiny.tiny_transformer(folder / "base")
    table: dict[str, Any] = {
        "name": f"tiny-{objective}",
        "objective": objective,
        "base": str(folder / "base"),
        "max_tokens": 48,
        "dropout": 0.0,
        "data": {"train": [file], "dev": [file], "test": [file]},
        "output": {"folder": str(folder / "run")},
        "schedule": {"batch_size": 8, **options},
    }
    return train(make_recipe(table), data=folder, threads=1).bundles[0]


def test_biobert_marks_diseases(tmp_path: Path, run_here: Run) -> None:
    (tmp_path / "train.tsv").write_text(conll(MARKED * 6), "utf-8")
    bundle = learn(tmp_path, "tag", "train.tsv", epochs=10, learning_rate=3e-3)
    text = "the ship left 병원에서 DM nephropathy 로 갔다"  # no sentence that was learnt
    done = run_here("tag", bundle, text)
    [found] = [json.loads(line) for line in done.stdout.splitlines()]
    assert (found["text"], found["type"]) == ("DM nephropathy", "Disease")
    assert text[found["start"] : found["end"]] == found["text"]
    report = evaluate(malmoi.load_tagger(bundle), "tagging", tmp_path / "train.tsv", rounds=0)
    assert report.metrics["f1"].value > 0.9


def test_squad_answers_with_their_place_or_none(tmp_path: Path, run_here: Run) -> None:
    (tmp_path / "train.json").write_text(json.dumps(squad(), ensure_ascii=False), "utf-8")
    bundle = learn(tmp_path, "answer", "train.json", epochs=20, learning_rate=5e-3)
    report = evaluate(malmoi.load_answerer(bundle), "answers", tmp_path / "train.json", rounds=0)
    assert report.metrics["exact_match"].value > 0.9 and report.metrics["f1"].value > 0.9
    (tmp_path / "a.txt").write_text("the ship was DM left at harbour", "utf-8")
    [found] = [json.loads(x) for x in run_here("answer", bundle, "at", "a.txt").stdout.splitlines()]
    assert found["answer"] == "harbour" and (found["start"], found["end"]) == (24, 31)
    (tmp_path / "b.txt").write_text("the ship was DM", "utf-8")
    done = run_here("answer", bundle, "at", "b.txt")
    assert done.returncode == 0 and not done.stdout and "no answer" in done.stderr
