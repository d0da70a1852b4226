"""Classes for code that was written for sentence-transformers: the same names, without torch.

What has a meaning here is honoured; what has none (`device`, `batch_size`) is logged once; what
would change the result and cannot be done is refused.
"""

import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..corpus.corpus import prompts_of
from ..encoder import load
from ..errors import OptionError
from ..reranker.reranker import load_reranker
from ..runtime.pooling import normalize
from ..runtime.precision import Precision
from ..types import Floats

logger = logging.getLogger(__name__)
_LOGGED: set[str] = set()


def _unused(**options: object) -> None:
    """Log the options that were given and mean nothing here, each once in a process."""
    for name, value in options.items():
        if value is not None and name not in _LOGGED:
            _LOGGED.add(name)
            logger.warning("%s has no effect here: onnxruntime on this machine's cores", name)


def _refuse(**options: object) -> None:
    for name, value in options.items():
        if value:
            raise OptionError(f"{name} is set, which needs torch; expected numpy. Leave it out.")


class SentenceTransformer:
    """An encoder with the methods of sentence-transformers' class of this name."""

    def __init__(
        self,
        model_name_or_path: str | Path | None = None,
        *,
        device: str | None = None,
        truncate_dim: int | None = None,
    ) -> None:
        _unused(device=device)
        self.encoder = load(model_name_or_path)
        self.truncate_dim = truncate_dim
        self.prompts = dict(self.encoder.manifest.prompts)
        self.default_prompt_name = self.encoder.manifest.default_prompt
        self.max_seq_length = self.encoder.max_tokens

    def encode(
        self,
        sentences: str | Sequence[str],
        prompt_name: str | None = None,
        prompt: str | None = None,
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        output_value: str = "sentence_embedding",
        precision: Precision = "float32",
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
        device: str | None = None,
        normalize_embeddings: bool = False,
        truncate_dim: int | None = None,
    ) -> Any:
        """Turn texts into vectors: (n, dim), (dim,) for one string, a list without numpy."""
        _unused(batch_size=batch_size, device=device)
        _refuse(convert_to_tensor=convert_to_tensor)
        if output_value != "sentence_embedding":
            found = f"output_value is {output_value!r}; expected sentence_embedding."
            raise OptionError(f"{found} Use malmoi.load().words for token vectors.")
        if prompt_name is not None and prompt_name not in self.prompts:
            known = ", ".join(self.prompts) or "none"
            raise OptionError(f"prompt_name is {prompt_name!r}; the model has: {known}. Name one.")
        texts = sentences
        if prompt is not None:  # any text may stand in front here; it wins over the name
            one = isinstance(sentences, str)
            texts = f"{prompt}{sentences}" if one else [f"{prompt}{text}" for text in sentences]
            prompt_name = ""
        vectors = self.encoder.encode(
            texts,
            dim=truncate_dim or self.truncate_dim,
            precision=precision,
            prompt=prompt_name,
            progress=bool(show_progress_bar),
        )
        if normalize_embeddings and precision == "float32":
            vectors = normalize(vectors)
        return vectors if convert_to_numpy or isinstance(sentences, str) else list(vectors)

    def encode_query(self, sentences: str | Sequence[str], **options: Any) -> Any:
        """Encode with the model's prompt for queries, if it has one."""
        return self._encode_as(0, sentences, options)

    def encode_document(self, sentences: str | Sequence[str], **options: Any) -> Any:
        """Encode with the model's prompt for passages, if it has one."""
        return self._encode_as(1, sentences, options)

    def _encode_as(self, side: int, sentences: str | Sequence[str], options: dict[str, Any]) -> Any:
        names = prompts_of(self.encoder)
        if names is not None and names[side] and not {"prompt", "prompt_name"} & options.keys():
            options["prompt_name"] = names[side]
        return self.encode(sentences, **options)

    def similarity(self, a: NDArray[Any], b: NDArray[Any]) -> Floats:
        """Cosines of two sets of vectors, (len(a), len(b))."""
        scores: Floats = _rows(a) @ _rows(b).T
        return scores

    def similarity_pairwise(self, a: NDArray[Any], b: NDArray[Any]) -> Floats:
        """Cosines of vectors pair by pair, (n,)."""
        scores: Floats = (_rows(a) * _rows(b)).sum(axis=1)
        return scores

    def get_sentence_embedding_dimension(self) -> int:
        """How many dimensions the vectors have."""
        return self.truncate_dim or self.encoder.dimension

    get_embedding_dimension = get_sentence_embedding_dimension


def _rows(vectors: NDArray[Any]) -> Floats:
    return normalize(np.atleast_2d(np.asarray(vectors, dtype=np.float32)))


class CrossEncoder:
    """A reranker with the methods of sentence-transformers' class of this name."""

    def __init__(
        self, model_name_or_path: str | Path | None = None, *, device: str | None = None
    ) -> None:
        _unused(device=device)
        self.reranker = load_reranker(model_name_or_path)
        self.max_length = self.reranker.max_tokens

    def predict(
        self,
        sentences: tuple[str, str] | Sequence[Sequence[str]],
        batch_size: int | None = None,
        show_progress_bar: bool | None = None,
        apply_softmax: bool | None = None,
        convert_to_numpy: bool = True,
        convert_to_tensor: bool = False,
    ) -> Any:
        """Score pairs, (n,); a lone pair gives one number. Labels: probabilities, (n, labels)."""
        _unused(batch_size=batch_size, apply_softmax=apply_softmax)
        _refuse(convert_to_tensor=convert_to_tensor)
        alone = bool(sentences) and isinstance(sentences[0], str)
        given: Any = [sentences] if alone else sentences
        pairs = [(first, second) for first, second in given]
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
    ) -> list[dict[str, Any]]:
        """Sort documents by their score with a query, the best first."""
        return [
            {"corpus_id": one.index, "score": one.score}
            | ({"text": one.text} if return_documents else {})
            for one in self.reranker.rank(query, documents, k=top_k)
        ]
