"""Vectors in the plane: a projection for all figures, and a map of topics as an HTML page.

Two linear directions cannot separate hundreds of topics. On the page the centres of the topics
are laid out so that neighbours stay neighbours (t-SNE), become discs as large as their topics, and
are pushed apart where they overlap; every text lies on the disc of its topic, by the two main
components there. The page works offline: hover to read, click a topic, search.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import require
from ..io.files import writing
from ..runtime.pooling import normalize
from ..types import Floats

Project = Literal["pca", "umap"]
Points = NDArray[np.float64]

_SAMPLE = 5000  # vectors from which the main directions are found
_ISLANDS = 400  # further groups are too small to be seen; their texts lie between the others
_PERPLEXITY = 12.0
_LAND = 0.3  # the share of the area that the discs cover
_PUSHES = 200
_POINTS = 20_000  # more make a page slow
_TEXT = 300


def project(
    vectors: Floats,
    method: Project = "pca",
    *,
    labels: NDArray[np.int64] | None = None,
    seed: int = 0,
) -> Points:
    """Bring vectors (n, dim) into the plane, (n, 2), centred.

    Args:
        method: "pca" takes the two principal components, "umap" needs the extra of that name.
        labels: groups; with more than two, components that separate the groups are preferred.

    The sign of a component is arbitrary. Without labels the point farthest out is positive; with
    them the largest weight of a direction is, so that a map keeps its sides when texts are added.
    """
    if len(vectors) < 2:
        return np.zeros((len(vectors), 2))
    centred = vectors.astype(np.float64) - vectors.mean(axis=0)
    if method == "umap" and len(vectors) > 3:
        umap = require("umap", extra="umap", purpose="drawing with UMAP")
        model = umap.UMAP(n_neighbors=min(15, len(vectors) - 1), random_state=seed, n_jobs=1)
        return np.asarray(model.fit_transform(centred), dtype=np.float64)
    axes = _axes(centred)
    groups = np.unique(labels[labels >= 0]) if labels is not None else np.empty(0)
    if len(groups) > 2:
        means = np.stack([centred[labels == group].mean(axis=0) for group in groups])
        axes = _axes(means) * 0.85 + axes * 0.15
    points: Points = centred @ axes.T
    if labels is None:
        farthest = points[np.abs(points).argmax(axis=0), [0, 1]]
        points *= np.where(farthest < 0, -1, 1)
    return points


def flatten(vectors: Floats, labels: NDArray[np.int64]) -> Points:
    """Project labelled vectors into the plane, (n, 2), stretched to fill 0 to 1."""
    return _stretched(project(vectors, labels=labels))


def _axes(vectors: Points) -> Points:
    """The two directions in which vectors differ most, (2, dim)."""
    sample = vectors[:: max(1, len(vectors) // _SAMPLE)]
    _, _, axes = np.linalg.svd(sample - sample.mean(axis=0), full_matrices=False)
    found = np.zeros((2, vectors.shape[1]))
    found[: min(2, len(axes))] = axes[:2]
    # A direction and its opposite are the same to SVD; one is chosen, so that two can be mixed.
    signs = np.sign(found[np.arange(2), np.abs(found).argmax(axis=1)])
    found *= np.where(signs == 0, 1, signs)[:, None]
    return found


def islands(vectors: Floats, labels: NDArray[np.int64]) -> Points:
    """Lay out unit vectors (n, dim) of labelled groups in the plane, (n, 2), from 0 to 1."""
    groups, sizes = np.unique(labels[labels >= 0], return_counts=True)
    chosen = groups[np.argsort(-sizes, kind="stable")[:_ISLANDS]]
    rows = [np.flatnonzero(labels == group) for group in chosen]
    centres = normalize(np.stack([vectors[own].mean(axis=0) for own in rows]))
    counts = np.array([len(own) for own in rows], dtype=np.float64)
    radii = np.sqrt(counts / counts.sum() * _LAND / np.pi)
    spots = _pushed_apart(_stretched(neighbourly(centres)), radii)
    plane = _between(vectors, centres, spots)
    for own, spot, radius in zip(rows, spots, radii, strict=True):
        plane[own] = spot + radius * _on_disc(vectors[own])
    return _stretched(plane)


def neighbourly(centres: Floats) -> Points:
    """Bring unit vectors (k, dim) into the plane so that neighbours stay neighbours (t-SNE)."""
    count, spots = len(centres), project(centres)
    if count < 4:
        return spots
    manifold = require("sklearn.manifold", extra="clusters", purpose="drawing a map of topics")
    model = manifold.TSNE(
        perplexity=float(np.clip((count - 1) / 3, 1.5, _PERPLEXITY)),
        init=(spots * (1e-4 / max(float(spots[:, 0].std()), 1e-9))).astype(np.float32),
        method="exact",
    )
    return np.asarray(model.fit_transform(centres), dtype=np.float64)


def _pushed_apart(spots: Points, radii: Points) -> Points:
    """Move discs that overlap away from each other, a little at a time."""
    reach = 1.1 * (radii[:, None] + radii)
    for _ in range(_PUSHES):
        apart = spots[:, None] - spots[None]
        length = np.sqrt(np.square(apart).sum(axis=2))
        over = np.maximum(reach - length, 0)
        np.fill_diagonal(over, 0)
        if not over.any():
            break
        push = (over / (2 * np.maximum(length, 1e-6)))[:, :, None] * apart
        spots = spots + 0.5 * push.sum(axis=1)
    return spots


def _on_disc(vectors: Floats) -> Points:
    """Positions on a disc of radius 1 for a group's vectors, by its two main components."""
    points = project(vectors)
    scale = points.std(axis=0)
    points /= np.where(scale > 1e-6, scale, 1)
    length = np.sqrt(np.square(points).sum(axis=1, keepdims=True))
    # The centre is crowded: distances from it are rescaled so that the disc is filled evenly.
    reached = np.sqrt(1 - np.exp(-np.square(length) / 2))
    placed: Points = points / np.maximum(length, 1e-6) * reached
    return placed


def _between(vectors: Floats, centres: Floats, spots: Points) -> Points:
    """Positions between the two centres that each vector is nearest to."""
    scores = vectors @ centres.T
    first = scores.argmax(axis=1)
    scores[np.arange(len(vectors)), first] = -np.inf
    second = scores.argmax(axis=1)
    between: Points = 0.6 * spots[first] + 0.4 * spots[second]
    return between


def _stretched(spots: Points) -> Points:
    """Stretch each axis to fill 0 to 1 except for a margin."""
    low, size = spots.min(axis=0), np.maximum(np.ptp(spots, axis=0), 1e-6)
    filled: Points = 0.04 + 0.92 * (spots - low) / size
    return filled


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
    """Write the page; returns how many texts are on it, a sample if there are very many."""
    rows = np.arange(len(texts))
    if len(rows) > _POINTS:
        rows = np.sort(np.random.default_rng(seed).choice(len(texts), _POINTS, replace=False))
    lay_out = islands if len(np.unique(labels[labels >= 0])) > 2 else flatten
    points = [
        {"x": x, "y": y, "t": int(labels[row]), "s": texts[row][:_TEXT]}
        for row, (x, y) in zip(
            rows.tolist(), lay_out(vectors[rows], labels[rows]).round(4).tolist(), strict=True
        )
    ]
    content = {"title": title, "topics": list(topics), "points": points}
    data = json.dumps(content, ensure_ascii=False)
    page = (Path(__file__).parent / "map.html").read_text("utf-8")
    # A text may contain "</script>", which would end the script; in JSON, < can be escaped.
    page = page.replace("__DATA__", data.replace("<", "\\u003c"))
    with writing(path) as file:
        file.write(page.encode("utf-8", "replace"))
    return len(rows)
