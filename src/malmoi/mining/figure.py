"""One figure: drawn with matplotlib, without a screen, with readable Korean.

malmoi ships a font with every Hangul syllable, so that no figure is full of empty boxes; fonts of
the system are used for what it lacks, Chinese characters for example.
"""

import contextlib
import functools
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import OptionError, counted, require
from ..io.files import writing

if TYPE_CHECKING:
    from ..evaluate.report import Metric, Report

logger = logging.getLogger(__name__)

FONT = "Malmoi Gothic"
# Fonts with Hanja that come with Linux, macOS and Windows, or are free to install.
SYSTEM_FONTS = (
    "Pretendard",
    "Noto Sans CJK KR",
    "Noto Sans KR",
    "NanumGothic",
    "NanumBarunGothic",
    "Nanum Gothic",
    "Apple SD Gothic Neo",
    "AppleGothic",
    "Malgun Gothic",
    "Source Han Sans KR",
    "UnDotum",
    "Baekmuk Dotum",
    "Noto Serif CJK KR",
    "Batang",
)
ENDINGS = (".png", ".svg", ".pdf")


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


def save_figure(path: str | Path, draw: Callable[[Any, Callable[[str], str]], None]) -> None:
    """Draw on a new figure and write it: `draw` gets the figure, and `label` for its texts."""
    with drawing(path) as figure:
        draw(figure, label)


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
    """Draw a report's metrics with their intervals, one colour a model."""
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
