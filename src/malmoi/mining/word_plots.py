"""Figures of words and terms: maps, similarity by layer, values, and word by word."""

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoders.words import Occurrence, Word, similarity
from ..errors import DataError, counted
from ..runtime.pooling import normalize
from ..types import Floats
from .figure import drawing, label, short
from .maps import Points, Project, project

if TYPE_CHECKING:
    from .texts import Neighbourhood

MANY = 12  # more lines or legend entries than this cannot be told apart


def plot_occurrences(
    found: Sequence[Occurrence], path: str | Path, *, method: Project = "pca"
) -> None:
    """Draw a word's occurrences as points in the plane, each with its sentence."""
    if len(found) < 2:
        raise DataError(
            f"the word occurs {counted(len(found), 'time')}; a map expects two or more. Give more "
            "texts."
        )
    points = project(normalize(np.stack([one.word.vector for one in found])), method)
    with drawing(path) as figure:
        figure.set_size_inches(8, 6)
        axes = figure.add_subplot()
        axes.scatter(points[:, 0], points[:, 1], s=30)
        _write_labels(axes, points, [label(_marked(one)) for one in found], [9] * len(found))
        (left, low), (width, height) = points.min(axis=0), _extent(points)
        axes.set_xlim(left - width / 10, left + 1.5 * width)  # labels are on the right
        axes.set_ylim(low - height / 10, low + 1.2 * height)
        axes.set_title(
            label(f"{found[0].word.text}: {counted(len(found), 'occurrence')}, {method.upper()}")
        )


def plot_terms(found: "Neighbourhood", path: str | Path, *, method: Project = "pca") -> None:
    """Draw query terms and their nearest ones in the plane, one colour a query term."""
    if len(found.terms) < 3:
        raise DataError(
            f"{counted(len(found.terms), 'term makes', 'terms make')} no map; expected three or "
            "more. Add some."
        )
    points = project(found.vectors, method)
    owner = {term: i for i, term in enumerate(found.terms[: found.asked])}
    best: dict[str, tuple[float, int]] = {}
    for one in found.found:
        best[one.near] = max(best.get(one.near, (-2.0, 0)), (one.score, owner[one.term]))
    colours = [owner[t] if t in owner else best[t][1] for t in found.terms]
    with drawing(path) as figure:
        figure.set_size_inches(9, 7)
        axes = figure.add_subplot()
        asked = [i < found.asked for i in range(len(points))]
        sizes = [70 if one else 22 for one in asked]
        axes.scatter(points[:, 0], points[:, 1], s=sizes, c=colours, cmap="tab10", vmin=0, vmax=9)
        names = [label(short(term, 28)) for term in found.terms]
        _write_labels(axes, points, names, [11 if one else 8 for one in asked])
        left, width = float(points[:, 0].min()), float(np.ptp(points[:, 0])) or 1.0
        axes.set_xlim(left - width / 10, left + width * 4 / 3)
        axes.set_title(label(f"{len(points)} terms, {method.upper()}"))


def _write_labels(axes: Any, points: Points, labels: Sequence[str], sizes: Sequence[int]) -> None:
    """Write each point's label next to it, joined by a line, over a grid."""
    for text, size, point, position in zip(
        labels, sizes, points, label_positions(points), strict=True
    ):
        line = {"arrowstyle": "-", "alpha": 0.3}
        axes.annotate(text, point, xytext=position, fontsize=size, arrowprops=line)
    axes.grid(alpha=0.3)


def plot_layers(
    pairs: Sequence[tuple[str, Sequence[float]]], path: str | Path, *, word: str
) -> None:
    """Draw the similarity of pairs of occurrences by layer; a pair is a name and its values."""
    with drawing(path) as figure:
        figure.set_size_inches(8, 5 + 0.16 * min(len(pairs), MANY))
        axes = figure.add_subplot()
        for name, values in pairs:
            axes.plot(range(len(values)), values, marker="o", label=label(name))
        axes.set_xlabel("layer (0: embeddings)")
        axes.set_ylabel("cosine")
        axes.set_title(label(f"{word}: similarity by layer"))
        axes.grid(alpha=0.3)
        if len(pairs) <= MANY:
            figure.legend(loc="outside lower center", frameon=False, fontsize=8)


def plot_values(found: Sequence[Occurrence], path: str | Path) -> None:
    """Draw the histogram of the values in each occurrence's vector."""
    with drawing(path) as figure:
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


def plot_tokens(left: Sequence[Word], right: Sequence[Word], path: str | Path) -> None:
    """Draw the similarity of every word of one text with every word of another as a heat map."""
    scores = similarity(left, right)
    with drawing(path) as figure:
        figure.set_size_inches(3 + 0.55 * len(right), 2 + 0.42 * len(left))
        axes = figure.add_subplot()
        image = axes.imshow(scores, cmap="viridis", aspect="auto")
        turned = {"rotation": 45, "ha": "right"} if len(right) > 4 else {}
        names = [label(short(word.text, 16)) for word in right]
        axes.set_xticks(range(len(right)), names, **turned)
        axes.set_yticks(range(len(left)), [label(short(word.text, 16)) for word in left])
        _write_values(axes, scores)
        figure.colorbar(image, ax=axes, label="cosine")


def _extent(points: Points) -> Points:
    """The width and height of the points; a little even where all are in one spot."""
    found: Points = np.maximum(np.ptp(points, axis=0), 0.01)
    return found


def label_positions(points: Points) -> list[tuple[float, float]]:
    """Where to write each point's label: next to the point, and never over another label."""
    width, height = _extent(points)
    positions: list[tuple[float, float]] = [(0.0, 0.0)] * len(points)
    done: list[tuple[float, float]] = []
    for i in np.argsort(points[:, 1]):
        x, y = float(points[i, 0] + width / 60), float(points[i, 1] + height / 80)
        while any(abs(x - a) < width / 2.5 and abs(y - b) < height / 28 for a, b in done):
            y += height / 56
        positions[i] = (x, y)
        done.append(positions[i])
    return positions


def _write_values(axes: Any, scores: Floats) -> None:
    if scores.size > 400:  # too small to be read
        return
    middle = (float(scores.min()) + float(scores.max())) / 2
    for (row, column), score in np.ndenumerate(scores):
        colour = "white" if score < middle else "black"
        axes.text(column, row, f"{score:.2f}", ha="center", va="center", color=colour, fontsize=8)


def _marked(one: Occurrence) -> str:
    """The text around a word, with the word in brackets."""
    start, end = one.word.start, one.word.end
    before, after = one.text[max(0, start - 12) : start], one.text[end : end + 18]
    return f"{before}[{one.text[start:end]}]{after}"
