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

__version__ = "0.1.0"

__all__ = [
    "BundleCorrupt",
    "BundleError",
    "BundleNotFound",
    "CutWarning",
    "DataError",
    "Encoder",
    "MalmoiError",
    "MissingExtra",
    "OfflineError",
    "OptionError",
    "OutputError",
    "Reranker",
    "StaticEncoder",
    "TextEncoder",
    "TextError",
    "from_int8",
    "load",
    "load_reranker",
]
