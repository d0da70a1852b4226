"""Outcome and Report: what a task measured, with intervals, and how it compares.

A task gives an Outcome: measures ready to be resampled. A Report is an Outcome with numbers in
it, for JSON, a table or a plot.
"""

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, counted
from ..io.files import writing
from . import bootstrap
from .bootstrap import Interval
from .examples import ExampleSource
from .measures import Measure, value

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Outcome:
    """What a model did with a task's examples, before any number is drawn from it.

    `units` (n,) says which unit each item is drawn with (see `bootstrap.resample`); `main` is the
    measure to judge the model by; `details` are findings without an interval; `notes` are
    sentences for the reader.
    """

    measures: Mapping[str, Measure]
    units: NDArray[np.intp]
    main: str
    details: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def values(self) -> dict[str, float]:
        """Every measure's plain value, without intervals."""
        return {name: value(measure, len(self.units)) for name, measure in self.measures.items()}


@dataclass(frozen=True)
class Metric:
    """A value with the interval that holds it with 95 % confidence."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        if math.isnan(self.value):
            return "undefined"
        if math.isnan(self.low):
            return f"{self.value:.4f}"
        return f"{self.value:.4f} ({self.low:.4f} to {self.high:.4f})"


@dataclass(frozen=True)
class Difference:
    """One metric of two models: theirs, ours minus theirs, and how likely that is chance."""

    theirs: Metric
    difference: Metric
    p: float

    @property
    def significant(self) -> bool:
        """Whether chance alone would hardly make such a difference."""
        return self.p < SIGNIFICANT

    @property
    def verdict(self) -> str:
        """Whether ours is better or worse, or whether that is not clear."""
        if not self.significant:
            return "not clear"
        return "better" if self.difference.value > 0 else "worse"


@dataclass(frozen=True)
class Comparison:
    """How the reported model stands against another one on the same examples."""

    model: str
    differences: dict[str, Difference]


@dataclass(frozen=True)
class Report:
    """A model, a task, a file and what was measured."""

    task: str
    model: str
    data: ExampleSource
    main: str
    metrics: dict[str, Metric]
    settings: dict[str, Any] = field(default_factory=dict)
    details: dict[str, Any] = field(default_factory=dict)
    comparisons: tuple[Comparison, ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        lines = [
            f"{self.task} of {self.model} on {self.data.file} ({counted(self.data.rows, 'row')})"
        ]
        lines += [f"  {name:<20} {metric}" for name, metric in self.metrics.items()]
        return "\n".join([*lines, *(f"  {line}" for line in self.verdicts())])

    def verdicts(self) -> list[str]:
        """Say in a sentence each how the model stands against the others, by its main metric."""
        return [
            _sentence(self.main, self.model, comparison.model, comparison.differences[self.main])
            for comparison in self.comparisons
            if self.main in comparison.differences
        ]

    def rows(self) -> list[dict[str, object]]:
        """One row a model and metric, for a table; ours first."""
        found: list[dict[str, object]] = []
        for name, metric in self.metrics.items():
            ours = {"difference": "", "p": "", "ours is": ""} if self.comparisons else {}
            found.append(_row(self.model, name, metric) | ours)
            for comparison in self.comparisons:
                if name in comparison.differences:
                    against = comparison.differences[name]
                    found.append(_row(comparison.model, name, against.theirs) | _against(against))
        return found

    def to_json(self) -> dict[str, Any]:
        """Give the report as JSON-ready data; what is undefined is null."""
        data: dict[str, Any] = _without_nan(dataclasses.asdict(self))
        for comparison, shown in zip(self.comparisons, data["comparisons"], strict=True):
            for name, difference in comparison.differences.items():
                shown["differences"][name]["significant"] = difference.significant
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> "Report":
        """Make a report from what `to_json` gave."""
        try:
            fields = dict(data)
            fields["data"] = ExampleSource(**data["data"])
            fields["metrics"] = {name: _metric(found) for name, found in data["metrics"].items()}
            fields["comparisons"] = tuple(_comparison(found) for found in data["comparisons"])
            fields["notes"] = tuple(data["notes"])
            return cls(**fields)
        except (KeyError, TypeError, AttributeError) as error:
            raise DataError(
                f"this JSON is no report ({type(error).__name__}: {error}); expected one that "
                "malmoi evaluate wrote. Evaluate again."
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the report as JSON."""
        with writing(path) as file:
            text = json.dumps(self.to_json(), ensure_ascii=False, indent=2)
            file.write(text.encode("utf-8") + b"\n")

    @classmethod
    def load(cls, path: str | Path) -> "Report":
        """Read a report that `save` wrote."""
        try:
            return cls.from_json(json.loads(Path(path).read_text("utf-8")))
        except (OSError, ValueError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(
                f"cannot read {path} as a report ({type(error).__name__}); expected JSON. "
                "Evaluate again with --out."
            ) from error


def make_report(
    task: str,
    model: str,
    outcome: Outcome,
    source: ExampleSource,
    *,
    against: Sequence[tuple[str, Outcome]] = (),
    settings: Mapping[str, Any] | None = None,
    rounds: int = bootstrap.ROUNDS,
    seed: int = 0,
) -> Report:
    """Put numbers to an outcome, and compare it with others on the same examples."""
    ours = _sampled(outcome, rounds, seed)
    comparisons = tuple(
        Comparison(name, _differences(ours, _sampled(other, rounds, seed)))
        for name, other in against
    )
    return Report(
        task=task,
        model=model,
        data=source,
        main=outcome.main,
        metrics={name: found.metric for name, found in ours.items()},
        settings={**(settings or {}), "rounds": rounds, "seed": seed, "level": bootstrap.LEVEL},
        details=dict(outcome.details),
        comparisons=comparisons,
        notes=_notes(outcome, ours),
    )


@dataclass(frozen=True)
class _Sampled:
    metric: Metric
    samples: NDArray[np.float64]


def _sampled(outcome: Outcome, rounds: int, seed: int) -> dict[str, _Sampled]:
    samples = bootstrap.resample(outcome.measures, outcome.units, rounds=rounds, seed=seed)
    return {
        name: _Sampled(_with(plain, bootstrap.interval(samples[name])), samples[name])
        for name, plain in outcome.values().items()
    }


def _with(plain: float, found: Interval) -> Metric:
    return Metric(plain, found.low, found.high)


def _differences(
    ours: Mapping[str, _Sampled], theirs: Mapping[str, _Sampled]
) -> dict[str, Difference]:
    found = {}
    for name in ours:
        if name in theirs:
            samples = ours[name].samples - theirs[name].samples
            plain = ours[name].metric.value - theirs[name].metric.value
            found[name] = Difference(
                theirs[name].metric,
                _with(plain, bootstrap.interval(samples)),
                bootstrap.p_value(samples),
            )
    return found


def _notes(outcome: Outcome, ours: Mapping[str, _Sampled]) -> tuple[str, ...]:
    undefined = [name for name, found in ours.items() if math.isnan(found.metric.value)]
    if not undefined:
        return outcome.notes
    return (
        *outcome.notes,
        f"{', '.join(undefined)}: undefined, since the model gives every example the same score",
    )


def _sentence(main: str, ours: str, theirs: str, found: Difference) -> str:
    difference, p = found.difference, f"p = {found.p:.3f}"
    if math.isnan(difference.value):
        return f"{ours} and {theirs} cannot be compared in {main}: it is undefined"
    if math.isnan(found.p):
        return f"{ours} and {theirs} differ by {difference} in {main}; no rounds, so no p"
    if not found.significant:
        return f"{ours} and {theirs} differ by {difference} in {main}: not significant, {p}"
    return f"{ours} is {found.verdict} than {theirs} by {difference} in {main}: significant, {p}"


def _row(model: str, name: str, metric: Metric) -> dict[str, object]:
    return {
        "model": model,
        "metric": name,
        "value": metric.value,
        "low": metric.low,
        "high": metric.high,
    }


def _against(found: Difference) -> dict[str, object]:
    return {"difference": found.difference.value, "p": found.p, "ours is": found.verdict}


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_nan(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _metric(data: Mapping[str, Any]) -> Metric:
    return Metric(*(_number(data[key]) for key in ("value", "low", "high")))


def _number(data: float | None) -> float:
    return float("nan") if data is None else float(data)


def _comparison(data: Mapping[str, Any]) -> Comparison:
    differences = {
        name: Difference(
            _metric(found["theirs"]), _metric(found["difference"]), _number(found["p"])
        )
        for name, found in data["differences"].items()
    }
    return Comparison(str(data["model"]), differences)
