"""Word vectors in their sentence, from chosen layers of a graph; `Encoder.words` uses them."""

from importlib import import_module
from typing import Any

from .reader import (
    MERGES,
    HiddenStates,
    LayerReader,
    Layers,
    Merge,
    Occurrence,
    PieceVector,
    Word,
    by_layer,
    find,
    layer_names,
    no_layers,
    occurrences,
    similarity,
)
from .segment import By

__all__ = [
    "MERGES",
    "By",
    "HiddenStates",
    "LayerReader",
    "Layers",
    "Merge",
    "Occurrence",
    "PieceVector",
    "Word",
    "by_layer",
    "find",
    "layer_names",
    "no_layers",
    "occurrences",
    "similarity",
]

# The names of 0.1.
Reader, Token, likeness = LayerReader, PieceVector, similarity


def __getattr__(name: str) -> Any:
    if name == "WordEncoder":  # in 0.1 the base of all encoders; now what a transformer has
        return import_module("malmoi.encoder.layers").LayerAccess
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
