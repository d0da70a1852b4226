"""Sentence-BERT's lesson on KorSTS and STS-B: raw CLS < raw mean < bi-encoder < cross-encoder.

    python bench/run.py lesson [--base ko-en-small] [--layers 4] [--bf16] [--test]
                           [--processes 2] [--out build/bench/lesson]

One command trains a small model for each objective on Korean and English data together, gives
their scores with 95 % intervals, and says of each step of the order how sure it is. Dev unless
--test is given. Runs that are done already are not made again.

The base is the lower part of an encoder: the last layers of the shipped one have learnt to compare
sentences, which BERT, where the lesson was learnt, has not. Graded pairs are KorSTS's in both
languages and across them, and KLUE-STS's. As in the paper one model of each kind learns NLI before
the grades. A cross-encoder reads each pair in both orders, which are one to a bi-encoder.
"""

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import malmoi
from bench.common import BUILD, Row, data_root
from malmoi.evaluation import Settings, evaluate, load_baselines
from malmoi.export.export import export
from malmoi.training.data import find_trainable
from malmoi.training.recipe import make_recipe
from malmoi.training.run import train

LANGUAGES = {"ko": "KorSTS", "en": "STS-B"}
PAIRS = [
    ("korsts", "ko1", "ko2"),
    ("korsts", "en1", "en2"),
    ("korsts", "ko1", "en2"),
    ("korsts", "en1", "ko2"),
    ("klue-sts", "ko1", "ko2"),
]
XNLI = [("en1", "en2"), ("ko1", "ko2"), ("ko1", "en2"), ("en1", "ko2")]


def graded(name: str, one: str, two: str) -> dict[str, Any]:
    return {
        "files": [f"sts/{name}-train.tsv"],
        "columns": {"a": one, "b": two, "score": "score"},
        "range": [0, 5],
    }


def labelled(file: str, one: str, two: str) -> dict[str, Any]:
    return {"files": [f"nli/{file}.tsv"], "columns": {"a": one, "b": two, "label": "label"}}


STS = [graded(*pair) for pair in PAIRS]
TURNED = [graded(name, two, one) for name, one, two in PAIRS]
NLI = [
    labelled("klue-nli-train", "premise", "hypothesis"),
    *(labelled("xnli-dev", one, two) for one, two in XNLI),
]
TRIPLETS = [
    entry | {"triplets": {"positive": "entailment", "negative": "contradiction"}} for entry in NLI
]


@dataclass(frozen=True)
class Run:
    """One model: what it learns, from which other run it starts, and how long."""

    objective: str
    data: list[dict[str, Any]]
    steps: int
    after: str = ""
    kind: str = "encoder"
    schedule: dict[str, Any] = field(default_factory=dict)
    stage: bool = False  # only what another run starts from: no row of the table

    @property
    def cross(self) -> bool:
        return self.kind == "reranker"


CROSS = {"learning_rate": 1.5e-4}
RUNS = {
    "softmax on NLI": Run("softmax", NLI, 400),
    "triplets of NLI": Run("triplet", TRIPLETS, 400),
    "in-batch on NLI": Run("contrastive", TRIPLETS, 400),
    "cosine on STS": Run("cosine", STS, 500),
    "cosine on STS, after NLI": Run("cosine", STS, 500, after="in-batch on NLI"),
    "CoSENT on STS": Run("cosent", STS, 500),
    "cross-encoder on NLI": Run(
        "classification", NLI, 600, kind="reranker", schedule=CROSS, stage=True
    ),
    "cross-encoder on STS, after NLI": Run(
        "regression", [*STS, *TURNED], 1200, "cross-encoder on NLI", "reranker", CROSS
    ),
}
LAST = "cross-encoder on STS, after NLI"
# What the lesson says: each first one is below its second.
STEPS = [
    ("raw CLS", "raw mean"),
    ("raw mean", "cosine on STS"),
    *((name, LAST) for name in RUNS if name.endswith("on STS") or name.startswith("cosine")),
]


class BothOrders:
    """A cross-encoder that reads pairs either way round: similarity has no direction."""

    def __init__(self, reranker: malmoi.Reranker) -> None:
        self.reranker = reranker

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        turned = [(b, a) for a, b in pairs]
        both = np.stack([self.reranker.score(pairs), self.reranker.score(turned)])
        found: NDArray[np.float32] = both.mean(axis=0)
        return found


def recipe(name: str, run: Run, options: argparse.Namespace) -> dict[str, Any]:
    base, layers = options.base, options.layers
    if run.after:
        base, layers = str(folder_of(run.after, options) / "best"), 0
    schedule = {
        "steps": run.steps,
        "epochs": 0,
        "bf16": options.bf16,
        "batch_size": 64,
        "learning_rate": 1e-4,
        "warmup": 0.06,
        "evaluate_steps": 200,
    }
    return {
        "name": name,
        "kind": run.kind,
        "base": base,
        "layers": layers,
        "objective": run.objective,
        "data": run.data,
        "max_tokens": 128,
        "dropout": 0.1 if run.cross else 0.0,
        "schedule": schedule | run.schedule,
        "evaluation": [] if run.stage else [dev(language) for language in LANGUAGES],
        "output": {"folder": str(folder_of(name, options))},
    }


def dev(language: str) -> dict[str, Any]:
    return {
        "task": "sts",
        "file": "sts/korsts-dev.tsv",
        "name": language,
        "columns": {"a": f"{language}1", "b": f"{language}2", "score": "score"},
    }


def folder_of(name: str, options: argparse.Namespace) -> Path:
    out: Path = options.out
    return out / name.replace(",", "").replace(" ", "-").lower()


def make_all(options: argparse.Namespace) -> None:
    """Make the runs that are not there yet, one a core: threads of one run wait for each other."""
    waiting = [name for name in RUNS if not (folder_of(name, options) / "bundle").exists()]
    waiting.sort(key=lambda name: not RUNS[name].cross)  # the longest first
    at_work: dict[str, tuple[subprocess.Popen[bytes], float]] = {}
    while waiting or at_work:
        for name in list(waiting):
            after = RUNS[name].after
            if len(at_work) < options.processes and after not in (*waiting, *at_work):
                waiting.remove(name)
                at_work[name] = start(name, options), time.monotonic()
        for name, (process, started) in list(at_work.items()):
            if process.poll() is None:
                continue
            if process.returncode:
                for other, _ in at_work.values():
                    other.terminate()  # each saves its state, and resumes the next time
                sys.exit(
                    f"{name} ended with exit code {process.returncode}; see {log_of(name, options)}"
                )
            took = f"{name}: {(time.monotonic() - started) / 60:.1f} minutes"
            print(took, file=sys.stderr, flush=True)
            del at_work[name]
        time.sleep(1)


def start(name: str, options: argparse.Namespace) -> subprocess.Popen[bytes]:
    """Make one run in a process of its own."""
    with log_of(name, options).open("ab") as log:
        return subprocess.Popen([sys.executable, *sys.argv, "--only", name], stdout=log, stderr=log)


def log_of(name: str, options: argparse.Namespace) -> Path:
    return folder_of(name, options).with_suffix(".log")


def make(name: str, options: argparse.Namespace) -> None:
    made = make_recipe(recipe(name, RUNS[name], options))
    resume = folder_of(name, options).exists()
    train(made, data=data_root(), resume=resume, threads=1)


def models(options: argparse.Namespace) -> dict[str, Any]:
    """Every row of the table: the raw encoder three ways, then each trained model."""
    names = ("raw CLS", "raw mean", "raw word vectors")
    rows: dict[str, Any] = dict(zip(names, load_baselines(raw(options)), strict=True))
    for name, run in RUNS.items():
        if not run.stage:
            rows[name] = opened(folder_of(name, options) / "bundle", run)
    return rows


def raw(options: argparse.Namespace) -> Path:
    """The base as it is, with the layers that the runs start from."""
    folder: Path = options.out / "raw"
    if not folder.exists():
        options.out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory() as scratch:
            base = Path(shutil.copytree(find_trainable(options.base), Path(scratch) / "base"))
            config = json.loads((base / "config.json").read_text("utf-8"))
            config["num_hidden_layers"] = options.layers or config["num_hidden_layers"]
            (base / "config.json").write_text(json.dumps(config), "utf-8")
            export(base, folder, layers="all")
    return folder


def opened(bundle: Path, run: Run) -> Any:
    return BothOrders(malmoi.load(bundle)) if run.cross else malmoi.load(bundle)


def scores(rows: dict[str, Any], file: Path) -> Iterator[Row]:
    """Spearman × 100 of every model in both languages, with its interval."""
    for name, model in rows.items():
        row: Row = {"model": name}
        for language, heading in LANGUAGES.items():
            report = evaluate(model, "sts", file, settings=Settings(sides=language))
            metric = report.metrics["spearman"]
            row[heading] = [round(100 * v, 1) for v in (metric.value, metric.low, metric.high)]
        yield row


def steps(rows: dict[str, Any], file: Path) -> Iterator[Row]:
    """Say how far each step of the lesson leads up, and with what p."""
    for lower, upper in STEPS:
        row: Row = {"model": f"{lower} < {upper}"}
        for language, heading in LANGUAGES.items():
            report = evaluate(
                rows[upper],
                "sts",
                file,
                against=[rows[lower]],
                settings=Settings(sides=language),
            )
            found = report.comparisons[0].differences["spearman"]
            row[heading] = f"{100 * found.difference.value:+.1f}, p = {found.p:.3f}"
        yield row


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--base", default="ko-en-small")
    parser.add_argument("--layers", type=int, default=4, help="how many of the base's; 0 for all")
    parser.add_argument("--bf16", action="store_true", help="products in bfloat16")
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--out", type=Path, default=BUILD / "lesson")
    parser.add_argument("--processes", type=int, default=2, help="runs at a time, a core each")
    parser.add_argument("--only", choices=RUNS, help="make this run, and no table")


def run(options: argparse.Namespace) -> Iterator[Row]:
    if options.only:
        make(options.only, options)
        return
    started = time.monotonic()
    raw(options)
    make_all(options)
    rows = models(options)
    file = data_root() / f"sts/korsts-{'test' if options.test else 'dev'}.tsv"
    yield from scores(rows, file)
    yield from steps(rows, file)
    yield {"model": "all runs", "minutes": round((time.monotonic() - started) / 60)}
