"""The task of pretraining: find hidden words, and tell whether one segment follows another."""

import dataclasses
import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForMaskedLM

from ...errors import BundleError, OptionError
from ...files import writing
from ...tagger.tagger import Frame
from ...tokens import read_tokenizer
from ..attention import use_fused_attention
from ..batching import Step
from ..module import WITH_TYPES, set_dropout
from ..processes import Processes
from ..quiet import quiet
from ..siamese import freeze
from ..source import Source
from ..tokenizer import write_tokenizer
from .corpus import Ints, Packed
from .sequences import NOTHING, Pairs, blocks, mask, segment_pairs
from .settings import Pretraining

_WHOLE, _HEAD = 0, 1  # what a step teaches, in place of the number of a data set
_HEAD_ALONE = "head.json"


@dataclass(frozen=True)
class Batch:
    """Sequences ready for the model: (n, length) each, and whether the second segment follows."""

    ids: Ints
    mask: NDArray[np.bool_]
    types: Ints
    begins: NDArray[np.bool_]
    real: NDArray[np.bool_]  # neither special nor padding
    follows: NDArray[np.bool_]


@dataclass(frozen=True)
class Measured:
    """How well hidden words are found: the mean loss of one, and the share of right segments."""

    loss: float
    following: float

    @property
    def perplexity(self) -> float:
        """Among how many equally likely pieces the model hesitates."""
        return math.exp(self.loss)


class Pretrained:
    """Trains an encoder with a head for masked words, and one for the next sentence."""

    def __init__(
        self,
        recipe: Pretraining,
        source: Source,
        parts: dict[str, Packed],
        *,
        processes: Processes | None = None,
    ) -> None:
        self.recipe, self.source, self.parts = recipe, source, parts
        self.processes = processes or Processes()
        self.tokenizer = read_tokenizer(source.root / "tokenizer.json")
        self.frame = Frame.of(self.tokenizer)
        self.mask_id, self.pad_id = _special(self.tokenizer, source)
        torch.manual_seed(recipe.seed)  # the heads are drawn at random
        self.lm = load_masked_lm(source, dropout=recipe.dropout)
        freeze(self.lm.base_model, recipe.schedule.freeze)
        self.head = _head(self.lm, source)
        hidden = int(self.lm.config.hidden_size)
        following = nn.Linear(hidden, 2)
        self.module: nn.Module = nn.ModuleDict({"lm": self.lm, "following": following})
        self.following = following
        self.module.to(self.processes.device)
        self.before_whole: Measured | None = None
        self.plan = functools.lru_cache(maxsize=2)(self._plan)
        self._pairs = functools.lru_cache(maxsize=2)(self._laid)

    @property
    def _room(self) -> int:
        """How many pieces fit beside the special tokens."""
        extra = len(self.frame.after) if self.recipe.masking.next_sentence else 0
        return self.recipe.max_tokens - self.frame.count - extra

    def _laid(self, part: str, epoch: int) -> Pairs:
        make = segment_pairs if self.recipe.masking.next_sentence else blocks
        return make(self.parts[part], self._room, seed=self.recipe.seed, epoch=epoch)

    def _plan(self, epoch: int) -> list[Step]:
        size = self.recipe.schedule.batch_size * self.processes.world
        count = len(self._pairs("train", epoch).spans)
        rows = np.random.default_rng([self.recipe.seed, epoch, 3]).permutation(count)
        # Encoded in the row, so that a step finds its sequences without knowing its epoch.
        steps = [rows[i : i + size] + (epoch << 40) for i in range(0, count, size)]
        before = epoch * len(steps)
        return [
            Step(_HEAD if before + i < self.recipe.head_steps else _WHOLE, chosen)
            for i, chosen in enumerate(steps)
            if len(chosen) >= self.processes.world
        ]

    def batch(self, part: str, rows: Ints) -> Batch:
        """Lay sequences side by side with their special tokens."""
        packed = self.parts[part]
        epoch = int(rows[0]) >> 40
        pairs = self._pairs(part, epoch)
        chosen = rows & ((1 << 40) - 1)
        laid = [self._sequence(packed, pairs.spans[row]) for row in chosen]
        shape = (len(laid), max(len(ids) for ids, *_ in laid))
        arrays = [np.full(shape, self.pad_id), np.zeros(shape), np.ones(shape), np.zeros(shape)]
        shown = np.zeros(shape, dtype=bool)
        for i, parts in enumerate(laid):
            for array, values in zip(arrays, parts, strict=True):
                array[i, : len(values)] = values
            shown[i, : len(parts[0])] = True
        ids, types = arrays[0].astype(np.int64), arrays[1].astype(np.int64)
        begins, real = arrays[2].astype(bool), arrays[3].astype(bool)
        return Batch(ids, shown, types, begins, real, pairs.follows[chosen])

    def _sequence(
        self, packed: Packed, span: Ints
    ) -> tuple[list[int], list[int], list[int], list[int]]:
        """Give ids, segments, beginnings of words and what is text, of one sequence."""
        a0, a1, b0, b1 = (int(place) for place in span)
        before, after = self.frame.before, self.frame.after
        first, second = packed.ids[a0:a1].tolist(), packed.ids[b0:b1].tolist()
        ids = [*before, *first, *after, *([*second, *after] if second else [])]
        inner = len(before) + len(first) + len(after)
        begins = [1] * len(ids)
        begins[len(before) : len(before) + len(first)] = packed.begins[a0:a1].tolist()
        begins[inner : inner + len(second)] = packed.begins[b0:b1].tolist()
        for start in (len(before), inner):
            if start < len(begins):
                begins[start] = 1  # a sequence may begin inside a word
        real = [0] * len(ids)
        real[len(before) : len(before) + len(first)] = [1] * len(first)
        real[inner : inner + len(second)] = [1] * len(second)
        types = [0] * inner + [1] * (len(ids) - inner)
        return ids, types, begins, real

    def loss(self, step: Step) -> Tensor:
        """Give the loss of the step's hidden words, and of its segments where asked for."""
        if step.data == _WHOLE and self.recipe.head_steps and self.before_whole is None:
            self.before_whole = self._after_head()
        rows = step.rows[self.processes.rank :: self.processes.world]
        # The loop seeds this generator for every step: masks are new each time, and repeatable.
        rng = np.random.default_rng(np.random.randint(2**31))
        words, following, _ = self._losses(
            self.batch("train", rows), rng, whole=step.data == _WHOLE
        )
        total = words + following if self.recipe.masking.next_sentence else words
        gathered = self.processes.gather(total.reshape(1, 1), [1] * self.processes.world)
        return gathered.mean()

    def _losses(
        self, batch: Batch, rng: np.random.Generator, *, whole: bool = True
    ) -> tuple[Tensor, Tensor, Tensor]:
        masked = mask(
            batch.ids,
            batch.begins,
            batch.real,
            share=self.recipe.masking.share,
            mask_id=self.mask_id,
            vocabulary=int(self.lm.config.vocab_size),
            rng=rng,
        )
        device = self.processes.device
        inputs = {
            "input_ids": torch.from_numpy(masked.ids).to(device),
            "attention_mask": torch.from_numpy(batch.mask.astype(np.int64)).to(device),
        }
        if self.source.manifest.architecture in WITH_TYPES:
            inputs["token_type_ids"] = torch.from_numpy(batch.types).to(device)
        with torch.set_grad_enabled(whole and torch.is_grad_enabled()):
            states = self.lm.base_model(**inputs, return_dict=True).last_hidden_state
        targets = torch.from_numpy(masked.targets).to(device)
        hidden = targets != NOTHING
        logits = self.head(states[hidden])  # only of hidden pieces: the vocabulary is wide
        scores = self.following(states[:, 0]).float()
        follows = torch.from_numpy(batch.follows.astype(np.int64)).to(device)
        with torch.autocast(states.device.type, enabled=False):
            words = functional.cross_entropy(logits.float(), targets[hidden])
            following = functional.cross_entropy(scores, follows)
        return words, following, (scores.argmax(dim=1) == follows).float().mean()

    def measure(self) -> Measured:
        """Measure held-out text, with the same words hidden every time."""
        count = len(self._pairs("held-out", 0).spans)
        rows = np.random.default_rng(self.recipe.seed).permutation(count)[: self.recipe.measured]
        rng = np.random.default_rng([self.recipe.seed, 11])
        size = self.recipe.schedule.batch_size
        losses, right, weights = [], [], []
        with torch.no_grad():
            for i in range(0, len(rows), size):
                words, _, share = self._losses(self.batch("held-out", rows[i : i + size]), rng)
                losses.append(float(words))
                right.append(float(share))
                weights.append(len(rows[i : i + size]))
        return Measured(
            float(np.average(losses, weights=weights)), float(np.average(right, weights=weights))
        )

    def _after_head(self) -> Measured:
        """Measure what the head alone has learnt; kept on disk for a run that goes on later."""
        kept = Path(self.recipe.output.folder) / _HEAD_ALONE
        if kept.is_file():
            return Measured(**json.loads(kept.read_text("utf-8")))
        self.module.eval()
        found = self.measure()
        self.module.train()
        self.processes.wait()  # nobody writes while another one looks
        if self.processes.first:
            with writing(kept) as file:
                file.write(json.dumps(dataclasses.asdict(found)).encode() + b"\n")
        return found

    def evaluate(self) -> dict[str, float]:
        """Give scores that grow: the mean log-likelihood of hidden words, right segments."""
        found = self.measure()
        scores = {"held-out:log-likelihood": -found.loss}
        if self.recipe.masking.next_sentence:
            scores["held-out:next-sentence"] = found.following
        return scores

    def save(self, folder: Path) -> None:
        """Write the encoder with its head for words; every recipe can start from the folder."""
        write_tokenizer(self.source, folder)
        with quiet():
            self.lm.save_pretrained(folder)


def load_masked_lm(source: Source, *, dropout: float) -> Any:
    """Load an encoder with its head for masked words, a fresh one where it has none."""
    try:
        with quiet():
            model: Any = AutoModelForMaskedLM.from_pretrained(
                source.root,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
            )
    except Exception as error:  # OSError, safetensors' own, or a RuntimeError for other shapes
        raise BundleError(
            f"the weights in {source.root} cannot be read ({type(error).__name__}); expected "
            "safetensors that fit config.json. Copy the whole folder again."
        ) from error
    use_fused_attention(model)
    set_dropout(model, dropout)
    return model


def _head(model: Any, source: Source) -> nn.Module:
    others = [part for name, part in model.named_children() if name != model.base_model_prefix]
    if len(others) != 1:
        raise OptionError(
            f"{source.root} is {source.manifest.architecture}, whose head for masked words has "
            f"{len(others)} parts; expected one, as BERT, RoBERTa, XLM-R and ALBERT have. "
            "Choose another base."
        )
    head: nn.Module = others[0]
    return head


def _special(tokenizer: Any, source: Source) -> tuple[int, int]:
    found = []
    for names in (("[MASK]", "<mask>"), ("[PAD]", "<pad>")):
        ids: Sequence[int | None] = [tokenizer.token_to_id(name) for name in names]
        known = [number for number in ids if number is not None]
        if not known:
            raise BundleError(
                f"the tokenizer of {source.root} has no {names[0]}; expected one to hide words "
                "with. Choose another base."
            )
        found.append(known[0])
    return found[0], found[1]
