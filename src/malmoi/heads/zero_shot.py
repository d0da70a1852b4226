"""The category of a document, out of categories that were only named: no training.

Each category makes a sentence ("이 글은 스포츠에 대한 것이다."). A cross-encoder of NLI says
how far the text entails it; an encoder says how similar both are.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..bundle.bundle import find_model, open_bundle, runner_of
from ..encoders.base import TextEncoder
from ..errors import BundleError, OptionError, counted
from ..runtime.pooling import normalize, softmax
from ..text.cleanup import as_texts
from ..types import Doubles
from .reranker import Reranker, similar_label

TEMPLATE = "이 글은 {}에 대한 것이다."
_CONTRADICTION = ("contradiction", "모순")
_SHARPNESS = 20.0  # of an encoder's cosines, as in training with in-batch negatives
_LEAST = 1e-12


@dataclass(frozen=True, slots=True)
class Category:
    """The category of a text, its probability, and that of every category."""

    label: str
    probability: float
    probabilities: dict[str, float]


def load_zero_shot(
    name_or_path: str | Path | None,
    labels: Sequence[str],
    *,
    template: str = TEMPLATE,
    threads: int | None = None,
) -> "ZeroShotClassifier":
    """Open an NLI cross-encoder, or an encoder (the shipped one for None), that sorts into labels.

    `template` makes a sentence of a label, which takes the place of {}.
    """
    bundle = open_bundle(find_model(name_or_path), kinds=("encoder", "static", "reranker"))
    model = runner_of(bundle.manifest.kind)(bundle, threads=threads)
    return ZeroShotClassifier(model, labels, template=template)


class ZeroShotClassifier:
    """Sorts texts into categories by their names alone. Make one with `load_zero_shot`."""

    def __init__(self, model: Any, labels: Sequence[str], *, template: str = TEMPLATE) -> None:
        self.labels = tuple(dict.fromkeys(label.strip() for label in labels))
        if len(self.labels) < 2 or not all(self.labels):
            raise OptionError(
                f"there is {counted(len(self.labels), 'category', 'categories')}; expected two or "
                "more different names. Name each with --zero-shot."
            )
        if template.count("{}") != 1:
            raise OptionError(
                "the template has no {} or several; expected one, where the category's name goes. "
                f'Write it as in "{TEMPLATE}".'
            )
        self.model, self.template = model, template
        self._sentences = [template.replace("{}", label) for label in self.labels]
        self._columns = _columns(model) if isinstance(model, Reranker) else None
        if self._columns is None and not isinstance(model, TextEncoder):
            raise OptionError(
                f"{type(model).__name__} neither compares nor encodes; expected a cross-encoder "
                "trained on NLI, or an encoder. Open one with load_zero_shot."
            )

    def classify(self, text: str) -> Category:
        """Give a text's category."""
        return self.classify_all([text])[0]

    def classify_all(self, texts: Sequence[str], *, several: bool = False) -> list[Category]:
        """Give each text's category; with `several` each one's probability is by itself.

        Without it the probabilities of a text add up to 1.
        """
        listed = as_texts(texts)
        if not listed:
            return []
        rows = self._by_inference(listed, several) if self._columns else self._by_cosine(listed)
        if several and self._columns is None:
            raise OptionError(
                "an encoder's cosines are no probabilities by themselves; expected a cross-encoder "
                "trained on NLI for several categories of one text. Name one."
            )
        found = []
        for row in rows.tolist():
            shares = dict(zip(self.labels, row, strict=True))
            best = max(self.labels, key=shares.__getitem__)
            found.append(Category(best, shares[best], shares))
        return found

    def _by_inference(self, texts: Sequence[str], several: bool) -> Doubles:
        """Shares of entailment, (texts, labels)."""
        assert self._columns is not None
        entails, against = self._columns
        pairs = [(text, sentence) for text in texts for sentence in self._sentences]
        found = np.asarray(self.model.probabilities(pairs), dtype=np.float64)
        found = found.reshape(len(texts), len(self.labels), -1) + _LEAST
        yes = found[:, :, entails]
        total = yes + found[:, :, against] if several else yes.sum(axis=1, keepdims=True)
        shares: Doubles = yes / total
        return shares

    def _by_cosine(self, texts: Sequence[str]) -> Doubles:
        vectors = normalize(self.model.encode(texts))
        names = normalize(self.model.encode(self._sentences))
        return softmax((vectors @ names.T).astype(np.float64) * _SHARPNESS)


def _columns(model: Reranker) -> tuple[int, int]:
    """The columns of entailment and of contradiction (or of the only other label)."""
    if not model.labels:
        raise BundleError(
            f"{model.name} gives one score and no labels; expected a cross-encoder trained on NLI, "
            "or an encoder. Train one with recipes/nli-cross-encoder.toml."
        )
    entails = similar_label(model.labels)
    against = [i for i, name in enumerate(model.labels) if name.lower() in _CONTRADICTION]
    if not against and len(model.labels) == 2:
        against = [1 - entails]
    if len(against) != 1:
        raise BundleError(
            f"the labels of {model.name} are {', '.join(model.labels)}; expected entailment and "
            "contradiction among them. Name a model trained on NLI."
        )
    return entails, against[0]
