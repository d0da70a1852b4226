"""The losses of the objectives: sentence-transformers' own, over vectors that are given.

Those losses call a model on each column. Here the columns have been encoded (and gathered from
all processes) before, so the model they get hands on the vectors it is given. Each builder takes
the vectors' dimension, the number of classes and the objective's options, and gives a module
that is called with the columns, k tensors (n, dim), and the labels (n,).
"""

from collections.abc import Sequence
from typing import Any

from sentence_transformers.sentence_transformer import losses as st
from torch import Tensor, nn
from torch.nn import functional

VECTORS = "sentence_embedding"


class Given(nn.Module):
    """Stands in for the model of a loss: the vectors are there already.

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

    def forward(self, columns: Sequence[Tensor], labels: Tensor | None) -> Tensor:
        """Give the loss, a scalar."""
        found = [part([{VECTORS: column} for column in columns], labels) for part in self.parts]
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


def in_batch(
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


def cosent(model: Any, dimension: int, classes: int, *, scale: float) -> nn.Module:
    """Order the cosines of a batch as its scores are ordered."""
    return st.CoSENTLoss(model, scale=scale)


def angle(model: Any, dimension: int, classes: int, *, scale: float) -> nn.Module:
    """Order as CoSENT does, by the angle in complex space instead of the cosine."""
    return st.AnglELoss(model, scale=scale)
