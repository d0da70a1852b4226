"""What the recipes of all objectives must keep to: schedule, output and seed in their ranges."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..errors import DataError, OptionError
from ..text import SAFE, check_steps

if TYPE_CHECKING:
    from .recipe import Evaluation, Output, Schedule

_LARGEST_SEED = 2**63 - 1  # torch's generators take no more
# So many labels, and most of them in one row only, are texts from another column.
_MANY_LABELS = 100


def check_run(
    schedule: "Schedule", output: "Output", *, seed: int, where: str, smallest_batch: int = 2
) -> None:
    """Raise an OptionError for the first number outside its range."""
    for key, value, least in (
        ("schedule.epochs", schedule.epochs, 0 if schedule.steps else 1),
        ("schedule.steps", schedule.steps, 0),
        ("schedule.batch_size", schedule.batch_size, smallest_batch),
        ("schedule.batch_tokens", schedule.batch_tokens, 0),
        ("schedule.piece_tokens", schedule.piece_tokens, 1),
        ("schedule.evaluate_steps", schedule.evaluate_steps, 0),
        ("schedule.learning_rate", schedule.learning_rate, 1e-12),
        ("schedule.warmup", schedule.warmup, 0),
        ("schedule.weight_decay", schedule.weight_decay, 0),
        ("schedule.clip", schedule.clip, 0),
        ("output.keep", output.keep, 1),
        ("output.checkpoint_minutes", output.checkpoint_minutes, 0),
        ("output.checkpoint_steps", output.checkpoint_steps, 0),
        ("output.early_stopping", output.early_stopping, 0),
    ):
        check_least(key, value, least, where=where)
    if not output.precision:
        raise OptionError(
            f"{where}: output.precision is empty; expected one or more, for each is a bundle. "
            "Name one."
        )
    check_seed(seed, where=where)


def check_clean(steps: Sequence[str] | None, *, where: str) -> None:
    """Raise an OptionError for clean-up that is not known, or that no tokenizer is safe after."""
    missing = [step for step in SAFE if step not in check_steps(SAFE if steps is None else steps)]
    if missing:
        raise OptionError(
            f"{where}: clean has no {missing[0]}; expected it, for no tokenizer reads half a "
            "character. Put it first."
        )


def check_least(key: str, value: float, least: float, *, where: str) -> None:
    """Raise an OptionError for a number below the least that it may be."""
    if not value >= least:
        raise OptionError(f"{where}: {key} is {value}; expected {least} or more. Correct it.")


def check_seed(seed: int, *, where: str) -> None:
    """Raise an OptionError for a seed that a generator of random numbers does not take."""
    if not 0 <= seed <= _LARGEST_SEED:
        raise OptionError(f"{where}: seed is {seed}; expected 0 to {_LARGEST_SEED}. Correct it.")


def check_evaluations(entries: Sequence["Evaluation"], *, where: str) -> None:
    """Raise an OptionError for two evaluations whose scores would have the same name."""
    counts = Counter(entry.title for entry in entries)
    for i, entry in enumerate(entries):
        if counts[entry.title] > 1:
            raise OptionError(
                f"{where}: evaluation[{i}] and another are both called {entry.title}; expected a "
                "name for each score. Add the key name to one."
            )
        check_least(f"evaluation[{i}].limit", entry.limit, 0, where=where)


def check_classes(classes: Sequence[str], rows: int, *, where: str) -> None:
    """Raise a DataError for labels that are hardly ever the same: texts, by all appearance."""
    if len(classes) > _MANY_LABELS and 2 * len(classes) > rows:
        raise DataError(
            f"{where} have {len(classes):,} different labels in {rows:,} rows; expected labels "
            "that come again. Check which column is the label."
        )
