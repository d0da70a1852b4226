"""The encoder with a transformer: tokenizer, graph and pooling, as many batches as cores."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TypeVar, overload

import numpy as np

from ..bundle.bundle import Bundle
from ..bundle.manifest import POOLER
from ..bundle.sentence_transformers import DenseSpec
from ..errors import BundleError
from ..io.arrays import read_safetensors
from ..runtime.pooling import ACTIVATIONS, normalize, pool
from ..runtime.runner import Runner
from ..runtime.tokenizer import Batch, PairTokenizer, Token, TokenizedText
from ..text.cleanup import as_text
from ..types import Floats, Ints
from .base import Encoded, OnLong, TextEncoder, as_list
from .segment import By
from .words import HiddenStates, LayerReader, Layers, Merge, Word, no_layers

T = TypeVar("T")

_POOLED = "sentence_embedding"
_POOLER = "pooler_output"
_STATES = ("token_embeddings", "last_hidden_state")
# Long texts are cut into windows in parts of this many characters, to bound memory.
_PART = 200_000


class LayerAccess:
    """Words in their sentence, for encoders whose hidden layers can be read."""

    @property
    def reader(self) -> LayerReader:
        """What reads hidden layers and words."""
        raise NotImplementedError

    def words(
        self,
        text: str,
        *,
        layers: Layers = "last",
        merge: Merge = "mean",
        by: By = "spaces",
        special: bool = False,
    ) -> list[Word]:
        """Give the words of a text, each with its vector (width,) and its tokens.

        - `layers`: "last", "second-to-last", "sum-last-4", "concat-last-4", "mean-all" and the
          like, a layer's number (0 is the embeddings), or several, which are concatenated.
        - `merge`: how one vector is made of a word's tokens.
        - `by`: where words end: at "spaces", by "morphemes" (배가 and 배를 share their noun), or
          at spans of your own.
        - `special`: give the model's special tokens too.

        >>> [word.text for word in encoder.words("배를 타고 간다")]
        ['배를', '타고', '간다']
        """
        [found] = self.words_of([text], layers=layers, merge=merge, by=by, special=special)
        return found

    def words_of(
        self,
        texts: str | Iterable[str],
        *,
        layers: Layers = "last",
        merge: Merge = "mean",
        by: By = "spaces",
        special: bool = False,
    ) -> Iterator[list[Word]]:
        """Yield the words of each text, of one string once; options are those of `words`.

        >>> [len(words) for words in encoder.words_of(["배를 탄다", "cat"])]
        [2, 1]
        """
        texts = [texts] if isinstance(texts, str) else texts
        return self.reader.words(texts, layers=layers, merge=merge, by=by, special=special)

    def encode_layers(
        self, texts: str | Iterable[str], *, layers: Layers = "last", pooling: str | None = None
    ) -> Floats:
        """Turn texts into unit vectors (n, width) pooled from chosen layers, named as in `words`.

        One string gives (width,). `pooling` is the model's own when left out.

        >>> encoder.encode_layers("배를 탔다", layers=4).shape
        (384,)
        """
        vectors = self.reader.sentences(as_list(texts), layers=layers, pooling=pooling)
        return vectors[0] if isinstance(texts, str) else vectors


class Encoder(LayerAccess, TextEncoder):
    """A sentence encoder on onnxruntime. Make one with `malmoi.load`."""

    def __init__(
        self, bundle: Bundle, *, threads: int | None = None, device: str | None = None
    ) -> None:
        self.bundle = bundle
        self._runner = Runner(bundle, threads=threads, device=device)
        self.threads = self._runner.threads
        self._tokens, self._session = self._runner.tokens, self._runner.session
        self._output = self._choose_output()
        self._unpooled = self._unpooled_prompts()
        self._steps = [_make_step(step, bundle.manifest.pooling) for step in bundle.steps]
        super().__init__(bundle.manifest, dimension=self._probe())

    @cached_property
    def reader(self) -> LayerReader:
        """What reads hidden layers and words; made when it is first asked for."""
        return LayerReader(self._runner, self.manifest)

    def __repr__(self) -> str:
        return f"<Encoder {self.name}: {self.dimension} dimensions, {self.max_tokens} tokens>"

    def encode_ids(self, ids: Sequence[Sequence[int]], *, alone: bool = False) -> Floats:
        """Give the vectors of token ids as they are, special tokens included; (n, dim).

        `alone` uses the calling thread and no other, for callers that have several already.

        >>> encoder.encode_ids([encoder.token_ids("cat")]).shape
        (1, 384)
        """
        inputs = [TokenizedText(owner, list(one)) for owner, one in enumerate(ids)]
        if alone:
            return self._runner.run(inputs, self._vectors)
        return self._runner.start(inputs, self._vectors)()

    @property
    def vocabulary(self) -> int:
        """How many ids the model's tokenizer knows."""
        return self._tokens.vocabulary

    # A str is a Sequence[str] to the type checker, so the first overload is marked to win.
    @overload
    def token_ids(self, texts: str, *, prompt: str | None = ...) -> list[int]: ...  # type: ignore[overload-overlap]
    @overload
    def token_ids(self, texts: Iterable[str], *, prompt: str | None = ...) -> list[list[int]]: ...
    def token_ids(
        self, texts: str | Iterable[str], *, prompt: str | None = None
    ) -> list[int] | list[list[int]]:
        """Give the ids that `encode` reads of each text: cleaned, after its prompt, and cut.

        One string gives one list of ids.
        """
        inputs, _ = self._tokens.encode(self._cleaned(as_list(texts), self._prefix(prompt)))
        return inputs[0].ids if isinstance(texts, str) else [one.ids for one in inputs]

    def tokens(
        self, text: str, pair: str | None = None, *, prompt: str | None = None
    ) -> list[Token]:
        """Give the tokens that the model reads of a text, or of a pair joined as one input.

        >>> [token.text for token in encoder.tokens("cat")]
        ['[CLS]', 'cat', '[SEP]']
        """
        cleaned = self._cleaned([text], self._prefix(prompt))
        if pair is None:
            [one], _ = self._tokens.encode(cleaned)
        else:
            [one], _ = PairTokenizer(self._tokens).encode([(cleaned[0], self._clean(pair))])
        name = self._tokens.tokenizer.id_to_token
        segments = one.types or [0] * len(one.ids)
        return [Token(str(name(i)), i, part) for i, part in zip(one.ids, segments, strict=True)]

    def hidden_states(self, text: str, *, prompt: str | None = None) -> HiddenStates:
        """Give all layers of the tokens that `encode` reads of a text, (layers, tokens, width).

        >>> encoder.hidden_states("cat").states.shape
        (7, 3, 384)
        """
        return self.reader.hidden_states(self.token_ids(as_text(text), prompt=prompt))

    def with_special_ids(self, ids: Sequence[int]) -> list[int]:
        """Put the special tokens around ids of this model's tokenizer, unless they have them."""
        empty, letter = (one.ids for one in self._tokens.encode(["", "a"])[0])
        first = next((i for i, one in enumerate(empty) if letter[i] != one), len(empty))
        before, after, given = empty[:first], empty[first:], list(ids)
        inner = given[first : len(given) - len(after)]
        return given if [*before, *inner, *after] == given else [*before, *given, *after]

    @overload
    def count_tokens(self, texts: str) -> int: ...  # type: ignore[overload-overlap]
    @overload
    def count_tokens(self, texts: Iterable[str]) -> list[int]: ...
    def count_tokens(self, texts: str | Iterable[str]) -> int | list[int]:
        """Count each text's tokens before anything is cut, special tokens left out.

        >>> encoder.count_tokens(["cat", "the cat sleeps"])
        [1, 3]
        """
        found = self._tokens.encode_plain(self._cleaned(as_list(texts), ""))
        counts = [count for _, count in found]
        return counts[0] if isinstance(texts, str) else counts

    def _choose_output(self) -> str:
        """The graph's own vectors where it pools, else the token states."""
        # A foreign graph may have both; its modules.json says how to pool, so states win.
        foreign = not self.bundle.manifest.files
        names: tuple[str, ...] = (*_STATES, _POOLED) if foreign else (_POOLED, *_STATES)
        if self.bundle.manifest.unpooled and "pooling_mask" not in self._session.inputs:
            names = _STATES  # a graph that pools pools its prompts too
        if self.bundle.manifest.pooling == POOLER:
            names = (_POOLER,)
        elif not self.bundle.steps:
            return self._find_pooled()
        elif foreign:  # other exporters have other names; a lone output of states is clear enough
            states = self._outputs_of_rank(3)
            names += tuple(states) if len(states) == 1 else ()
        for name in names:
            if name in self._session.outputs:
                return name
        raise BundleError(
            f"{self.bundle.graph} has the outputs {', '.join(self._session.outputs)}; expected "
            f"one of {', '.join(names)}. Export the model again with: malmoi model export"
        )

    def _outputs_of_rank(self, rank: int) -> list[str]:
        return [name for name, found in self._session.ranks.items() if found == rank]

    def _find_pooled(self) -> str:
        """The graph's own vectors, of a folder that does not say how to pool."""
        pooled = [name for name in self._outputs_of_rank(2) if name != _POOLER]
        if len(pooled) == 1:
            return pooled[0]
        raise BundleError(
            f"{self.bundle.folder} does not say how a vector is made of token states; expected "
            "modules.json, 1_Pooling/config.json or a graph that pools. Say it as the model's card "
            'has it: malmoi.load(path, pooling="mean") or "cls", malmoi --pooling'
        )

    def _probe(self) -> int:
        """Run one short text, so that a graph which does not fit is found now; gives its width."""
        inputs, _ = self._tokens.encode(["가 a"])
        width = int(self._vectors(next(self._tokens.batches(inputs))).shape[-1])
        stated = self.bundle.manifest.dimension
        if self.bundle.manifest.files and width != stated:
            raise BundleError(
                f"{self.bundle.graph} gives {width} dimensions and malmoi.json says {stated}; "
                "expected the same. Export the model again with: malmoi model export"
            )
        return width

    def _start(self, texts: list[str], on_long: OnLong) -> Callable[[], Encoded]:
        if on_long == "windows":
            return lambda: Encoded(self._in_windows(texts), 0)
        inputs, cut = self._tokens.encode(texts)
        wait = self._runner.start(inputs, self._vectors)
        return lambda: Encoded(wait(), cut)

    def _vectors(self, batch: Batch) -> Floats:
        """Run one batch through the graph, and the modules that are not part of it; (n, dim)."""
        mask = self._without_prompts(batch) if self._unpooled else batch.mask
        if self._unpooled:
            batch = replace(batch, pooled=mask)
        [found] = self._session.run(batch, [self._output])
        return self._pooled(found, mask)

    @property
    def outputs(self) -> Sequence[str]:
        """The names of the graph's outputs."""
        return self._session.outputs

    def each_batch(
        self, inputs: Sequence[TokenizedText], compute: Callable[[Batch], T]
    ) -> Iterator[tuple[Batch, T]]:
        """Run inputs batch by batch through a function of this encoder's, on all its threads."""
        return self._runner.each(inputs, compute)

    def vectors_and(self, batch: Batch, output: str) -> tuple[Floats, Floats]:
        """Run one batch for its vectors (n, dim) and another output, (n, length, width)."""
        mask = self._without_prompts(batch) if self._unpooled else batch.mask
        if self._unpooled:
            batch = replace(batch, pooled=mask)
        found, other = self._session.run(batch, [self._output, output])
        return self._pooled(found, mask), other

    def _pooled(self, found: Floats, mask: Ints) -> Floats:
        if found.ndim == 2:
            steps = self._steps[1:] if self._output == _POOLER else []
        else:
            steps = self._steps
        for step in steps:
            found = step(found, mask)
        return found

    def _unpooled_prompts(self) -> list[list[int]]:
        """The ids of prompts that pooling leaves out, with what stands before them, longest first.

        Their last space belongs to the word after them.
        """
        if not self.bundle.manifest.unpooled:
            return []
        prompts = [prompt.rstrip() for prompt in self.bundle.manifest.prompts.values()]
        whole, _ = self._tokens.encode(prompts)
        empty, _ = self._tokens.encode([""])
        before = 1 if len(empty[0].ids) > 1 else 0  # [CLS], and [SEP] after the text
        after = len(empty[0].ids) - before
        ids = [one.ids[: len(one.ids) - after] for one in whole]
        return sorted((one for one in ids if len(one) > before), key=len, reverse=True)

    def _without_prompts(self, batch: Batch) -> Ints:
        """The mask of a batch (n, length) with zeros for prompts that texts start with."""
        mask = batch.mask.copy()
        for prompt in reversed(self._unpooled):  # the longest that fits has the last word
            size = len(prompt)
            if size < mask.shape[1]:
                mask[(batch.ids[:, :size] == prompt).all(axis=1), :size] = 0
        return mask

    def window_ids(self, text: str, *, prompt: str | None = None) -> list[list[int]]:
        """Give the ids of the windows by which `encode` covers a long text.

        >>> len(encoder.window_ids("cat " * 1000)) > 1
        True
        """
        cleaned = self._cleaned([text], self._prefix(prompt))
        groups = (parts for _, parts in text_parts(cleaned))
        return [window.ids for parts in groups for window in self._tokens.windows(parts)]

    def mean_of_windows(self, vectors: Floats, lengths: Sequence[int]) -> Floats:
        """Give a text's vector (dim,), of its windows' (n, dim) and their numbers of tokens."""
        weights = np.array(lengths, dtype=np.float32)
        mean: Floats = weights @ vectors / weights.sum()
        return normalize(mean[None])[0] if self.manifest.normalize else mean

    def _in_windows(self, texts: list[str]) -> Floats:
        """Cover each text by windows and take the mean of their vectors by tokens, (n, dim)."""
        sums = np.zeros((len(texts), self.dimension), dtype=np.float32)
        totals = np.zeros((len(texts), 1), dtype=np.float32)
        for owners, parts in text_parts(texts):
            windows = self._tokens.windows(parts)
            rows = [owners[window.owner] for window in windows]
            weights = np.array([[len(window.ids)] for window in windows], dtype=np.float32)
            np.add.at(sums, rows, self._runner.start(windows, self._vectors)() * weights)
            np.add.at(totals, rows, weights)
        means = sums / totals
        return normalize(means) if self.manifest.normalize else means


def text_parts(texts: Sequence[str]) -> Iterator[tuple[list[int], list[str]]]:
    """Cut texts into parts, and give them in groups of bounded size with their owners."""
    owners: list[int] = []
    parts: list[str] = []
    size = 0
    for owner, text in enumerate(texts):
        for start in range(0, max(len(text), 1), _PART):
            owners.append(owner)
            parts.append(text[start : start + _PART])
            size += len(parts[-1])
            if size >= 2 * _PART:
                yield owners, parts
                owners, parts, size = [], [], 0
    if parts:
        yield owners, parts


def _make_step(step: str | DenseSpec, pooling: str) -> Callable[[Floats, Ints], Floats]:
    """Make the function of one module that follows the graph; it takes states and mask."""
    if step == "pool":
        return lambda states, mask: pool(states, mask, pooling)
    if not isinstance(step, DenseSpec):
        return lambda vectors, mask: normalize(vectors)
    arrays, activation = read_safetensors(step.weights), ACTIVATIONS[step.activation]
    weight = np.array(arrays["linear.weight"], dtype=np.float32)  # (out, in)
    bias = np.array(arrays.get("linear.bias", np.zeros(len(weight))), dtype=np.float32)
    return lambda vectors, mask: activation(vectors @ weight.T + bias)


def layers_of(encoder: TextEncoder) -> LayerAccess:
    """Give an encoder as one whose layers can be read, or raise BundleError if it has none."""
    if isinstance(encoder, LayerAccess):
        return encoder
    raise no_layers(encoder.name)
