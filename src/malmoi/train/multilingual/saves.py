"""Weights of a stage on disk: its checkpoint, and mixtures of several stages' weights."""

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ...errors import OutputError
from ...files import writing
from ..checkpoint import tensor_errors
from ..student import Student
from .settings import Learning

logger = logging.getLogger(__name__)


class Saves:
    """A stage's checkpoint, by the stage's key, with the minutes that went into it."""

    def __init__(self, folder: Path, key: str, *, every: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith(key):  # of other settings, or half written
                if old.suffix == ".safetensors":
                    logger.info(
                        f"{folder.name} had begun with other settings or data, and begins anew"
                    )
                old.unlink()
        self.path, self.notes = folder / f"{key}.safetensors", folder / f"{key}.json"
        self.every, self.spent = every, 0.0
        self.begin = self.saved = time.monotonic()

    def load(self, student: Student) -> bool:
        """Go on from the checkpoint, if there is one that can be read."""
        if not self.path.is_file():
            return False
        try:
            self.spent = float(json.loads(self.notes.read_text("utf-8"))["minutes"])
            student.load_checkpoint(self.path)
        except (SafetensorError, OSError, ValueError, KeyError):
            logger.info(f"{self.path} is damaged; its stage begins anew")
            return False
        logger.info(f"{self.path.parent.name} goes on from step {student.steps:,}")
        return True

    @property
    def minutes(self) -> float:
        """How long the stage has been training, over all its runs."""
        return self.spent + (time.monotonic() - self.begin) / 60

    def save(self, student: Student) -> None:
        """Write the checkpoint in the old one's place."""
        start = time.monotonic()
        with writing(self.notes) as file:
            notes = {"steps": student.steps, "minutes": round(self.minutes, 3)}
            file.write(json.dumps(notes).encode())
        with writing_tensors(self.path):
            student.save_checkpoint(self.path)
        self.saved = time.monotonic()
        self.begin += self.saved - start

    def save_when_due(self, student: Student) -> None:
        """Write the checkpoint when the last one is old enough.

        One that cannot be written is told and the run goes on: the one before is whole.
        """
        if time.monotonic() - self.saved < 60 * self.every:
            return
        try:
            self.save(student)
        except OutputError as error:
            self.saved = time.monotonic()
            logger.info(f"no checkpoint at step {student.steps:,}: {error}")


@contextlib.contextmanager
def writing_tensors(path: Path) -> Iterator[None]:
    """Name the file and the reason when weights cannot be written."""
    try:
        with tensor_errors():
            yield
    except OSError as error:
        raise OutputError(
            f"cannot write {path}: {os.strerror(error.errno or 0)}. Free some space, or write "
            "elsewhere."
        ) from error


def has_average(path: Path, stage: Learning) -> bool:
    """Tell whether a checkpoint holds an average of its weights; one is taken every ten steps."""
    notes = json.loads(path.with_suffix(".json").read_text("utf-8"))
    return stage.average > 0 and int(notes["steps"]) >= 10


def mix_weights(parts: Sequence[tuple[Path, float, bool]], out: Path) -> None:
    """Write the weighted mean of checkpoints' weights; a part is a file, its share, averaged.

    Between a student before and after tuning lies one that keeps what tuning would forget.
    """
    total = sum(share for _, share, _ in parts)
    mixed: dict[str, torch.Tensor] = {}
    for path, share, averaged in parts:
        state = load_file(path)
        for name in state:
            if name == "table" or name.startswith("master."):
                other = name.replace("master.", "mean.", 1) if name != "table" else "mean_table"
                part = state[other if averaged else name] * (share / total)
                mixed[name] = mixed[name] + part if name in mixed else part
    half = out.with_name(f".{out.name}.part")
    with writing_tensors(out):
        save_file({name: value.contiguous() for name, value in mixed.items()}, half)
    half.replace(out)
