"""malmoi: Korean, English and mixed text made comparable, without torch and without network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .encoder import Encoder, TextEncoder, load
from .errors import (
    BundleCorrupt,
    BundleError,
    BundleNotFound,
    CorpusBusy,
    CorpusError,
    CutWarning,
    DataError,
    DocumentError,
    LexiconError,
    MalmoiError,
    MissingExtra,
    OfflineError,
    OptionError,
    OutputError,
    TextError,
)
from .reranker.reranker import Reranker, load_reranker
from .runtime.precision import from_int8
from .static.encoder import StaticEncoder
from .tagger import Entity, Tagger, load_tagger

if TYPE_CHECKING:
    from .answerer import Answer, Answerer, load_answerer
    from .classifier import NoteClassifier, load_classifier
    from .corpus import Corpus, Document
    from .integrations.drop_in import CrossEncoder, SentenceTransformer
    from .lexicon import Lexicon
    from .linking import Linker

__version__ = "0.2.0"

__all__ = [
    "Answer",
    "Answerer",
    "BundleCorrupt",
    "BundleError",
    "BundleNotFound",
    "Corpus",
    "CorpusBusy",
    "CorpusError",
    "CrossEncoder",
    "CutWarning",
    "DataError",
    "Document",
    "DocumentError",
    "Encoder",
    "Entity",
    "Lexicon",
    "LexiconError",
    "Linker",
    "MalmoiError",
    "MissingExtra",
    "NoteClassifier",
    "OfflineError",
    "OptionError",
    "OutputError",
    "Reranker",
    "SentenceTransformer",
    "StaticEncoder",
    "Tagger",
    "TextEncoder",
    "TextError",
    "from_int8",
    "load",
    "load_answerer",
    "load_classifier",
    "load_reranker",
    "load_tagger",
]


# Names that are imported when first asked for, and the packages that hold them.
_LAZY = {
    "Answer": "answerer",
    "Answerer": "answerer",
    "load_answerer": "answerer",
    "Lexicon": "lexicon",
    "Linker": "linking",
    "Corpus": "corpus",
    "Document": "corpus",
    "NoteClassifier": "classifier",
    "load_classifier": "classifier",
    "CrossEncoder": "integrations.drop_in",
    "SentenceTransformer": "integrations.drop_in",
}


def __dir__() -> list[str]:
    return [*globals(), *_LAZY]


def __getattr__(name: str) -> Any:
    """Import the larger packages when somebody asks for them, so that `import malmoi` is quick."""
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
