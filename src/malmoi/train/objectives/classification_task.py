"""Attention over windows: one direction whose softmax says how much each window counts.

The task of a classifier of notes: each window learns the label of its document.
"""

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from ...classifier.classifier import ScoredWindows, note_windows
from ...classifier.decision import Rule
from ...classifier.documents import NoteDocument
from ...evaluate.notes import judge, probabilities
from ...export.module import set_dropout
from ...export.silence import silenced_libraries
from ...export.source import ModelSource
from ...runtime.tokenizer import TokenizedText
from ...text.cleanup import clean
from ..batching import Sizes, Step, plan_epoch
from ..distributed import Processes
from .bi_encoder import freeze, read_tokens
from .classification_data import Classification, Notes
from .cross_encoder import build_cross_encoder, score_pieces, transformer_of

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


_BLOCK = 1024


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


class NoteTask:
    """Trains a transformer with a head on [CLS] over windows; dev is judged by document."""

    def __init__(
        self,
        recipe: Classification,
        source: ModelSource,
        notes: Notes,
        *,
        processes: Processes | None = None,
    ) -> None:
        self.recipe, self.source, self.notes = recipe, source, notes
        self.processes = processes or Processes()
        self.tokens = read_tokens(source)
        steps = source.manifest.clean
        train, dev = (
            NoteWindows(notes.parts[part], notes.labels, self.tokens, steps)
            for part in ("train", "dev")
        )
        self.train_windows, self.dev_windows = train, dev
        torch.manual_seed(recipe.seed)  # the head is drawn at random
        self.model = build_cross_encoder(
            source.root,
            labels=notes.labels,
            layers=recipe.layers or None,
            dropout=recipe.dropout,
            max_tokens=source.manifest.max_tokens,
        )
        set_dropout(self.model, recipe.dropout)
        freeze(transformer_of(self.model), recipe.schedule.freeze)
        self.model.to(self.processes.device)
        self.module: nn.Module = self.model
        self.weights = self._class_weights()
        self.plan = functools.lru_cache(maxsize=2)(self._plan)

    def _class_weights(self) -> Tensor | None:
        """Weigh labels so that each has the same say; None leaves them as common as they are."""
        if not self.recipe.balance:
            return None
        counts = np.bincount(self.train_windows.labels, minlength=len(self.notes.labels))
        shares = counts.sum() / (len(counts) * np.maximum(counts, 1))
        return torch.tensor(shares, dtype=torch.float32, device=self.processes.device)

    def _plan(self, epoch: int) -> list[Step]:
        world, schedule = self.processes.world, self.recipe.schedule
        sizes = Sizes(
            schedule.batch_size * world, schedule.batch_tokens * world, least=max(2, world)
        )
        rows = self._rows(epoch)
        steps = plan_epoch(
            [self.train_windows.lengths[rows]],
            [1.0],
            [None],
            sizes,
            seed=self.recipe.seed,
            epoch=epoch,
        )
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
        world = self.processes.world
        shares = [step.rows[rank::world] for rank in range(world)]
        pieces = [self.train_windows.pieces[row] for row in shares[self.processes.rank]]
        scores = self.processes.gather(self.run(pieces), [len(share) for share in shares])
        targets = torch.from_numpy(self.train_windows.labels[np.concatenate(shares)])
        return functional.cross_entropy(scores, targets.to(scores.device), weight=self.weights)

    def run(self, pieces: Sequence[TokenizedText]) -> Tensor:
        """Give raw scores (n, labels), windows of like length computed together."""
        return score_pieces(
            self.model,
            self.tokens,
            pieces,
            budget=self.recipe.schedule.piece_tokens,
            device=self.processes.device,
        )

    def evaluate(self) -> dict[str, float]:
        """Judge the dev documents by the recipe's rule; the first score is the main one."""
        windows = self.dev_windows
        with torch.no_grad():
            blocks = [
                self.run(windows.pieces[i : i + _BLOCK])
                for i in range(0, len(windows.pieces), _BLOCK)
            ]
        shares = torch.cat(blocks).softmax(dim=1).cpu().numpy()
        scored = [
            ScoredWindows(spans, shares[windows.owners == i], None)
            for i, spans in enumerate(windows.spans)
        ]
        rule = Rule("joint" if self.recipe.rule == "attention" else self.recipe.rule)
        outcome = judge(probabilities(scored, rule), self.notes.parts["dev"], self.notes.labels)
        return {f"dev:{outcome.main}": outcome.values()[outcome.main]}

    def save(self, folder: Path) -> None:
        """Write the model, head and all, as a folder of torch weights."""
        with silenced_libraries():
            self.model.save_pretrained(str(folder), create_model_card=False)
