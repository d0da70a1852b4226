"""Words as figures: where they lie, how alike they are by layer, and token by token.

A map of terms: what an encoder holds for near stands near.
"""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ..errors import DataError, counted, require
from ..runtime.pooling import normalize
from ..types import Floats
from ..words import Occurrence, Word, similarity
from .figure import Label, save_figure, short

Project = Literal["pca", "umap"]
MANY = 12  # more lines or legend entries than this cannot be told apart


def project(vectors: Floats, method: Project = "pca", *, seed: int = 0) -> Floats:
    """Bring vectors (n, dim) into the plane, (n, 2): by principal components or by UMAP."""
    centred = vectors - vectors.mean(axis=0)
    if method == "umap" and len(vectors) > 3:
        umap = require("umap", extra="umap", purpose="drawing with UMAP")
        model = umap.UMAP(n_neighbors=min(15, len(vectors) - 1), random_state=seed, n_jobs=1)
        found: Floats = np.asarray(model.fit_transform(centred), dtype=np.float32)
        return found
    left, sizes, _ = np.linalg.svd(centred, full_matrices=False)
    plane = np.zeros((len(vectors), 2), dtype=np.float32)
    kept = min(2, len(sizes))
    plane[:, :kept] = left[:, :kept] * sizes[:kept]
    return plane


def plot_occurrences(
    found: Sequence[Occurrence], path: str | Path, *, method: Project = "pca"
) -> None:
    """Draw a word's occurrences as points in the plane, each with its sentence beside it."""
    if len(found) < 2:
        raise DataError(
            f"the word occurs {counted(len(found), 'time')}; a map expects two or more. Give more "
            "texts."
        )
    points = project(normalize(np.stack([one.word.vector for one in found])), method)

    def draw(figure: Any, label: Label) -> None:
        figure.set_size_inches(8, 6)
        axes = figure.add_subplot()
        axes.scatter(points[:, 0], points[:, 1], s=30)
        for one, point, place in zip(found, points, label_places(points), strict=True):
            axes.annotate(
                label(_marked(one)),
                point,
                xytext=place,
                fontsize=9,
                arrowprops={"arrowstyle": "-", "alpha": 0.3},
            )
        (left, low), (width, height) = points.min(axis=0), _extent(points)
        axes.set_xlim(left - width / 10, left + 1.5 * width)  # labels stand on the right
        axes.set_ylim(low - height / 10, low + 1.2 * height)
        axes.set_title(
            label(f"{found[0].word.text}: {counted(len(found), 'occurrence')}, {method.upper()}")
        )
        axes.grid(alpha=0.3)

    save_figure(path, draw)


def plot_layers(
    pairs: Sequence[tuple[str, Sequence[float]]], path: str | Path, *, word: str
) -> None:
    """Draw the likeness of pairs of occurrences over the layers; a pair is a name and values."""

    def draw(figure: Any, label: Label) -> None:
        figure.set_size_inches(8, 5 + 0.16 * min(len(pairs), MANY))
        axes = figure.add_subplot()
        for name, values in pairs:
            axes.plot(range(len(values)), values, marker="o", label=label(name))
        axes.set_xlabel("layer (0: embeddings)")
        axes.set_ylabel("cosine")
        axes.set_title(label(f"{word}: likeness by layer"))
        axes.grid(alpha=0.3)
        if len(pairs) <= MANY:
            figure.legend(loc="outside lower center", frameon=False, fontsize=8)

    save_figure(path, draw)


def plot_values(found: Sequence[Occurrence], path: str | Path) -> None:
    """Draw the histogram of the values in each occurrence's vector."""

    def draw(figure: Any, label: Label) -> None:
        figure.set_size_inches(8, 5)
        axes = figure.add_subplot()
        values = np.stack([one.word.vector for one in found])
        edges = np.histogram_bin_edges(values, bins=60)
        for one, own in itertools.islice(zip(found, values, strict=True), MANY):
            axes.hist(own, bins=edges, histtype="step", label=label(_marked(one)))
        axes.set_xlabel("value")
        axes.set_ylabel("dimensions")
        axes.set_title(label(f"{found[0].word.text}: values of its vectors"))
        figure.legend(loc="outside lower center", frameon=False, fontsize=8)

    save_figure(path, draw)


def plot_tokens(left: Sequence[Word], right: Sequence[Word], path: str | Path) -> None:
    """Draw the likeness of every word of one text with every word of another as a heat map."""
    scores = similarity(left, right)

    def draw(figure: Any, label: Label) -> None:
        figure.set_size_inches(3 + 0.55 * len(right), 2 + 0.42 * len(left))
        axes = figure.add_subplot()
        image = axes.imshow(scores, cmap="viridis", aspect="auto")
        turned = {"rotation": 45, "ha": "right"} if len(right) > 4 else {}
        names = [label(short(word.text, 16)) for word in right]
        axes.set_xticks(range(len(right)), names, **turned)
        axes.set_yticks(range(len(left)), [label(short(word.text, 16)) for word in left])
        _write_values(axes, scores)
        figure.colorbar(image, ax=axes, label="cosine")

    save_figure(path, draw)


def _extent(points: Floats) -> Floats:
    """How wide and high the points lie; a little even where all lie on one spot."""
    found: Floats = np.maximum(points.max(axis=0) - points.min(axis=0), np.float32(0.01))
    return found


def label_places(points: Floats) -> list[tuple[float, float]]:
    """Where each point's label stands: beside it, and never over the label before."""
    width, height = _extent(points)
    places: list[tuple[float, float]] = [(0.0, 0.0)] * len(points)
    done: list[tuple[float, float]] = []
    for i in np.argsort(points[:, 1]):
        x, y = float(points[i, 0] + width / 60), float(points[i, 1] + height / 80)
        while any(abs(x - a) < width / 2.5 and abs(y - b) < height / 28 for a, b in done):
            y += height / 56
        places[i] = (x, y)
        done.append(places[i])
    return places


def _write_values(axes: Any, scores: Floats) -> None:
    if scores.size > 400:  # too small to be read
        return
    middle = (float(scores.min()) + float(scores.max())) / 2
    for (row, column), score in np.ndenumerate(scores):
        colour = "white" if score < middle else "black"
        axes.text(column, row, f"{score:.2f}", ha="center", va="center", color=colour, fontsize=8)


def _marked(one: Occurrence) -> str:
    """The sentence with its word in brackets, cut around it."""
    start, end = one.word.start, one.word.end
    before, after = one.text[max(0, start - 12) : start], one.text[end : end + 18]
    return f"{before}[{one.text[start:end]}]{after}"


if TYPE_CHECKING:
    from ..mining.terms import Neighbourhood


def plot_terms(found: "Neighbourhood", path: str | Path, *, method: Project = "pca") -> None:
    """Draw the asked terms and their nearest ones in the plane, one colour an asked term."""
    if len(found.terms) < 3:
        raise DataError(
            f"{counted(len(found.terms), 'term makes', 'terms make')} no map; expected three or "
            "more. Add some."
        )
    points = project(found.vectors, method)
    asked = found.terms[: found.asked]
    owner = {term: i for i, term in enumerate(asked)}
    best: dict[str, tuple[float, int]] = {}
    for one in found.found:
        best[one.near] = max(best.get(one.near, (-2.0, 0)), (one.score, owner[one.term]))
    colours = [owner[t] if t in owner else best[t][1] for t in found.terms]

    def draw(figure: Any, label: Label) -> None:
        figure.set_size_inches(9, 7)
        axes = figure.add_subplot()
        sizes = [70 if i < found.asked else 22 for i in range(len(points))]
        axes.scatter(points[:, 0], points[:, 1], s=sizes, c=colours, cmap="tab10", vmin=0, vmax=9)
        for i, (point, place) in enumerate(zip(points, label_places(points), strict=True)):
            axes.annotate(
                label(short(found.terms[i], 28)),
                point,
                xytext=place,
                fontsize=11 if i < found.asked else 8,
                arrowprops={"arrowstyle": "-", "alpha": 0.25},
            )
        width = float(points[:, 0].max() - points[:, 0].min()) or 1.0
        axes.set_xlim(float(points[:, 0].min()) - width / 10, float(points[:, 0].max()) + width / 3)
        axes.set_title(label(f"{len(points)} terms, {method.upper()}"))
        axes.grid(alpha=0.3)

    save_figure(path, draw)
