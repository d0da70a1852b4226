"""How much of the truth a corpus's search finds, with exact search as the judge."""

import time
from collections.abc import Iterator

import numpy as np

from ..errors import DataError
from ..runtime.pooling import normalize
from .corpus import Corpus

K = 10


def check_recall(corpus: Corpus, *, queries: int = 100, k: int = K) -> Iterator[dict[str, object]]:
    """Search for the texts of some of the corpus's own documents; yield one row of figures.

    Documents from all over the corpus are taken, and a little noise is put on their vectors, so
    that a query is near a document without being one.
    """
    vectors = _some_vectors(corpus, queries)
    took: dict[bool, list[float]] = {False: [], True: []}
    found: dict[bool, list[set[str]]] = {False: [], True: []}
    for vector in vectors:
        for exact in (False, True):
            started = time.perf_counter()
            hits = corpus.store.nearest(vector, k, exact=exact)
            took[exact].append(time.perf_counter() - started)
            found[exact].append({hit.id for hit in hits})
    shared = sum(len(a & b) for a, b in zip(found[False], found[True], strict=True))
    yield {
        "documents": len(corpus),
        "model": corpus.store.about.model,
        "dimension": corpus.store.about.dimension,
        "precision": corpus.store.about.precision,
        "queries": len(vectors),
        f"recall@{k}": round(shared / sum(len(one) for one in found[True]), 4),
        "p50_ms": round(1000 * float(np.median(took[False])), 2),
        "exact_p50_ms": round(1000 * float(np.median(took[True])), 2),
    }


def _some_vectors(corpus: Corpus, count: int) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    texts = corpus.store.sample(count)
    if not texts:
        raise DataError("the corpus is empty; expected documents to search for. Add some first.")
    vectors = corpus.vectors_of(texts)
    noise = np.random.default_rng(0).standard_normal(vectors.shape).astype(np.float32)
    return normalize(vectors + 0.3 * normalize(noise))
