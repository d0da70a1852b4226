"""A model in training: texts → unit vectors with gradients, and an optimizer made for big tables.

Dense weights are kept in float32 and computed in the precision asked for; the embedding table is
updated only in the rows that a batch touched, with rates of their own for old and new rows.
"""

import json
import os
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer
from torch import Tensor
from transformers import AutoModel, PreTrainedModel

from ...errors import OptionError
from ...export.module import set_dropout
from ..batching import pad, pool
from .recipe import StageSchedule
from .vocabulary import Spec, open_spec, read_spec


class RowAdam:
    """Adam on the rows that were touched; the others do not even forget."""

    def __init__(self, table: Tensor) -> None:
        self.first = torch.zeros_like(table)
        self.second = torch.zeros(len(table), 1)  # one scale per row is enough, and half the memory
        self.count = torch.zeros(len(table))

    def move(self, table: Tensor, rows: Tensor, grad: Tensor, rate: Tensor) -> None:
        """Move the rows (n,) of the table down their gradients (n, dim), at a rate (n,) each."""
        self.count[rows] += 1
        count = self.count[rows, None]
        first = self.first[rows].lerp_(grad, 0.1)
        second = self.second[rows].lerp_(grad.square().mean(1, keepdim=True), 0.02)
        self.first[rows], self.second[rows] = first, second
        step = first / (1 - 0.9**count) / ((second / (1 - 0.98**count)).sqrt() + 1e-10)
        table[rows] -= rate[:, None] * step


PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class Student:
    """A transformer that learns sentence vectors: the mean of its last states, of unit length."""

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: Tokenizer,
        *,
        rates: StageSchedule,
        new_rows: Sequence[int] = (),
        precision: str = "float32",
        longest: int = 128,
        average: float = 0.0,
    ) -> None:
        """Take over the model's weights; `average` > 0 keeps a moving average of them."""
        if precision not in PRECISIONS:
            raise OptionError(
                f"precision is {precision!r}; known are {', '.join(PRECISIONS)}. Choose one."
            )
        self.tokenizer, self.rates, self.longest, self.average = tokenizer, rates, longest, average
        table = model.get_input_embeddings()
        assert isinstance(table, torch.nn.Embedding)
        self.table = table.weight.detach().float().clone()  # (size, dim)
        self.rows = RowAdam(self.table)
        self.is_new = torch.zeros(len(self.table), dtype=torch.bool)
        self.is_new[torch.as_tensor(list(new_rows), dtype=torch.long)] = True
        table.weight.requires_grad_(False)
        if getattr(model, "pooler", None) is not None:
            setattr(model, "pooler", None)  # noqa: B010 - a module may not be assigned None
        self.dtype = PRECISIONS[precision]
        owner = next(name for name, module in model.named_modules() if module is table)
        self.table_name = f"{owner}.weight"
        self.names, self.master = _master(model, table, rates.frozen_layers)
        self.model: torch.nn.Module = torch.nn.Module.to(model, self.dtype).train()
        self.live = [dict(model.named_parameters())[name] for name in self.names]
        self.optimizer = torch.optim.AdamW(
            _groups(self.names, self.master, rates.weight_decay),
            lr=rates.learning_rate,
            betas=(0.9, 0.98),
            fused=True,
        )
        self.mean = {n: p.detach().clone() for n, p in zip(self.names, self.master, strict=True)}
        self.mean_table = self.table.clone() if average else self.table
        self.leaves: list[tuple[Tensor, Tensor]] = []
        self.steps = 0

    def ids(self, texts: Sequence[str]) -> list[list[int]]:
        """Tokenize, cut to the longest input (the closing token kept)."""
        found = [e.ids for e in self.tokenizer.encode_batch(list(texts))]
        return [i if len(i) <= self.longest else [*i[: self.longest - 1], i[-1]] for i in found]

    def states(
        self, ids: Sequence[Sequence[int]], *, layers: bool = False
    ) -> tuple[Tensor, Tensor, tuple[Tensor, ...]]:
        """Run the transformer: last states (n, length, dim), mask (n, length), hidden layers."""
        batch, mask = pad(ids)
        unique, position = torch.unique(batch, return_inverse=True)
        leaf = self.table[unique].requires_grad_(torch.is_grad_enabled())  # (distinct, dim)
        if leaf.requires_grad:
            self.leaves.append((unique, leaf))
        # The looked-up rows enter as input vectors, so no gradient of the table's size exists.
        rows = torch.nn.functional.embedding(position, leaf.to(self.dtype))
        out = self.model(inputs_embeds=rows, attention_mask=mask, output_hidden_states=layers)
        return out.last_hidden_state, mask, tuple(out.hidden_states or ()) if layers else ()

    def vectors(self, ids: Sequence[Sequence[int]]) -> Tensor:
        """Give unit vectors with gradients: (n, dim), float32."""
        hidden, mask, _ = self.states(ids)
        return torch.nn.functional.normalize(pool(hidden, mask), dim=1)

    def step(self, loss: Tensor, progress: float) -> None:
        """Go one step down the loss; `progress` (0 to 1) sets the rates."""
        loss.backward()  # type: ignore[no-untyped-call]
        self.apply(progress)

    def apply(self, progress: float) -> None:
        """Use the gradients gathered so far."""
        factor = self.rates.rate_at(progress)
        scale = self._gather()
        for group in self.optimizer.param_groups:
            group["lr"] = self.rates.learning_rate * factor
        self.optimizer.step()
        self._move_rows(factor, scale)
        with torch.no_grad():
            for live, master in zip(self.live, self.master, strict=True):
                live.copy_(master)
                live.grad = None
        self.steps += 1
        if self.average and self.steps % 10 == 0:
            self._follow()

    def _gather(self) -> float:
        """Bring gradients to the float32 weights, cut to the allowed norm."""
        for live, master in zip(self.live, self.master, strict=True):
            master.grad = live.grad.float() if live.grad is not None else None
        grads = [p.grad for p in self.master if p.grad is not None]
        norm = float(torch.nn.utils.get_total_norm(grads)) if grads else 0.0
        scale = min(1.0, self.rates.clip / (norm + 1e-6))
        if scale < 1.0:
            torch._foreach_mul_(grads, scale)
        return scale

    def _move_rows(self, factor: float, scale: float) -> None:
        touched = [(rows, leaf.grad) for rows, leaf in self.leaves if leaf.grad is not None]
        self.leaves = []
        if not touched:
            return
        rows, position = torch.unique(torch.cat([r for r, _ in touched]), return_inverse=True)
        grad = torch.zeros(len(rows), self.table.shape[1])
        grad.index_add_(0, position, torch.cat([g for _, g in touched]))
        new = self.is_new[rows]
        rate = torch.where(new, self.rates.new_rows, self.rates.old_rows) * factor
        self.rows.move(self.table, rows, grad * scale, rate)

    def _follow(self) -> None:
        # A young average would still remember the start, so it forgets faster at first.
        keep = min(self.average**10, self.steps / (self.steps + 100))
        with torch.no_grad():
            for name, master in zip(self.names, self.master, strict=True):
                self.mean[name].lerp_(master, 1 - keep)
            self.mean_table.lerp_(self.table, 1 - keep)

    def weights(self, *, averaged: bool = False) -> dict[str, Tensor]:
        """Give the float32 weights by the model's own names."""
        table = self.mean_table if averaged and self.average else self.table
        dense = (
            self.mean
            if averaged and self.average
            else dict(zip(self.names, self.master, strict=True))
        )
        state = {
            name: value.float()
            for name, value in self.model.state_dict().items()
            if value.is_floating_point()
        }
        state.update({name: value.detach() for name, value in dense.items()})
        state[self.table_name] = table
        return {name: value.contiguous().clone() for name, value in state.items()}

    def save_checkpoint(self, path: Path) -> None:
        """Write weights, averages and the optimizer's state, whole or not at all."""
        state = {f"master.{n}": p.detach() for n, p in zip(self.names, self.master, strict=True)}
        state |= {f"mean.{n}": p for n, p in self.mean.items()}
        state |= {
            "table": self.table,
            "rows.first": self.rows.first,
            "rows.second": self.rows.second,
            "rows.count": self.rows.count,
        }
        state |= {"mean_table": self.mean_table.clone(), "steps": torch.tensor(self.steps)}
        for i, p in enumerate(self.master):
            for key, value in self.optimizer.state.get(p, {}).items():
                state[f"adam.{i}.{key}"] = value
        part = path.with_suffix(".part")
        try:
            save_file({k: v.contiguous() for k, v in state.items()}, part)
            with part.open("rb") as file:
                os.fsync(file.fileno())  # on the disk before it takes the name
            part.replace(path)
        finally:
            part.unlink(missing_ok=True)  # half of one would fill a disk that is full already

    def load_checkpoint(
        self, path: Path, *, optimizer: bool = True, averaged: bool = False
    ) -> None:
        """Continue from a checkpoint; without `optimizer`, only the weights (or their average)."""
        state = load_file(path)
        if averaged:
            state |= {
                n.replace("mean.", "master.", 1): v for n, v in state.items() if n[:5] == "mean."
            }
            state["table"] = state["mean_table"]
        with torch.no_grad():
            for name, master, live in zip(self.names, self.master, self.live, strict=True):
                master.copy_(state[f"master.{name}"])
                live.copy_(master)
            self.table.copy_(state["table"])
            if not optimizer:
                for name, master in zip(self.names, self.master, strict=True):
                    self.mean[name].copy_(master)
                self.mean_table.copy_(self.table)
                return
            for name in self.names:
                self.mean[name].copy_(state[f"mean.{name}"])
            self.mean_table.copy_(state["mean_table"])
            self.rows.first.copy_(state["rows.first"])
            self.rows.second.copy_(state["rows.second"])
            self.rows.count.copy_(state["rows.count"])
        self.steps = int(state["steps"])
        for i, p in enumerate(self.master):
            found = {k.split(".", 2)[2]: v for k, v in state.items() if k.startswith(f"adam.{i}.")}
            if found:
                self.optimizer.state[p] = found


def _master(
    model: PreTrainedModel, table: torch.nn.Embedding, frozen: int
) -> tuple[list[str], list[torch.nn.Parameter]]:
    """Copy the trainable dense weights in float32; layers below `frozen` are not trained."""
    names, master = [], []
    for name, parameter in model.named_parameters():
        layer = next((int(p) for p in name.split(".") if p.isdigit()), -1)
        if parameter is table.weight or (frozen and layer < frozen):
            parameter.requires_grad_(False)
            continue
        names.append(name)
        master.append(torch.nn.Parameter(parameter.detach().float().clone()))
    return names, master


def _groups(
    names: list[str], master: list[torch.nn.Parameter], decay: float
) -> list[dict[str, object]]:
    flat = [p for n, p in zip(names, master, strict=True) if p.dim() < 2 or "embedding" in n]
    deep = [p for n, p in zip(names, master, strict=True) if not (p.dim() < 2 or "embedding" in n)]
    return [{"params": p, "weight_decay": d} for p, d in ((deep, decay), (flat, 0.0)) if p]


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


def save_folder(student: Student, base: Path, spec: Spec, folder: Path) -> None:
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
    limit = {"max_seq_length": student.longest, "do_lower_case": False}
    (folder / "sentence_bert_config.json").write_text(json.dumps(limit) + "\n")
    (folder / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text(json.dumps(_tokenizer_config(base)) + "\n")
    weights = student.weights()
    # Parts that were not trained (the pooler) go along, so that the folder opens without remarks.
    path = base / "model.safetensors"
    kept = load_file(path) if path.exists() else {}
    save_file({**kept, **weights}, folder / "model.safetensors", {"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)


def _tokenizer_config(base: Path) -> dict[str, object]:
    """Keep the base's special tokens, and a class that reads tokenizer.json as it is."""
    path = base / "tokenizer_config.json"
    old = json.loads(path.read_text()) if path.exists() else {}
    kept = {k: v for k, v in old.items() if k.endswith("_token") or k == "model_max_length"}
    # BertTokenizer would build its own normaliser, and decompose Hangul again.
    return {**kept, "tokenizer_class": "PreTrainedTokenizerFast"}
