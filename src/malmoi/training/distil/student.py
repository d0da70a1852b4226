"""The model that a distillation trains: texts → unit vectors with gradients, and its folder.

Layers are computed in the precision asked for (autocast), weights and losses stay float32. The
embedding table has sparse gradients, so a step costs nothing for the rows that it did not read.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModel, PreTrainedModel

from ...export.build import write_layout
from ...export.module import set_dropout
from ...export.silence import silenced_libraries
from ...export.source import ModelSource
from ...export.tokenizer import open_spec, read_spec, write_tokenizer
from ..batching import pad, pool
from ..optimizer import TableAdamW
from .recipe import Distil


class Student:
    """A transformer that learns sentence vectors: the mean of its last states, of unit length."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        *,
        precision: str = "float32",
        longest: int = 128,
    ) -> None:
        """Take over the model."""
        self.tokenizer, self.longest = tokenizer, longest
        self.bf16 = precision == "bfloat16"
        if getattr(model, "pooler", None) is not None:
            setattr(model, "pooler", None)  # noqa: B010 - a module may not be assigned None
        embeddings = model.get_input_embeddings()
        assert isinstance(embeddings, torch.nn.Embedding)
        embeddings.sparse = True
        self.embeddings = embeddings
        self.model = model

    @property
    def table(self) -> Tensor:
        """The embedding table, without gradients: (size, dim)."""
        return self.embeddings.weight.detach()

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize, cut to the longest input (the closing token kept)."""
        found = [e.ids for e in self.tokenizer.encode_batch(list(texts))]
        return [i if len(i) <= self.longest else [*i[: self.longest - 1], i[-1]] for i in found]

    def states(
        self, ids: Sequence[Sequence[int]], *, layers: bool = False
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Run the transformer: last states (n, length, dim), mask (n, length), hidden layers."""
        batch, mask = pad(ids)
        with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
            out = self.model(input_ids=batch, attention_mask=mask, output_hidden_states=layers)
        return out.last_hidden_state, mask, tuple(out.hidden_states or ()) if layers else ()

    def vectors(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """Give unit vectors with gradients: (n, dim), float32."""
        hidden, mask, _ = self.states(ids)
        return torch.nn.functional.normalize(pool(hidden, mask), dim=1)

    def embed(self, texts: Sequence[str]) -> Tensor:
        """Give unit vectors of texts with gradients: (n, dim)."""
        return embed_ids(self, self.ids(texts))

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give unit vectors, as evaluation asks a model for: (n, dim)."""
        with torch.no_grad():
            blocks = [
                self.embed(texts[at : at + 1024]).numpy() for at in range(0, len(texts), 1024)
            ]
        found: NDArray[np.float32] = np.concatenate(blocks)
        return found

    def optimizer(self, stage: Distil) -> TableAdamW:
        """Make the optimizer: the layers have one rate, the embedding rows another."""
        deep: list[Tensor] = []
        flat: list[Tensor] = []
        for name, parameter in self.model.named_parameters():
            if parameter is not self.embeddings.weight:
                (flat if parameter.ndim < 2 or "embedding" in name else deep).append(parameter)
        groups = [
            {"params": found, "weight_decay": decay, "scale": 1.0}
            for found, decay in ((deep, stage.weight_decay), (flat, 0.0))
            if found
        ]
        table = self.embeddings.weight
        assert isinstance(table, torch.nn.Parameter)
        return TableAdamW(
            groups,
            table=table,
            row_scales=torch.full((len(table),), stage.embedding_rate / stage.learning_rate),
            learning_rate=stage.learning_rate,
            average=stage.average,
        )

    def save(self, source: ModelSource, folder: Path) -> None:
        """Write a sentence-transformers folder; `source` is what the student was opened from."""
        # It is trained with the mean of its states, whatever the base's pooling is.
        manifest = dataclasses.replace(source.manifest, pooling="mean", normalize=True)
        mean = dataclasses.replace(source, manifest=manifest, steps=("pool", "normalize"))
        write_tokenizer(mean, folder)
        write_layout(mean, folder, self.table.shape[1])
        with silenced_libraries():
            self.model.save_pretrained(folder)


class VectorModel(Protocol):
    """What gives unit vectors of ids: a student, or what it was."""

    def vectors(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """Give unit vectors, (n, dim)."""


def embed_ids(model: VectorModel, ids: Sequence[Sequence[int]], *, budget: int = 3072) -> Tensor:
    """Give unit vectors with gradients, like lengths computed together: (n, dim)."""
    order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
    parts, begin = [], 0
    for end in range(1, len(order) + 1):
        if end == len(order) or (end - begin + 1) * len(ids[order[end]]) > budget:
            parts.append(model.vectors([ids[i] for i in order[begin:end]]))
            begin = end
    back = torch.empty(len(order), dtype=torch.long)
    back[torch.tensor(order)] = torch.arange(len(order))
    return torch.cat(parts)[back]


def open_model(folder: Path) -> tuple[PreTrainedModel, Tokenizer]:
    """Open a model folder for training, without dropout."""
    # Eager attention: on CPU the fused kernel's backward pass is several times slower.
    with silenced_libraries():
        model: PreTrainedModel = AutoModel.from_pretrained(folder, attn_implementation="eager")
    set_dropout(model, 0.0)
    return model, open_spec(read_spec(folder))
