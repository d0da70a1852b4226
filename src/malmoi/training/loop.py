"""The training loop, read from top to bottom: one step after another, until the end or Ctrl-C.

A plain loop instead of a trainer, for three things that a trainer makes hard: a run that was
killed must end with the same bits as one that was not; batches are planned by tokens, for several
data sets and processes at once; and the loss of several processes is that of one with the larger
batch. The losses themselves are sentence-transformers'.

Nothing random outlives a step: each one seeds every generator from (seed, step, rank). What a
checkpoint must hold is then weights, the optimizer's moments and three numbers.
"""

import contextlib
import logging
import math
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import DataError, OptionError, OutputError, counted
from ..io.files import writing_folder
from ..io.progress import silenced
from . import checkpoint
from .batching import Step
from .checkpoint import Log, State, mean_score
from .distributed import Processes
from .optimizer import clip_gradients
from .run_dir import Hooks, RunPaths
from .schema import Output, Schedule

logger = logging.getLogger(__name__)


class TrainingTask(Protocol):
    """What is trained: the loop knows nothing of encoders, pairs or files.

    `module` holds everything that learns, heads too. `loss` is that of the whole step, the same
    in every process. `evaluate` gives scores that grow with quality, by name. `save` writes a
    model folder that can be loaded or exported. A task may have a method `optimizer` that makes
    an optimizer of its own from the schedule; AdamW by `make_optimizer` is used else. It may have
    a method `before_step`, which is called with the number of the steps that are done.
    """

    module: nn.Module

    def plan(self, epoch: int) -> list[Step]: ...
    def loss(self, step: Step) -> Tensor: ...
    def evaluate(self) -> dict[str, float]: ...
    def save(self, folder: Path) -> None: ...


# Large enough that the matrix unit is used, should there be one.
_PROBE = (
    "import torch; a = torch.ones(256, 384, dtype=torch.bfloat16);"
    "b = torch.ones(512, 384, dtype=torch.bfloat16); print(float((a @ b.T)[0, 0]))"
)

# Products of both kinds, timed; AVX512_BF16 and AMX make the second one twice as fast or more.
_FAST = """
import time, torch
torch.set_num_threads(1)
def took(kind):
    a, b = torch.randn(2048, 384, dtype=kind), torch.randn(1536, 384, dtype=kind)
    torch.nn.functional.linear(a, b)
    begin = time.process_time()
    for _ in range(10):
        torch.nn.functional.linear(a, b)
    return time.process_time() - begin
raise SystemExit(0 if took(torch.float32) > 1.3 * took(torch.bfloat16) else 3)
"""


def check_bfloat16(setting: str = "schedule.bf16 is true") -> None:
    """Try a product in a process of its own, and raise an OptionError when that one dies.

    A virtual machine may announce a processor's AMX and hide how to use it; the first product
    is then an illegal instruction, which no program can report afterwards.
    """
    done = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, text=True)
    if done.returncode == 0 and done.stdout.strip() == "384.0":
        return
    raise OptionError(
        f"{setting}, and a product in bfloat16 kills the process on this machine; expected "
        "one that works. Choose float32 in the recipe, or leave the matrix unit out with "
        "the environment variable ONEDNN_MAX_CPU_ISA=AVX512_CORE_BF16."
    )


def best_precision() -> str:
    """Say "bfloat16" where a process of its own computes faster in it, else "float32"."""
    tried = subprocess.run([sys.executable, "-c", _FAST], capture_output=True, check=False)
    return "bfloat16" if tried.returncode == 0 else "float32"


class Saver:
    """Keeps the run on disk: checkpoints by time and step, and the best model by its score."""

    def __init__(
        self,
        task: TrainingTask,
        optimizer: torch.optim.Optimizer,
        output: Output,
        paths: RunPaths,
        processes: Processes,
    ) -> None:
        self.task, self.optimizer, self.output = task, optimizer, output
        self.paths, self.processes = paths, processes
        self.saved_at = time.monotonic()

    def save(self, state: State) -> None:
        """Write a checkpoint; the other processes have nothing that the first does not."""
        if self.processes.first:
            self.paths.checkpoints.mkdir(parents=True, exist_ok=True)
            folder, keep = self.paths.checkpoints, self.output.keep
            checkpoint.save(folder, self.task.module, self.optimizer, state, keep=keep)
        self.saved_at = time.monotonic()

    def save_when_due(self, state: State) -> bool:
        """Write a checkpoint when enough steps or minutes have passed; gives whether it was.

        If it cannot be written, that is logged and the run continues: the one before is whole, and
        the next may find room again.
        """
        steps, minutes = self.output.checkpoint_steps, self.output.checkpoint_minutes
        late = minutes > 0 and time.monotonic() - self.saved_at >= minutes * 60
        if late or (steps and state.step % steps == 0):
            try:
                self.save(state)
                return True
            except OutputError as error:
                self.saved_at = time.monotonic()
                logger.warning(f"no checkpoint at step {state.step:,}: {error}")
        return False

    def evaluate_base(self, state: State, log: Log) -> None:
        """Measure the model before it learns, so that the gain can be seen."""
        if self.processes.first:
            with silenced():  # an untrained head may have no score at all
                state.base_scores = self._measure()
            if state.base_scores:
                log.scores(state, state.base_scores)

    def evaluate(self, state: State, log: Log) -> dict[str, float]:
        """Measure the model, keep it when it is the best, and end the run when none is better."""
        scores: dict[str, float] = {}
        if self.processes.first:
            with self._averaged():
                if scores := self._measure():
                    self._judge(state, scores)
                    log.scores(state, scores)
        state.ended = self.processes.any(state.ended)
        return scores

    def _measure(self) -> dict[str, float]:
        self.task.module.eval()
        scores = self.task.evaluate()
        self.task.module.train()
        return scores

    def _judge(self, state: State, scores: dict[str, float]) -> None:
        score = mean_score(scores)
        if math.isnan(score):  # an undefined score chooses no model
            state.best_scores = state.best_scores or scores
        elif state.best is None or score > state.best:
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
        with writing_folder(self.paths.best, replace=True) as partial, checkpoint.tensor_errors():
            self.task.save(partial)
            for file in partial.rglob("*.safetensors"):
                file.chmod(0o644)  # safetensors writes 0600; a model folder is read by others too

    def _averaged(self) -> contextlib.AbstractContextManager[None]:
        """Use the averaged weights for a while, where the optimizer keeps an average."""
        swap: Any = getattr(self.optimizer, "averaged", contextlib.nullcontext)
        found: contextlib.AbstractContextManager[None] = swap()
        return found

    def finish(self, state: State) -> None:
        """Save the end of the run; without evaluations the last model is the best."""
        if self.processes.first and state.best is None:
            with self._averaged():
                self._save_best()
        self.save(state)
        self.processes.wait()


def train(
    task: TrainingTask,
    schedule: Schedule,
    output: Output,
    *,
    seed: int,
    processes: Processes,
    resume: bool,
    hooks: Hooks | None = None,
) -> State:
    """Train a task to the end of its schedule; the best model is then in the folder `best`.

    Raises KeyboardInterrupt after Ctrl-C or SIGTERM, when the state is saved.
    """
    # long because a run is read here from top to bottom
    paths = RunPaths(Path(output.folder))
    own = getattr(task, "optimizer", None)
    optimizer: torch.optim.Optimizer = (
        own(schedule)
        if own
        else make_optimizer(task.module, schedule, scales=getattr(task, "scales", None))
    )
    parameters = [p for p in task.module.parameters() if p.requires_grad]
    total = count_steps(task, schedule)
    found = checkpoint.load_newest(paths.checkpoints, task.module, optimizer) if resume else None
    state = found or State()
    if not processes.agree(state.step):
        raise DataError(
            f"the processes found different checkpoints in {paths.checkpoints}; expected the "
            "same. Put output.folder where every machine sees it."
        )
    saver = Saver(task, optimizer, output, paths, processes)
    minutes = schedule.minutes
    log = Log(
        paths.log,
        total=total,
        after=state.step,
        shown=processes.first,
        minutes=minutes,
        report=output.report,
    )
    device = processes.device.split(":")[0]
    task.module.train()
    hooks = hooks or Hooks()
    before_step = getattr(task, "before_step", None)
    with watching_signals() as stopped, log:
        if not state.step:
            saver.evaluate_base(state, log)
            state.ended = processes.any(hooks.ends("on_evaluation", 0, state.base_scores))
        every = schedule.accumulate
        for steps, last in remaining(task, state, total, minutes=minutes, every=every):
            started = time.perf_counter()
            seed_all(seed, state.step, processes.rank)
            rate = learning_rate(schedule, position(schedule, state, total), total)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["scale"]
            if before_step is not None:
                before_step(state.step)
            value = 0.0
            for step in steps:
                with torch.autocast(device, torch.bfloat16, enabled=schedule.bf16):
                    loss = task.loss(step) / len(steps)
                loss.backward()  # type: ignore[no-untyped-call]
                value += loss.item()
            processes.average_gradients(parameters)
            if schedule.clip:
                clip_gradients(parameters, schedule.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            state.step += 1
            state.position += len(steps)
            # One clock for all: rates and the end of a run of minutes depend on it.
            state.seconds += processes.most(time.perf_counter() - started)
            check_loss(value, state.step)
            log.step(state, value, rate, sum(len(step.rows) for step in steps))
            ended = hooks.ends("on_step", state.step, value)
            if evaluation_due(schedule, state, last=last):
                scores = saver.evaluate(state, log)
                ended |= hooks.ends("on_evaluation", state.step, scores)
            if saver.save_when_due(state):
                ended |= hooks.ends("on_checkpoint", state.step, paths.checkpoints)
            state.ended = processes.any(state.ended or ended)
            if processes.any(stopped()):
                saver.save(state)
                logger.info(
                    f"stopped at step {state.step:,}; its state is saved. Continue with --resume"
                )
                raise KeyboardInterrupt
    saver.finish(state)
    return state


# Steps that a run of minutes alone counts as its length: only the share that is done matters.
_UNLIMITED = 1_000_000


def remaining(
    task: TrainingTask, state: State, total: int, *, minutes: float = 0.0, every: int = 1
) -> Iterator[tuple[list[Step], bool]]:
    """Yield what makes each step from the state's position, and whether it ends its epoch.

    A step is made of `every` batches, or of those that an epoch has left. The caller counts them
    in the state. A step that may be the last of a run of `minutes` is told
    as such by the time that steps have taken so far.
    """
    plan = task.plan(state.epoch)
    seconds = 60 * minutes or math.inf
    while state.step < total and state.seconds < seconds and not state.ended:
        while state.position >= len(plan):
            state.epoch, state.position = state.epoch + 1, 0
            plan = task.plan(state.epoch)
        each = state.seconds / state.step if state.step else 0.0
        ends = state.step + 1 == total or state.seconds + each >= seconds
        batches = plan[state.position : state.position + every]
        yield batches, state.position + len(batches) == len(plan) or ends


def position(schedule: Schedule, state: State, total: int) -> float:
    """Give the number of the step for the schedule, by the clock where that is ahead.

    >>> position(Schedule(epochs=0, minutes=2), State(step=7, seconds=30), 1000)
    250.0
    """
    if schedule.warmup >= 1 and state.step < schedule.warmup:
        return float(state.step)  # a warm-up in steps, however long one takes
    by_time = state.seconds / (60 * schedule.minutes) if schedule.minutes else 0.0
    return max(float(state.step), min(by_time, 1.0) * total)


def count_steps(task: TrainingTask, schedule: Schedule) -> int:
    """Count the steps of the whole run."""
    epochs = range(schedule.epochs or 1)
    planned = sum(math.ceil(len(task.plan(epoch)) / schedule.accumulate) for epoch in epochs)
    if not planned:
        raise DataError("the data give no batch of two rows; expected one. Add rows to the files.")
    if not schedule.epochs:
        return schedule.steps or _UNLIMITED
    return min(planned, schedule.steps) if schedule.steps else planned


def check_loss(loss: float, step: int) -> None:
    """Stop before broken weights are saved."""
    if math.isfinite(loss):
        return
    if step == 1:  # no step has changed the weights yet
        remedy = "Check the weights of the base, and the options of the objective."
    else:
        remedy = "Start again with a lower schedule.learning_rate, in another output.folder."
    raise DataError(f"the loss became {loss} at step {step:,}; expected a number. {remedy}")


def evaluation_due(schedule: Schedule, state: State, *, last: bool) -> bool:
    """Whether the model is to be measured now; `last` steps of an epoch always are."""
    every = schedule.evaluate_steps
    return last or bool(every and state.step % every == 0)


def make_optimizer(
    module: nn.Module, schedule: Schedule, *, scales: Mapping[int, float] | None = None
) -> torch.optim.Optimizer:
    """AdamW, without decay on biases and normalisations (their parameters are vectors).

    `scales` are factors of the learning rate, by the id of a parameter.
    """
    if not any(p.requires_grad for p in module.parameters()):
        raise OptionError(
            f"schedule.freeze is {', '.join(schedule.freeze)}, which is all that the model has; "
            "expected something to train. Freeze less."
        )
    sorted_out: dict[tuple[bool, float], list[nn.Parameter]] = {}
    for p in module.parameters():
        if p.requires_grad:
            key = (p.ndim <= 1, (scales or {}).get(id(p), 1.0))
            sorted_out.setdefault(key, []).append(p)
    decay = schedule.weight_decay
    groups = [
        {"params": found, "weight_decay": 0.0 if vector else decay, "scale": scale}
        for (vector, scale), found in sorted_out.items()
    ]
    return torch.optim.AdamW(groups, lr=schedule.learning_rate, fused=True)


def learning_rate(schedule: Schedule, step: float, total: int) -> float:
    """Give the rate of one step: up in a line, then down as the schedule says.

    >>> schedule = Schedule(learning_rate=1.0, warmup=2, decay="linear")
    >>> [round(learning_rate(schedule, step, 6), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warmup = schedule.warmup * total if schedule.warmup < 1 else schedule.warmup
    if step < warmup:
        return schedule.learning_rate * min(1.0, (step + 1) / (int(warmup) or 1))
    done = (step - warmup) / max(total - warmup, 1)
    factor = {
        "linear": 1 - done,
        "cosine": 0.5 * (1 + math.cos(math.pi * done)),
        "constant": 1.0,
    }[schedule.decay]
    return schedule.learning_rate * max(factor, schedule.floor)


def seed_all(seed: int, step: int, rank: int) -> None:
    """Seed every generator for one step."""
    number = int(np.random.SeedSequence([seed, step, rank]).generate_state(1)[0])
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


@contextlib.contextmanager
def watching_signals() -> Iterator[Callable[[], bool]]:
    """Let Ctrl-C and SIGTERM wait for the end of a step; a second one does not wait."""
    caught: list[int] = []

    def handle(number: int, frame: Any) -> None:
        caught.append(number)
        signal.signal(number, signal.default_int_handler)

    if threading.current_thread() is not threading.main_thread():
        yield lambda: False
        return
    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: bool(caught)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
