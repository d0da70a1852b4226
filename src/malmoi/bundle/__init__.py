"""A bundle is a model folder that malmoi's runtime and sentence-transformers both read.

`open_bundle` takes a folder with malmoi's manifest, checked file by file, or a plain
sentence-transformers folder with an ONNX graph inside.
"""

from .bundle import Bundle, open_bundle
from .manifest import MANIFEST, Manifest
from .sentence_transformers import DenseSpec

__all__ = ["MANIFEST", "Bundle", "DenseSpec", "Manifest", "open_bundle"]
