"""A map of texts as one HTML page: hover to read, click a topic, search; nothing from outside."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..files import writing
from ..pooling import Floats
from .layout import islands

_POINTS = 20_000  # more make a page slow
_TEXT = 300


def flatten(vectors: Floats, labels: NDArray[np.int64]) -> Floats:
    """Bring vectors into the plane (n, 2), from 0 to 1, along what parts the groups most."""
    kept = labels >= 0
    groups = np.unique(labels[kept])
    if len(groups) > 2:
        means = np.stack([vectors[labels == group].mean(axis=0) for group in groups])
        axes = _axes(means) * 0.85 + _axes(vectors) * 0.15
    else:
        axes = _axes(vectors)
    plane = (vectors - vectors.mean(axis=0)) @ axes.T
    low, size = plane.min(axis=0), np.maximum(np.ptp(plane, axis=0), 1e-6)
    found: Floats = (0.04 + 0.92 * (plane - low) / size).astype(np.float32)
    return found


def save_map(
    path: str | Path,
    texts: Sequence[str],
    vectors: Floats,
    labels: NDArray[np.int64],
    topics: Sequence[Mapping[str, object]],
    *,
    title: str,
    seed: int = 0,
) -> int:
    """Write the page; gives how many texts are on it, a sample where there are very many."""
    rows = np.arange(len(texts))
    if len(rows) > _POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(len(texts), _POINTS, replace=False))
    plane = _plane(vectors[rows], labels[rows])
    points = [
        {"x": round(float(x), 4), "y": round(float(y), 4), "t": int(labels[row]), "s": texts[row]}
        for row, (x, y) in zip(rows.tolist(), plane, strict=True)
    ]
    for point in points:
        point["s"] = str(point["s"])[:_TEXT]
    content = {"title": title, "topics": list(topics), "points": points}
    data = json.dumps(content, ensure_ascii=False)
    page = (Path(__file__).parent / "map.html").read_text("utf-8")
    # Text may hold "</script>"; as JSON, < may be written so that no page is ever ended by it.
    page = page.replace("__DATA__", data.replace("<", "\\u003c"))
    with writing(path) as file:
        file.write(page.encode("utf-8", "replace"))
    return len(rows)


def _plane(vectors: Floats, labels: NDArray[np.int64]) -> Floats:
    many = len(np.unique(labels[labels >= 0])) > 2
    return islands(vectors, labels) if many else flatten(vectors, labels)


def _axes(vectors: Floats) -> Floats:
    """The two directions in which vectors differ most, (2, dim)."""
    sample = vectors[:: max(1, len(vectors) // 5000)]
    _, _, axes = np.linalg.svd(sample - sample.mean(axis=0), full_matrices=False)
    found = np.zeros((2, vectors.shape[1]), dtype=np.float32)
    found[: min(2, len(axes))] = axes[:2]
    # A direction and its opposite are the same to SVD; one of them is chosen for good.
    signs = np.sign(found[np.arange(2), np.abs(found).argmax(axis=1)])
    found *= np.where(signs == 0, 1, signs)[:, None]
    return found
