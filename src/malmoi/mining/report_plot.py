"""A figure of an evaluation report: every metric with its interval, one colour a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import counted
from .figure import drawing, label

if TYPE_CHECKING:
    from ..evaluate.report import Metric, Report


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
