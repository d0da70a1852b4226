"""A tagger: windows of marked texts in, a loss over their labels; exported, then judged once."""

import dataclasses
import json
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForTokenClassification

from ...errors import by_number, counted
from ...evaluation import tagging
from ...evaluation.tasks.spans import Counts
from ...export.heads import TagModule, export_tagger
from ...export.source import ModelSource
from ...heads.entity_files import EntitySpan, Marked
from ...heads.tagger import (
    SETTINGS,
    SpecialTokens,
    find_entities,
    load_tagger,
    make_labels,
    read_shares,
)
from ...heads.windows import Pieces, cut_pieces, token_windows
from ...runtime.tokenizer import TokenizedText
from ...types import Ints
from ..batching import Step
from ..distributed import Processes
from ..objective import FinishedRun, PreparedData, WrittenBundle
from .tagging import Tagging, TaggingData
from .task import TokenTask, head_manifest, judge_bundle, judged_part

logger = logging.getLogger(__name__)

_BLOCK = 512


@dataclass(frozen=True)
class TagWindows:
    """Windows of texts as ids: where their units' labels are read, and what they are."""

    ids: list[list[int]]
    heads: list[Ints]  # positions in the window's ids
    targets: list[Ints]

    @property
    def lengths(self) -> Ints:
        """How many tokens each window has."""
        return np.array([len(ids) for ids in self.ids], dtype=np.int64)


def mark_units(
    pieces: Pieces, spans: Sequence[EntitySpan], labels: Sequence[str]
) -> tuple[Ints, int]:
    """Give each unit of a text its label's number, (n,), and how many entities were lost.

    A unit belongs to the entity that holds its middle. An entity whose border falls inside a
    word takes the word in or leaves it; one that holds no unit's middle is lost.
    """
    numbers = {label: i for i, label in enumerate(labels)}
    targets = np.zeros(len(pieces.heads), dtype=np.int64)
    middles = (pieces.starts + pieces.ends - 1) / 2
    lost = 0
    for span in spans:
        inside = np.flatnonzero((middles >= span.start) & (middles < span.end))
        if f"B-{span.type}" not in numbers or not len(inside):
            lost += 1
            continue
        targets[inside] = numbers[f"I-{span.type}"]
        targets[inside[0]] = numbers[f"B-{span.type}"]
    return targets, lost


class TaggingTask(TokenTask):
    """Trains a linear layer over an encoder's pieces; dev is judged by exact entities."""

    def __init__(
        self,
        recipe: Tagging,
        source: ModelSource,
        data: TaggingData,
        *,
        processes: Processes | None = None,
    ) -> None:
        super().__init__(recipe, source, processes)
        self.data = data
        self.labels = make_labels(data.types)
        self.tokenizer = self.tokens.tokenizer
        self.tokenizer.no_truncation()  # windows are cut here, at words
        self.frame = SpecialTokens.of(self.tokenizer)
        self.size = source.manifest.max_tokens - self.frame.count
        self.windows = self._windows(data.parts["train"])
        names = dict(enumerate(self.labels))
        numbers = {label: i for i, label in names.items()}
        self._take(AutoModelForTokenClassification, TagModule, id2label=names, label2id=numbers)
        self.weights = self._label_weights()

    def _cut(self, text: str) -> Pieces:
        steps = self.source.manifest.clean
        return cut_pieces(self.tokenizer, text, steps, unit=self.recipe.unit)

    def _windows(self, texts: Sequence[Marked]) -> TagWindows:
        made, lost = TagWindows([], [], []), 0
        for marked in texts:
            pieces = self._cut(marked.text)
            targets, lost_here = mark_units(pieces, marked.spans, self.labels)
            lost += lost_here
            for window in token_windows(pieces, self.size):
                own = (pieces.heads >= window.first) & (pieces.heads < window.last)
                made.ids.append(self.frame.around(pieces.ids[window.begin : window.end].tolist()))
                made.heads.append(pieces.heads[own] - window.begin + len(self.frame.before))
                made.targets.append(targets[own])
        if lost:
            are = by_number(lost, "is", "are")
            logger.info(
                f"{counted(lost, 'entity', 'entities')} {are} smaller than a {self.recipe.unit} "
                f"and {are} not learnt"
            )
        return made

    def _label_weights(self) -> Tensor:
        every = np.concatenate([*self.windows.targets, np.empty(0, dtype=np.int64)])
        counts = np.maximum(np.bincount(every, minlength=len(self.labels)), 1)
        weights = (counts.sum() / (len(counts) * counts)) ** self.recipe.balance
        weights *= [self.recipe.weights.get(label, 1.0) for label in self.labels]
        return torch.tensor(weights, dtype=torch.float32, device=self.processes.device)

    def loss(self, step: Step) -> Tensor:
        """Give the weighted cross-entropy of the step's units, over all processes."""
        shares = self.shares(step.rows)
        counts = [sum(len(self.windows.heads[row]) for row in share) for share in shares]
        logits = self.processes.gather(self._logits(shares[self.processes.rank]), counts)
        targets = np.concatenate([self.windows.targets[row] for share in shares for row in share])
        with torch.autocast(logits.device.type, enabled=False):
            return functional.cross_entropy(
                logits.float(), torch.from_numpy(targets).to(logits.device), weight=self.weights
            )

    def _logits(self, rows: Sequence[int] | Ints) -> Tensor:
        """Run windows of the training texts; one row of logits a unit, (units, labels)."""
        pieces = [TokenizedText(i, self.windows.ids[row]) for i, row in enumerate(rows)]
        found: dict[int, Tensor] = {}
        for batch in self.tokens.batches(pieces, budget=self.recipe.schedule.piece_tokens):
            for row_number, logits in zip(batch.rows.tolist(), self.run(batch), strict=True):
                heads = torch.from_numpy(self.windows.heads[rows[row_number]]).to(logits.device)
                found[row_number] = logits[heads]
        return torch.cat([found[i] for i in range(len(pieces))])

    def tag_all(self, texts: Sequence[str]) -> list[list[EntitySpan]]:
        """Find the entities of texts as the exported model will."""
        found = []
        for start in range(0, len(texts), _BLOCK):
            block = texts[start : start + _BLOCK]
            cut = [self._cut(text) for text in block]
            most, count = self.source.manifest.max_tokens, len(self.labels)
            read = read_shares(cut, self.frame, self.window_logits, count, most)
            for text, pieces, shares in zip(block, cut, read, strict=True):
                entities = find_entities(text, pieces, shares, self.labels)
                found.append([EntitySpan(one.start, one.end, one.type) for one in entities])
        return found

    def evaluate(self) -> dict[str, float]:
        """Judge the dev texts: F1 of exact entities."""
        dev = self.data.parts["dev"]
        counts = Counts()
        for marked, found in zip(dev, self.tag_all([m.text for m in dev]), strict=True):
            counts.add(marked.spans, found)
        return {"dev:f1": counts.f1()}

    def save(self, folder: Path) -> None:
        """Write the model, layer and all, as a transformers folder."""
        super().save(folder)
        (folder / SETTINGS).write_text(json.dumps({"unit": self.recipe.unit}) + "\n", "utf-8")


def make_task(recipe: Tagging, prepared: PreparedData, processes: Processes) -> TaggingTask:
    """Load the model and cut the texts into windows."""
    task = TaggingTask(recipe, prepared.source, prepared.data, processes=processes)
    windows = counted(len(task.windows.ids), "window")
    logger.info(f"training on {windows}, {len(task.labels)} labels")
    return task


def write_bundle(
    run: FinishedRun[Tagging, PreparedData], folder: Path, precision: str
) -> WrittenBundle:
    """Export the best model by dev F1, and judge the finished bundle on the test part."""
    data, labels = run.prepared.data, run.task.labels
    wanted = head_manifest(run, precision, kind="tagger", unit="text", labels=labels)
    wanted = dataclasses.replace(wanted, activation="softmax")
    unit = run.recipe.unit
    weights = run.recipe.output.keeps_weights(precision)
    manifest = export_tagger(run.paths.best, folder, wanted, unit=unit, weights=weights)
    outcome = tagging.measure(load_tagger(folder), data.parts[judged_part(run)])
    return judge_bundle(
        run,
        manifest,
        outcome,
        task="tagging",
        what="Exact entities",
        unit="text",
        does=f"Finds {', '.join(data.types)} in text of any length",
        use=['tagger = malmoi.load("path/to/this/folder")', 'tagger.tag("…")'],
    )
