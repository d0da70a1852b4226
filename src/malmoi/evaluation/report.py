"""A model, a task and a file → a Report: measures with confidence intervals, and comparisons.

Intervals come from a seeded bootstrap. Resamples are drawn as counts, so that one draw serves
every measure of a report, and the same seed draws the same items for two models: that is what
makes a comparison a paired one.
"""

import dataclasses
import json
import logging
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import DataError, OptionError, counted
from ..io.fingerprint import write_json
from ..types import Doubles
from .examples import ExampleSource
from .measures import LOWER_IS_BETTER, Measure
from .models import name_of
from .tasks import TASKS, Outcome, Settings

logger = logging.getLogger(__name__)

ROUNDS = 1000
LEVEL = 0.95
SIGNIFICANT = 0.05
_BLOCK = 2_000_000  # weights held at once: 16 MB, which a cache can nearly hold


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
    """How the reported model compares with another one on the same examples."""

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
        rows = counted(self.data.rows, "row")
        lines = [f"{self.task} of {self.model} on {self.data.file} ({rows})"]
        lines += [f"  {name:<20} {metric}" for name, metric in self.metrics.items()]
        return "\n".join([*lines, *(f"  {line}" for line in self.verdicts())])

    def verdicts(self) -> list[str]:
        """Say in one sentence each how the model compares with the others, by its main metric."""
        return [
            _sentence(self.main, self.model, comparison.model, comparison.differences[self.main])
            for comparison in self.comparisons
            if self.main in comparison.differences
        ]

    def rows(self) -> list[dict[str, object]]:
        """One row per model and metric, for a table; ours first."""
        found: list[dict[str, object]] = []
        for name, metric in self.metrics.items():
            ours = {"difference": "", "p": "", "ours is": ""} if self.comparisons else {}
            found.append({"model": self.model, "metric": name, **vars(metric), **ours})
            for comparison in self.comparisons:
                if name in comparison.differences:
                    one = comparison.differences[name]
                    row = {"model": comparison.model, "metric": name, **vars(one.theirs)}
                    verdict = one.verdict
                    if name in LOWER_IS_BETTER:
                        verdict = {"better": "worse", "worse": "better"}.get(verdict, verdict)
                    row |= {"difference": one.difference.value, "p": one.p, "ours is": verdict}
                    found.append(row)
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
                f"this JSON is not a report ({type(error).__name__}: {error}); expected one that "
                "malmoi evaluate wrote. Evaluate again."
            ) from error

    def save(self, path: str | Path) -> None:
        """Write the report as JSON."""
        write_json(Path(path), self.to_json())

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


def evaluate(
    model: object,
    task: str,
    data: str | Path,
    *,
    against: Sequence[object] = (),
    settings: Settings | None = None,
    rounds: int = ROUNDS,
) -> Report:
    """Measure a model by a task on a file, and compare it with others on the same rows.

    model: anything with `encode(texts)` or `score(pairs)`; see `malmoi.evaluation.models`.
    task: a name of `TASKS`.
    data: a .tsv, .csv or .jsonl file of examples.
    against: other models to compare with.
    rounds: rounds of the bootstrap, which gives intervals and tells whether a difference is
        significant; 0 leaves both out.
    """
    if task not in TASKS:
        raise OptionError(f"task is {task!r}; known are {', '.join(TASKS)}. Choose one of these.")
    settings = settings or Settings()
    chosen = TASKS[task]
    examples = chosen.read(data, settings)
    ours = chosen.measure(model, examples, settings)
    name, *names = _distinct([name_of(one) for one in (model, *against)])
    # The errors that are written are those of the model that is reported.
    quiet = dataclasses.replace(settings, errors=None)
    measured = [chosen.measure(other, examples, quiet) for other in against]
    others = [*ours.others, *zip(names, measured, strict=True)]
    about, seed = examples.about, settings.seed
    report = make_report(
        task, name, ours, examples.source, against=others, settings=about, rounds=rounds, seed=seed
    )
    for note in report.notes:
        logger.info(note)
    return report


def _distinct(names: Sequence[str]) -> list[str]:
    """Number names that come again, so that the rows of a table can be told apart.

    >>> _distinct(["small", "large", "small"])
    ['small', 'large', 'small (2)']
    """
    before = [names[:i].count(name) for i, name in enumerate(names)]
    return [f"{name} ({n + 1})" if n else name for name, n in zip(names, before, strict=True)]


def make_report(
    task: str,
    model: str,
    outcome: Outcome,
    source: ExampleSource,
    *,
    against: Sequence[tuple[str, Outcome]] = (),
    settings: Mapping[str, Any] | None = None,
    rounds: int = ROUNDS,
    seed: int = 0,
) -> Report:
    """Put numbers to an outcome, and compare it with others on the same examples."""
    ours = _sampled(outcome, rounds, seed)
    comparisons = tuple(
        Comparison(name, _differences(ours, _sampled(other, rounds, seed)))
        for name, other in against
    )
    metrics = {name: metric for name, (metric, _) in ours.items()}
    settings = {**(settings or {}), "rounds": rounds, "seed": seed, "level": LEVEL}
    details, notes = dict(outcome.details), outcome.notes
    undefined = ", ".join(name for name, metric in metrics.items() if math.isnan(metric.value))
    if undefined:
        same = "undefined, since the model gives every example the same score"
        notes = (*notes, f"{undefined}: {same}")
    main = outcome.main
    return Report(task, model, source, main, metrics, settings, details, comparisons, notes)


def draw(count: int, *, rounds: int, seed: int) -> Iterator[Doubles]:
    """Draw `count` of `count` items with replacement, `rounds` times, as counts (block, count).

    >>> [block.sum(axis=1).tolist() for block in draw(4, rounds=2, seed=0)]
    [[4.0, 4.0]]
    """
    random = np.random.default_rng(seed)
    step = max(1, _BLOCK // max(count, 1))
    for start in range(0, rounds, step):
        size = min(step, rounds - start)
        drawn = random.integers(0, count, size=(size, count))
        drawn += np.arange(size)[:, None] * count
        counts = np.bincount(drawn.ravel(), minlength=size * count)
        yield counts.reshape(size, count).astype(np.float64)


def resample(
    measures: Mapping[str, Measure], units: NDArray[np.intp], *, rounds: int = ROUNDS, seed: int = 0
) -> dict[str, Doubles]:
    """Give every measure's samples, (rounds,) each.

    `units` (n,) says which unit each item belongs to: units are drawn, and their items with them,
    because ten paraphrases of one question are not ten questions.
    """
    if rounds < 0:
        raise OptionError(f"rounds is {rounds}; expected 0 or more. 0 leaves the intervals out.")
    found: dict[str, list[Doubles]] = {name: [np.empty(0)] for name in measures}
    for drawn in draw(int(units.max()) + 1, rounds=rounds, seed=seed):
        weights = drawn[:, units]  # (block, n)
        for name, measure in measures.items():
            found[name].append(measure(weights))
    return {name: np.concatenate(blocks) for name, blocks in found.items()}


def interval(samples: Doubles, *, level: float = LEVEL) -> tuple[float, float]:
    """Where 95 % of the samples lie, by percentiles; NaN where there are none.

    >>> interval(np.arange(5.0), level=0.5)
    (1.0, 3.0)
    """
    defined = samples[~np.isnan(samples)]
    if not len(defined):
        return math.nan, math.nan
    low, high = np.quantile(defined, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def p_value(differences: Doubles) -> float:
    """How likely so clear a difference would be if there were none; two-sided.

    One is added to the counts, so that a thousand rounds never claim more than a thousandth.

    >>> p_value(np.ones(999))
    0.002
    """
    defined = differences[~np.isnan(differences)]
    if not len(defined):
        return float("nan")
    lesser = min(int((defined <= 0).sum()), int((defined >= 0).sum()))
    return min(1.0, 2 * (lesser + 1) / (len(defined) + 1))


_Sampled = dict[str, tuple[Metric, Doubles]]  # a metric and its samples, by name


def _sampled(outcome: Outcome, rounds: int, seed: int) -> _Sampled:
    samples = resample(outcome.measures, outcome.units, rounds=rounds, seed=seed)
    return {
        name: (Metric(plain, *interval(samples[name])), samples[name])
        for name, plain in outcome.values().items()
    }


def _differences(ours: _Sampled, theirs: _Sampled) -> dict[str, Difference]:
    found = {}
    for name in (name for name in ours if name in theirs):
        (own, drawn), (other, others) = ours[name], theirs[name]
        difference = Metric(own.value - other.value, *interval(drawn - others))
        found[name] = Difference(other, difference, p_value(drawn - others))
    return found


def _sentence(main: str, ours: str, theirs: str, found: Difference) -> str:
    difference, p = found.difference, f"p = {found.p:.3f}"
    if math.isnan(difference.value):
        return f"{ours} and {theirs} cannot be compared in {main}: it is undefined"
    if math.isnan(found.p):
        return f"{ours} and {theirs} differ by {difference} in {main}; no rounds, so no p"
    if not found.significant:
        return f"{ours} and {theirs} differ by {difference} in {main}: not significant, {p}"
    return f"{ours} is {found.verdict} than {theirs} by {difference} in {main}: significant, {p}"


def _without_nan(data: Any) -> Any:
    if isinstance(data, dict):
        return {key: _without_nan(item) for key, item in data.items()}
    if isinstance(data, list | tuple):
        return [_without_nan(item) for item in data]
    return None if isinstance(data, float) and not math.isfinite(data) else data


def _numbers(data: Mapping[str, Any], *keys: str) -> Iterator[float]:
    return (math.nan if data[key] is None else float(data[key]) for key in keys)


def _metric(data: Mapping[str, Any]) -> Metric:
    return Metric(*_numbers(data, "value", "low", "high"))


def _comparison(data: Mapping[str, Any]) -> Comparison:
    differences = {
        name: Difference(_metric(one["theirs"]), _metric(one["difference"]), *_numbers(one, "p"))
        for name, one in data["differences"].items()
    }
    return Comparison(str(data["model"]), differences)
