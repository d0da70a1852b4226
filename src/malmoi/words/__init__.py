"""A vector per word, in its sentence, from chosen layers.

This room reads a bundle's graph layer by layer; `Encoder.words` is the door to it.
"""

from .cutting import By
from .door import WordEncoder
from .layers import Layers, layer_names, no_layers
from .read import MERGES, Merge, Reader, Token, Word
from .similar import Occurrence, by_layer, find, likeness, occurrences

__all__ = [
    "MERGES",
    "By",
    "Layers",
    "Merge",
    "Occurrence",
    "Reader",
    "Token",
    "Word",
    "WordEncoder",
    "by_layer",
    "find",
    "layer_names",
    "likeness",
    "no_layers",
    "occurrences",
]
