"""The stages that train: distillation and tuning, with checkpoints to go on from."""

import contextlib
import json
import logging
import time
from pathlib import Path

import numpy as np

from ..distil import DistilConfig, Seen, distil
from ..joint import JointConfig, tune
from ..student import Student
from .saves import Saves, has_average
from .settings import Distil, Learning, Tune
from .stages import spell
from .tasks import Making, make_lessons
from .workshop import Workshop, nested_of

logger = logging.getLogger(__name__)

_FOREVER = 1_000_000_000


def run_distil(shop: Workshop, stage: Distil, key: str) -> None:
    """Distil the student, from its base or from a checkpoint of this stage."""
    student = shop.student(stage)
    data = shop.data(student)
    saves = _saves(shop, "distil", key)
    saves.load(student)
    config = DistilConfig(
        tokens=stage.tokens,
        source_share=stage.source_share,
        contrast=stage.contrast,
        temperature=stage.temperature,
        steps=stage.steps or _FOREVER,
        minutes=stage.minutes or float("inf"),
        seed=shop.recipe.seed,
    )

    def report(seen: Seen) -> None:
        losses = {"target": seen.loss, "source": seen.source_loss, "contrast": seen.contrast}
        speed = f"{seen.tokens_per_second:,.0f} tokens/s"
        _log_step(shop, "distil", seen.step, seen.progress, losses, speed, saves.minutes)
        saves.save_when_due(student)

    goals = shop.teacher.cache.open()
    every, spent = _every(stage), saves.spent
    distil(student, data, goals, config, report=report, every=every, spent=spent)
    saves.save(student)
    _measure_result(shop, student, saves.path, stage, "distil")


def run_tune(shop: Workshop, stage: Tune, title: str, key: str, start: Path) -> None:
    """Tune the student on the recipe's tasks; `start` holds the weights it begins with."""
    student = shop.student(stage)
    student.load_checkpoint(start, optimizer=False)
    # Everything that depends on the student as it starts is made before a checkpoint is read.
    teacher = shop.itself(student, key) if stage.own_goals else shop.teacher
    making = Making(shop.recipe, shop.material, shop.data(student, teacher), teacher, student)
    lessons = make_lessons(making, stage)
    saves = _saves(shop, title, key)
    if not saves.load(student):
        student.load_checkpoint(start, optimizer=False)
    config = JointConfig(
        minutes=stage.minutes or float("inf"),
        steps=stage.steps or _FOREVER,
        together=stage.together,
        nested=nested_of(shop.recipe, shop.teacher.dimension),
        lead=stage.lead,
        others=stage.others,
        turns=stage.turns,
        factors=stage.factors,
        dropout=stage.dropout,
        seed=shop.recipe.seed,
    )
    begin, first = time.monotonic(), student.steps

    def report(step: int, progress: float, losses: dict[str, float]) -> None:
        speed = f"{(time.monotonic() - begin) / (step - first):.2f} s/step"
        _log_step(shop, title, step, progress, losses, speed, saves.minutes)
        saves.save_when_due(student)

    tune(student, lessons, config, report=report, every=_every(stage), spent=saves.spent)
    saves.save(student)
    _measure_result(shop, student, saves.path, stage, title)


def _saves(shop: Workshop, title: str, key: str) -> Saves:
    minutes = shop.recipe.output.checkpoint_minutes
    return Saves(shop.folder / title, key, every=minutes)


def _measure_result(
    shop: Workshop, student: Student, path: Path, stage: Learning, title: str
) -> None:
    if shop.material.measures:
        # What the stage hands on is its average, so that is what is measured.
        student.load_checkpoint(path, optimizer=False, averaged=has_average(path, stage))
        _log(shop, {"stage": title, "scores": shop.measure(student, title)})


def _every(stage: Learning) -> int:
    return max(1, min(20, stage.steps // 10)) if stage.steps else 10


def _log_step(
    shop: Workshop,
    title: str,
    step: int,
    progress: float,
    losses: dict[str, float],
    speed: str,
    minutes: float,
) -> None:
    left = spell(60 * minutes * (1 - progress) / progress) if progress > 0 else "?"
    known = {name: round(loss, 4) for name, loss in losses.items() if np.isfinite(loss)}
    shown = ", ".join(f"{name} {loss:.4f}" for name, loss in known.items())
    logger.info(f"{title} step {step:,} ({progress:.0%}): {shown}; {speed}, {left} left")
    _log(shop, {"stage": title, "step": step, "minutes": round(minutes, 2), "losses": known})


def _log(shop: Workshop, row: dict[str, object]) -> None:
    # A full disk costs a row of the log, not the run.
    with (
        contextlib.suppress(OSError),
        (shop.folder / "log.jsonl").open("a", encoding="utf-8") as file,
    ):
        file.write(json.dumps(row, ensure_ascii=False) + "\n")
