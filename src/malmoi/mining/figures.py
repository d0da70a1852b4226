"""Figures: reports, words and terms, drawn with matplotlib, without a screen, in readable Korean.

malmoi ships a font with every Hangul syllable, so that no figure is full of empty boxes; fonts of
the system are used for what it lacks, Chinese characters for example.
"""

import contextlib
import functools
import io
import itertools
import logging
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..encoders.words import Occurrence, Word, similarity
from ..errors import DataError, OptionError, counted, require
from ..io.files import writing
from ..runtime.pooling import normalize
from ..types import Floats
from .maps import Points, Project, project

if TYPE_CHECKING:
    from ..evaluation.report import Metric, Report
    from .texts import Neighbourhood

logger = logging.getLogger(__name__)

FONT = "Malmoi Gothic"
# Fonts with Hanja that come with Linux, macOS and Windows, or are free to install.
SYSTEM_FONTS = (
    "Pretendard", "Noto Sans CJK KR", "Noto Sans KR", "NanumGothic", "NanumBarunGothic",
    "Nanum Gothic", "Apple SD Gothic Neo", "AppleGothic", "Malgun Gothic", "Source Han Sans KR",
    "UnDotum", "Baekmuk Dotum", "Noto Serif CJK KR", "Batang",
)  # fmt: skip
ENDINGS = (".png", ".svg", ".pdf")
MANY = 12  # more lines or legend entries than this cannot be told apart


@functools.cache
def fonts() -> tuple[str, ...]:
    """The font families for figures: malmoi's own first, then those of the system."""
    manager = _matplotlib(".font_manager")
    manager.fontManager.addfont(Path(__file__).parent / "font/MalmoiGothic.ttf")
    installed = set(manager.get_font_names())
    return (FONT, *(name for name in SYSTEM_FONTS if name in installed), "DejaVu Sans")


def label(text: str) -> str:
    """Make any text safe to draw: on one line, and not read as mathematics.

    >>> label("값 $1\\n")
    '값 \\\\$1'
    """
    return " ".join(text.split()).replace("$", r"\$")


def short(text: str, length: int = 40) -> str:
    """Cut a text for a label.

    >>> short("가나다라마", 3)
    '가나…'
    """
    return text if len(text) <= length else text[: length - 1] + "…"


@contextlib.contextmanager
def drawing(path: str | Path) -> Iterator[Any]:
    """Give a new figure to draw on, which is then written as .png, .svg or .pdf."""
    path = Path(path)
    check_figure(path)
    # A Figure without pyplot needs no screen and leaves no global state.
    matplotlib, figures = _matplotlib(""), _matplotlib(".figure")
    # The minus sign of Unicode is missing from many Korean fonts; the hyphen is in all.
    look = {"font.family": list(fonts()), "svg.fonttype": "path", "axes.unicode_minus": False}
    with matplotlib.rc_context(look):
        figure = figures.Figure(layout="constrained")
        yield figure
        drawn = io.BytesIO()
        with warnings.catch_warnings():  # letters beyond any font are boxes, not an error
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(drawn, format=path.suffix.lower()[1:], dpi=150)
    with writing(path) as file:
        file.write(drawn.getvalue())
    logger.info(f"wrote {path}")


def check_figure(path: Path) -> None:
    """Raise if a figure cannot be written there; to be called before a long run."""
    if path.suffix.lower() not in ENDINGS:
        raise OptionError(
            f"{path.name} ends in {path.suffix or 'nothing'}; known are {', '.join(ENDINGS)}. "
            "Choose one of these endings."
        )
    _matplotlib("")


def _matplotlib(module: str) -> Any:
    return require(f"matplotlib{module}", extra="plots", purpose="drawing a figure")


def plot_report(report: "Report", path: str | Path) -> None:
    """Draw a report's metrics with their intervals, one colour per model."""
    with drawing(path) as figure:
        _draw_report(report, figure)


def _draw_report(report: "Report", figure: Any) -> None:
    names = list(report.metrics)
    models: list[tuple[str, dict[str, Metric]]] = [(report.model, report.metrics)]
    for comparison in report.comparisons:
        theirs = {name: found.theirs for name, found in comparison.differences.items()}
        models.append((comparison.model, theirs))
    figure.set_size_inches(8, 1.6 + 0.16 * len(names) * (1 + len(models)))
    bins = report.details.get("reliability")
    axes, second = figure.subplots(1, 2) if bins else (figure.add_subplot(), None)
    if bins:
        figure.set_size_inches(12, max(4.0, float(figure.get_size_inches()[1])))
        _draw_reliability(second, bins)
    for i, (model, metrics) in enumerate(models):
        _draw_model(axes, names, metrics, (i + 1) / (len(models) + 1) - 0.5, label(model))
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)  # the first metric on top
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(label(f"{report.task}: {report.data.file}, {counted(report.data.rows, 'row')}"))
    figure.legend(loc="outside lower center", ncols=min(3, len(models)), frameon=False)


def _draw_reliability(axes: Any, bins: Sequence[dict[str, float]]) -> None:
    """Draw predicted probability against observed frequency; on the diagonal they agree."""
    axes.plot([0, 1], [0, 1], color="grey", linestyle=":", linewidth=1)
    predicted, observed = [one["said"] for one in bins], [one["was"] for one in bins]
    axes.plot(predicted, observed, color="tab:green")
    sizes = [20 + 180 * one["count"] / max(b["count"] for b in bins) for one in bins]
    axes.scatter(predicted, observed, s=sizes, color="tab:green")
    axes.set(xlabel="predicted probability", ylabel="observed frequency", title="reliability")
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02))
    axes.grid(alpha=0.3)


def _draw_model(
    axes: Any, names: Sequence[str], metrics: "dict[str, Metric]", shift: float, title: str
) -> None:
    rows = [(i + shift, metrics[name]) for i, name in enumerate(names) if name in metrics]
    drawn = [(y, metric) for y, metric in rows if metric.value == metric.value]  # no NaN
    values = [metric.value for _, metric in drawn]
    arms = [
        [_arm(metric.value - metric.low) for _, metric in drawn],
        [_arm(metric.high - metric.value) for _, metric in drawn],
    ]
    axes.errorbar(
        values, [y for y, _ in drawn], xerr=arms, fmt="o", markersize=4, capsize=2, label=title
    )


def _arm(length: float) -> float:
    # A skewed bootstrap can leave the value outside its own interval; no rounds give NaN.
    return max(length, 0.0) if length == length else 0.0


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
    """Draw query terms and their nearest ones in the plane, one colour per query term."""
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
