"""What evaluation asks of a model, and the raw encoders that a trained one must beat.

Any object with `encode(texts)` or `score(pairs)` can be measured: malmoi's own encoders and
rerankers, a sentence-transformers model in training, a function behind an HTTP call. The
baselines are a raw transformer's [CLS], its mean, and its word vectors alone: all three come out
of one bundle without torch, from its token states, and for the word vectors from its weights (or
from the layer below all others).
"""

import dataclasses
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import Bundle, find_model, open_bundle
from ..encoders.base import Encoded, OnLong, TextEncoder
from ..errors import BundleError, DataError, OptionError, counted
from ..io.arrays import read_safetensors
from ..io.files import read_lines
from ..io.tables import BadRows
from ..runtime.pooling import normalize, pool
from ..runtime.runner import Compute, Runner
from ..runtime.tokenizer import Batch
from ..types import Floats

_SPLIT = re.compile(r"[^\W_]+|[^\w\s]")
_HANGUL = re.compile("[가-힣]").search
_STATES = ("token_embeddings", "last_hidden_state")
_WORD_VECTORS = ("word_embeddings.weight", "embed_tokens.weight", "wte.weight")


@runtime_checkable
class Judges(Protocol):
    """Pairs in, the probability of each of its labels (n, labels) out."""

    labels: Sequence[str]

    def probabilities(self, pairs: list[tuple[str, str]], /) -> Any:
        """Give one probability per pair and label."""


def name_of(model: object) -> str:
    """The model's own name, or that of its class."""
    return str(getattr(model, "name", "") or type(model).__name__)


def vectors_of(encoder: object, texts: Sequence[str], *, prompt: str | None = None) -> Floats:
    """Encode texts, each distinct one once; (n, dim) float32, finite.

    `prompt` is passed on only where there is one, because not every encoder knows prompts.
    """
    encode: Callable[..., Any] | None = getattr(encoder, "encode", None)
    if encode is None:
        raise OptionError(
            f"{name_of(encoder)} has no encode; expected a sentence encoder for this task. "
            "Name an encoder, or evaluate a reranker with the tasks sts, pairs, rerank or nli."
        )
    rows: dict[str, int] = {}
    at = [rows.setdefault(text, len(rows)) for text in texts]
    found = encode(list(rows)) if prompt is None else encode(list(rows), prompt=prompt)
    vectors = np.asarray(found, dtype=np.float32)
    broken = int((~np.isfinite(vectors).all(axis=1)).sum())
    if broken:
        raise BundleError(
            f"{name_of(encoder)} gave vectors that are not finite for {broken:,} of "
            f"{counted(len(rows), 'text')}; expected numbers. Export the model again "
            "with: malmoi model export"
        )
    spread: Floats = vectors[at]
    return spread


def scores_of(scorer: object, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float64]:
    """Score pairs; (n,), finite, growing with similarity."""
    score: Callable[..., Any] | None = getattr(scorer, "score", None)
    if score is None:
        raise OptionError(
            f"{name_of(scorer)} has no score; expected a reranker for this task. "
            "Name a reranker's folder."
        )
    scores = np.asarray(score(list(pairs)), dtype=np.float64).reshape(len(pairs))
    if not np.isfinite(scores).all():
        raise BundleError(
            f"{name_of(scorer)} gave scores that are not finite; expected numbers. "
            "Export the model again with: malmoi model export"
        )
    return scores


def similarity(model: object, a: Sequence[str], b: Sequence[str]) -> dict[str, NDArray[np.float64]]:
    """How similar a[i] and b[i] are, (n,), by every measure of similarity that the model has.

    An encoder has "cosine", "dot" and "euclidean" (the negative distance, so that it grows with
    similarity too); a reranker has one "score". The first is the one to judge the model by.
    """
    if hasattr(model, "score") and not hasattr(model, "encode"):
        return {"score": scores_of(model, list(zip(a, b, strict=True)))}
    both = vectors_of(model, [*a, *b])
    left, right = both[: len(a)], both[len(a) :]
    return {
        "cosine": _dots(normalize(left), normalize(right)),
        "dot": _dots(left, right),
        "euclidean": -np.linalg.norm((left - right).astype(np.float64), axis=1),
    }


def _dots(left: Floats, right: Floats) -> NDArray[np.float64]:
    dots: NDArray[np.float64] = np.einsum("nd,nd->n", left, right, dtype=np.float64)
    return dots


class WordVectors:
    """Vectors of words out of a text file; a text's vector is the mean of its words'.

    The file is word2vec's or GloVe's: a word and its numbers per line, word2vec with a line of both
    counts before. A Korean word that is not in it is looked up without its ending, letter by
    letter (병원에서, 병원에, 병원); a text without any known word has the vector 0.
    """

    def __init__(self, path: str | Path) -> None:
        self.name = f"{Path(path).name} (mean of word vectors)"
        self._rows, self._table = _read_word_vectors(Path(path))

    def encode(self, texts: Sequence[str]) -> Floats:
        """Give the mean of each text's word vectors, (n, dim)."""
        vectors = np.zeros((len(texts), self._table.shape[1]), dtype=np.float32)
        for i, text in enumerate(texts):
            rows = [row for word in _SPLIT.findall(text) if (row := self._row(word)) is not None]
            if rows:
                vectors[i] = self._table[rows].mean(axis=0)
        return vectors

    def _row(self, word: str) -> int | None:
        for form in (word, word.lower()):
            if form in self._rows:
                return self._rows[form]
        shorter = (word[:end] for end in range(len(word) - 1, 0, -1)) if _HANGUL(word) else ()
        return next((self._rows[form] for form in shorter if form in self._rows), None)


def _read_word_vectors(path: Path) -> tuple[dict[str, int], Floats]:
    rows: dict[str, int] = {}
    vectors: list[Floats] = []
    bad = BadRows(str(path), strict=False)
    for number, line in enumerate(read_lines(path), start=1):
        word, *values = line.rstrip().split(" ")
        if number == 1 and len(values) == 1:
            continue  # word2vec's counts of words and dimensions
        try:
            vector = np.array(values, dtype=np.float32)
        except ValueError:
            vector = np.empty(0, dtype=np.float32)
        if not len(vector) or (vectors and len(vector) != len(vectors[0])):
            bad.add(number, "no vector", "a word and as many numbers as in the first line")
        elif word not in rows:
            rows[word] = len(vectors)
            vectors.append(vector)
    bad.report()
    if not vectors:
        raise DataError(
            f"{path} has no word vectors; expected a word and its numbers per line, with spaces "
            "between, as word2vec and GloVe write them. Convert a binary file to text first."
        )
    return rows, np.stack(vectors)


class BatchEncoder(TextEncoder):
    """An encoder whose vectors are some function of a batch of ids."""

    def __init__(self, bundle: Bundle, runner: Runner, *, name: str, compute: Compute) -> None:
        self._runner, self._compute = runner, compute
        encoded, _ = runner.tokens.encode(["가 a"])
        width = compute(next(runner.tokens.batches(encoded))).shape[1]
        # Raw vectors keep their length: dot product and distance are to see it.
        manifest = dataclasses.replace(
            bundle.manifest, name=name, prompts={}, default_prompt=None, normalize=False
        )
        super().__init__(manifest, dimension=width)

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        if on_long != "cut":
            raise OptionError(f'on_long is {on_long!r}; baselines know only "cut". Leave it out.')
        encoded, cut = self._runner.tokens.encode(texts)
        wait = self._runner.start(encoded, self._compute)
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
            f"Make it once with: malmoi model export {folder} OUT --layers all"
        )
    bundle = open_bundle(folder, kinds=("encoder",))
    runner = Runner(bundle, threads=threads)
    last = _last_states(bundle, runner)
    name = bundle.manifest.name
    computed = {
        "raw CLS": _pooled(runner, last, "cls"),
        "raw mean": _pooled(runner, last, "mean"),
        "word vectors": _words(bundle, runner),
    }
    return tuple(
        BatchEncoder(bundle, runner, name=f"{name} ({title})", compute=compute)
        for title, compute in computed.items()
    )


def _last_states(bundle: Bundle, runner: Runner) -> str:
    layers = [name for name in runner.session.outputs if name.startswith("layer_")]
    for name in (*_STATES, *sorted(layers, key=lambda name: -int(name.split("_")[1]))):
        if name in runner.session.outputs:
            return name
    raise BundleError(
        f"{bundle.graph} gives only {', '.join(runner.session.outputs)}; expected token states "
        "for the baselines. Export the raw encoder with: malmoi model export MODEL OUT --layers all"
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
            if key.endswith(_WORD_VECTORS) and len(table) >= runner.tokens.vocabulary:
                return _means(table.astype(np.float32), runner)
    if "layer_0" in runner.session.outputs:
        # Word vectors with their positions added: not quite static, but below all attention.
        return _pooled(runner, "layer_0", "mean")
    raise BundleError(
        f"{bundle.folder} has neither model.safetensors with word vectors nor a graph with "
        "layer_0; expected one of them. Export it with: malmoi model export MODEL OUT --layers all"
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
