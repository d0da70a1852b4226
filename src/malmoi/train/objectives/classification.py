"""A recipe of notes in, a classifier's bundle out: learn windows, then learn how they decide."""

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np

from ...bundle.bundle import open_bundle
from ...bundle.manifest import Manifest
from ...classifier.calibration import fit_temperature
from ...classifier.classifier import DECISION, DecisionPool, NoteClassifier
from ...classifier.decision import Rule, tune
from ...classifier.documents import NoteDocument, say_leaked
from ...errors import counted
from ...evaluate.examples import ExampleSource as DataSource
from ...evaluate.notes import attention_weights, by_rules, judge, probabilities
from ...evaluate.report import Report, make_report
from ...export.source import ModelSource, read_source
from ...io.files import writing, writing_folder
from ..base_model import find_trainable
from ..run_dir import TrainedRun
from .classification_data import Classification, Notes, read_notes

logger = logging.getLogger(__name__)

REPORT = "report.json"


def prepare(recipe: Classification, root: Path, *, strict: bool) -> tuple[ModelSource, Notes]:
    """Read and check everything but the weights."""
    source = read_source(find_trainable(recipe.base), max_tokens=recipe.max_tokens)
    if recipe.clean is not None:
        manifest = dataclasses.replace(source.manifest, clean=recipe.clean)
        source = dataclasses.replace(source, manifest=manifest)
    return source, read_notes(recipe, root, strict=strict)


def run(
    recipe: Classification, source: ModelSource, notes: Notes, *, resume: bool, threads: int | None
) -> TrainedRun:
    """Train, export, choose the rule's c and the temperature on dev, and judge test once."""
    import torch  # here, because everything before is checked without it

    from ..distributed import joining
    from ..loop import RunPaths, check_bfloat16
    from ..loop import train as loop
    from .classification_task import NoteTask

    if threads:
        torch.set_num_threads(threads)
    if recipe.schedule.bf16 and not torch.cuda.is_available():
        check_bfloat16()
    with joining() as processes:
        task = NoteTask(recipe, source, notes, processes=processes)
        places = RunPaths(Path(recipe.output.folder))
        windows = len(task.train_windows.pieces)
        documents = counted(len(notes.parts["train"]), "document")
        logger.info(f"training on {counted(windows, 'window')} of {documents}")
        state = loop(
            task,
            recipe.schedule,
            recipe.output,
            seed=recipe.seed,
            processes=processes,
            resume=resume,
        )
        bundles: tuple[Path, ...] = ()
        scores = dict(state.best_scores)
        if processes.first:
            bundles, scores = _finish(recipe, source, notes, places, state)
        processes.wait()
    return TrainedRun(places.folder, bundles, scores, state.step)


def _finish(
    recipe: Classification, source: ModelSource, notes: Notes, places: Any, state: Any
) -> tuple[tuple[Path, ...], dict[str, float]]:
    from ..log import draw_log

    if not draw_log(places.log, places.folder / "training.png"):
        logger.info("no plot was drawn: matplotlib is not installed (pip install 'malmoi[plots]')")
    bundles, scores = [], dict(state.best_scores)
    for i, precision in enumerate(recipe.output.precision):
        out = places.folder / ("bundle" if i == 0 else f"bundle-{precision}")
        with writing_folder(out, replace=True) as half:
            report = _export(recipe, source, notes, places.best, half, precision, state)
        if i == 0:
            report.save(places.folder / REPORT)
            scores |= {name: metric.value for name, metric in report.metrics.items()}
            logger.info(str(report))
        bundles.append(out)
        logger.info(f"wrote {out}")
    return tuple(bundles), scores


def _export(
    recipe: Classification,
    source: ModelSource,
    notes: Notes,
    best: Path,
    half: Path,
    precision: str,
    state: Any,
) -> Report:
    """Write the bundle, let the finished model itself choose how windows decide, and judge it."""
    from ...export.reranker import export_reranker

    written = export_reranker(
        best,
        half,
        precision=precision,
        name=recipe.name,
        licence=recipe.output.licence or source.manifest.licence,
        weights=recipe.output.weights,
        clean=source.manifest.clean,
        training=_provenance(recipe, notes, state),
        layers=True,
    )
    manifest = dataclasses.replace(written, kind="classifier", activation="softmax").write(half)
    model = NoteClassifier(open_bundle(half, kinds=("classifier",)))
    pool = choose_pool(model, notes.parts["dev"], rule=recipe.rule)
    with writing(half / DECISION) as file:
        file.write(json.dumps(pool.to_json(), indent=2).encode() + b"\n")
    part = "test" if notes.parts["test"] else "dev"
    report = report_rules(model, pool, notes.parts[part], part=part, name=recipe.name)
    scores = {f"{part}:{name}": round(one.value, 4) for name, one in report.metrics.items()}
    card = write_card(recipe, notes, pool, manifest, report)
    (half / "README.md").write_text(card, "utf-8")
    Manifest.write(dataclasses.replace(manifest, scores=scores), half)
    return report


def choose_pool(model: NoteClassifier, dev: list[NoteDocument], *, rule: str) -> DecisionPool:
    """Choose c, attention's direction and the temperature on development documents."""
    from .classification_task import fit_attention

    scored = model.score([one.notes for one in dev])
    numbers = {label: i for i, label in enumerate(model.labels)}
    gold = np.array([numbers[one.label] for one in dev])

    def score(found: list[Any]) -> float:
        outcome = judge(np.stack(found), dev, model.labels)
        return outcome.values()[outcome.main]

    c = tune([one.shares for one in scored], score)
    direction = fit_attention(scored, gold)
    pool = DecisionPool(Rule(rule, c), 1.0, direction)
    said = probabilities(scored, pool.rule, weights=attention_weights(pool, scored))
    return dataclasses.replace(pool, temperature=fit_temperature(said, gold))


def report_rules(
    model: NoteClassifier,
    pool: DecisionPool,
    documents: list[NoteDocument],
    *,
    part: str,
    name: str,
) -> Report:
    """Judge the chosen rule, with intervals, and compare the others with it on the same notes."""
    own, others = by_rules(model, documents, pool=pool)
    source = DataSource(part, "", len(documents), {})
    settings = {"rule": pool.rule.name, "c": pool.rule.c, "temperature": pool.temperature}
    return make_report("notes", name, own, source, against=others, settings=settings)


def _provenance(recipe: Classification, notes: Notes, state: Any) -> dict[str, Any]:
    from ..card import versions

    return {
        "recipe": recipe.to_json(),
        "seed": recipe.seed,
        "versions": versions(),
        "data": notes.hashes,
        "documents": {part: len(found) for part, found in notes.parts.items()},
        "leakage": notes.leaked,
        "steps": state.step,
        "best_step": state.best_step or state.step,
        "seconds": round(state.seconds, 1),
    }


def write_card(
    recipe: Classification, notes: Notes, pool: DecisionPool, manifest: Manifest, report: Report
) -> str:
    """Say in Markdown what the classifier decides, from what, and how well."""
    from ..card import how_made

    lines = [
        f"# {recipe.name}",
        "",
        f"Decides among {', '.join(notes.labels)} over notes of any length, cut into windows at "
        f"sentence borders; trained with malmoi from `{recipe.base}`.",
        "",
        f"Rule: {pool.rule.name}, c = {pool.rule.c:g}; temperature {pool.temperature:.3f}; all "
        "chosen on the dev part.",
        "",
        f"## Scores ({report.data.file}, {counted(report.data.rows, 'document')})",
        "",
        "| rule | metric | value | 95 % |",
        "|---|---|---|---|",
    ]
    for row in report.rows():
        lines.append(
            f"| {row['model']} | {row['metric']} | {row['value']:.4f} | "
            f"{row['low']:.4f} to {row['high']:.4f} |"
        )
    lines += ["", "## Data", "", "| file | sha256 |", "|---|---|"]
    lines += [f"| {name} | {digest[:16]}… |" for name, digest in notes.hashes.items()]
    for what, count in notes.leaked.items():
        lines += ["", f"Leakage: {say_leaked(what, count)}."]
    lines += how_made(manifest.training)
    if manifest.licence:
        lines += ["", f"Licence: {manifest.licence}"]
    return "\n".join(lines) + "\n"
