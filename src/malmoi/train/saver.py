"""A run on disk: checkpoints by time and step, the best model by its score."""

import logging
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from ..errors import OutputError, counted
from ..files import writing_folder
from . import checkpoint
from .checkpoint import State
from .log import Log
from .processes import Processes
from .recipe import Output
from .task import Task

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Places:
    """The files of a run."""

    folder: Path

    @property
    def checkpoints(self) -> Path:
        """Where checkpoints stand."""
        return self.folder / "checkpoints"

    @property
    def best(self) -> Path:
        """The best model so far, as a folder of torch weights."""
        return self.folder / "best"

    @property
    def log(self) -> Path:
        """Loss and scores, a row a step."""
        return self.folder / "log.csv"


class Saver:
    """Keeps the run on disk: checkpoints by time and step, and the best model by its score."""

    def __init__(
        self,
        task: Task,
        optimizer: torch.optim.Optimizer,
        output: Output,
        places: Places,
        processes: Processes,
    ) -> None:
        self.task, self.optimizer, self.output = task, optimizer, output
        self.places, self.processes = places, processes
        self.saved_at = time.monotonic()

    def save(self, state: State) -> None:
        """Write a checkpoint; the other processes have nothing that the first does not."""
        if self.processes.first:
            self.places.checkpoints.mkdir(parents=True, exist_ok=True)
            checkpoint.save(
                self.places.checkpoints,
                self.task.module,
                self.optimizer,
                state,
                keep=self.output.keep,
            )
        self.saved_at = time.monotonic()

    def save_when_due(self, state: State) -> None:
        """Write a checkpoint when enough steps or minutes have passed.

        One that cannot be written is told and the run goes on: the one before is whole, and there
        may be room again by the next.
        """
        steps, minutes = self.output.checkpoint_steps, self.output.checkpoint_minutes
        late = minutes > 0 and time.monotonic() - self.saved_at >= minutes * 60
        if late or (steps and state.step % steps == 0):
            try:
                self.save(state)
            except OutputError as error:
                self.saved_at = time.monotonic()
                logger.warning(f"no checkpoint at step {state.step:,}: {error}")

    def evaluate(self, state: State, log: Log) -> None:
        """Measure the model, keep it when it is the best, and end the run when none is better."""
        if self.processes.first:
            self.task.module.eval()
            scores = self.task.evaluate()
            self.task.module.train()
            if scores:
                self._judge(state, scores)
                log.scores(state, scores)
        state.ended = self.processes.any(state.ended)

    def _judge(self, state: State, scores: dict[str, float]) -> None:
        score = sum(scores.values()) / len(scores)
        if state.best is None or score > state.best:
            state.best, state.best_step, state.best_scores = score, state.step, scores
            state.waited = 0
            self._save_best()
            return
        state.waited += 1
        if 0 < self.output.early_stopping <= state.waited:
            state.ended = True
            logger.info(
                f"stopping early: the last {counted(state.waited, 'score was', 'scores were')} no "
                "better"
            )

    def _save_best(self) -> None:
        with writing_folder(self.places.best, replace=True) as half, checkpoint.tensor_errors():
            self.task.save(half)
            for file in half.rglob("*.safetensors"):
                file.chmod(0o644)  # safetensors writes 0600; a model folder is read by others too

    def finish(self, state: State) -> None:
        """Save the end of the run; without evaluations the last model is the best."""
        if self.processes.first and state.best is None:
            self._save_best()
        self.save(state)
        self.processes.wait()
