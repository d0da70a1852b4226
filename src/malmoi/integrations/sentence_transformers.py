"""Classes for code that was written for sentence-transformers: the same names, without torch.

What has a meaning here is honoured; what has none (`batch_size`, `backend`) is logged once; what
would change the result and cannot be done is refused.
"""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..encoders import load
from ..encoders.base import PASSAGE_PROMPTS
from ..errors import OptionError, check_choice
from ..heads.reranker import load_reranker
from ..runtime.pooling import Precision, normalize
from ..runtime.session import usable_devices
from ..types import Floats

logger = logging.getLogger(__name__)
_LOGGED: set[str] = set()
_PRECISIONS: dict[str, Precision] = {
    "float32": "float32", "int8": "int8", "uint8": "int8", "binary": "binary", "ubinary": "binary"
}  # fmt: skip


def _unused(**options: object) -> None:
    """Log the options that were given and mean nothing here, each once in a process."""
    for name, value in options.items():
        if value is not None and name not in _LOGGED:
            _LOGGED.add(name)
            logger.warning("%s has no effect here: onnxruntime on this machine's cores", name)


def _usable(device: str | None) -> str | None:
    """Give a device that the installed onnxruntime has; another one is logged and not used."""
    name = device.partition(":")[0] if device else None
    if name in usable_devices():
        return name
    _unused(device=device)
    return None


def _refuse(**options: object) -> None:
    """Refuse the options that were given, and would change the result."""
    for name, value in options.items():
        if value:
            raise OptionError(
                f"{name} is set, which cannot be honoured without torch. Leave it out."
            )


def _check_length(asked: int | None, read: int, name: str) -> None:
    if asked is not None and asked != read:
        raise OptionError(f"{name} is {asked}; the model reads {read} tokens. Leave it out.")


def _one_of(inputs: Any, sentences: Any) -> Any:
    if (inputs is None) == (sentences is None):
        raise OptionError("inputs and sentences, or none, were given; expected inputs.")
    return sentences if inputs is None else inputs


class SentenceTransformer:
    """An encoder with the methods of sentence-transformers' class of this name."""

    def __init__(
        self,
        model_name_or_path: str | Path | None = None,
        *,
        device: str | None = None,
        prompts: Mapping[str, str] | None = None,
        default_prompt_name: str | None = None,
        similarity_fn_name: Literal["cosine", "dot"] | None = None,
        truncate_dim: int | None = None,
        backend: str | None = None,
        cache_folder: str | None = None,
        token: bool | str | None = None,
        local_files_only: bool | None = None,
        trust_remote_code: bool | None = None,
        model_kwargs: Mapping[str, Any] | None = None,
        revision: str | None = None,
        processor_kwargs: Mapping[str, Any] | None = None,
        tokenizer_kwargs: Mapping[str, Any] | None = None,
        config_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        _unused(backend=backend, cache_folder=cache_folder, token=token)
        _unused(local_files_only=local_files_only, trust_remote_code=trust_remote_code)
        _unused(model_kwargs=model_kwargs)
        _refuse(revision=revision, processor_kwargs=processor_kwargs, config_kwargs=config_kwargs)
        _refuse(tokenizer_kwargs=tokenizer_kwargs)
        self.similarity_fn_name = similarity_fn_name or "cosine"
        check_choice("similarity_fn_name", self.similarity_fn_name, ("cosine", "dot"))
        self.encoder = load(model_name_or_path, device=_usable(device))
        self.truncate_dim = truncate_dim
        self.prompts = self.encoder.manifest.prompts | dict(prompts or {})
        self.default_prompt_name = default_prompt_name or self.encoder.manifest.default_prompt
        self._check_prompt(self.default_prompt_name, "default_prompt_name")

    @property
    def max_seq_length(self) -> int:
        """How many tokens of a text are read."""
        return self.encoder.max_tokens

    @max_seq_length.setter
    def max_seq_length(self, asked: int) -> None:
        _check_length(asked, self.encoder.max_tokens, "max_seq_length")

    def _check_prompt(self, name: str | None, option: str) -> None:
        if name is not None and name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise OptionError(f"{option} is {name!r}; the model has: {known}. Name one.")

    def encode(
        self,
        inputs: str | Sequence[str] | None = None,
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        precision: Literal["float32", "int8", "uint8", "binary", "ubinary"] = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
        pool: Any = None,
        chunk_size: int | None = None,
        *,
        sentences: str | Sequence[str] | None = None,
    ) -> Any:
        """Turn texts into vectors: (n, dim), (dim,) for one string, a list without numpy.

        `sentences` is the old name of `inputs`. int8 codes have the scale of `Encoder.encode`, not
        one that depends on the texts.
        """
        _unused(batch_size=batch_size, device=device, pool=pool, chunk_size=chunk_size)
        _refuse(convert_to_tensor=convert_to_tensor)
        check_choice("precision", precision, _PRECISIONS)
        given = _one_of(inputs, sentences)
        if output_value != "sentence_embedding":
            found = f"output_value is {output_value!r}; expected sentence_embedding."
            raise OptionError(f"{found} Use malmoi.load().words for token vectors.")
        self._check_prompt(prompt_name, "prompt_name")
        name = prompt_name or self.default_prompt_name
        known = self.encoder.manifest.prompts
        # The model's own prompts by their names: some are read, and not pooled.
        if prompt is None and name is not None and self.prompts[name] != known.get(name):
            prompt = self.prompts[name]
        texts: Any = given
        if prompt is not None:  # any text may be in front here; it wins over the name
            texts = (
                f"{prompt}{given}" if isinstance(given, str) else [f"{prompt}{t}" for t in given]
            )
            name = ""
        vectors = self.encoder.encode(
            texts,
            dim=truncate_dim or self.truncate_dim,
            precision=_PRECISIONS[precision],
            prompt=name,
            progress=bool(show_progress_bar),
        )
        if normalize_embeddings and precision == "float32":
            vectors = normalize(vectors)
        if precision == "uint8":
            vectors = (vectors.astype(np.int16) + 128).astype(np.uint8)
        elif precision == "binary":  # sentence-transformers' bits are signed by this name
            vectors = (vectors.astype(np.int16) - 128).astype(np.int8)
        return vectors if convert_to_numpy or isinstance(given, str) else list(vectors)

    def encode_query(self, *inputs: str | Sequence[str], **options: Any) -> Any:
        """Encode with the model's prompt for queries, if it has one."""
        return self._encode_as(("query",), inputs, options)

    def encode_document(self, *inputs: str | Sequence[str], **options: Any) -> Any:
        """Encode with the model's prompt for passages, if it has one."""
        return self._encode_as(PASSAGE_PROMPTS, inputs, options)

    def _encode_as(self, names: Sequence[str], inputs: Any, options: dict[str, Any]) -> Any:
        own = next((name for name in names if name in self.prompts), None)
        if options.get("prompt") is None and options.get("prompt_name") is None:
            options["prompt_name"] = own
        return self.encode(*inputs, **options)

    def similarity(self, a: NDArray[Any], b: NDArray[Any]) -> Floats:
        """Cosines (or dot products) of two sets of vectors, (len(a), len(b))."""
        scores: Floats = self._rows(a) @ self._rows(b).T
        return scores

    def similarity_pairwise(self, a: NDArray[Any], b: NDArray[Any]) -> Floats:
        """Cosines (or dot products) of vectors pair by pair, (n,)."""
        scores: Floats = (self._rows(a) * self._rows(b)).sum(axis=1)
        return scores

    def _rows(self, vectors: NDArray[Any]) -> Floats:
        rows: Floats = np.atleast_2d(np.asarray(vectors, dtype=np.float32))
        return normalize(rows) if self.similarity_fn_name == "cosine" else rows

    def get_sentence_embedding_dimension(self) -> int:
        """How many dimensions the vectors have."""
        return self.truncate_dim or self.encoder.dimension

    get_embedding_dimension = get_sentence_embedding_dimension


class CrossEncoder:
    """A reranker with the methods of sentence-transformers' class of this name."""

    def __init__(
        self,
        model_name_or_path: str | Path | None = None,
        *,
        max_length: int | None = None,
        num_labels: int | None = None,
        device: str | None = None,
        backend: str | None = None,
        cache_folder: str | None = None,
        token: bool | str | None = None,
        local_files_only: bool | None = None,
        trust_remote_code: bool | None = None,
        model_kwargs: Mapping[str, Any] | None = None,
        revision: str | None = None,
        activation_fn: Any = None,
    ) -> None:
        _unused(backend=backend, cache_folder=cache_folder, token=token)
        _unused(local_files_only=local_files_only, trust_remote_code=trust_remote_code)
        _unused(model_kwargs=model_kwargs)
        _refuse(revision=revision, activation_fn=activation_fn)
        self.reranker = load_reranker(model_name_or_path, device=_usable(device))
        self.max_length = self.reranker.max_tokens
        self.num_labels = len(self.reranker.labels) or 1
        _check_length(max_length, self.max_length, "max_length")
        if num_labels not in (None, self.num_labels):
            raise OptionError(f"num_labels is {num_labels}; the model has {self.num_labels}.")

    def predict(
        self,
        inputs: tuple[str, str] | Sequence[Sequence[str]] | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        activation_fn: Any = None,
        apply_softmax: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        *,
        sentences: tuple[str, str] | Sequence[Sequence[str]] | None = None,
    ) -> Any:
        """Score pairs, (n,); a lone pair gives one number. Labels: probabilities, (n, labels).

        `sentences` is the old name of `inputs`.
        """
        _unused(batch_size=batch_size, apply_softmax=apply_softmax)
        _refuse(convert_to_tensor=convert_to_tensor, activation_fn=activation_fn)
        listed = _one_of(inputs, sentences)
        alone = len(listed) > 0 and isinstance(listed[0], str)
        pairs = [(first, second) for first, second in ([listed] if alone else listed)]
        model, shown = self.reranker, bool(show_progress_bar)
        score = model.probabilities if model.labels else model.score
        scores = score(pairs, progress=shown)
        return scores[0] if alone else scores if convert_to_numpy else list(scores)

    def rank(
        self,
        query: str,
        documents: Sequence[str],
        top_k: int | None = None,
        return_documents: bool = False,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        activation_fn: Any = None,
        apply_softmax: bool | None = None,
        convert_to_numpy: bool | None = None,
        convert_to_tensor: bool = False,
    ) -> list[dict[str, Any]]:
        """Sort documents by their score with a query, the best first."""
        _unused(batch_size=batch_size, apply_softmax=apply_softmax)
        _unused(convert_to_numpy=convert_to_numpy, show_progress_bar=show_progress_bar or None)
        _refuse(convert_to_tensor=convert_to_tensor, activation_fn=activation_fn)
        return [
            {"corpus_id": one.index, "score": one.score}
            | ({"text": one.text} if return_documents else {})
            for one in self.reranker.rank(query, documents, k=top_k)
        ]
