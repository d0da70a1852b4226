"""A classifier of notes: windows learn their note's label; then how they decide is chosen.

A note is cut into windows. After training, dev chooses how one decision is made of them
and its temperature.
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
from ...errors import counted
from ...evaluation.measures import set_f1, value
from ...evaluation.tasks.note_classes import by_rules, judge, probabilities
from ...export.heads import export_reranker
from ...export.module import set_dropout
from ...export.source import ModelSource
from ...heads.classifier import (
    ACTIVATIONS,
    DECISION,
    Classifier,
    DecisionPool,
    ScoredWindows,
    note_windows,
    window_shares,
)
from ...heads.decision import ENOUGH, Rule, calibrate, tune
from ...heads.notes import (
    MULTI,
    REGRESSION,
    SINGLE,
    NoteDocument,
    say_leaked,
    targets_of,
)
from ...io.files import writing
from ...runtime.tokenizer import TokenizedText
from ...text.cleanup import clean
from ..batching import Step
from ..distributed import Processes
from ..objective import FinishedRun, PreparedData, WrittenBundle
from ..run_dir import bundle_options, provenance
from .classification import Classification, Notes
from .cross_encoder import HeadTask
from .task import judge_bundle, judged_part

logger = logging.getLogger(__name__)


class NoteWindows:
    """The windows of many documents as ids, and which document each belongs to."""

    def __init__(
        self,
        documents: Sequence[NoteDocument],
        labels: Sequence[str],
        tokens: Any,
        steps: Sequence[str],
        problem: str = SINGLE,
    ) -> None:
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
        self.labels = targets_of(documents, labels, problem)[self.owners]


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
            NoteWindows(
                notes.parts[part],
                notes.labels,
                self.tokens,
                source.manifest.clean,
                recipe.problem_type,
            )
            for part in ("train", "dev")
        )
        self.pool = number_scale(notes, recipe.problem_type)
        model = self._build(notes.labels, recipe.dropout)
        set_dropout(model, recipe.dropout)
        self._settle(model)
        self.weights = self._class_weights()

    def _class_weights(self) -> Tensor | None:
        """Weigh labels so that each has the same say; None leaves them as common as they are."""
        if not self.recipe.balance or self.recipe.problem_type == REGRESSION:
            return None
        if self.recipe.problem_type == MULTI:  # a label against its absence
            held = self.train_windows.labels.sum(axis=0)
            ratio = (len(self.train_windows.labels) - held) / np.maximum(held, 1)
            return torch.tensor(ratio, dtype=torch.float32, device=self.processes.device)
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
        """Give the loss of this step's windows, over all processes.

        It is the cross-entropy of one label, that of each of several labels, or the square of the
        difference of a number, taken in standard deviations.
        """
        scores, rows = self.gathered(self.train_windows.pieces, step.rows)
        targets = torch.from_numpy(self.train_windows.labels[rows]).to(scores.device)
        if self.recipe.problem_type == REGRESSION:
            wanted = (targets - self.pool.mean) / self.pool.scale
            return functional.mse_loss(scores[:, 0], wanted.float())
        if self.recipe.problem_type == MULTI:
            return functional.binary_cross_entropy_with_logits(
                scores, targets.float(), pos_weight=self.weights
            )
        return functional.cross_entropy(scores, targets, weight=self.weights)

    def evaluate(self) -> dict[str, float]:
        """Judge the dev documents by the recipe's rule; the first score is the main one."""
        windows, problem = self.dev_windows, self.recipe.problem_type
        logits = self.run_all(windows.pieces).double().cpu().numpy()
        shares = window_shares(logits, problem, self.pool).astype(np.float32)
        scored = [
            ScoredWindows(spans, shares[windows.owners == i])
            for i, spans in enumerate(windows.spans)
        ]
        found = probabilities(scored, Rule(self.recipe.rule), problem=problem)
        outcome = judge(found, self.notes.parts["dev"], self.notes.labels, problem)
        return {f"dev:{outcome.main}": outcome.values()[outcome.main]}


def number_scale(notes: Notes, problem: str) -> DecisionPool:
    """Say how a number is made of an output: by mean and standard deviation of the train part."""
    if problem != REGRESSION:
        return DecisionPool()
    numbers = targets_of(notes.parts["train"], notes.labels, problem)
    return DecisionPool(mean=float(numbers.mean()), scale=float(numbers.std()) or 1.0)


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
    written = export_reranker(run.paths.best, folder, **options)
    activation = ACTIVATIONS[recipe.problem_type]
    wanted = dataclasses.replace(
        written, kind="classifier", activation=activation, labels=notes.labels
    )
    manifest = wanted.write(folder)
    model = Classifier(open_bundle(folder, kinds=("classifier",)))
    model.pool = number_scale(notes, recipe.problem_type)
    pool = choose_pool(model, notes.parts["dev"], rule=recipe.rule)
    with writing(folder / DECISION) as file:
        file.write(json.dumps(pool.to_json(), indent=2).encode() + b"\n")
    own, others = by_rules(model, notes.parts[judged_part(run)], pool=pool)
    calls = "model.estimate" if recipe.problem_type == REGRESSION else "model.classify"
    return judge_bundle(
        run,
        manifest,
        own,
        task="notes",
        what="Decisions",
        unit="document",
        does=says_what(recipe, notes),
        use=['model = malmoi.load("path/to/this/folder")', f'{calls}("…")'],
        against=others,
        settings={"rule": pool.rule.name, "c": pool.rule.c, "temperature": pool.temperature},
        more=["", says_rule(recipe, pool), *leaks(notes)],
    )


def choose_pool(model: Classifier, dev: list[NoteDocument], *, rule: str) -> DecisionPool:
    """Choose c and the temperature on development documents.

    Of several labels the threshold too, for the best F1 over all; a number has neither.
    """
    scored = model.score([one.notes for one in dev])
    problem = model.problem
    gold = targets_of(dev, model.labels, problem)

    def score(found: list[Any]) -> float:
        outcome = judge(np.stack(found), dev, model.labels, problem)
        return outcome.values()[outcome.main]

    c = tune([one.shares for one in scored], score, exclusive=problem == SINGLE)
    pool = dataclasses.replace(model.pool, rule=Rule(rule, c))
    if problem == REGRESSION:
        return pool
    found = probabilities(scored, pool.rule, problem=problem)
    temperature, told = calibrate(found, gold)
    logger.info(told)
    pool = dataclasses.replace(pool, temperature=temperature)
    if problem == MULTI and len(dev) >= ENOUGH:
        found = probabilities(scored, pool.rule, problem=problem, temperature=temperature)
        pool = dataclasses.replace(pool, threshold=best_threshold(found, gold))
    return pool


def best_threshold(found: NDArray[np.float64], gold: NDArray[Any]) -> float:
    """Choose the threshold with the best F1 over all labels; of equal ones the middle one."""
    grid = np.arange(5, 100, 5) / 100
    scores = np.array([value(set_f1(found >= one, gold), len(gold)) for one in grid])
    best = grid[np.nan_to_num(scores) >= np.nanmax([*scores, 0.0]) - 1e-12]
    return float(best[len(best) // 2])


def says_what(recipe: Classification, notes: Notes) -> str:
    """Say what the classifier decides."""
    does = {
        SINGLE: f"Decides among {', '.join(notes.labels)}",
        MULTI: f"Finds which of {', '.join(notes.labels)} hold",
        REGRESSION: f"Estimates {notes.labels[0]}",
    }[recipe.problem_type]
    return f"{does} over notes of any length, cut into windows at sentence borders"


def says_rule(recipe: Classification, pool: DecisionPool) -> str:
    """Say how windows decide."""
    rule = f"Rule: {pool.rule.name}, c = {pool.rule.c:g}"
    if recipe.problem_type == REGRESSION:
        return f"{rule}, chosen on the dev part."
    several = f"threshold {pool.threshold:g}; " if recipe.problem_type == MULTI else ""
    return (
        f"{rule}; {several}temperature {pool.temperature:.3f} (1 changes nothing; so it is where "
        "the dev part is too small to fit one); all chosen on the dev part."
    )


def leaks(notes: Notes) -> list[str]:
    """Say which patients and notes are in two parts."""
    found = (f"Leakage: {say_leaked(what, count)}." for what, count in notes.leaked.items())
    return [line for one in found for line in ("", one)]
