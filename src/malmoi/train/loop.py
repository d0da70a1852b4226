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
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import nn

from ..errors import DataError, OptionError
from . import checkpoint
from .batching import Step
from .checkpoint import State
from .log import Log
from .processes import Processes
from .recipe import Output, Schedule
from .saver import Places, Saver
from .task import Task

logger = logging.getLogger(__name__)


def train(
    task: Task, schedule: Schedule, output: Output, *, seed: int, processes: Processes, resume: bool
) -> State:
    """Train a task to the end of its schedule; the best model then stands in `best`.

    Raises KeyboardInterrupt after Ctrl-C or SIGTERM, when the state is saved.
    """
    places = Places(Path(output.folder))
    optimizer = make_optimizer(task.module, schedule, scales=getattr(task, "scales", None))
    parameters = [p for p in task.module.parameters() if p.requires_grad]
    total = count_steps(task, schedule)
    state = None
    if resume:
        state = checkpoint.load_newest(places.checkpoints, task.module, optimizer)
    state = state or State()
    if not processes.agree(state.step):
        raise DataError(
            f"the processes found different checkpoints in {places.checkpoints}; expected the "
            "same. Put output.folder where every machine sees it."
        )
    saver = Saver(task, optimizer, output, places, processes)
    log = Log(places.log, total=total, after=state.step, shown=processes.first)
    task.module.train()
    with watching_signals() as stopped, log:
        for step, last in remaining(task, state, total):
            started = time.perf_counter()
            seed_all(seed, state.step, processes.rank)
            rate = learning_rate(schedule, state.step, total)
            for group in optimizer.param_groups:
                group["lr"] = rate * group["scale"]
            with torch.autocast(
                processes.device.split(":")[0], torch.bfloat16, enabled=schedule.bf16
            ):
                loss = task.loss(step)
            loss.backward()  # type: ignore[no-untyped-call]
            processes.average_gradients(parameters)
            if schedule.clip:
                nn.utils.clip_grad_norm_(parameters, schedule.clip)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            state.step += 1
            state.position += 1
            state.seconds += time.perf_counter() - started
            log.step(state, check_loss(loss.item(), state.step), rate, len(step.rows))
            if evaluation_due(schedule, state, last=last):
                saver.evaluate(state, log)
            saver.save_when_due(state)
            if processes.any(stopped()):
                saver.save(state)
                logger.info(
                    f"stopped at step {state.step:,}; its state is saved. Go on with --resume"
                )
                raise KeyboardInterrupt
    saver.finish(state)
    return state


def remaining(task: Task, state: State, total: int) -> Iterator[tuple[Step, bool]]:
    """Yield the steps from where the state stands, and whether each is the last of its epoch.

    The caller counts them in the state.
    """
    plan = task.plan(state.epoch)
    while state.step < total and not state.ended:
        while state.position >= len(plan):
            state.epoch, state.position = state.epoch + 1, 0
            plan = task.plan(state.epoch)
        last = state.position + 1 == len(plan) or state.step + 1 == total
        yield plan[state.position], last


def count_steps(task: Task, schedule: Schedule) -> int:
    """Count the steps of the whole run."""
    if schedule.steps and not schedule.epochs:
        if not task.plan(0):
            raise no_batches()
        return schedule.steps
    planned = sum(len(task.plan(epoch)) for epoch in range(schedule.epochs))
    if not planned:
        raise no_batches()
    return min(planned, schedule.steps) if schedule.steps else planned


def no_batches() -> DataError:
    """Say that there is nothing to learn from."""
    return DataError("the data give no batch of two rows; expected one. Add rows to the files.")


def check_loss(loss: float, step: int) -> float:
    """Give the loss back, or stop before broken weights are saved."""
    if math.isfinite(loss):
        return loss
    if step == 1:  # no step has changed the weights yet
        remedy = "Check the weights of the base, and the options of the objective."
    else:
        remedy = "Begin anew with a lower schedule.learning_rate, in another output.folder."
    raise DataError(f"the loss became {loss} at step {step:,}; expected a number. {remedy}")


def evaluation_due(schedule: Schedule, state: State, *, last: bool) -> bool:
    """Tell whether the model is to be measured now; `last` steps of an epoch always are."""
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
    groups = [
        {
            "params": found,
            "weight_decay": 0.0 if vector else schedule.weight_decay,
            "scale": scale,
        }
        for (vector, scale), found in sorted_out.items()
    ]
    return torch.optim.AdamW(groups, lr=schedule.learning_rate, fused=True)


def learning_rate(schedule: Schedule, step: int, total: int) -> float:
    """Give the rate of one step: up in a line, then down as the schedule says.

    >>> schedule = Schedule(learning_rate=1.0, warmup=2, decay="linear")
    >>> [round(learning_rate(schedule, step, 6), 2) for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    warmup = schedule.warmup * total if schedule.warmup < 1 else schedule.warmup
    if step < warmup:
        return schedule.learning_rate * (step + 1) / (int(warmup) or 1)
    done = (step - warmup) / max(total - warmup, 1)
    factor = {
        "linear": 1 - done,
        "cosine": 0.5 * (1 + math.cos(math.pi * done)),
        "constant": 1.0,
    }[schedule.decay]
    return schedule.learning_rate * factor


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
