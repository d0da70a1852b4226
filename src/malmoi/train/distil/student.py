"""The model that a distillation trains: texts → unit vectors with gradients, and its folder.

Layers are computed in the precision asked for (autocast), weights and losses stay float32. The
embedding table has sparse gradients, so a step costs nothing for the rows that it did not read.
"""

import json
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModel, PreTrainedModel

from ...errors import OptionError
from ...export.module import set_dropout
from ...export.tokenizer import Spec, open_spec, read_spec
from ..batching import pad, pool
from ..optimizer import TableAdamW
from .recipe import StageSchedule

PRECISIONS = ("float32", "bfloat16")
HEAD = "projection"  # a layer that a stage may put on top of the model, and throws away


class Student:
    """A transformer that learns sentence vectors: the mean of its last states, of unit length."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        *,
        new_rows: Sequence[int] = (),
        precision: str = "float32",
        longest: int = 128,
        frozen_layers: int = 0,
    ) -> None:
        """Take over the model; `new_rows` of its table learn at a rate of their own."""
        if precision not in PRECISIONS:
            raise OptionError(
                f"precision is {precision!r}; known are {', '.join(PRECISIONS)}. Choose one."
            )
        self.tokenizer, self.longest = tokenizer, longest
        self.bf16 = precision == "bfloat16"
        if getattr(model, "pooler", None) is not None:
            setattr(model, "pooler", None)  # noqa: B010 - a module may not be assigned None
        embeddings = model.get_input_embeddings()
        assert isinstance(embeddings, torch.nn.Embedding)
        embeddings.sparse = True
        self.embeddings = embeddings
        self.model: torch.nn.Module = model
        for name, parameter in model.named_parameters():
            layer = next((int(p) for p in name.split(".") if p.isdigit()), -1)
            table = parameter is embeddings.weight
            parameter.requires_grad_(table or not frozen_layers or layer >= frozen_layers)
        self.is_new = torch.zeros(len(self.table), dtype=torch.bool)
        self.is_new[torch.as_tensor(list(new_rows), dtype=torch.long)] = True

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

    def optimizer(self, stage: StageSchedule, heads: Sequence[Tensor] = ()) -> TableAdamW:
        """Make the optimizer of a stage, with the rates of old and new rows; `heads` learn too."""
        deep: list[Tensor] = list(heads)
        flat: list[Tensor] = []
        for name, parameter in self.model.named_parameters():
            own = parameter is not self.embeddings.weight and not name.startswith(HEAD)
            if parameter.requires_grad and own:
                (flat if parameter.ndim < 2 or "embedding" in name else deep).append(parameter)
        groups = [
            {"params": found, "weight_decay": decay, "scale": 1.0}
            for found, decay in ((deep, stage.weight_decay), (flat, 0.0))
            if found
        ]
        rates = torch.where(self.is_new, stage.new_rows, stage.old_rows)
        table = self.embeddings.weight
        assert isinstance(table, torch.nn.Parameter)
        return TableAdamW(
            groups,
            table=table,
            row_scales=rates / stage.learning_rate,
            learning_rate=stage.learning_rate,
            average=stage.average,
        )

    def weights(self) -> dict[str, Tensor]:
        """Copy the weights by the model's own names."""
        return {
            name: value.float().contiguous().clone()
            for name, value in self.model.state_dict().items()
            if value.is_floating_point() and not name.startswith(HEAD)
        }

    def load(self, weights: Mapping[str, Tensor]) -> None:
        """Take other weights, of the same names."""
        self.model.load_state_dict(dict(weights), strict=False)


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


def open_student(
    folder: Path, *, table: NDArray[np.float32] | None = None, spec: Spec | None = None
) -> tuple[PreTrainedModel, Tokenizer]:
    """Open a model folder for training, without dropout; `table` and `spec` replace its own."""
    # Eager attention: on CPU the fused kernel's backward pass is several times slower.
    model: PreTrainedModel = AutoModel.from_pretrained(folder, attn_implementation="eager")
    set_dropout(model, 0.0)
    if table is not None:
        rows = torch.from_numpy(table.copy())
        model.set_input_embeddings(torch.nn.Embedding(rows.shape[0], rows.shape[1], _weight=rows))
        model.config.vocab_size = len(table)
    return model, open_spec(spec if spec is not None else read_spec(folder))


def save_folder(student: Student, base: Path, spec: Spec, folder: Path, *, longest: int) -> None:
    """Write a sentence-transformers folder: the base's layout with new weights and tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("modules.json", "config_sentence_transformers.json"):
        if (base / name).exists():
            shutil.copy(base / name, folder / name)
    if (base / "1_Pooling").is_dir():
        shutil.copytree(base / "1_Pooling", folder / "1_Pooling", dirs_exist_ok=True)
    (folder / "2_Normalize").mkdir(exist_ok=True)
    config = json.loads((base / "config.json").read_text())
    config["vocab_size"] = len(student.table)
    config.pop("_name_or_path", None)
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n")
    limit = {"max_seq_length": longest, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(limit) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(_tokenizer_config(base)) + "\n")
    # Parts that were not trained (the pooler) go along, so that the folder opens without remarks.
    path = base / "model.safetensors"
    kept = load_file(path) if path.exists() else {}
    save_file({**kept, **student.weights()}, folder / "model.safetensors", {"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)


def _tokenizer_config(base: Path) -> dict[str, object]:
    """Keep the base's special tokens, and a class that reads tokenizer.json as it is."""
    path = base / "tokenizer_config.json"
    old = json.loads(path.read_text()) if path.exists() else {}
    kept = {k: v for k, v in old.items() if k.endswith("_token") or k == "model_max_length"}
    # BertTokenizer would build its own normaliser, and decompose Hangul again.
    return {**kept, "tokenizer_class": "PreTrainedTokenizerFast"}
