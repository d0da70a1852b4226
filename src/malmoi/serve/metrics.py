"""What the server counts, in Prometheus' form. Labels are routes and numbers, never text."""

from collections.abc import Callable
from functools import partial

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

CONTENT_TYPE = CONTENT_TYPE_LATEST
_SECONDS = (0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512)


class Metrics:
    """Counters of one server; two servers in a process do not meet."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._answered: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        counter: Callable[..., Counter] = partial(Counter, registry=self._registry)
        gauge: Callable[..., Gauge] = partial(Gauge, registry=self._registry)
        histogram: Callable[..., Histogram] = partial(Histogram, registry=self._registry)
        times = partial(histogram, buckets=_SECONDS)
        self._requests = counter("malmoi_requests", "Requests answered.", ["route", "status"])
        self._seconds = times(
            "malmoi_request_seconds", "Time from the first byte to the last.", ["route"]
        )
        self._texts = counter("malmoi_texts", "Texts and pairs run.", ["kind"])
        self._sizes = histogram("malmoi_batch_texts", "Texts in a batch.", ["kind"], buckets=_SIZES)
        self._runs = times("malmoi_batch_seconds", "Time of a batch.", ["kind"])
        self._in_flight = gauge("malmoi_requests_in_flight", "Requests being answered.")
        self._waiting = gauge("malmoi_queue_tokens", "Tokens that wait.", ["kind"])

    def request(self, route: str, status: int, seconds: float) -> None:
        """Count a request that was answered."""
        # Looking a counter up by its labels takes longer than counting.
        found = self._answered.get((route, status))
        if found is None:
            found = self._requests.labels(route, str(status)), self._seconds.labels(route)
            self._answered[route, status] = found
        found[0].inc()
        found[1].observe(seconds)

    def batch(self, kind: str, texts: int, seconds: float) -> None:
        """Count a batch that was run."""
        self._texts.labels(kind).inc(texts)
        self._sizes.labels(kind).observe(texts)
        self._runs.labels(kind).observe(seconds)

    def watch_queue(self, kind: str, waiting: Callable[[], float]) -> None:
        """Ask for a queue's length whenever the metrics are read."""
        self._waiting.labels(kind).set_function(waiting)

    def watch_requests(self, running: Callable[[], float]) -> None:
        """Ask for the requests in flight whenever the metrics are read."""
        self._in_flight.set_function(running)

    def text(self) -> bytes:
        """All of it, as Prometheus reads it."""
        return generate_latest(self._registry)
