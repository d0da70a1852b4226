"""Encoders and rerankers in training: the task of a bi-encoder, and how bundles are written.

A bi-encoder has one encoder for every column, and a loss over the columns' vectors.
"""

import contextlib
import copy
import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.utils.checkpoint
from numpy.typing import NDArray
from torch import Tensor, nn

from ... import load
from ...bundle.manifest import Manifest
from ...bundle.sentence_transformers import DenseSpec
from ...encoders import TextEncoder
from ...errors import OptionError, by_number, counted
from ...export.build import write_layout
from ...export.export import export
from ...export.heads import export_reranker
from ...export.module import SentenceModule, load_transformer, set_dropout, use_fused_attention
from ...export.silence import silenced_libraries
from ...export.source import ModelSource
from ...export.tokenizer import write_tokenizer
from ...io.files import writing
from ...runtime.pooling import normalize
from ...runtime.tokenizer import TextTokenizer, plan
from ...text.cleanup import clean
from ...types import Ints
from ..batching import Step, in_order
from ..checkpoint import write_tensors
from ..data import Measure
from ..distributed import Processes
from ..losses import build_loss
from ..objective import FinishedRun, WrittenBundle
from ..run_dir import bundle_options, provenance, rounded, score_table, write_card
from ..vocabulary import with_terms
from .cross_encoder import CrossEncoderTask
from .pairs import Data, PreparedPairs, Recipe, find_pairs, named_files
from .task import PairTask, freeze

logger = logging.getLogger(__name__)


_BLOCK = 16384


@dataclasses.dataclass(frozen=True)
class Ids:
    """The ids of many texts in one array: those of text i are values[starts[i] : starts[i + 1]]."""

    values: NDArray[np.int32]
    starts: Ints
    cut: int = 0  # how many texts were longer than the model reads

    @classmethod
    def of(cls, tokens: TextTokenizer, texts: Sequence[str], steps: Sequence[str]) -> "Ids":
        """Clean and tokenise texts, once for the whole run."""
        values, lengths, cut = [np.empty(0, dtype=np.int32)], [0], 0
        # In blocks: a list of a million lists of numbers takes ten times the room of an array.
        for start in range(0, len(texts), _BLOCK):
            block = [clean(text, steps) for text in texts[start : start + _BLOCK]]
            pieces, cut_here = tokens.encode(block)
            values.append(np.concatenate([np.array(p.ids, dtype=np.int32) for p in pieces]))
            lengths += [len(piece.ids) for piece in pieces]
            cut += cut_here
        return cls(np.concatenate(values), np.cumsum(lengths, dtype=np.int64), cut)

    @property
    def lengths(self) -> Ints:
        """How many tokens each text has."""
        return np.diff(self.starts)


class BiEncoderTask(PairTask):
    """Trains a sentence encoder on one data set or several, each with its own objective."""

    def _load(self) -> None:
        recipe, source, examples = self.recipe, self.source, self.examples
        self.ids = [Ids.of(self.tokens, part.texts, source.manifest.clean) for part in examples]
        self.encoder = make_encoder(source, dropout=recipe.dropout)
        freeze(self.encoder.transformer, recipe.schedule.freeze)
        self.adapter = add_adapter(self.encoder.transformer, recipe)
        self._base = _copied(self.encoder) if recipe.base_share else {}
        ids = torch.zeros(1, 3, dtype=torch.int64)
        arrays = (ids, torch.ones_like(ids), ids)[: len(self.encoder.inputs)]
        with torch.no_grad():
            dimension = int(self.encoder(*arrays)[0].shape[1])
        check_dimensions(recipe.matryoshka, dimension)
        torch.manual_seed(recipe.seed)  # the heads are drawn at random
        heads = nn.ModuleList(
            _loss(entry, len(part.classes), dimension, recipe.matryoshka)
            for entry, part in zip(recipe.data, examples, strict=True)
        )
        self.heads = heads
        self.guides = [
            _guide_vectors(entry, part.texts)
            for entry, part in zip(recipe.data, examples, strict=True)
        ]
        self.mined: list[Ints | None] = [None] * len(examples)
        self._mined_at = -1
        self.module = nn.ModuleDict({"encoder": self.encoder, "heads": heads})
        self.module.to(self.processes.device)

    def _plan(self, epoch: int) -> list[Step]:
        parts = list(zip(self.recipe.data, self.examples, self.ids, strict=True))
        return self.batches(
            [ids.lengths[part.columns].max(axis=1) for _, part, ids in parts],
            epoch,
            weights=[entry.weight for entry, _, _ in parts],
            texts=[
                part.columns if find_pairs(entry.objective).distinct else None
                for entry, part, _ in parts
            ],
            clusters=[part.clusters for part in self.examples],
        )

    def loss(self, step: Step) -> Tensor:
        """Encode this process's rows, gather those of the others, and give the loss of all."""
        part, shares = self.examples[step.data], self.shares(step.rows)
        columns = self._columns(step)
        found = [columns[rank :: self.processes.world] for rank in range(self.processes.world)]
        texts = found[self.processes.rank].T  # (k, n)
        vectors = self.embed(self.ids[step.data], texts.reshape(-1))  # (k * n, dim)
        counts = [len(share) for share in shares]
        gathered = [
            self.processes.gather(column, counts) for column in torch.split(vectors, texts.shape[1])
        ]
        guides = [
            torch.from_numpy(guide[column].astype(np.float32)).to(vectors.device)
            for guide in self.guides[step.data : step.data + 1]
            if guide is not None
            for column in np.concatenate(found).T
        ]
        labels = None
        if part.labels is not None:
            labels = torch.from_numpy(part.labels[np.concatenate(shares)]).to(vectors.device)
        # Losses subtract numbers of like size: float32 for them, whatever the layers run in.
        with torch.autocast(vectors.device.type, enabled=False):
            loss: Tensor = self.heads[step.data](gathered, labels, guides)
        return loss

    def before_step(self, done: int) -> None:
        """Mine hard negatives when they are due; a resumed run reads those of its checkpoint."""
        every = self.recipe.schedule.mine_steps
        if not every or done // every == self._mined_at:
            return
        self._mined_at = done // every
        for i, entry in enumerate(self.recipe.data):
            if find_pairs(entry.objective).distinct:
                path = Path(self.recipe.output.folder) / f"negatives/{i}-{self._mined_at}.npy"
                self.mined[i] = np.load(path) if done % every else self._mine(i, path)

    def _mine(self, i: int, path: Path) -> Ints:
        """Find the hard negative of each pair by the model as it is: text numbers (n,), or -1."""
        from ...mining.negatives import mine_negatives  # only a run that mines needs it

        part = self.examples[i]
        pairs = [(part.texts[a], part.texts[b]) for a, b in part.columns[:, :2]]
        self.module.eval()
        found = {(one.anchor, one.positive): one.negative for one in mine_negatives(self, pairs)}
        self.module.train()
        number = {text: n for n, text in enumerate(part.texts)}
        mined = np.array([number.get(found.get(pair, ""), -1) for pair in pairs], dtype=np.int64)
        if self.processes.first:
            path.parent.mkdir(parents=True, exist_ok=True)
            with writing(path) as file:
                np.save(file, mined)
        logger.info(f"mined negatives for {(mined >= 0).sum():,} of {counted(len(pairs), 'pair')}")
        return mined

    def _columns(self, step: Step) -> NDArray[np.int32]:
        """Give the texts of a step by number (n, k), with mined negatives where there are some.

        A negative that is another text of the batch, which would be two things at once, and one
        that was not found give way to another row's.
        """
        columns, mined = self.examples[step.data].columns[step.rows], self.mined[step.data]
        if mined is None or not (spare := mined[(mined >= 0) & ~np.isin(mined, columns)]).size:
            return columns
        negatives = mined[step.rows]
        lacking = (negatives < 0) | np.isin(negatives, columns)
        random = np.random.default_rng([self.recipe.seed, *step.rows])  # the same in all processes
        negatives[lacking] = random.choice(spare, int(lacking.sum()))
        return np.column_stack([columns[:, :2], negatives]).astype(np.int32)

    def embed(self, ids: Ids, texts: NDArray[Any]) -> Tensor:
        """Encode texts by number, those of like length together; (n, dim) in the order given."""
        pieces = plan(ids.lengths[texts], self.recipe.schedule.piece_tokens)
        run: Any = self.encoder
        if self.recipe.schedule.recompute and torch.is_grad_enabled():
            run = partial(torch.utils.checkpoint.checkpoint, self.encoder, use_reentrant=False)
        found = [run(*self._pad(ids, texts[rows]))[0] for rows in pieces]
        return in_order(found, pieces)

    def _pad(self, ids: Ids, texts: NDArray[Any]) -> list[Tensor]:
        shape = (len(texts), int(ids.lengths[texts].max()))
        padded = np.full(shape, self.tokens.pad_id, dtype=np.int64)
        mask = np.zeros(shape, dtype=np.int64)
        for row, text in enumerate(texts):
            start, end = ids.starts[text], ids.starts[text + 1]
            padded[row, : end - start] = ids.values[start:end]
            mask[row, : end - start] = 1
        arrays = (padded, mask, np.zeros_like(mask))[: len(self.encoder.inputs)]
        return [torch.from_numpy(array).to(self.processes.device) for array in arrays]

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Encode texts as the exported model will; what evaluation asks of a model."""
        ids = Ids.of(self.tokens, texts, self.source.manifest.clean)
        blocks = []
        with torch.no_grad():
            for start in range(0, len(texts), 1024):
                numbers = np.arange(start, min(start + 1024, len(texts)))
                blocks.append(self.embed(ids, numbers).cpu().numpy())
        vectors = np.concatenate(blocks)
        return normalize(vectors) if self.source.manifest.normalize else vectors

    def evaluate(self) -> dict[str, float]:
        """Measure the encoder on every evaluation of the recipe."""
        with self._mixed():
            return super().evaluate()

    def save(self, folder: Path) -> None:
        """Write the encoder without its heads as a sentence-transformers folder."""
        with self._mixed():
            self._save(folder)

    @contextlib.contextmanager
    def _mixed(self) -> Iterator[None]:
        """Mix in the base's share for a while; training continues with the weights it had."""
        learnt = _copied(self.encoder) if self._base else {}
        parameters = dict(self.encoder.named_parameters())
        with torch.no_grad():
            for name, value in self._base.items():
                parameters[name].lerp_(value.to(parameters[name]), self.recipe.base_share)
            try:
                yield
            finally:
                for name, value in learnt.items():
                    parameters[name].copy_(value)

    def _save(self, folder: Path) -> None:
        write_tokenizer(self.source, folder)
        transformer = self.encoder.transformer
        if self.adapter is not None:
            self.adapter.save_pretrained(folder / "adapter")  # the additions alone
            transformer = copy.deepcopy(self.adapter).merge_and_unload()
        write_layout(self.source, folder, transformer.config.hidden_size)
        with silenced_libraries():
            transformer.save_pretrained(folder)
        for number, (step, module) in enumerate(
            zip(self.source.steps[1:], self.encoder.tail, strict=False), start=2
        ):
            if isinstance(step, DenseSpec):
                linear = module[0]  # type: ignore[index]
                tensors = {f"linear.{name}": value for name, value in linear.state_dict().items()}
                write_tensors(tensors, folder / f"{number}_Dense" / "model.safetensors")


def add_adapter(transformer: nn.Module, recipe: Recipe) -> Any:
    """Add peft's low-rank additions to the layers, in place; what they were, else None."""
    if recipe.lora is None:
        return None
    from peft import LoraConfig, get_peft_model

    lora = recipe.lora
    torch.manual_seed(recipe.seed)  # the additions are drawn at random
    config = LoraConfig(
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=lora.dropout,
        target_modules=list(lora.modules) or "all-linear",
    )
    try:
        return get_peft_model(transformer, config)
    except ValueError as error:
        raise OptionError(
            f"lora.modules has {', '.join(lora.modules) or 'all linear layers'}, and the base has "
            "no layers of such names; expected the ends of names of linear layers. Leave it out."
        ) from error


def _guide_vectors(entry: Data, texts: Sequence[str]) -> NDArray[np.float16] | None:
    """Give the vectors (n, dim) of an entry's texts by its guide, where its objective has one."""
    guide = find_pairs(entry.objective).settle(entry.options, where="the recipe").get("guide")
    if not guide:
        return None
    model = load(guide)
    if not isinstance(model, TextEncoder):
        raise OptionError(f"the guide {guide} is no encoder; expected one. Name another model.")
    return np.asarray(model.encode(list(texts)), dtype=np.float16)


def _copied(module: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in module.named_parameters()}


def make_encoder(source: ModelSource, *, dropout: float = -1.0) -> SentenceModule:
    """Load the encoder for training.

    Its vectors are not brought to length 1, as in Sentence-BERT: objectives by cosine do not
    mind, and Euclidean ones and the softmax head learn from the length too.
    """
    with silenced_libraries():
        transformer = load_transformer(source)
    use_fused_attention(transformer)
    if hasattr(transformer, "pooler"):
        transformer.pooler = None  # type: ignore[assignment]
    steps = source.steps[:-1] if source.steps[-1] == "normalize" else source.steps
    encoder = SentenceModule(dataclasses.replace(source, steps=steps), transformer, layers=False)
    if dropout >= 0:
        set_dropout(encoder, dropout)
    return encoder


def check_dimensions(matryoshka: Sequence[int], dimension: int) -> None:
    """Raise an OptionError unless the model has the dimensions, its own among them."""
    if matryoshka and (max(matryoshka) != dimension):
        raise OptionError(
            f"matryoshka is {list(matryoshka)}; expected the model's own dimension {dimension} as "
            "the largest, else the whole vector is not trained. Put it first in the list."
        )


def _loss(entry: Data, classes: int, dimension: int, matryoshka: Sequence[int]) -> nn.Module:
    objective = find_pairs(entry.objective)
    options = objective.settle(entry.options, where="the recipe")
    return build_loss(
        objective.build(),
        dimension=dimension,
        classes=classes,
        options=objective.loss_options(options),
        matryoshka=matryoshka,
    )


def make_task(
    recipe: Recipe, prepared: PreparedPairs, processes: Processes
) -> BiEncoderTask | CrossEncoderTask:
    """Load the model and tokenise the examples."""
    kind = CrossEncoderTask if recipe.kind == "reranker" else BiEncoderTask
    source = _with_vocabulary(recipe, prepared, processes)
    task = kind(recipe, source, prepared.examples, prepared.measures, processes=processes)
    count = sum(p.numel() for p in task.module.parameters() if p.requires_grad)
    rows = sum(len(part) for part in prepared.examples)
    logger.info(f"training {count / 1e6:.1f} million weights on {counted(rows, 'example')}")
    if cut := sum(ids.cut for ids in task.ids):
        texts = sum(len(part.texts) for part in prepared.examples)
        some = counted(rows, "pair") if recipe.kind == "reranker" else counted(texts, "text")
        are = by_number(cut, "is", "are")
        logger.info(f"{cut:,} of {some} {are} longer than max_tokens and {are} cut")
    return task


def _with_vocabulary(recipe: Recipe, prepared: PreparedPairs, processes: Processes) -> ModelSource:
    """Give the base with the words that its tokenizer is to learn, written by the first process."""
    if recipe.vocabulary is None:
        return prepared.source
    start = Path(recipe.output.folder) / "start"
    if not processes.first:
        processes.wait()
    source = with_terms(
        prepared.source,
        start,
        prepared.terms,
        longest=recipe.vocabulary.longest,
        most=recipe.vocabulary.most,
        seed=recipe.seed,
    )
    if processes.first:
        processes.wait()
    return source


def write_bundle(
    run: FinishedRun[Recipe, PreparedPairs], folder: Path, precision: str
) -> WrittenBundle:
    """Export the best model."""
    recipe, prepared, state = run.recipe, run.prepared, run.state
    training = provenance(
        recipe,
        prepared.hashes,
        state,
        examples=[len(part) for part in prepared.examples],
        repeated=prepared.repeated,
        processes=run.task.processes.world,
    )
    shared = bundle_options(recipe, prepared.source, training, precision)
    shared["scores"] = rounded(state.best_scores)
    if recipe.kind == "reranker":
        manifest = export_reranker(run.paths.best, folder, **shared)
    else:
        layers, sizes = recipe.output.layers, recipe.matryoshka
        manifest = export(run.paths.best, folder, layers=layers, matryoshka=sizes, **shared)
    scores = state.best_scores
    if precision != "float32" and prepared.measures:
        scores = measure_bundle(folder, prepared.measures, scores)
        manifest = dataclasses.replace(manifest, scores=rounded(scores))
    return WrittenBundle(manifest, pairs_card(manifest, recipe), scores=dict(scores))


_LOST = 0.01  # of a score that a bundle may lose without a warning


def measure_bundle(
    folder: Path, measures: Sequence[Measure], exact: Mapping[str, float]
) -> dict[str, float]:
    """Measure a rounded bundle as itself, and say what rounding has cost."""
    model = load(folder)
    found = {measure.title: measure(model) for measure in measures}
    lost = {name: exact[name] - score for name, score in found.items() if name in exact}
    worst = max(lost, key=lambda name: lost[name], default="")
    if worst and lost[worst] > _LOST:
        logger.warning(
            f"{worst} is {found[worst]:.4f} by the rounded bundle and {exact[worst]:.4f} by the "
            'model that was trained. Keep more with: output.precision = ["float16"] or ["float32"]'
        )
    return found


def pairs_card(manifest: Manifest, recipe: Recipe) -> str:
    """Say what an encoder or a reranker is, what it was made from and how well it does."""
    if manifest.kind == "reranker":
        labels = f"the labels {', '.join(manifest.labels)}" if manifest.labels else "one score"
        what = f"A reranker with {labels}"
        call = f"reranker.{'probabilities' if manifest.labels else 'score'}"
        example = f'{call}([("배가 아프다", "복통이 있다")])'
        use = ['reranker = malmoi.load("path/to/this/folder")', example]
    else:
        what = f"A sentence encoder of {manifest.dimension} dimensions"
        what += f" with {manifest.pooling} pooling"
        example = 'encoder.similarity("배가 아프다", "복통이 있다")'
        use = ['encoder = malmoi.load("path/to/this/folder")', example]
    about = (
        f"{what} ({manifest.architecture}, up to {manifest.max_tokens} tokens, "
        f"{manifest.precision}), trained with malmoi from `{recipe.base}`."
    )
    body = list(_body(manifest, recipe))
    return write_card(manifest, about, body, use=use, matryoshka=recipe.matryoshka)


def _body(manifest: Manifest, recipe: Recipe) -> Iterator[str]:
    training = manifest.training
    yield from ("## Data", "", "| file | for | sha256 |", "|---|---|---|")
    for file, use in named_files(recipe):
        yield f"| {file} | {use} | {training['data'][file][:16]}… |"
    yield from ("", "## Scores", "")
    if manifest.scores:
        yield from score_table(manifest.scores)
        steps, best = training["steps"], training["best_step"]
        yield from ("", f"The best of {steps:,} steps is step {best:,}.")
    else:
        yield f"None was measured in the {training['steps']:,} steps of training."
    for name, count in training["repeated"].items():
        if count:
            pairs, stand = counted(count, "pair"), by_number(count, "stands", "stand")
            yield from ("", f"{pairs} of {name} {stand} in the training data too.")
    if recipe.layers:
        yield from ("", f"It started as the base with {recipe.layers} of its layers.")
