"""Pretraining: masked words are found, and whether one segment follows another.

Ids on disk → sequences (packed blocks or pairs of segments) → what is masked → the loss.
"""

import functools
import json
import logging
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from torch import Tensor, nn
from torch.nn import functional
from transformers import AutoModelForMaskedLM, BertConfig, BertModel, PreTrainedTokenizerFast

from ...errors import BundleError, DataError, OptionError, counted
from ...export.module import (
    WITH_TYPES,
    check_whole,
    from_pretrained,
    set_dropout,
    use_fused_attention,
)
from ...export.silence import silenced_libraries
from ...export.source import ModelSource, read_transformer
from ...export.tokenizer import write_tokenizer
from ...heads.tagger import SpecialTokens
from ...io.files import writing, writing_folder
from ...io.progress import silenced
from ...runtime.tokenizer import read_tokenizer
from ...text.cleanup import SAFE, clean
from ...types import Ints
from ..batching import Step
from ..distributed import Processes
from ..objective import REPORT, FinishedRun
from ..run_dir import provenance
from ..vocabulary import PLAIN_TOKENIZER, extend_base
from .masked_lm import (
    PARTS,
    Packed,
    PreparedText,
    Pretraining,
    Scratch,
    TextDocument,
    documents_of,
    pack,
)
from .task import freeze

logger = logging.getLogger(__name__)

NOTHING = -100  # what torch's cross-entropy passes over


@dataclass(frozen=True)
class SegmentPairs:
    """Two stretches of ids each, (n, 4) from and to, and whether the second follows, (n,)."""

    spans: Ints
    follows: NDArray[np.bool_]


def blocks(packed: Packed, size: int, *, seed: int, epoch: int) -> SegmentPairs:
    """Cut all ids into blocks of `size`, full but the last; each epoch starts elsewhere.

    A block may hold the end of one document and the beginning of another.
    """
    count = len(packed.ids)
    shift = int(np.random.default_rng([seed, epoch]).integers(size)) if epoch else 0
    edges = np.unique(np.array([0, *range(shift, count, size), count], dtype=np.int64))
    spans = np.stack([edges[:-1], edges[1:], edges[1:], edges[1:]], axis=1)
    spans = spans[spans[:, 1] - spans[:, 0] > 1]
    return SegmentPairs(spans, np.zeros(len(spans), dtype=bool))


def segment_pairs(packed: Packed, size: int, *, seed: int, epoch: int) -> SegmentPairs:
    """Fill sequences with whole sentences of a document, as BERT does.

    Each is cut between two sentences. Half of the time the second segment is what follows; else
    it comes from another document, and what would have followed starts the next sequence.
    """
    rng = np.random.default_rng([seed, epoch, 7])
    spans: list[list[int]] = []
    follows: list[bool] = []
    following = 0
    documents = len(packed.documents) - 1
    for document in range(documents):
        first, last = int(packed.documents[document]), int(packed.documents[document + 1])
        while first < last:
            # Two sentences at least, however long: they are cut to fit.
            end = max(_fill(packed, first, last, size), min(first + 2, last))
            alone = end - first < 2
            middle = first + 1 if alone else first + int(rng.integers(1, end - first))
            # The last sentence of a document has nothing after it; others make up for it.
            behind = 2 * following < len(follows)
            real = not alone and (documents < 2 or behind or rng.random() < 0.5)
            if real:
                other, stop = middle, end
            elif documents > 1:
                other, stop = _elsewhere(packed, document, size, rng)
            else:
                first = end
                continue
            spans.append(_ids(packed, first, middle, other, stop, size))
            follows.append(real)
            following += real
            first = end if real else middle
    return SegmentPairs(
        np.array(spans, dtype=np.int64).reshape(-1, 4), np.array(follows, dtype=bool)
    )


def _fill(packed: Packed, first: int, last: int, size: int) -> int:
    """The sentence after the last that fits into `size` ids, from `first` on; one at least."""
    limit = int(packed.sentences[first]) + size
    inside = packed.sentences[first + 1 : min(last, first + size) + 1]
    return first + max(1, int(np.searchsorted(inside, limit, side="right")))


def _elsewhere(
    packed: Packed, document: int, size: int, rng: np.random.Generator
) -> tuple[int, int]:
    other = int(rng.integers(len(packed.documents) - 2))
    other += other >= document
    first, last = int(packed.documents[other]), int(packed.documents[other + 1])
    start = first + int(rng.integers(last - first))
    return start, _fill(packed, start, last, max(size // 2, 1))


def _ids(packed: Packed, first: int, middle: int, other: int, stop: int, size: int) -> list[int]:
    """Turn sentences into positions of ids, the longer segment cut at its end until both fit."""
    a0, a1 = int(packed.sentences[first]), int(packed.sentences[middle])
    b0, b1 = int(packed.sentences[other]), int(packed.sentences[stop])
    over = (a1 - a0) + (b1 - b0) - size
    if over > 0:
        a_room = max(size // 2, size - (b1 - b0))
        a1 = min(a1, a0 + a_room)
        b1 = min(b1, b0 + size - (a1 - a0))
    return [a0, a1, b0, b1]


@dataclass(frozen=True)
class Masked:
    """Ids with some hidden, and what stood there: both (n, length); NOTHING where all is shown."""

    ids: Ints
    targets: Ints


def mask(
    ids: Ints,
    begins: NDArray[np.bool_],
    real: NDArray[np.bool_],
    *,
    share: float,
    mask_id: int,
    vocabulary: int,
    rng: np.random.Generator,
) -> Masked:
    """Hide whole words until `share` of the real pieces is hidden.

    Of the hidden pieces eight in ten become the mask, one in ten any piece, one in ten itself.
    """
    chosen = np.zeros(ids.shape, dtype=bool)
    for row in range(len(ids)):
        positions = np.flatnonzero(real[row])
        if not len(positions):
            continue
        word = np.cumsum(begins[row, positions])  # which word a piece belongs to
        word -= word[0]
        order = rng.permutation(int(word[-1]) + 1)
        sizes = np.bincount(word, minlength=len(order))[order]
        wanted = max(1, round(share * len(positions)))
        count = int(np.searchsorted(np.cumsum(sizes), wanted)) + 1
        chosen[row, positions] = np.isin(word, order[:count])
    targets = np.where(chosen, ids, NOTHING)
    dice = rng.random(ids.shape)
    hidden = np.where(chosen & (dice < 0.8), mask_id, ids)
    swapped = chosen & (dice >= 0.8) & (dice < 0.9)
    hidden = np.where(swapped, rng.integers(0, vocabulary, ids.shape), hidden)
    return Masked(hidden, targets)


_WHOLE, _HEAD = 0, 1  # what a step teaches, instead of the number of a data set


@dataclass(frozen=True)
class MaskedBatch:
    """Sequences ready for the model: (n, length) each, and whether the second segment follows."""

    ids: Ints
    mask: NDArray[np.bool_]
    types: Ints
    begins: NDArray[np.bool_]
    real: NDArray[np.bool_]  # neither special nor padding
    follows: NDArray[np.bool_]


@dataclass(frozen=True)
class MaskedScores:
    """How well hidden words are found: the mean loss of one, and the share of right segments."""

    loss: float
    following: float

    @property
    def perplexity(self) -> float:
        """Among how many equally likely pieces the model hesitates."""
        return math.exp(self.loss)


class MaskedLMTask:
    """Trains an encoder with a head for masked words, and one for the next sentence."""

    def __init__(
        self,
        recipe: Pretraining,
        source: ModelSource,
        parts: dict[str, Packed],
        *,
        processes: Processes | None = None,
    ) -> None:
        self.recipe, self.source, self.parts = recipe, source, parts
        self.processes = processes or Processes()
        self.tokenizer = read_tokenizer(source.root / "tokenizer.json")
        self.frame = SpecialTokens.of(self.tokenizer)
        self.mask_id, self.pad_id = _special(self.tokenizer, source)
        torch.manual_seed(recipe.seed)  # the heads are drawn at random
        self.lm: Any = from_pretrained(source, AutoModelForMaskedLM)
        use_fused_attention(self.lm)
        set_dropout(self.lm, recipe.dropout)
        freeze(self.lm.base_model, recipe.schedule.freeze)
        self.head = _head(self.lm, source)
        hidden = int(self.lm.config.hidden_size)
        following = nn.Linear(hidden, 2)
        self.module: nn.Module = nn.ModuleDict({"lm": self.lm, "following": following})
        self.following = following
        self.module.to(self.processes.device)
        self.before: MaskedScores | None = None
        self.plan = functools.lru_cache(maxsize=2)(self._plan)
        self._pairs = functools.lru_cache(maxsize=2)(self._laid)
        if recipe.masking.next_sentence and not self._pairs("train", 0).follows.any():
            raise DataError(
                "masking.next_sentence is true and no document has two sentences; expected "
                "documents of several, separated by empty lines. Set it to false, or change data."
            )

    @property
    def _room(self) -> int:
        """How many pieces fit next to the special tokens."""
        extra = len(self.frame.after) if self.recipe.masking.next_sentence else 0
        return self.recipe.max_tokens - self.frame.count - extra

    def _laid(self, part: str, epoch: int) -> SegmentPairs:
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

    def batch(self, part: str, rows: Ints) -> MaskedBatch:
        """Lay sequences side by side with their special tokens."""
        packed, pairs = self.parts[part], self._pairs(part, int(rows[0]) >> 40)
        chosen = rows & ((1 << 40) - 1)
        spans, frame = pairs.spans[chosen], self.frame
        sizes = np.diff(spans, axis=1)[:, ::2]  # (n, 2)
        extra = frame.count + len(frame.after) * (sizes[:, 1] > 0)
        shape = (len(spans), int((sizes.sum(1) + extra).max()))
        ids, types = np.full(shape, self.pad_id, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        shown, begins, real = (np.full(shape, of, dtype=bool) for of in (False, True, False))
        for i, (a0, a1, b0, b1) in enumerate(spans.tolist()):
            end = 0
            for segment, first, last in ((0, a0, a1), (1, b0, b1)):
                if segment and first == last:
                    continue
                before = () if segment else frame.before
                row = [*before, *packed.ids[first:last].tolist(), *frame.after]
                text = slice(end + len(before), end + len(before) + last - first)
                ids[i, end : end + len(row)], types[i, end : end + len(row)] = row, segment
                begins[i, text], real[i, text] = packed.begins[first:last], True
                begins[i, text.start] = True  # a sequence may begin inside a word
                end += len(row)
            shown[i, :end] = True
        return MaskedBatch(ids, shown, types, begins, real, pairs.follows[chosen])

    def loss(self, step: Step) -> Tensor:
        """Give the loss of the step's hidden words, and of its segments where asked for."""
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
        self, batch: MaskedBatch, rng: np.random.Generator, *, whole: bool = True
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

    def measure(self) -> MaskedScores:
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
        return MaskedScores(
            float(np.average(losses, weights=weights)), float(np.average(right, weights=weights))
        )

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
        with silenced_libraries():
            self.lm.save_pretrained(folder)


def _head(model: Any, source: ModelSource) -> nn.Module:
    others = [part for name, part in model.named_children() if name != model.base_model_prefix]
    if len(others) != 1:
        raise OptionError(
            f"{source.root} is {source.manifest.architecture}, whose head for masked words has "
            f"{len(others)} parts; expected one, as BERT, RoBERTa, XLM-R and ALBERT have. "
            "Choose another base."
        )
    head: nn.Module = others[0]
    return head


def _special(tokenizer: Any, source: ModelSource) -> tuple[int, int]:
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


def make_task(recipe: Pretraining, prepared: PreparedText, processes: Processes) -> MaskedLMTask:
    """Pack the text on disk, load or make the encoder, and measure it before the first step."""
    if prepared.source is not None:
        check_whole(prepared.source)  # before the text is packed, which may take hours
    folder, steps = Path(recipe.output.folder), recipe.clean
    if steps is None:
        steps = prepared.source.manifest.clean if prepared.source else SAFE
    if processes.first:
        with silenced():
            make_start(recipe, prepared.source, documents_of(recipe, prepared), steps)
        _pack(recipe, prepared, folder, steps)
    processes.wait()
    source = make_start(recipe, prepared.source, iter(()), steps)
    packed = {part: Packed.open(folder / "packed" / part) for part in PARTS}
    task = MaskedLMTask(recipe, source, packed, processes=processes)
    task.module.eval()
    task.before = task.measure()
    logger.info(f"held-out perplexity before: {task.before.perplexity:,.1f}")
    return task


def _pack(
    recipe: Pretraining, prepared: PreparedText, folder: Path, steps: tuple[str, ...]
) -> None:
    """Write the ids once; a run that is resumed finds them."""
    packed = folder / "packed"
    if (packed / "counts.json").is_file():
        return
    shutil.rmtree(packed, ignore_errors=True)
    start = folder / "start"
    root = start if start.is_dir() else prepared.source.root if prepared.source else start
    tokenizer = read_tokenizer(root / "tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with writing_folder(packed) as partial:
        counts = pack(
            documents_of(recipe, prepared),
            partial,
            tokenizer,
            steps,
            words=recipe.masking.words,
            held_out=recipe.data.held_out,
            seed=recipe.seed,
        )
    logger.info(", ".join(f"{part}: {count:,} tokens" for part, count in counts.items()))


def write_report(run: FinishedRun[Pretraining, PreparedText]) -> dict[str, float]:
    """Write the report, and give its perplexities before and after."""
    task, state = run.task, run.state
    after = math.exp(-state.best_scores["held-out:log-likelihood"])
    scores = {"perplexity:before": task.before.perplexity, "perplexity:after": after}
    report = {
        "task": "pretrain",
        "scores": scores | state.best_scores,
        **provenance(run.recipe, run.prepared.learnt, state),
    }
    with writing(run.paths.folder / REPORT) as file:
        file.write(json.dumps(report, ensure_ascii=False, indent=2).encode() + b"\n")
    logger.info(", ".join(f"{name} {value:,.1f}" for name, value in scores.items()))
    logger.info(f"wrote {run.paths.best}; name it as the base of another recipe")
    return scores


_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def learn_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """Learn a WordPiece tokenizer: small letters, Hangul kept in syllables."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    # BERT's normaliser takes Hangul apart; NFC puts it together again.
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.BertNormalizer(lowercase=True), normalizers.NFC()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(_SPECIALS), show_progress=False, min_frequency=2
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    return tokenizer


def from_scratch(
    folder: Path, texts: Iterable[str], scratch: Scratch, *, longest: int, seed: int
) -> None:
    """Write a random BERT and the tokenizer learnt from the texts."""
    tokenizer = learn_tokenizer(texts, scratch.vocabulary)
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        model_max_length=longest,
        **{key: value for key, value in PLAIN_TOKENIZER.items() if key != "tokenizer_class"},
    )
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=scratch.hidden,
        num_hidden_layers=scratch.layers,
        num_attention_heads=scratch.heads,
        intermediate_size=4 * scratch.hidden,
        max_position_embeddings=max(longest, 64),
        pad_token_id=tokenizer.token_to_id("[PAD]"),
    )
    torch.manual_seed(seed)
    with silenced_libraries():
        model: Any = BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]
        model.save_pretrained(folder)
        wrapped.save_pretrained(folder)


def make_start(
    recipe: Pretraining,
    source: ModelSource | None,
    documents: Iterator[TextDocument],
    steps: Sequence[str],
) -> ModelSource:
    """Give what training starts from: the base itself, or a folder "start" in the run.

    A folder that is there already is taken as it is: a resumed run starts from the same.
    """
    if source is not None and not recipe.extend:
        return source
    start = Path(recipe.output.folder) / "start"
    if not start.is_dir():
        with writing_folder(start) as partial:
            texts = (clean(text, steps) for one in documents for text in one.sentences)
            if source is None:
                longest = recipe.max_tokens
                from_scratch(partial, texts, recipe.scratch, longest=longest, seed=recipe.seed)
            else:
                count = extend_base(source, partial, texts, recipe.extend, seed=recipe.seed)
                logger.info(f"the tokenizer has learnt {counted(count, 'new piece')}")
    return read_transformer(start, max_tokens=recipe.max_tokens)
