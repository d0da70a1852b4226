"""Figures: drawn with matplotlib, without a screen, with Korean that can be read.

Where no font with Hangul is installed, Hangul in labels is spelled in Latin letters, so that no
figure is full of empty boxes.
"""

import io
import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import OptionError, require
from .files import Tell, writing

if TYPE_CHECKING:
    from .evaluate.report import Metric, Report

# Fonts with Hangul that Linux, macOS and Windows come with, or that are free to install.
KOREAN_FONTS = (
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

_HANGUL = re.compile("[가-힣]")
# The Revised Romanization's letters for lead, vowel and tail, in Unicode's order.
_LEADS, _VOWELS, _TAILS = (
    letters.split(" ")
    for letters in (
        "g kk n d tt r m b pp s ss  j jj ch k t p h",
        "a ae ya yae eo e yeo ye o wa wae oe yo u wo we wi yu eu ui i",
        " k k k n n n t l k m l l l p l m p p t t ng t t k t p t",
    )
)


def korean_font() -> str | None:
    """The name of an installed font with Hangul, or None."""
    manager = require("matplotlib.font_manager", extra="plots", purpose="drawing a figure")
    installed = set(manager.get_font_names())
    return next((name for name in KOREAN_FONTS if name in installed), None)


def spell(text: str) -> str:
    """Spell Hangul in Latin letters, syllable by syllable.

    >>> spell("한국어 small"), spell("당뇨병")
    ('hangukeo small', 'dangnyobyeong')
    """
    return _HANGUL.sub(lambda syllable: _spell_one(ord(syllable.group()) - 0xAC00), text)


def _spell_one(code: int) -> str:
    return _LEADS[code // 588] + _VOWELS[code % 588 // 28] + _TAILS[code % 28]


def save_figure(
    path: str | Path, draw: Callable[[Any, Callable[[str], str]], None], *, tell: Tell | None = None
) -> None:
    """Draw on a fresh figure and write it as .png, .svg or .pdf.

    `draw` gets the figure, and a function that makes any label safe to draw.
    """
    path = Path(path)
    check_figure(path)
    # Figure and its canvas alone, without pyplot, need no screen and leave no state behind.
    matplotlib = require("matplotlib", extra="plots", purpose="drawing a figure")
    figures = require("matplotlib.figure", extra="plots", purpose="drawing a figure")
    font = korean_font()
    fonts = [font, "DejaVu Sans"] if font else ["DejaVu Sans"]
    spelled: list[str] = []

    def label(text: str) -> str:
        if font or not _HANGUL.search(text):
            return text.replace("$", r"\$")  # matplotlib would read mathematics
        spelled.append(text)
        return spell(text).replace("$", r"\$")

    with matplotlib.rc_context({"font.family": fonts, "svg.fonttype": "path"}):
        figure = figures.Figure(layout="constrained")
        draw(figure, label)
        drawn = io.BytesIO()
        with warnings.catch_warnings():  # letters beyond any font are boxes, not an error
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            figure.savefig(drawn, format=path.suffix.lower()[1:], dpi=150)
    with writing(path) as file:
        file.write(drawn.getvalue())
    if spelled and tell:
        tell("no font with Hangul is installed; Korean labels are spelled in Latin letters")


def check_figure(path: Path) -> None:
    """Raise if a figure could not be drawn there; for asking before a long run, not after it."""
    if path.suffix.lower() not in ENDINGS:
        raise OptionError(
            f"{path.name} ends in {path.suffix or 'nothing'}; known are {', '.join(ENDINGS)}. "
            "Choose one of these endings."
        )
    require("matplotlib", extra="plots", purpose="drawing a figure")


def plot_report(report: "Report", path: str | Path, *, tell: Tell | None = None) -> None:
    """Draw a report's metrics with their intervals, one colour a model."""
    save_figure(path, lambda figure, label: _draw_report(report, figure, label), tell=tell)


def _draw_report(report: "Report", figure: Any, label: Callable[[str], str]) -> None:
    names = list(report.metrics)
    models: list[tuple[str, dict[str, Metric]]] = [(report.model, report.metrics)]
    for comparison in report.comparisons:
        theirs = {name: found.theirs for name, found in comparison.differences.items()}
        models.append((comparison.model, theirs))
    figure.set_size_inches(8, 1.6 + 0.16 * len(names) * (1 + len(models)))
    axes = figure.add_subplot()
    for i, (model, metrics) in enumerate(models):
        _draw_model(axes, names, metrics, (i + 1) / (len(models) + 1) - 0.5, label(model))
    axes.set_yticks(range(len(names)), [label(name) for name in names])
    axes.set_ylim(len(names) - 0.5, -0.5)  # the first metric on top
    axes.grid(axis="x", alpha=0.3)
    axes.spines[["top", "right", "left"]].set_visible(False)
    axes.set_title(label(f"{report.task}: {report.data.file}, {report.data.rows:,} rows"))
    figure.legend(loc="outside lower center", ncols=min(3, len(models)), frameon=False)


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
