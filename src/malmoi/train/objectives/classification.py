"""A classifier of notes: windows are learnt first, then how they decide together."""

import dataclasses
import json
import logging
from dataclasses import dataclass
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
from ...evaluate.examples import ExampleSource
from ...evaluate.notes import attention_weights, by_rules, judge, probabilities
from ...evaluate.report import Report, make_report
from ...export.source import ModelSource
from ...io.files import writing
from ..base_model import read_base
from ..run_dir import RunPaths, write_bundles
from .classification_data import Notes, read_notes
from .recipes import Classification

logger = logging.getLogger(__name__)

REPORT = "report.json"


@dataclass(frozen=True)
class PreparedNotes:
    """Everything a run needs that can be checked without torch."""

    source: ModelSource
    notes: Notes

    @property
    def learnt(self) -> dict[str, str]:
        """The hashes of the files."""
        return self.notes.hashes


def prepare(recipe: Classification, root: Path, *, strict: bool) -> PreparedNotes:
    """Read and check everything but the weights."""
    source = read_base(recipe.base, max_tokens=recipe.max_tokens, clean=recipe.clean)
    return PreparedNotes(source, read_notes(recipe, root, strict=strict))


def make_task(recipe: Classification, prepared: PreparedNotes, processes: Any) -> Any:
    """Load the model and cut the notes into windows."""
    from .classification_task import NoteTask

    task = NoteTask(recipe, prepared.source, prepared.notes, processes=processes)
    windows = counted(len(task.train_windows.pieces), "window")
    documents = counted(len(prepared.notes.parts["train"]), "document")
    logger.info(f"training on {windows} of {documents}")
    return task


def finish(
    recipe: Classification, prepared: PreparedNotes, task: Any, paths: RunPaths, state: Any
) -> tuple[tuple[Path, ...], dict[str, float]]:
    """Export; each finished bundle chooses on dev how windows decide, and is judged on test."""
    from ...export.reranker import export_reranker
    from ..card import provenance

    notes, source = prepared.notes, prepared.source
    documents = {part: len(found) for part, found in notes.parts.items()}
    training = provenance(recipe, notes.hashes, state, documents=documents, leakage=notes.leaked)
    part = "test" if notes.parts["test"] else "dev"

    def write(folder: Path, precision: str) -> Report:
        written = export_reranker(
            paths.best,
            folder,
            precision=precision,
            name=recipe.name,
            licence=recipe.output.licence or source.manifest.licence,
            weights=recipe.output.weights,
            clean=source.manifest.clean,
            training=training,
            layers=True,
        )
        wanted = dataclasses.replace(written, kind="classifier", activation="softmax")
        manifest = wanted.write(folder)
        model = NoteClassifier(open_bundle(folder, kinds=("classifier",)))
        pool = choose_pool(model, notes.parts["dev"], rule=recipe.rule)
        with writing(folder / DECISION) as file:
            file.write(json.dumps(pool.to_json(), indent=2).encode() + b"\n")
        report = report_rules(model, pool, notes.parts[part], part=part, name=recipe.name)
        scores = {f"{part}:{name}": round(one.value, 4) for name, one in report.metrics.items()}
        card = write_card(recipe, notes, pool, manifest, report)
        (folder / "README.md").write_text(card, "utf-8")
        dataclasses.replace(manifest, scores=scores).write(folder)
        return report

    reports = write_bundles(paths, recipe.output.precision, write)
    first = next(iter(reports.values()))
    first.save(paths.folder / REPORT)
    logger.info(str(first))
    return tuple(reports), {name: metric.value for name, metric in first.metrics.items()}


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
    source = ExampleSource(part, "", len(documents), {})
    settings = {"rule": pool.rule.name, "c": pool.rule.c, "temperature": pool.temperature}
    return make_report("notes", name, own, source, against=others, settings=settings)


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
