"""What a running server has at hand, as every route sees it."""

from dataclasses import dataclass, field
from pathlib import Path

from ..catalog import shipped_models
from ..encoder import TextEncoder, load
from ..reranker import Reranker, load_reranker
from .desk import Desk
from .metrics import Metrics
from .refusals import Refusal
from .settings import Settings

RERANKER = "ko-en-reranker"


@dataclass(frozen=True)
class Stock:
    """Everything that was named at the start; a request can name no other file."""

    encoder: TextEncoder
    reranker: Reranker | None = None


def open_stock(
    model: str | Path | None = None, *, reranker: str | None = None, threads: int | None = None
) -> Stock:
    """Open what a server is to serve; the shipped reranker goes with it unless told otherwise."""
    if reranker is None:
        reranker = RERANKER if RERANKER in shipped_models() else "none"
    opened = None if reranker == "none" else load_reranker(reranker, threads=threads)
    return Stock(load(model, threads=threads), opened)


@dataclass
class House:
    """The stock, how it is set, and the desk, which is there while the server runs."""

    stock: Stock
    settings: Settings
    metrics: Metrics = field(default_factory=Metrics)
    running: int = 0  # requests being answered, counted by the guard
    _desk: Desk | None = None

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

    def close(self) -> None:
        """Finish what was accepted."""
        desk, self._desk = self._desk, None
        if desk is not None:
            desk.close(seconds=self.settings.stop_seconds)

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
