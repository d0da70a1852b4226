"""The task of a cross-encoder: both texts in one input, a loss over the scores."""

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ..errors import OptionError
from ..pairs import Pair, PairTokens
from ..reranker import likeness
from ..text import clean
from ..tokens import Piece, Tokens
from .attention import use_fused_attention
from .batching import Ints, Sizes, Step, plan_epoch
from .cross import (
    build_cross_encoder,
    check_objective,
    cross_loss,
    keep_head,
    score_pieces,
    transformer_of,
)
from .data import Examples
from .measuring import Measure
from .module import set_dropout
from .processes import Processes
from .quiet import quiet
from .recipe import Recipe
from .siamese import freeze, read_tokens
from .source import Source

_HEAD_DROPOUT = 0.1


@dataclass(frozen=True)
class PairIds:
    """The ids of many pairs, and how many of them were cut."""

    pieces: list[Piece]
    lengths: Ints
    cut: int

    @classmethod
    def of(cls, tokens: Tokens, pairs: Sequence[Pair], steps: Sequence[str]) -> "PairIds":
        """Clean and tokenise pairs as the exported model will, once for the whole run."""
        cleaned = [(clean(a, steps), clean(b, steps)) for a, b in pairs]
        pieces, cut = PairTokens(tokens).cut(cleaned)
        return cls(pieces, np.array([len(piece.ids) for piece in pieces], dtype=np.int64), cut)


class Crossed:
    """Trains a reranker on one data set or several, whose labels are the same."""

    def __init__(
        self,
        recipe: Recipe,
        source: Source,
        examples: Sequence[Examples],
        measures: Sequence[Measure] = (),
        *,
        processes: Processes | None = None,
    ) -> None:
        self.recipe, self.source, self.examples = recipe, source, examples
        self.measures, self.processes = measures, processes or Processes()
        self.labels = shared_labels(recipe, examples)
        self.tokens = read_tokens(source)
        self.ids = [PairIds.of(self.tokens, _pairs(part), self._clean) for part in examples]
        torch.manual_seed(recipe.seed)  # the head is drawn at random
        self.model = build_cross_encoder(
            source.root,
            labels=self.labels,
            layers=recipe.layers or None,
            dropout=recipe.dropout if recipe.dropout >= 0 else _HEAD_DROPOUT,
            max_tokens=source.manifest.max_tokens,
        )
        keep_head(self.model, source)
        use_fused_attention(transformer_of(self.model))
        if recipe.dropout >= 0:
            set_dropout(self.model, recipe.dropout)
        freeze(transformer_of(self.model), recipe.schedule.freeze)
        self.model.to(self.processes.device)
        self.module: nn.Module = self.model
        self.plan = functools.lru_cache(maxsize=2)(self._plan)

    @property
    def _clean(self) -> Sequence[str]:
        return self.source.manifest.clean

    def _plan(self, epoch: int) -> list[Step]:
        world, schedule = self.processes.world, self.recipe.schedule
        sizes = Sizes(
            schedule.batch_size * world, schedule.batch_tokens * world, least=max(2, world)
        )
        return plan_epoch(
            [ids.lengths for ids in self.ids],
            [entry.weight for entry in self.recipe.data],
            [None] * len(self.ids),
            sizes,
            seed=self.recipe.seed,
            epoch=epoch,
        )

    def loss(self, step: Step) -> Tensor:
        """Score this process's pairs, gather the scores of the others, and give the loss of all."""
        world, part = self.processes.world, self.examples[step.data]
        shares = [step.rows[rank::world] for rank in range(world)]
        pieces = [self.ids[step.data].pieces[row] for row in shares[self.processes.rank]]
        scores = self.processes.gather(self.run(pieces), [len(share) for share in shares])
        assert part.labels is not None  # every objective of a reranker has them
        targets = torch.from_numpy(part.labels[np.concatenate(shares)]).to(scores.device)
        return cross_loss(scores, targets, objective=self.recipe.data[step.data].objective)

    def run(self, pieces: Sequence[Piece]) -> Tensor:
        """Give raw scores (n, outputs), pairs of like length computed together."""
        return score_pieces(
            self.model,
            self.tokens,
            pieces,
            budget=self.recipe.schedule.piece_tokens,
            device=self.processes.device,
        )

    def outputs(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """Give the probability of each label, or the one score from 0 to 1; (n, outputs)."""
        pieces = PairIds.of(self.tokens, pairs, self._clean).pieces
        with torch.no_grad():
            blocks = [self.run(pieces[i : i + 1024]) for i in range(0, len(pieces), 1024)]
        raw = torch.cat(blocks)
        shares = raw.softmax(dim=1) if self.labels else raw.sigmoid()
        found: NDArray[np.float32] = shares.cpu().numpy()
        return found

    def score(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """Score pairs as the exported model will; what evaluation asks of a model."""
        return self.outputs(pairs)[:, likeness(self.labels) if self.labels else 0]

    def probabilities(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """Give each label's probability, (n, labels)."""
        return self.outputs(pairs)

    def evaluate(self) -> dict[str, float]:
        """Measure the reranker on every evaluation of the recipe."""
        return {measure.title: measure(self) for measure in self.measures}

    def save(self, folder: Path) -> None:
        """Write the model, head and all, as a sentence-transformers CrossEncoder's folder."""
        with quiet():
            self.model.save_pretrained(str(folder), create_model_card=False)


def shared_labels(recipe: Recipe, examples: Sequence[Examples]) -> tuple[str, ...]:
    """Give the labels that all data have in common; none where they have scores."""
    found = {part.classes for part in examples}
    if len(found) != 1:
        listed = "; ".join(", ".join(classes) or "scores" for classes in sorted(found))
        raise OptionError(
            f"the data have different labels: {listed}. A reranker has one head: expected the "
            "same in every [[data]]. Name them in the same order, or train two models."
        )
    [labels] = found
    for entry in recipe.data:
        check_objective(entry.objective, outputs=len(labels) or 1)
    return labels


def _pairs(part: Examples) -> list[Pair]:
    return [(part.texts[row[0]], part.texts[row[1]]) for row in part.columns]
