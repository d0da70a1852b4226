"""The state of a running server: what it serves, its settings and counters, and the engine."""

import logging
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ..clinical.corrections import Corrections
from ..clinical.reader import NoteReader
from ..corpus import Corpus
from ..corpus.groups import for_groups
from ..corpus.keywords import cut
from ..corpus.samples import SAMPLE, SampleCorpus
from ..encoders import TextEncoder, load
from ..encoders.base import prompts_of
from ..encoders.token_vectors import output_of
from ..errors import CutWarning, DataError
from ..heads.reranker import LateReranker, Reranker, load_reranker
from ..terms import Linker
from ..text import morphemes
from .api_keys import KeyRing, access
from .audit import Audit
from .engine import BatchedEncoder, Engine
from .errors import APIError
from .metrics import Metrics
from .settings import ServerSettings

logger = logging.getLogger(__name__)

T = TypeVar("T")
# Korean and Latin words that no analyser has cached.
_WARM = "당뇨 환자가 말모이를 처음 열어 보았다, warm-up"
_SAMPLE_LEXICON = "sample"  # served where nothing is named, next to a bilingual FAQ
# What clients call texts that ask, and texts that are searched.
_QUERIES = ("query", "search_query", "retrieval.query")
_PASSAGES = ("document", "passage", "search_document", "retrieval.passage")


@dataclass(frozen=True)
class Resources:
    """Everything that was named at the start; a request can name no other file."""

    encoder: TextEncoder
    reranker: Reranker | None = None
    corpora: Mapping[str, Corpus] = field(default_factory=dict)
    lexicons: Mapping[str, NoteReader] = field(default_factory=dict)  # each with its linker
    # The encoder as corpora and lexicons were given it, so that their texts join the batches.
    batched: BatchedEncoder | None = None

    @property
    def models(self) -> dict[str, TextEncoder | Reranker]:
        """The models by their names; the encoder's is the one that counts if both have it."""
        found: dict[str, TextEncoder | Reranker] = {self.encoder.name: self.encoder}
        if self.reranker is not None:
            found.setdefault(self.reranker.name, self.reranker)
        return found

    @property
    def seen_corpora(self) -> dict[str, Corpus]:
        """The corpora that the key of this request sees, as its groups see them."""
        rights = access().rights
        seen = _seen(self.corpora, rights.corpora)
        if rights.groups is None:
            return seen
        return {name: for_groups(one, rights.groups) for name, one in seen.items()}

    @property
    def seen_lexicons(self) -> dict[str, NoteReader]:
        """The lexicons that the key of this request sees."""
        return _seen(self.lexicons, access().rights.lexicons)

    def corpus(self, name: str | None) -> tuple[str, Corpus]:
        """Give a corpus by its name, the first one without."""
        found = _named(self.seen_corpora, name, kind="corpus", option="--corpus FILE")
        access().corpus = found[0]
        return found

    def lexicon(self, name: str | None) -> tuple[str, NoteReader]:
        """Give a lexicon's reader of notes by its name, the first one without."""
        return _named(self.seen_lexicons, name, kind="lexicon", option="--lexicon FOLDER")

    def find_reranker(self) -> Reranker:
        """Give the reranker, or say that there is none."""
        if self.reranker is None:
            command = "malmoi serve --reranker MODEL"
            raise APIError(404, "no_reranker", f"no reranker is served here. Start with: {command}")
        return self.reranker

    def check_cross_encoder(self) -> None:
        """Say so where late interaction alone reranks, which orders every search already."""
        if self.reranker is None or isinstance(self.reranker, LateReranker):
            command = "malmoi serve --reranker MODEL"
            message = f"no cross-encoder is served here. Start with: {command}"
            raise APIError(404, "no_reranker", message, param="rerank")

    def close(self) -> None:
        """Let go of the files."""
        for corpus in self.corpora.values():
            corpus.close()


def _named(served: Mapping[str, T], name: str | None, *, kind: str, option: str) -> tuple[str, T]:
    if not served:
        message = f"no {kind} is served here. Start with: malmoi serve {option}"
        raise APIError(404, f"no_{kind}", message)
    if name is None:
        return next(iter(served.items()))
    if name not in served:
        message = f"that {kind} is not served here; served are: {', '.join(served)}."
        raise APIError(404, f"{kind}_not_found", message, param=kind)
    return name, served[name]


def _seen(served: Mapping[str, T], names: tuple[str, ...] | None) -> dict[str, T]:
    return {name: one for name, one in served.items() if names is None or name in names}


def load_resources(
    model: str | Path | None = None,
    *,
    reranker: str | None = None,
    corpora: Sequence[Path] = (),
    lexicons: Sequence[str] = (),
    samples: bool = True,
    create: bool = False,
    threads: int | None = None,
) -> Resources:
    """Open what a server is to serve.

    Texts are reranked by late interaction unless a reranker is named ("none" for none); the samples
    are served where no corpus or no lexicon is named. A corpus must be there already, made with
    this encoder, unless `create` makes an empty one to upload files into.
    """
    encoder = load(model, threads=threads)
    if reranker is None and output_of(encoder) is None:
        reranker = "none"
    batched = BatchedEncoder(encoder)
    opened = {_stem(path): _open_corpus(path, batched, create=create) for path in corpora}
    if samples and not opened:
        opened[SAMPLE] = SampleCorpus.make(batched)
    return Resources(
        encoder,
        None if reranker == "none" else load_reranker(reranker, encoder=encoder, threads=threads),
        opened,
        {
            _stem(name): _open_reader(Linker(name, batched))
            for name in lexicons or ([_SAMPLE_LEXICON] if samples else [])
        },
        batched,
    )


def _open_reader(linker: Linker) -> NoteReader:
    """Open a reader of notes, with the decisions that are kept next to its lexicon."""
    return NoteReader(linker, corrections=Corrections.of_lexicon(linker.lexicon))


def _stem(path: str | Path) -> str:
    return Path(path).name.removesuffix(".malmoi").removesuffix(".lexicon")


def _open_corpus(path: Path, encoder: TextEncoder, *, create: bool) -> Corpus:
    if not create and not path.exists():
        raise DataError(
            f"there is no corpus {path}; expected a file made before. Make it with: malmoi index"
        )
    corpus = Corpus.open(path, encoder)
    corpus.warm()
    return corpus


@dataclass(frozen=True)
class Overview:
    """What a corpus holds: its types and folders with their numbers of documents.

    `questions` find a document of it; `made` is when it was counted, in seconds of a clock.
    """

    documents: int
    passages: int
    types: Mapping[str, int]
    folders: Mapping[str, int]
    questions: tuple[str, ...]
    made: float


@dataclass
class AppState:
    """The resources, the settings, and the engine, which is there while the server runs."""

    resources: Resources
    settings: ServerSettings
    metrics: Metrics = field(default_factory=Metrics)
    running: int = 0  # requests being answered, counted by the middleware
    _engine: Engine | None = None
    # Of corpora, by their names, the language of their questions and the groups that see them.
    overviews: dict[tuple[str, str | None, tuple[str, ...] | None], Overview] = field(
        default_factory=dict
    )

    def __post_init__(self) -> None:
        self.batched = self.resources.batched or BatchedEncoder(self.resources.encoder)
        self.keys = KeyRing.open(self.settings.keys) if self.settings.keys else None
        self.audit = Audit(self.settings.audit) if self.settings.audit else None

    @property
    def engine(self) -> Engine:
        """What runs the models."""
        if self._engine is None:
            raise APIError(503, "starting", "the server is starting. Try again.", wait=1)
        return self._engine

    @property
    def ready(self) -> bool:
        """Tell whether requests are taken."""
        return self._engine is not None

    def warm(self) -> None:
        """Use every model and analyser once, so that the first request finds them loaded."""
        resources = self.resources
        if morphemes.available():  # loading it holds every thread of Python for seconds
            list(morphemes.forms_of([_WARM]))
        with warnings.catch_warnings(action="ignore", category=CutWarning):
            resources.encoder.encode([_WARM])
            if resources.reranker is not None:
                resources.reranker.score([(_WARM, _WARM)])
            for corpus in resources.corpora.values():
                list(cut([_WARM], corpus.store.about.words))  # searches may not load the analyser
                corpus.search(_WARM, 1)
            for reader in resources.lexicons.values():
                reader.read(_WARM)

    def open(self, *, workers: int) -> None:
        """Start the engine's threads; inside the event loop."""
        self.metrics.watch_requests(lambda: self.running)
        self._engine = Engine(
            self.resources.encoder,
            self.resources.reranker,
            self.settings,
            self.metrics,
            in_flight=lambda: self.running,
            workers=workers,
        )
        self.batched.engine = self._engine

    def reload_keys(self) -> None:
        """Read the file of keys again; a file that cannot be read changes nothing."""
        if self.keys is not None:
            self.keys.reload()

    def close(self) -> None:
        """Finish what was accepted."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.close(seconds=self.settings.stop_seconds)
            self.batched.engine = None
            self.resources.close()
            if self.audit is not None:
                self.audit.close()

    def check_model(self, name: str | None, served: str) -> None:
        """Refuse a model that is not served, so that nobody takes one's vectors for another's."""
        if name not in (None, "", served, f"{served}:latest"):  # as Ollama's clients name it
            message = f"that model is not served here; served is {served}."
            remedy = "Name it, or leave the field out."
            raise APIError(404, "model_not_found", f"{message} {remedy}", param="model")

    def prompt_for(self, purpose: str | None) -> str | None:
        """Give the name of the model's prompt for what texts are for; None is its default."""
        if purpose is None:
            return None
        encoder = self.resources.encoder
        query, passage = prompts_of(encoder) or (None, None)
        if purpose in _QUERIES:
            return query
        if purpose in _PASSAGES:
            return passage
        return purpose if purpose in encoder.manifest.prompts else None

    def check_prompt(self, name: str | None, *, param: str) -> str | None:
        """Refuse a prompt that the model does not have."""
        known = self.resources.encoder.manifest.prompts
        if name is not None and name not in known:
            message = f"the model has no such prompt; it has: {', '.join(known) or 'none'}."
            raise APIError(400, "unknown_prompt", message, param=param)
        return name

    def check_texts(self, texts: list[str], *, param: str) -> list[str]:
        """Refuse more or longer texts than one request may bring."""
        self.check_count(len(texts), param=param)
        longest, most = max(map(len, texts), default=0), self.settings.limits.characters
        if longest > most:
            message = f"a text has {longest:,} characters; at most {most:,}. Cut it."
            raise APIError(413, "text_too_long", message, param=param)
        return texts

    def check_answer(self, size: int) -> None:
        """Refuse an answer that would take more bytes than one may."""
        most = self.settings.limits.answer_bytes
        if size > most:
            message = f"the answer would take about {size / 1e6:,.0f} MB; at most"
            remedy = f"{most / 1e6:,.0f} MB. Send fewer texts, or ask for fewer layers or results."
            raise APIError(413, "answer_too_large", f"{message} {remedy}")

    def check_count(self, count: int, *, param: str) -> None:
        """Refuse more texts than one request may bring."""
        most = self.settings.limits.texts
        if count > most:
            message = f"{count:,} texts in one request; at most {most:,}. Send parts."
            raise APIError(413, "too_many_texts", message, param=param)
