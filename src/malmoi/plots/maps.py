"""Groups of texts as islands in the plane: those that are alike lie near each other.

Two straight directions cannot part hundreds of topics. The groups' centres are laid out so that
neighbours stay neighbours (t-SNE), become discs as large as their groups, are pushed apart where
they overlap, and every text is put on its group's disc, by its two main differences there.

A map of texts as one HTML page: hover to read, click a topic, search; nothing from outside.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..io.files import writing
from ..runtime.pooling import normalize
from ..types import Floats

_ISLANDS = 400  # more groups than this are too small to be seen; their texts lie where they fit
_STEPS = 400
_EARLY = 100
_PERPLEXITY = 12.0
_LAND = 0.3  # of the area is land
_PUSHES = 200


def islands(vectors: Floats, labels: NDArray[np.int64]) -> Floats:
    """Lay out unit vectors (n, dim) of labelled groups in the plane, (n, 2), from 0 to 1."""
    groups, sizes = np.unique(labels[labels >= 0], return_counts=True)
    chosen = groups[np.argsort(-sizes, kind="stable")[:_ISLANDS]]
    rows = [np.flatnonzero(labels == group) for group in chosen]
    centres = normalize(np.stack([vectors[own].mean(axis=0) for own in rows]))
    counts = np.array([len(own) for own in rows], dtype=np.float64)
    radii = np.sqrt(counts / counts.sum() * _LAND / np.pi)
    spots = _pushed_apart(_spread(neighbourly(centres)), radii)
    plane = _strays(vectors, centres, spots)
    for own, spot, radius in zip(rows, spots, radii, strict=True):
        plane[own] = spot + radius * _on_disc(vectors[own])
    return _spread(plane).astype(np.float32)


def neighbourly(centres: Floats) -> NDArray[np.float64]:
    """Bring unit vectors (k, dim) into the plane so that neighbours stay neighbours (t-SNE)."""
    count = len(centres)
    centred = centres - centres.mean(axis=0)
    left, values, _ = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    spots = np.zeros((count, 2))
    kept = min(2, len(values))
    spots[:, :kept] = left[:, :kept] * values[:kept]
    if count < 4:
        return spots
    wanted = _nearness(1 - centres.astype(np.float64) @ centres.T)
    spots *= 1e-2 / max(float(np.abs(spots).max()), 1e-9)
    speed = np.zeros_like(spots)
    for step in range(_STEPS):
        apart = spots[:, None] - spots[None]  # (k, k, 2)
        near = 1 / (1 + np.square(apart).sum(axis=2))
        np.fill_diagonal(near, 0)
        pull = wanted * (4 if step < _EARLY else 1) - near / near.sum()
        speed = (0.5 if step < _EARLY else 0.8) * speed - count * np.einsum(
            "ij,ijd->id", pull * near, apart
        )
        spots += np.clip(speed, -5, 5)
    return spots


def _nearness(distances: NDArray[np.float64]) -> NDArray[np.float64]:
    """How much each pair should be neighbours (k, k), summing to 1, from distances (k, k)."""
    count = len(distances)
    aim = np.log(np.clip((count - 1) / 3, 1.5, _PERPLEXITY))
    distances = distances - np.where(np.eye(count) > 0, np.inf, distances).min(axis=1)[:, None]
    np.fill_diagonal(distances, 0)
    low, high = np.full((count, 1), 1e-3), np.full((count, 1), 1e6)
    for _ in range(50):
        sharp = np.sqrt(low * high)
        weights = np.exp(-sharp * distances)
        np.fill_diagonal(weights, 0)
        weights /= weights.sum(axis=1, keepdims=True)
        spread = -(weights * np.log(np.maximum(weights, 1e-12))).sum(axis=1, keepdims=True)
        low, high = np.where(spread > aim, sharp, low), np.where(spread > aim, high, sharp)
    both: NDArray[np.float64] = (weights + weights.T) / (2 * count)
    return both


def _pushed_apart(spots: NDArray[np.float64], radii: NDArray[np.float64]) -> NDArray[np.float64]:
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


def _on_disc(vectors: Floats) -> NDArray[np.float64]:
    """Places on a disc of radius 1 for a group's vectors, by its two main differences."""
    centred = vectors - vectors.mean(axis=0)
    left, values, _ = np.linalg.svd(centred, full_matrices=False)
    flat = np.zeros((len(vectors), 2))
    kept = min(2, len(values))
    flat[:, :kept] = left[:, :kept] * values[:kept]
    scale = flat.std(axis=0)
    flat /= np.where(scale > 1e-6, scale, 1)
    length = np.sqrt(np.square(flat).sum(axis=1, keepdims=True))
    # The farther out, the more crowded: squeezed so that the disc is filled evenly.
    reached = np.sqrt(1 - np.exp(-np.square(length) / 2))
    placed: NDArray[np.float64] = flat / np.maximum(length, 1e-6) * reached
    return placed


def _strays(vectors: Floats, centres: Floats, spots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Places between the two centres that each vector is nearest to."""
    scores = vectors @ centres.T
    first = scores.argmax(axis=1)
    scores[np.arange(len(vectors)), first] = -np.inf
    second = scores.argmax(axis=1)
    between: NDArray[np.float64] = 0.6 * spots[first] + 0.4 * spots[second]
    return between


def _spread(spots: NDArray[np.float64]) -> NDArray[np.float64]:
    """Fill the square from 0 to 1 but for a margin."""
    low, size = spots.min(axis=0), np.maximum(np.ptp(spots, axis=0), 1e-6)
    filled: NDArray[np.float64] = 0.04 + 0.92 * (spots - low) / size
    return filled


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
