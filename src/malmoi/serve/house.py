"""What a running server has at hand, as every route sees it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from ..bundle.catalog import shipped_models
from ..clinical.reader import NoteReader
from ..corpus import Corpus
from ..encoder import Encoder, TextEncoder, load
from ..errors import DataError
from ..linking import Linker
from ..reranker.reranker import Reranker, load_reranker
from .desk import Desk
from .metrics import Metrics
from .refusals import Refusal
from .samples import LEXICON, NAME, SampleCorpus
from .settings import Settings
from .shared import Shared

T = TypeVar("T")
RERANKER = "ko-en-reranker"


@dataclass(frozen=True)
class Terms:
    """A lexicon, ready to link mentions and to read notes."""

    linker: Linker
    notes: NoteReader


@dataclass(frozen=True)
class Stock:
    """Everything that was named at the start; a request can name no other file."""

    encoder: TextEncoder
    reranker: Reranker | None = None
    corpora: Mapping[str, Corpus] = field(default_factory=dict)
    lexicons: Mapping[str, Terms] = field(default_factory=dict)
    # The encoder as corpora and lexicons were given it, so that their texts join the batches.
    shared: Shared | None = None

    @property
    def layers(self) -> int:
        """How many layers of the encoder can be looked at; 0 if none."""
        encoder = self.encoder
        return encoder.reader.layers if isinstance(encoder, Encoder) else 0

    def corpus(self, name: str | None) -> tuple[str, Corpus]:
        """Give a corpus by its name, the first one without."""
        return _named(self.corpora, name, kind="corpus", option="--corpus FILE")

    def lexicon(self, name: str | None) -> tuple[str, Terms]:
        """Give a lexicon's linker and reader of notes by its name, the first one without."""
        return _named(self.lexicons, name, kind="lexicon", option="--lexicon FOLDER")

    def close(self) -> None:
        """Let go of the files."""
        for corpus in self.corpora.values():
            corpus.close()


def _named(served: Mapping[str, T], name: str | None, *, kind: str, option: str) -> tuple[str, T]:
    if not served:
        raise Refusal(
            404, f"no_{kind}", f"no {kind} is served here. Start with: malmoi serve {option}"
        )
    if name is None:
        return next(iter(served.items()))
    if name not in served:
        raise Refusal(
            404,
            f"{kind}_not_found",
            f"that {kind} is not served here; served are: {', '.join(served)}.",
            param=kind,
        )
    return name, served[name]


def open_stock(
    model: str | Path | None = None,
    *,
    reranker: str | None = None,
    corpora: Sequence[Path] = (),
    lexicons: Sequence[str] = (),
    samples: bool = True,
    threads: int | None = None,
) -> Stock:
    """Open what a server is to serve.

    The shipped reranker goes with it unless told otherwise ("none"), and the samples where no
    corpus or no lexicon is named. A corpus must be there already, made with this encoder.
    """
    if reranker is None:
        reranker = RERANKER if RERANKER in shipped_models() else "none"
    encoder = load(model, threads=threads)
    shared = Shared(encoder)
    opened = {_stem(path): _open_corpus(path, shared) for path in corpora}
    if samples and not opened:
        opened[NAME] = SampleCorpus.make(shared)
    names = list(lexicons) or ([LEXICON] if samples else [])
    return Stock(
        encoder,
        None if reranker == "none" else load_reranker(reranker, encoder=encoder, threads=threads),
        opened,
        {_stem(name): _open_terms(name, shared) for name in names},
        shared,
    )


def _stem(path: str | Path) -> str:
    return Path(path).name.removesuffix(".malmoi").removesuffix(".lexicon")


def _open_corpus(path: Path, encoder: TextEncoder) -> Corpus:
    if not path.exists():
        raise DataError(
            f"there is no corpus {path}; expected a file made before. Make it with: malmoi index"
        )
    return Corpus.open(path, encoder)


def _open_terms(name: str, encoder: TextEncoder) -> Terms:
    linker = Linker(name, encoder)
    return Terms(linker, NoteReader(linker))


@dataclass
class House:
    """The stock, how it is set, and the desk, which is there while the server runs."""

    stock: Stock
    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)
    running: int = 0  # requests being answered, counted by the guard
    _desk: Desk | None = None

    def __post_init__(self) -> None:
        self.shared = self.stock.shared or Shared(self.stock.encoder)

    @property
    def desk(self) -> Desk:
        """Where work is asked for."""
        if self._desk is None:
            raise Refusal(503, "starting", "the server is starting. Try again.", wait=1)
        return self._desk

    @property
    def ready(self) -> bool:
        """Tell whether requests are taken."""
        return self._desk is not None

    def open(self, *, workers: int) -> None:
        """Start the desk's threads; inside the event loop."""
        stock = self.stock
        self.metrics.watch_requests(lambda: self.running)
        self._desk = Desk(
            stock.encoder,
            stock.reranker,
            self.settings,
            self.metrics,
            company=lambda: self.running,
            workers=workers,
        )
        self.shared.join(self._desk)

    def close(self) -> None:
        """Finish what was accepted."""
        desk, self._desk = self._desk, None
        if desk is not None:
            desk.close(seconds=self.settings.stop_seconds)
            self.shared.join(None)
            self.stock.close()

    def check_model(self, name: str | None, served: str) -> None:
        """Refuse a model that is not served, so that nobody takes one's vectors for another's."""
        if name not in (None, "", served):
            raise Refusal(
                404,
                "model_not_found",
                f"that model is not served here; served is {served}. "
                "Name it, or leave the field out.",
                param="model",
            )

    def check_texts(self, texts: list[str], *, param: str) -> list[str]:
        """Refuse more or longer texts than one request may bring."""
        limits = self.settings.limits
        if len(texts) > limits.texts:
            raise Refusal(
                413,
                "too_many_texts",
                f"{len(texts):,} texts in one request; at most {limits.texts:,}. Send parts.",
                param=param,
            )
        longest = max(map(len, texts), default=0)
        if longest > limits.characters:
            raise Refusal(
                413,
                "text_too_long",
                f"a text has {longest:,} characters; at most {limits.characters:,}. Cut it.",
                param=param,
            )
        return texts
