"""malmoi: Korean, English and mixed text made comparable, without torch and without network."""

from .encoder import Encoder, StaticEncoder, TextEncoder, load
from .errors import (
    BundleCorrupt,
    BundleError,
    BundleNotFound,
    CutWarning,
    DataError,
    MalmoiError,
    MissingExtra,
    OfflineError,
    OptionError,
    OutputError,
    TextError,
)
from .precision import from_int8
from .reranker import Reranker, load_reranker
from .tagger import Entity, Tagger, load_tagger

__version__ = "0.1.0"

__all__ = [
    "BundleCorrupt",
    "BundleError",
    "BundleNotFound",
    "CutWarning",
    "DataError",
    "Encoder",
    "Entity",
    "MalmoiError",
    "MissingExtra",
    "OfflineError",
    "OptionError",
    "OutputError",
    "Reranker",
    "StaticEncoder",
    "Tagger",
    "TextEncoder",
    "TextError",
    "from_int8",
    "load",
    "load_reranker",
    "load_tagger",
]
