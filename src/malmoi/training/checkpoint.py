"""What a run writes while it trains: checkpoints to resume from, and its log."""

import contextlib
import csv
import dataclasses
import errno
import importlib.util
import io
import itertools
import json
import logging
import math
import re
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..errors import DataError, counted, require
from ..io.files import parse_json, writing, writing_folder
from ..io.fingerprint import find_changed, hash_folder, write_json

logger = logging.getLogger(__name__)

_PREFIX = "step-"
_HASHES = "hashes.json"  # of the other files of a checkpoint


@dataclass
class State:
    """The position of a run: `position` steps into `epoch`, `step` steps in all."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    best_scores: dict[str, float] = field(default_factory=dict)
    base_scores: dict[str, float] = field(default_factory=dict)  # before the first step
    waited: int = 0
    ended: bool = False


def save(
    folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer, state: State, *, keep: int
) -> Path:
    """Write a checkpoint into `folder`, then remove all but the newest `keep`."""
    path = folder / f"{_PREFIX}{state.step:08d}"
    with writing_folder(path, replace=True) as partial:
        write_tensors(module.state_dict(), partial / "model.safetensors")
        write_tensors(_moments(module, optimizer), partial / "optimizer.safetensors")
        text = json.dumps(dataclasses.asdict(state), indent=2)
        (partial / "state.json").write_text(text + "\n", "utf-8")
        write_json(partial / _HASHES, hash_folder(partial))
    for old in found(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def found(folder: Path) -> list[Path]:
    """List the checkpoints of a run, oldest first."""
    return sorted(path for path in folder.glob(f"{_PREFIX}*") if (path / "state.json").is_file())


def clear_partial(folder: Path) -> None:
    """Remove what a killed process was in the middle of writing.

    Killed between the two renames of a replacement, the old folder gets its name back.
    """
    for old in folder.glob(".*.old"):
        path = folder / old.name[1:].rsplit(".", 2)[0]
        if not path.exists():
            old.rename(path)
    for partial in (*folder.glob(".*.part"), *folder.glob(".*.old")):
        shutil.rmtree(partial, ignore_errors=True)


def load_newest(folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> State | None:
    """Bring back the newest checkpoint that can be read; None when there is none at all."""
    checkpoints = found(folder)
    for path in reversed(checkpoints):
        try:
            return _load(path, module, optimizer)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
            logger.warning(
                f"{path} cannot be read ({type(error).__name__}); trying the one before it"
            )
    if checkpoints:
        raise DataError(
            f"none of the {counted(len(checkpoints), 'checkpoint')} in {folder} can be read; "
            f"expected one. Remove {folder}; with --resume the run then starts from its beginning."
        )
    return None


def _load(path: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    # Everything is read before anything is changed: a damaged checkpoint leaves no trace. Those of
    # earlier versions have no hashes.
    hashes = parse_json((path / _HASHES).read_text("utf-8")) if (path / _HASHES).exists() else {}
    if not isinstance(hashes, dict) or find_changed(path, hashes) is not None:
        raise ValueError("a file is not as it was written")
    state = State(**parse_json((path / "state.json").read_text("utf-8")))
    weights = load_file(path / "model.safetensors")
    moments = load_file(path / "optimizer.safetensors")
    module.load_state_dict(weights)
    _restore(module, optimizer, moments)
    return state


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors by name."""
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous()
        # Tied weights are one tensor under two names, which safetensors will not write.
        plain[name] = flat.clone() if flat.data_ptr() in seen else flat
        seen.add(flat.data_ptr())
    with tensor_errors():
        save_file(plain, path)
    path.chmod(0o644)  # safetensors writes 0600


@contextlib.contextmanager
def tensor_errors() -> Iterator[None]:
    """Make a full disk an OSError, as for any other file; safetensors has an error of its own."""
    try:
        yield
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))  # all that is left of the cause
        raise OSError(int(number[1]) if number else errno.EIO, "cannot be written") from error


def _moments(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Name the optimizer's moments after the parameters they belong to."""
    named: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            named[f"{key}/{name}"] = value
    return named


def _restore(
    module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    parameters: dict[str, Any] = dict(module.named_parameters())
    optimizer.state.clear()
    for name, value in tensors.items():
        key, _, parameter = name.partition("/")
        owner = parameters[parameter]
        # The step counter stays where the optimizer wants it; moments go to their weights.
        value = value if key == "step" and owner.device.type == "cpu" else value.to(owner.device)
        optimizer.state[owner][key] = value


COLUMNS = ("step", "epoch", "loss", "learning_rate", "seconds", "score", "scores")
# Seconds between two lines for people; a long run is looked at less often.
_OFTEN, _SELDOM = 15.0, 60.0
_SMOOTH = 0.05


class _TensorBoard:
    """Values for TensorBoard, in the run's folder."""

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Write values of one step."""
        for name, value in values.items():
            self.writer.add_scalar(name, value, step)

    def close(self) -> None:
        """End the file."""
        self.writer.close()


class _WeightsAndBiases:
    """Values for Weights & Biases: numbers and names of scores, never texts or the recipe."""

    def __init__(self, folder: Path) -> None:
        import wandb

        self.run = wandb.init(project="malmoi", name=folder.name, dir=str(folder), resume="allow")

    def add(self, values: Mapping[str, float], step: int) -> None:
        """Write values of one step."""
        self.run.log(dict(values), step=step)

    def close(self) -> None:
        """End the run there."""
        self.run.finish()


_REPORTS: dict[str, Callable[[Path], Any]] = {
    "tensorboard": _TensorBoard,
    "wandb": _WeightsAndBiases,
}


class Log:
    """Writes a run's log; rows after step `after`, of a run that was killed, are dropped."""

    def __init__(
        self, path: Path, *, total: int, after: int, shown: bool, minutes: float = 0.0,
        report: Sequence[str] = (),
    ) -> None:  # fmt: skip
        self.path, self.total, self.shown, self.minutes = path, total, shown, minutes
        self.reports = [_REPORTS[name](path.parent) for name in report] if shown else []
        self.first = after
        self.logged_at = self.started = time.monotonic()
        self.examples = 0
        self.smooth: float | None = None
        self.file: io.TextIOWrapper | None = None

    def __enter__(self) -> "Log":
        if self.shown:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            rows = [row for row in read_log(self.path) if int(row["step"]) <= self.first]
            with writing(self.path) as file:
                file.write(_lines([COLUMNS, *(tuple(row.values()) for row in rows)]).encode())
            self.file = self.path.open("a", encoding="utf-8", newline="")
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for sink in (self.file, *self.reports):
            if sink is not None:
                with contextlib.suppress(OSError):
                    sink.close()

    def step(self, state: State, loss: float, rate: float, examples: int) -> None:
        """Write one step's row, and log a line when some time has passed."""
        self.examples += examples
        old = loss if self.smooth is None else self.smooth
        self.smooth = old + _SMOOTH * (loss - old)
        self._write(state, f"{loss:.6g}", f"{rate:.6g}", "", "")
        for report in self.reports:
            report.add({"loss": loss, "learning_rate": rate}, state.step)
        now = time.monotonic()
        if self.shown and now - self.logged_at > (_OFTEN if now - self.started < 600 else _SELDOM):
            self.logged_at = now
            logger.info(self._line(state))

    def scores(self, state: State, scores: dict[str, float]) -> None:
        """Write and log the scores of an evaluation."""
        shown = {name: f"{one:.4f}".replace("nan", "undefined") for name, one in scores.items()}
        listed = ", ".join(f"{name} {score}" for name, score in shown.items())
        self._write(state, "", "", f"{mean_score(scores):.6f}", listed)
        mark = " (best)" if state.best_step == state.step else ""
        mark = mark if state.step else " (before the first step)"
        logger.info(f"step {state.step:,}: {listed}{mark}")
        for report in self.reports:
            report.add(scores, state.step)

    def _write(self, state: State, *values: str) -> None:
        if self.file is not None:
            loss, rate, score, scores = values
            seconds = f"{state.seconds:.2f}"
            row = (str(state.step), str(state.epoch), loss, rate, seconds, score, scores)
            # A full disk costs a row of the log, not the run.
            with contextlib.suppress(OSError):
                self.file.write(_lines([row]))
                self.file.flush()

    def _line(self, state: State) -> str:
        passed = time.monotonic() - self.started
        rate = self.examples / passed
        left = passed / (state.step - self.first) * (self.total - state.step)
        of = f" of {self.total:,}"
        if self.minutes and (by_time := 60 * self.minutes - state.seconds) < left:
            left, of = max(by_time, 0.0), ""
        return (
            f"step {state.step:,}{of}  loss {self.smooth:.4f}  "
            f"{rate:,.0f} examples/s  {spell(left)} left"
        )


def mean_score(scores: dict[str, float]) -> float:
    """Give the mean of the scores that are defined; NaN where none is.

    >>> mean_score({"a": 0.5, "b": math.nan, "c": 1.0})
    0.75
    """
    defined = [score for score in scores.values() if not math.isnan(score)]
    return sum(defined) / len(defined) if defined else math.nan


def read_log(path: Path) -> list[dict[str, str]]:
    """Read a run's log; one that is not there has no rows, an incomplete last row is dropped."""
    if not path.is_file():
        return []
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    whole = [row for row in rows if set(row) == set(COLUMNS) and None not in row.values()]
    return [row for row in whole if row["step"].isdecimal()]


def draw_log(path: Path, image: Path) -> bool:
    """Draw loss and score over the steps; gives False when matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        logger.info("no plot was drawn: matplotlib is not installed (pip install 'malmoi[plots]')")
        return False
    figure = figure_of(path)
    with writing(image) as file:
        figure.savefig(file, format="png", dpi=150)
    return True


def figure_of(path: Path) -> Any:
    """Draw loss and score of a log over the steps; gives a figure of matplotlib."""
    Figure = require("matplotlib.figure", extra="plots", purpose="plots").Figure  # noqa: N806
    rows = read_log(path)
    losses = [(int(row["step"]), float(row["loss"])) for row in rows if row["loss"]]
    scores = [(int(row["step"]), float(row["score"])) for row in rows if row["score"]]
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    left = figure.add_subplot()
    values = [loss for _, loss in losses]
    smooth = list(itertools.accumulate(values, lambda old, new: old + _SMOOTH * (new - old)))
    steps = [step for step, _ in losses]
    left.plot(steps, values, color="tab:blue", alpha=0.25, linewidth=0.8)
    left.plot(steps, smooth, color="tab:blue", label="loss")
    left.set_xlabel("step")
    left.set_ylabel("loss")
    if scores:
        right = left.twinx()
        right.plot(*zip(*scores, strict=True), color="tab:red", marker="o", label="dev score")
        right.set_ylabel("dev score")
        low, high = min(one for _, one in scores), max(one for _, one in scores)
        if low >= 0 and high <= 1:  # an axis of at least a tenth does not make much of little
            room = max(0.0, 0.1 - (high - low)) / 2 + 0.01
            right.set_ylim(max(0.0, low - room), min(1.0, high + room))
    if values and min(values) >= 0:
        left.set_ylim(bottom=0)
    figure.legend(loc="outside upper right", ncols=2)
    return figure


def _lines(rows: list[tuple[str, ...]]) -> str:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n").writerows(rows)
    return text.getvalue()


def spell(seconds: float) -> str:
    """Write a time for people.

    >>> spell(5), spell(125), spell(7384)
    ('5 s', '2 min 5 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
