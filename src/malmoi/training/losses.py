"""The losses of the objectives: sentence-transformers' own, over vectors that are given.

Those losses call a model on each column. Here the columns have been encoded (and gathered from
all processes) before, so the model they get hands on the vectors it is given. Each builder takes
the vectors' dimension, the number of classes and the objective's options, and gives a module
that is called with the columns, k tensors (n, dim), and the labels (n,).

Multi-similarity loss and its miner (Wang et al. 2019, as SapBERT uses it) are for vectors with
the number of the concept each names. Both look at cosines (n, n) and at masks over them, so an
anchor's positives and negatives stay its own: what is a hard pair for one anchor says nothing of
another.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from sentence_transformers.sentence_transformer import losses as st
from sentence_transformers.util import pairwise_cos_sim
from torch import Tensor, nn
from torch.nn import functional

VECTORS = "sentence_embedding"
GUIDE = "guide_embedding"  # of the same text, by the model that judges negatives


class Given(nn.Module):
    """Takes the place of a loss's model: the vectors are computed already.

    With `dim` they are cut to their first dimensions and brought to length 1.
    """

    device = None

    def __init__(self, dim: int | None = None) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Hand the vectors on."""
        vectors = features[VECTORS]
        if self.dim is not None:
            vectors = functional.normalize(vectors[:, : self.dim], dim=1)
        return {VECTORS: vectors}


class Loss(nn.Module):
    """A loss of sentence-transformers over given columns, or the sum of it over dimensions.

    Matryoshka dimensions have a head of their own each where there is one: a layer over 384
    values cannot read 64.
    """

    def __init__(self, parts: Sequence[nn.Module]) -> None:
        super().__init__()
        self.parts = nn.ModuleList(parts)

    def forward(
        self, columns: Sequence[Tensor], labels: Tensor | None, guides: Sequence[Tensor] = ()
    ) -> Tensor:
        """Give the loss, a scalar; `guides` are the columns' vectors (n, dim) by a guide."""
        features = [{VECTORS: column} for column in columns]
        for feature, guide in zip(features, guides, strict=False):
            feature[GUIDE] = guide
        found = [part(features, labels) for part in self.parts]
        total: Tensor = sum(found[1:], start=found[0])
        return total


def build_loss(
    builder: Any,
    *,
    dimension: int,
    classes: int = 0,
    options: dict[str, Any] | None = None,
    matryoshka: Sequence[int] = (),
) -> Loss:
    """Build an objective's loss at the whole dimension, or at each of `matryoshka`."""
    options = options or {}
    if not matryoshka:
        return Loss([builder(Given(), dimension, classes, **options)])
    return Loss([builder(Given(dim), dim, classes, **options) for dim in matryoshka])


def softmax(model: Any, dimension: int, classes: int) -> nn.Module:
    """Classify (u, v, |u - v|) with one linear layer."""
    return st.SoftmaxLoss(model, dimension, classes)


def cosine(model: Any, dimension: int, classes: int) -> nn.Module:
    """Bring the cosine to the score, by the mean squared error."""
    return st.CosineSimilarityLoss(model)


def triplet(model: Any, dimension: int, classes: int, *, margin: float) -> nn.Module:
    """Keep the negative farther than the positive by a margin, in Euclidean distance."""
    metric = st.TripletDistanceMetric.EUCLIDEAN
    return st.TripletLoss(model, distance_metric=metric, triplet_margin=margin)


def contrastive(
    model: Any, dimension: int, classes: int, *, scale: float, symmetric: bool
) -> nn.Module:
    """Find b among all b's (and negatives) of the batch; `symmetric` finds a among all a's too."""
    if symmetric:
        return st.MultipleNegativesRankingLoss(
            model,
            scale=scale,
            directions=("query_to_doc", "doc_to_query"),
            partition_mode="per_direction",
        )
    return st.MultipleNegativesRankingLoss(model, scale=scale)


class _Guide(nn.Module):
    """Takes the place of a guide: its vectors are computed already."""

    def forward(self, features: dict[str, Tensor]) -> dict[str, Tensor]:
        """Hand the guide's vectors on."""
        return {VECTORS: features[GUIDE]}


class _Gist(st.GISTEmbedLoss):
    """The loss of sentence-transformers over given vectors; its own start wants tokenizers."""

    def __init__(self, model: Any, *, temperature: float, margin: float) -> None:
        nn.Module.__init__(self)
        guide: Any = _Guide()
        self.model, self.guide, self.must_retokenize = model, guide, False
        self.temperature, self.margin, self.margin_strategy = temperature, margin, "absolute"
        self.contrast_anchors = self.contrast_positives = True
        self.gather_across_devices = False
        self.similarity_fct = nn.CosineSimilarity(dim=-1)
        self.cross_entropy_loss = nn.CrossEntropyLoss()


def gist(
    model: Any, dimension: int, classes: int, *, temperature: float, margin: float
) -> nn.Module:
    """Find b as `contrastive` does, without the negatives that a guide finds nearer than b."""
    return _Gist(model, temperature=temperature, margin=margin)


def margin_mse(model: Any, dimension: int, classes: int) -> nn.Module:
    """Bring cos(a, b) - cos(a, negative) to a teacher's margin."""
    return st.MarginMSELoss(model, similarity_fct=pairwise_cos_sim)


def cosent(model: Any, dimension: int, classes: int, *, scale: float) -> nn.Module:
    """Order the cosines of a batch as its scores are ordered."""
    return st.CoSENTLoss(model, scale=scale)


def angle(model: Any, dimension: int, classes: int, *, scale: float) -> nn.Module:
    """Order as CoSENT does, by the angle in complex space instead of the cosine."""
    return st.AnglELoss(model, scale=scale)


@dataclass(frozen=True)
class Mined:
    """Which pairs an anchor (row) learns from: masks (n, n) of positives and of negatives."""

    positives: Tensor
    negatives: Tensor


def mine(cosines: Tensor, labels: Tensor, *, epsilon: float) -> Mined:
    """Keep each anchor's positives that are farther than its nearest negative, and the reverse.

    `epsilon` widens both: a positive is kept when it is less than `epsilon` above the nearest
    negative, a negative when it is less than that below the farthest positive. An anchor without
    a positive keeps no negative, and one without a negative keeps no positive.
    """
    same = labels[:, None] == labels[None, :]  # (n, n)
    itself = torch.eye(len(labels), dtype=torch.bool, device=labels.device)
    positive, negative = same & ~itself, ~same
    infinite = torch.finfo(cosines.dtype).max
    farthest = cosines.masked_fill(~positive, infinite).amin(dim=1, keepdim=True)  # (n, 1)
    nearest = cosines.masked_fill(~negative, -infinite).amax(dim=1, keepdim=True)
    return Mined(
        positive & (cosines - epsilon < nearest), negative & (cosines + epsilon > farthest)
    )


def multi_similarity(
    cosines: Tensor, mined: Mined, *, alpha: float, beta: float, base: float
) -> Tensor:
    """Give the loss, a scalar: positives are drawn above `base`, negatives pushed below it.

    `alpha` and `beta` say how much the hardest pairs of an anchor weigh against its others. The
    mean is over all anchors; those that have no pair count as 0.
    """
    pulled = _soft_sum(alpha * (base - cosines), mined.positives) / alpha  # (n,)
    pushed = _soft_sum(beta * (cosines - base), mined.negatives) / beta
    return (pulled + pushed).mean()


def _soft_sum(values: Tensor, kept: Tensor) -> Tensor:
    """log(1 + the sum of exp over the kept values of a row), (n,); 0 where none is kept."""
    masked = values.masked_fill(~kept, torch.finfo(values.dtype).min)
    one = masked.new_zeros(len(masked), 1)  # exp(0) = 1
    return torch.cat([masked, one], dim=1).logsumexp(dim=1)


def mined_loss(
    unit: Tensor, labels: Tensor, *, alpha: float, beta: float, threshold: float, epsilon: float
) -> Tensor:
    """Give the loss of unit vectors (n, dim) over the pairs that are mined among them."""
    cosines = unit @ unit.T
    with torch.no_grad():
        mined = mine(cosines, labels, epsilon=epsilon)
    return multi_similarity(cosines, mined, alpha=alpha, beta=beta, base=threshold)


class MultiSimilarity(nn.Module):
    """The loss of names with concepts: columns of vectors in, one batch of them all inside.

    `model` cuts vectors to a prefix where matryoshka asks for it, else hands them on.
    """

    def __init__(self, model: Any, **options: float) -> None:
        super().__init__()
        self.model, self.options = model, options

    def forward(self, features: Sequence[dict[str, Tensor]], labels: Tensor) -> Tensor:
        """Join k columns (n, dim) with one label a row into a batch of k * n names."""
        vectors = torch.cat([self.model(column)[VECTORS] for column in features])
        unit = functional.normalize(vectors, dim=1)
        return mined_loss(unit, labels.repeat(len(features)), **self.options)


def term_alignment(model: Any, dimension: int, classes: int, **options: float) -> nn.Module:
    """Bring names of one concept together, and keep confusable concepts away."""
    return MultiSimilarity(model, **options)
