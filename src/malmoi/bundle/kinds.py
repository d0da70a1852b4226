"""The kinds of models: which class runs each, and how a user opens one."""

from dataclasses import dataclass
from importlib import import_module
from typing import Any


@dataclass(frozen=True)
class Kind:
    """One kind of bundle; its class, "module:class", is imported when a bundle is opened."""

    runner: str
    hint: str


KINDS: dict[str, Kind] = {
    "encoder": Kind("malmoi.encoder.transformer:Encoder", "malmoi.load"),
    "static": Kind("malmoi.static.encoder:StaticEncoder", "malmoi.load"),
    "reranker": Kind("malmoi.reranker.reranker:Reranker", "malmoi.load_reranker or malmoi rerank"),
    "tagger": Kind("malmoi.tagger.tagger:Tagger", "malmoi.load_tagger or malmoi tag"),
    "classifier": Kind(
        "malmoi.classifier.classifier:NoteClassifier", "malmoi.load_classifier or malmoi classify"
    ),
}


def runner_of(kind: str) -> Any:
    """Import the class that runs bundles of a kind."""
    module, _, name = KINDS[kind].runner.partition(":")
    return getattr(import_module(module), name)
