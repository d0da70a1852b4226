"""What a trained encoder must beat: the raw transformer's [CLS], its mean, and word vectors alone.

All three come out of one bundle without torch: from its token states, and for the word vectors
from its weights (or from the layer below all others).
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..bundle.bundle import Bundle, open_bundle
from ..bundle.catalog import find_model
from ..encoder.base import Encoded, OnLong, TextEncoder
from ..errors import BundleError, OptionError
from ..io.arrays import read_safetensors
from ..runtime.pooling import pool
from ..runtime.runner import Compute, Runner
from ..runtime.tokenizer import Batch
from ..types import Floats

_STATES = ("token_embeddings", "last_hidden_state")
_WORDS = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight")


class BatchEncoder(TextEncoder):
    """An encoder whose vectors are some function of a batch of ids."""

    def __init__(self, bundle: Bundle, runner: Runner, *, name: str, compute: Compute) -> None:
        self._runner, self._compute = runner, compute
        pieces, _ = runner.tokens.encode(["가 a"])
        width = compute(next(runner.tokens.batches(pieces))).shape[1]
        # Raw vectors stay as long as they are: dot product and distance are to see that.
        manifest = dataclasses.replace(
            bundle.manifest, name=name, prompts={}, default_prompt=None, normalize=False
        )
        super().__init__(manifest, dimension=width)

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        if on_long != "cut":
            raise OptionError(f'on_long is {on_long!r}; baselines know only "cut". Leave it out.')
        pieces, cut = self._runner.tokens.encode(texts)
        wait = self._runner.start(pieces, self._compute)
        return lambda: Encoded(wait(), cut)


def load_baselines(
    name_or_path: str | Path, *, threads: int | None = None
) -> tuple[TextEncoder, ...]:
    """Make the three baselines of a raw encoder's bundle: its [CLS], its mean, its word vectors.

    The graph must give token states: a sentence-transformers folder's does, and a bundle's that
    was exported with `--layers all`.
    """
    folder = find_model(name_or_path)
    if (folder / "config.json").is_file() and not any(folder.rglob("*.onnx")):
        raise BundleError(
            f"{folder} has no graph; expected one that gives token states, for the baselines. "
            f"Make it once with: malmoi export {folder} OUT --layers all"
        )
    bundle = open_bundle(folder, kinds=("encoder",))
    runner = Runner(bundle, threads=threads)
    last = _last_states(bundle, runner)
    name = bundle.manifest.name
    cls = BatchEncoder(
        bundle, runner, name=f"{name} (raw CLS)", compute=_pooled(runner, last, "cls")
    )
    mean = BatchEncoder(
        bundle, runner, name=f"{name} (raw mean)", compute=_pooled(runner, last, "mean")
    )
    words = BatchEncoder(
        bundle, runner, name=f"{name} (word vectors)", compute=_words(bundle, runner)
    )
    return cls, mean, words


def _last_states(bundle: Bundle, runner: Runner) -> str:
    layers = [name for name in runner.session.outputs if name.startswith("layer_")]
    for name in (*_STATES, *sorted(layers, key=lambda name: -int(name.split("_")[1]))):
        if name in runner.session.outputs:
            return name
    raise BundleError(
        f"{bundle.graph} gives only {', '.join(runner.session.outputs)}; expected token states "
        "for the baselines. Export the raw encoder with: malmoi export MODEL OUT --layers all"
    )


def _pooled(runner: Runner, output: str, pooling: str) -> Compute:
    """The token states of one layer, pooled."""

    def compute(batch: Batch) -> Floats:
        [states] = runner.session.run(batch, [output])
        return pool(states, batch.mask, pooling)

    return compute


def _words(bundle: Bundle, runner: Runner) -> Compute:
    """The mean of a text's word vectors, whatever their order and neighbours."""
    weights = bundle.folder / "model.safetensors"
    if weights.is_file():
        for key, table in read_safetensors(weights).items():
            if key.endswith(_WORDS) and len(table) >= runner.tokens.vocabulary:
                return _means(table.astype(np.float32), runner)
    if "layer_0" in runner.session.outputs:
        # Word vectors with their positions added: not quite static, but below all attention.
        return _pooled(runner, "layer_0", "mean")
    raise BundleError(
        f"{bundle.folder} has neither model.safetensors with word vectors nor a graph with "
        "layer_0; expected one of them. Export it with: malmoi export MODEL OUT --layers all"
    )


def _means(table: Floats, runner: Runner) -> Compute:
    # Not every tokenizer says which tokens are special; what its template adds are.
    sample = runner.tokens.tokenizer.encode("a")
    special = [i for i, added in zip(sample.ids, sample.special_tokens_mask, strict=True) if added]

    def compute(batch: Batch) -> Floats:
        # [CLS] and [SEP] say nothing of the text; a text of nothing else keeps them.
        words = batch.mask * ~np.isin(batch.ids, special)
        mask = np.where(words.any(axis=1, keepdims=True), words, batch.mask)
        return pool(table[batch.ids], mask, "mean")

    return compute
