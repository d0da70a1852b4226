"""A map of terms: what an encoder holds for near stands near."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import DataError, counted
from .figure import Label, save_figure, short
from .words import Project, label_places, project

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
