"""Word vectors in their sentence, from chosen layers of a graph; `Encoder.words` uses them."""

from .reader import (
    MERGES,
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
