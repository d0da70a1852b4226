"""malmoi: Korean, English and mixed text made comparable, without torch and without network.

    >>> encoder = load()                                        # the model that ships
    >>> encoder.encode(["당뇨병성 신증", "diabetic nephropathy"]).shape
    (2, 384)

What there is:

- `load(name)` opens a model by its kind: an `Encoder` (vectors), a `Reranker` (scores of pairs), a
  `Tagger` (entities), a `Classifier` (long notes) or an `Answerer` (questions).
- `Corpus.open(file, encoder)` keeps `Document`s and gives `Hit`s: search by meaning and by words.
- `Lexicon.open(folder)` is a code table; a `Linker` finds the codes of terms, a `NoteReader` those
  of a note, with status and whose they are.
- `train(…)` makes a model of your data, `evaluate(…)` measures one.
- `Client(url)` has the models of a server.

Errors are `MalmoiError`; the others are in `malmoi.errors`, and each is also the builtin error that
one would expect. The classes of sentence-transformers are in
`malmoi.integrations.sentence_transformers`.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, overload

from . import errors
from .bundle.bundle import find_model, open_bundle, runner_of
from .bundle.manifest import KINDS
from .encoders import Encoder, TextEncoder
from .encoders import load as _load_encoder
from .errors import MalmoiError

if TYPE_CHECKING:
    from .client import Client
    from .clinical import NoteReader
    from .corpus import Corpus, Document, Hit
    from .encoders.static import StaticEncoder
    from .evaluation import evaluate
    from .heads import Answerer, Classifier, Reranker, Tagger
    from .terms import Lexicon, Linker
    from .training.api import train

__version__ = "1.0.0"

__all__ = [
    "Answerer",
    "Classifier",
    "Client",
    "Corpus",
    "Document",
    "Encoder",
    "Hit",
    "Lexicon",
    "Linker",
    "MalmoiError",
    "NoteReader",
    "Reranker",
    "StaticEncoder",
    "Tagger",
    "TextEncoder",
    "errors",
    "evaluate",
    "load",
    "train",
]

# Names that are imported when first asked for, and the modules that hold them.
_LAZY = {
    "Answerer": "heads.answerer",
    "Classifier": "heads.classifier",
    "Client": "client",
    "Corpus": "corpus",
    "Document": "corpus",
    "Hit": "corpus",
    "Lexicon": "terms",
    "Linker": "terms",
    "NoteReader": "clinical",
    "Reranker": "heads.reranker",
    "StaticEncoder": "encoders.static",
    "Tagger": "heads.tagger",
    "evaluate": "evaluation",
    "train": "training.api",
}
# Names of 0.2, and what has taken their place.
_RENAMED = {
    **dict.fromkeys(
        ("load_reranker", "load_tagger", "load_classifier", "load_answerer"), "malmoi.load"
    ),
    "NoteClassifier": "malmoi.Classifier",
    "Answer": "malmoi.heads.Answer",
    "Entity": "malmoi.heads.Entity",
    "from_int8": "malmoi.encoders.from_int8",
    "SentenceTransformer": "malmoi.integrations.sentence_transformers.SentenceTransformer",
    "CrossEncoder": "malmoi.integrations.sentence_transformers.CrossEncoder",
}


@overload
def load(
    name_or_path: None = None,
    *,
    kind: None = None,
    threads: int | None = ...,
    graph: str | None = ...,
    pooling: str | None = ...,
    device: str | None = ...,
) -> TextEncoder: ...
@overload
def load(
    name_or_path: str | Path | None = None,
    *,
    kind: Literal["encoder", "static"],
    threads: int | None = ...,
    graph: str | None = ...,
    pooling: str | None = ...,
    device: str | None = ...,
) -> TextEncoder: ...
@overload
def load(
    name_or_path: str | Path | None = None,
    *,
    kind: Literal["reranker"],
    threads: int | None = ...,
    graph: str | None = ...,
    pooling: str | None = ...,
    device: str | None = ...,
) -> "Reranker": ...
@overload
def load(
    name_or_path: str | Path,
    *,
    kind: str | None = None,
    threads: int | None = ...,
    graph: str | None = ...,
    pooling: str | None = ...,
    device: str | None = ...,
) -> Any: ...
def load(
    name_or_path: str | Path | None = None,
    *,
    kind: str | None = None,
    threads: int | None = None,
    graph: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
) -> Any:
    """Open a model: the shipped encoder, a folder, a shipped model's name or a hub id.

    What comes back is of the bundle's kind: an Encoder, StaticEncoder, Reranker, Tagger, Classifier
    or Answerer. Nothing is downloaded unless a hub id is named.

    - `kind`: the kind that is expected; any other is refused, with its name. `kind="reranker"`
      without a name compares token vectors of the shipped encoder (late interaction).
    - `threads`: how many cores to use; all that this process may use when left out.
    - `graph`: which ONNX graph to use of a folder with several: its path there, or its name.
    - `pooling`: how an encoder's vector is made of token states, for a folder that does not say.
    - `device`: where the graph runs: "cpu", "cuda", "directml", "coreml", "openvino" or "auto",
      with the package of onnxruntime that has it. If left out, what MALMOI_DEVICE says, or "cpu".

    >>> load(kind="reranker").score([("환불은요?", "7일 안에 됩니다.")]).shape
    (1,)
    """
    if kind is not None:
        errors.check_choice("kind", kind, KINDS)
    if name_or_path is None and kind == "reranker":
        return import_module(".heads.reranker", __name__).load_reranker(
            threads=threads, device=device
        )
    folder = find_model(name_or_path, graph=graph)
    kinds = (kind,) if kind else tuple(KINDS)
    bundle = open_bundle(folder, kinds=kinds, graph=graph, pooling=pooling)
    if bundle.manifest.kind in ("encoder", "static"):
        return _load_encoder(bundle, threads=threads, device=device)
    return runner_of(bundle.manifest.kind)(bundle, threads=threads, device=device)


def __dir__() -> list[str]:
    return [*globals(), *_LAZY]


def __getattr__(name: str) -> Any:
    """Import the larger packages when somebody asks for them, so that `import malmoi` is quick."""
    if name in _LAZY:
        return getattr(import_module(f".{_LAZY[name]}", __name__), name)
    where = f"errors.{name}" if hasattr(errors, name) else ""
    instead = _RENAMED.get(name) or (f"malmoi.{where}" if where else "")
    hint = f"; it is {instead} now" if instead else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
