"""malmoi: Korean, English and mixed text made comparable, without torch and without network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .encoder import Encoder, StaticEncoder, TextEncoder, load
from .errors import (
    BundleCorrupt,
    BundleError,
    BundleNotFound,
    CorpusBusy,
    CorpusError,
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

if TYPE_CHECKING:
    from .corpus import Corpus, Document
    from .lexicon import Lexicon
    from .linking import Linker
    from .notes import NoteClassifier, load_classifier

__version__ = "0.1.0"

__all__ = [
    "BundleCorrupt",
    "BundleError",
    "BundleNotFound",
    "Corpus",
    "CorpusBusy",
    "CorpusError",
    "CutWarning",
    "DataError",
    "Document",
    "Encoder",
    "Entity",
    "Lexicon",
    "Linker",
    "MalmoiError",
    "MissingExtra",
    "NoteClassifier",
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
    "load_classifier",
    "load_reranker",
    "load_tagger",
]


# Names that are imported when first asked for, and the rooms they stand in.
_ROOMS = {
    "Lexicon": "lexicon",
    "Linker": "linking",
    "Corpus": "corpus",
    "Document": "corpus",
    "NoteClassifier": "notes",
    "load_classifier": "notes",
}


def __getattr__(name: str) -> Any:
    """Open the larger rooms when somebody asks for them, so that `import malmoi` stays quick."""
    if name in _ROOMS:
        return getattr(import_module(f".{_ROOMS[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
