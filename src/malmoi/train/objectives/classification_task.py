"""A classifier of notes: windows learn their note's label; then how they decide is chosen.

A note is cut into windows. After training, dev chooses the rule that makes one decision of them,
its temperature, and the direction of attention over windows.
"""

import dataclasses
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ...bundle.bundle import open_bundle
from ...bundle.manifest import Manifest
from ...classifier.classifier import (
    DECISION,
    DecisionPool,
    NoteClassifier,
    ScoredWindows,
    note_windows,
)
from ...classifier.decision import Rule, calibrate, tune
from ...classifier.documents import NoteDocument, say_leaked
from ...errors import counted
from ...evaluate.examples import ExampleSource
from ...evaluate.report import Report, make_report
from ...evaluate.tasks.documents import attention_weights, by_rules, judge, probabilities
from ...export.module import set_dropout
from ...export.reranker import export_reranker
from ...export.source import ModelSource
from ...io.files import writing
from ...runtime.tokenizer import TokenizedText
from ...text.cleanup import clean
from ..batching import Step
from ..card import bundle_options, file_table, provenance, rounded, write_card
from ..distributed import Processes
from ..objective import FinishedRun, PreparedData, WrittenBundle
from .classification import Classification, Notes
from .cross_encoder import HeadTask

logger = logging.getLogger(__name__)

_STEPS = 200
_RATE = 0.01
# A direction that is not needed stays near zero, where attention is the mean.
_DECAY = 1e-2


def fit_attention(
    scored: Sequence[ScoredWindows], gold: NDArray[np.int64]
) -> NDArray[np.float64] | None:
    """Find the direction under which the documents' labels are likeliest; None without states."""
    if any(one.states is None for one in scored):
        return None
    states = torch.from_numpy(np.concatenate([one.states for one in scored]).astype(np.float32))
    shares = torch.from_numpy(np.concatenate([one.shares for one in scored]).astype(np.float32))
    owners = torch.from_numpy(np.repeat(np.arange(len(scored)), [len(o.shares) for o in scored]))
    targets = torch.from_numpy(gold)
    direction = torch.zeros(states.shape[1], requires_grad=True)
    optimizer = torch.optim.Adam([direction], lr=_RATE)
    for _ in range(_STEPS):
        optimizer.zero_grad()
        found = _pooled(states @ direction, shares, owners, len(scored))
        right = found[torch.arange(len(targets)), targets].clamp(min=1e-6)
        loss = -right.log().mean() + _DECAY * direction.square().sum()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    fitted: NDArray[np.float64] = direction.detach().numpy().astype(np.float64)
    return fitted


def _pooled(
    raw: torch.Tensor, shares: torch.Tensor, owners: torch.Tensor, count: int
) -> torch.Tensor:
    """Take the softmax of raw weights within each document, and average shares by it."""
    top = torch.full((count,), -torch.inf).scatter_reduce(0, owners, raw.detach(), "amax")
    raised = (raw - top[owners]).exp()
    total = torch.zeros(count).index_add(0, owners, raised)
    weights = raised / total[owners]
    return torch.zeros(count, shares.shape[1]).index_add(0, owners, weights[:, None] * shares)


class NoteWindows:
    """The windows of many documents as ids, and which document each belongs to."""

    def __init__(
        self,
        documents: Sequence[NoteDocument],
        labels: Sequence[str],
        tokens: Any,
        steps: Sequence[str],
    ) -> None:
        numbers = {label: i for i, label in enumerate(labels)}
        owners: list[int] = []
        texts: list[str] = []
        self.spans: list[list[Any]] = []
        for i, document in enumerate(documents):
            found = [
                (j, span)
                for j, note in enumerate(document.notes)
                for span in note_windows(note, tokens, steps)
            ]
            self.spans.append(found)
            texts += [clean(document.notes[j][s.start : s.end], steps) for j, s in found]
            owners += [i] * len(found)
        self.pieces: list[TokenizedText] = tokens.encode(texts)[0]
        self.owners = np.array(owners, dtype=np.int64)
        self.lengths = np.array([len(piece.ids) for piece in self.pieces], dtype=np.int64)
        gold = np.array([numbers[one.label] for one in documents], dtype=np.int64)
        self.labels = gold[self.owners]


class NoteTask(HeadTask):
    """Trains a transformer with a head on [CLS] over windows; dev is judged by document."""

    recipe: Classification

    def __init__(
        self,
        recipe: Classification,
        source: ModelSource,
        notes: Notes,
        *,
        processes: Processes | None = None,
    ) -> None:
        super().__init__(recipe, source, processes)
        self.notes = notes
        self.train_windows, self.dev_windows = (
            NoteWindows(notes.parts[part], notes.labels, self.tokens, source.manifest.clean)
            for part in ("train", "dev")
        )
        model = self._build(notes.labels, recipe.dropout)
        set_dropout(model, recipe.dropout)
        self._settle(model)
        self.weights = self._class_weights()

    def _class_weights(self) -> Tensor | None:
        """Weigh labels so that each has the same say; None leaves them as common as they are."""
        if not self.recipe.balance:
            return None
        counts = np.bincount(self.train_windows.labels, minlength=len(self.notes.labels))
        shares = counts.sum() / (len(counts) * np.maximum(counts, 1))
        return torch.tensor(shares, dtype=torch.float32, device=self.processes.device)

    def _plan(self, epoch: int) -> list[Step]:
        rows = self._rows(epoch)
        steps = self.batches([self.train_windows.lengths[rows]], epoch)
        return [Step(0, rows[step.rows]) for step in steps]

    def _rows(self, epoch: int) -> NDArray[np.int64]:
        """The windows of an epoch: all, or a few of each document, others the next time."""
        most, owners = self.recipe.windows, self.train_windows.owners
        if not most:
            return np.arange(len(owners))
        order = np.random.default_rng([self.recipe.seed, epoch]).permutation(len(owners))
        order = order[np.argsort(owners[order], kind="stable")]
        sorted_owners = owners[order]
        starts = np.searchsorted(sorted_owners, sorted_owners)
        kept: NDArray[np.int64] = np.sort(order[np.arange(len(order)) - starts < most])
        return kept

    def loss(self, step: Step) -> Tensor:
        """Give the cross-entropy of this step's windows, over all processes."""
        scores, rows = self.gathered(self.train_windows.pieces, step.rows)
        targets = torch.from_numpy(self.train_windows.labels[rows])
        return functional.cross_entropy(scores, targets.to(scores.device), weight=self.weights)

    def evaluate(self) -> dict[str, float]:
        """Judge the dev documents by the recipe's rule; the first score is the main one."""
        windows = self.dev_windows
        shares = self.run_all(windows.pieces).softmax(dim=1).cpu().numpy()
        scored = [
            ScoredWindows(spans, shares[windows.owners == i], None)
            for i, spans in enumerate(windows.spans)
        ]
        rule = Rule("joint" if self.recipe.rule == "attention" else self.recipe.rule)
        outcome = judge(probabilities(scored, rule), self.notes.parts["dev"], self.notes.labels)
        return {f"dev:{outcome.main}": outcome.values()[outcome.main]}


def make_task(recipe: Classification, prepared: PreparedData, processes: Processes) -> NoteTask:
    """Load the model and cut the notes into windows."""
    task = NoteTask(recipe, prepared.source, prepared.data, processes=processes)
    windows = counted(len(task.train_windows.pieces), "window")
    documents = counted(len(prepared.data.parts["train"]), "document")
    logger.info(f"training on {windows} of {documents}")
    return task


def write_bundle(
    run: FinishedRun[Classification, PreparedData], folder: Path, precision: str
) -> WrittenBundle:
    """Export; the finished bundle chooses on dev how windows decide, and is judged on test."""
    recipe, notes = run.recipe, run.prepared.data
    documents = {part: len(found) for part, found in notes.parts.items()}
    training = provenance(
        recipe, notes.hashes, run.state, documents=documents, leakage=notes.leaked
    )
    options = bundle_options(recipe, run.prepared.source, training, precision)
    written = export_reranker(run.paths.best, folder, layers=True, **options)
    wanted = dataclasses.replace(written, kind="classifier", activation="softmax")
    manifest = wanted.write(folder)
    model = NoteClassifier(open_bundle(folder, kinds=("classifier",)))
    pool = choose_pool(model, notes.parts["dev"], rule=recipe.rule)
    with writing(folder / DECISION) as file:
        file.write(json.dumps(pool.to_json(), indent=2).encode() + b"\n")
    part = "test" if notes.parts["test"] else "dev"
    report = report_rules(model, pool, notes.parts[part], part=part, name=recipe.name)
    scores = {name: metric.value for name, metric in report.metrics.items()}
    named = rounded({f"{part}:{name}": value for name, value in scores.items()})
    card = classifier_card(recipe, notes, pool, manifest, report)
    return WrittenBundle(dataclasses.replace(manifest, scores=named), card, report, scores)


def choose_pool(model: NoteClassifier, dev: list[NoteDocument], *, rule: str) -> DecisionPool:
    """Choose c, attention's direction and the temperature on development documents."""
    scored = model.score([one.notes for one in dev])
    numbers = {label: i for i, label in enumerate(model.labels)}
    gold = np.array([numbers[one.label] for one in dev])

    def score(found: list[Any]) -> float:
        outcome = judge(np.stack(found), dev, model.labels)
        return outcome.values()[outcome.main]

    c = tune([one.shares for one in scored], score)
    direction = fit_attention(scored, gold)
    pool = DecisionPool(Rule(rule, c), 1.0, direction)
    found = probabilities(scored, pool.rule, weights=attention_weights(pool, scored))
    temperature, told = calibrate(found, gold)
    logger.info(told)
    return dataclasses.replace(pool, temperature=temperature)


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


def classifier_card(
    recipe: Classification, notes: Notes, pool: DecisionPool, manifest: Manifest, report: Report
) -> str:
    """Say what the classifier decides, from what, and how well."""
    about = (
        f"Decides among {', '.join(notes.labels)} over notes of any length, cut into windows at "
        f"sentence borders; trained with malmoi from `{recipe.base}`."
    )
    body = [
        f"Rule: {pool.rule.name}, c = {pool.rule.c:g}; temperature {pool.temperature:.3f} "
        "(1 changes nothing; so it is where the dev part is too small to fit one); all chosen on "
        "the dev part.",
        "",
        f"## Scores ({report.data.file}, {counted(report.data.rows, 'document')})",
        "",
        "| rule | metric | value | 95 % |",
        "|---|---|---|---|",
    ]
    for row in report.rows():
        body.append(
            f"| {row['model']} | {row['metric']} | {row['value']:.4f} | "
            f"{row['low']:.4f} to {row['high']:.4f} |"
        )
    body += ["", "## Data", "", *file_table(notes.hashes)]
    for what, count in notes.leaked.items():
        body += ["", f"Leakage: {say_leaked(what, count)}."]
    return write_card(manifest, about, body)
