"""A reranker: any encoder with dense → GELU → dropout → projection on [CLS], over both texts.

It is a sentence-transformers CrossEncoder put together from that library's modules, so its
tokenizing, its evaluators and its folders serve; nothing of them is written again here.

Shapes: scores (n, outputs), one output for a score or one for each label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from sentence_transformers import CrossEncoder
from sentence_transformers.base.modules import Dense, Transformer
from sentence_transformers.sentence_transformer.modules import Dropout, Pooling
from torch import Tensor, nn
from torch.nn import functional
from transformers import PreTrainedModel

from ...bundle.sentence_transformers import DenseSpec
from ...errors import DataError, OptionError
from ...export.module import WITH_TYPES, check_whole, set_dropout, use_fused_attention
from ...export.silence import silenced_libraries
from ...export.source import ModelSource, check_layers, read_source
from ...heads.reranker import similar_label
from ...runtime.tokenizer import Pair, PairTokenizer, TextTokenizer, TokenizedText
from ...text.cleanup import clean
from ...types import Ints
from ..batching import Step, in_order
from .pairs import Data, Recipe, TrainingExamples, find_pairs
from .task import ModelTask, PairTask, freeze

_ACTIVATIONS = ["gelu", "identity"]  # after the dense layer and the projection


def build_cross_encoder(
    base: str | Path,
    *,
    labels: Sequence[str] = (),
    layers: int | None = None,
    dropout: float = 0.1,
    drop_first: bool = False,
    max_tokens: int | None = None,
) -> CrossEncoder:
    """Put a new head on the encoder in the folder `base`.

    Without `labels` the model gives one score from 0 to 1, with two or more a probability for
    each. `layers` keeps that many of the encoder's layers, counted from the embeddings up.
    `drop_first` drops some of [CLS] before the dense layer too.
    """
    source = read_source(base, max_tokens=max_tokens)
    transformer = _transformer(source, layers)
    config = transformer.model.config
    if labels:
        config.id2label = dict(enumerate(labels))
        config.label2id = {label: i for i, label in enumerate(labels)}
    hidden = int(config.hidden_size)
    dense = Dense(hidden, hidden, activation_function=nn.GELU())
    project = Dense(
        hidden,
        len(labels) or 1,
        activation_function=nn.Identity(),
        module_output_name="scores",
    )
    # As the encoder's own layers were: small enough that training starts near a score of 0.5.
    deviation = float(getattr(config, "initializer_range", 0.02))
    for layer in (dense.linear, project.linear):
        nn.init.normal_(layer.weight, std=deviation)
        nn.init.zeros_(layer.bias)
    modules = [transformer, Pooling(hidden, "cls"), dense, Dropout(dropout), project]
    if drop_first:
        modules.insert(2, Dropout(dropout))
    activation = nn.Identity() if labels else nn.Sigmoid()
    model: CrossEncoder = CrossEncoder(modules=modules, device="cpu", activation_fn=activation)
    return model


def keep_head(model: CrossEncoder, source: ModelSource) -> bool:
    """Give a new model the head of the cross-encoder it starts from; False where it has another.

    Heads with other labels, or of another form than ours, are left for a new one.
    """
    manifest = source.manifest
    specs = [step for step in source.steps if isinstance(step, DenseSpec)]
    layers: list[Any] = [module for module in model if isinstance(module, Dense)]
    alike = manifest.pooling == "cls" and [spec.activation for spec in specs] == _ACTIVATIONS
    if manifest.kind != "reranker" or manifest.labels != labels_of(model) or not alike:
        return False
    heads = [load_file(spec.weights) for spec in specs]
    if [_shapes(head) for head in heads] != [_shapes(layer.state_dict()) for layer in layers]:
        return False
    for layer, head in zip(layers, heads, strict=True):
        layer.load_state_dict(head)
    return True


def _shapes(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in tensors.items()}


def transformer_of(model: CrossEncoder) -> PreTrainedModel:
    """Give the transformer below the head."""
    transformer: Any = model[0]
    found: PreTrainedModel = transformer.model
    return found


def labels_of(model: CrossEncoder) -> tuple[str, ...]:
    """Name the model's labels; none for a model with one score."""
    if model.num_labels == 1:
        return ()
    transformer: Any = model[0]
    names: dict[int, str] = transformer.model.config.id2label
    return tuple(names[i] for i in range(model.num_labels))


def cross_loss(
    scores: Tensor, targets: Tensor, *, objective: str, queries: Tensor | None = None
) -> Tensor:
    """Give the mean loss of raw scores (n, outputs) against targets (n,), a scalar.

    "cross-encoder-classification" is the cross-entropy over labels, numbered from 0. "bce", which
    is also called "regression", is the binary cross-entropy between the one score's sigmoid and a
    target from 0 to 1; "mse" is the square of their difference, whose gradient vanishes where the
    sigmoid is flat, so that a pair judged wrong with confidence is unlearnt slowly. "listwise" is
    the cross-entropy between the targets' shares among the texts of one query and the softmax of
    their scores; it needs `queries` (n,), the number of each row's query.
    """
    if queries is not None:
        return _list_loss(scores[:, 0], targets, queries)
    if objective == "cross-encoder-classification":
        return functional.cross_entropy(scores, targets)
    if objective == "mse":
        return functional.mse_loss(scores[:, 0].sigmoid(), targets)
    return functional.binary_cross_entropy_with_logits(scores[:, 0], targets)


def _list_loss(scores: Tensor, targets: Tensor, queries: Tensor) -> Tensor:
    _, at, counts = torch.unique(queries, return_inverse=True, return_counts=True)
    order = at.argsort(stable=True)
    parts = [torch.split(part, counts.tolist()) for part in (scores[order], targets[order])]
    lists = list(zip(*parts, strict=True))
    losses = [functional.cross_entropy(s[None], (t / t.sum())[None]) for s, t in lists]
    return torch.stack(losses).mean()


def _transformer(source: ModelSource, layers: int | None) -> Transformer:
    if layers is not None:
        check_layers(source, layers)
    check_whole(source)
    here = {"local_files_only": True, "trust_remote_code": False}
    with silenced_libraries():
        transformer: Transformer = Transformer(
            str(source.root),
            model_kwargs=here | {"use_safetensors": True, "dtype": torch.float32},
            processor_kwargs=here,
            config_kwargs=here | ({"num_hidden_layers": layers} if layers else {}),
            max_seq_length=source.manifest.max_tokens,
            do_lower_case=source.lower,
        )
    model: Any = transformer.model
    # The head reads the state itself: the pooler's weights would idle, and are not even saved.
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    _choose_inputs(transformer)
    return transformer


def _choose_inputs(transformer: Transformer) -> None:
    """Let the tokenizer give segment ids where the architecture was trained with them, only there.

    A tokenizer read from tokenizer.json alone gives none to a BERT, and a RoBERTa with a BERT's
    tokenizer would get some that its table has no row for.
    """
    tokenizer: Any = transformer.tokenizer
    config = transformer.model.config
    names = ["input_ids", "attention_mask"]
    if config.model_type in WITH_TYPES and config.type_vocab_size > 1:
        names.append("token_type_ids")
    tokenizer.model_input_names = names
    tokenizer.init_kwargs["model_input_names"] = names  # what is saved with it


_HEAD_DROPOUT = 0.1


@dataclass(frozen=True)
class PairIds:
    """The ids of many pairs, and how many of them were cut."""

    pieces: list[TokenizedText]
    lengths: Ints
    cut: int

    @classmethod
    def of(cls, tokens: TextTokenizer, pairs: Sequence[Pair], steps: Sequence[str]) -> "PairIds":
        """Clean and tokenise pairs as the exported model will, once for the whole run."""
        cleaned = [(clean(a, steps), clean(b, steps)) for a, b in pairs]
        pieces, cut = PairTokenizer(tokens).encode(cleaned)
        return cls(pieces, np.array([len(piece.ids) for piece in pieces], dtype=np.int64), cut)


class HeadTask(ModelTask):
    """A transformer with a head on [CLS] in training: what rerankers and classifiers share."""

    def _build(self, labels: Sequence[str], dropout: float) -> CrossEncoder:
        torch.manual_seed(self.recipe.seed)  # the head is drawn at random
        return build_cross_encoder(
            self.source.root,
            labels=labels,
            layers=self.recipe.layers or None,
            dropout=dropout,
            drop_first=getattr(self.recipe, "head", "dense") == "dropout-dense",
            max_tokens=self.source.manifest.max_tokens,
        )

    def _settle(self, model: CrossEncoder) -> None:
        """Take the model as it is to be trained: some of it frozen, on the device."""
        freeze(transformer_of(model), self.recipe.schedule.freeze)
        self.module = self.model = model.to(self.processes.device)

    def gathered(self, pieces: Sequence[TokenizedText], rows: Ints) -> tuple[Tensor, Ints]:
        """Score the rows of a step, each process its share; gives the order of the rows too."""
        shares = self.shares(rows)
        own = self.run([pieces[row] for row in shares[self.processes.rank]])
        scores = self.processes.gather(own, [len(share) for share in shares])
        return scores, np.concatenate(shares)

    def run(self, pieces: Sequence[TokenizedText]) -> Tensor:
        """Give raw scores (n, outputs), inputs of like length computed together."""
        transformer: Any = self.model[0]
        batches = list(self.tokens.batches(pieces, budget=self.recipe.schedule.piece_tokens))
        found = []
        for batch in batches:
            arrays = {"input_ids": batch.ids, "attention_mask": batch.mask}
            arrays["token_type_ids"] = batch.types
            features = {
                name: torch.from_numpy(arrays[name]).to(self.processes.device)
                for name in transformer.tokenizer.model_input_names
            }
            found.append(self.model(features)["scores"])
        return in_order(found, [batch.rows for batch in batches])

    def run_all(self, pieces: Sequence[TokenizedText]) -> Tensor:
        """Give the raw scores of any number of inputs, without gradients."""
        with torch.no_grad():
            return torch.cat([self.run(pieces[i : i + 1024]) for i in range(0, len(pieces), 1024)])

    def save(self, folder: Path) -> None:
        """Write the model, head and all, as a sentence-transformers CrossEncoder's folder."""
        with silenced_libraries():
            self.model.save_pretrained(str(folder), create_model_card=False)


class CrossEncoderTask(PairTask, HeadTask):
    """Trains a reranker on one data set or several, whose labels are the same."""

    recipe: Recipe

    def _load(self) -> None:
        recipe, source, examples = self.recipe, self.source, self.examples
        self.labels = shared_labels(examples)
        pairs = (
            [(part.texts[row[0]], part.texts[row[1]]) for row in part.columns] for part in examples
        )
        self.ids = [PairIds.of(self.tokens, found, self._clean) for found in pairs]
        self.lists = [
            query_lists(part, entry) for part, entry in zip(examples, recipe.data, strict=True)
        ]
        model = self._build(self.labels, recipe.dropout if recipe.dropout >= 0 else _HEAD_DROPOUT)
        keep_head(model, source)
        use_fused_attention(transformer_of(model))
        if recipe.dropout >= 0:
            set_dropout(model, recipe.dropout)
        self._settle(model)

    @property
    def _clean(self) -> Sequence[str]:
        return self.source.manifest.clean

    def _plan(self, epoch: int) -> list[Step]:
        weights = [entry.weight for entry in self.recipe.data]
        lengths = [
            np.array([ids.lengths[rows].sum() for rows in lists]) if lists else ids.lengths
            for ids, lists in zip(self.ids, self.lists, strict=True)
        ]
        return self.batches(lengths, epoch, weights=weights)

    def loss(self, step: Step) -> Tensor:
        """Score this process's pairs, gather the scores of the others, and give the loss of all."""
        lists, examples = self.lists[step.data], self.examples[step.data]
        asked = np.concatenate([lists[row] for row in step.rows]) if lists else step.rows
        scores, rows = self.gathered(self.ids[step.data].pieces, asked)
        assert examples.labels is not None  # every objective of a reranker has them
        targets = torch.from_numpy(examples.labels[rows]).to(scores.device)
        objective = find_pairs(self.recipe.data[step.data].objective)
        queries = torch.from_numpy(examples.columns[rows, 0]).to(scores.device) if lists else None
        loss: Tensor = objective.build()(scores, targets, objective=objective.name, queries=queries)
        return loss

    def probabilities(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """Give the probability of each label, or the one score from 0 to 1; (n, outputs)."""
        raw = self.run_all(PairIds.of(self.tokens, pairs, self._clean).pieces)
        shares = raw.softmax(dim=1) if self.labels else raw.sigmoid()
        found: NDArray[np.float32] = shares.cpu().numpy()
        return found

    def score(self, pairs: Sequence[Pair]) -> NDArray[np.float32]:
        """Score pairs as the exported model will; what evaluation asks of a model."""
        return self.probabilities(pairs)[:, similar_label(self.labels) if self.labels else 0]


def query_lists(examples: TrainingExamples, entry: Data) -> list[Ints]:
    """Give the rows of each query that has texts with different scores; none for other objectives.

    Objectives that are not "listwise" learn from single rows.
    """
    if entry.objective != "listwise":
        return []
    assert examples.labels is not None
    order = np.argsort(examples.columns[:, 0], kind="stable")
    starts = np.flatnonzero(np.diff(examples.columns[order, 0])) + 1
    lists = [rows for rows in np.split(order, starts) if np.ptp(examples.labels[rows]) > 0]
    if not lists:
        raise DataError(
            f"{', '.join(entry.files)} have no text in {entry.columns['a']} with different scores; "
            "expected queries with better and worse texts. Add rows, or use the objective bce."
        )
    return lists


def shared_labels(examples: Sequence[TrainingExamples]) -> tuple[str, ...]:
    """Give the labels that all data have in common; none where they have scores."""
    found = {part.classes for part in examples}
    if len(found) != 1:
        listed = "; ".join(", ".join(classes) or "scores" for classes in sorted(found))
        raise OptionError(
            f"the data have different labels: {listed}. A reranker has one head: expected the "
            "same in every [[data]]. Name them in the same order, or train two models."
        )
    [labels] = found
    return labels
