"""malmoi: Korean, English and mixed text made comparable, without torch and without network."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .encoders import Encoder, TextEncoder, load
from .encoders.static import StaticEncoder
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
from .runtime.pooling import from_int8

if TYPE_CHECKING:
    from .corpus import Corpus, Document
    from .encoders.static import StaticEncoder
    from .heads import (
        Answer,
        Answerer,
        Entity,
        NoteClassifier,
        Reranker,
        Tagger,
        load_answerer,
        load_classifier,
        load_reranker,
        load_tagger,
    )
    from .integrations.sentence_transformers import CrossEncoder, SentenceTransformer
    from .terms import Lexicon, Linker

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
    **dict.fromkeys(("Answer", "Answerer", "load_answerer"), "heads.answerer"),
    **dict.fromkeys(("NoteClassifier", "load_classifier"), "heads.classifier"),
    **dict.fromkeys(("Reranker", "load_reranker"), "heads.reranker"),
    **dict.fromkeys(("Entity", "Tagger", "load_tagger"), "heads.tagger"),
    **dict.fromkeys(("Lexicon", "Linker"), "terms"),
    **dict.fromkeys(("Corpus", "Document"), "corpus"),
    **dict.fromkeys(("CrossEncoder", "SentenceTransformer"), "integrations.sentence_transformers"),
    "StaticEncoder": "encoders.static",
}


def __dir__() -> list[str]:
    return [*globals(), *_LAZY]


def __getattr__(name: str) -> Any:
    """Import the larger packages when somebody asks for them, so that `import malmoi` is quick."""
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
