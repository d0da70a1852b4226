"""The stages that train, distillation and tuning: their checkpoints, the student, its scores."""

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file

from ...errors import OptionError, OutputError, counted
from ...export.silence import silenced_libraries
from ...io.files import writing
from ..checkpoint import tensor_errors
from ..log import spell
from ..loop import best_precision, check_bfloat16
from .data import DistillationData
from .distillation import (
    CachedTeacher,
    DistillationTexts,
    ParallelText,
    StepReport,
    Teacher,
    TeacherCache,
    distil,
    find_teacher,
    prepare,
)
from .lessons.base import Matryoshka, encode, tune
from .lessons.build import LessonBuilder, make_lessons
from .pieces import Words
from .recipe import Distil, Distillation, StageSchedule, Tune
from .student import Student, open_student

logger = logging.getLogger(__name__)


class StageCheckpoints:
    """A stage's checkpoint, by the stage's key, with the minutes that went into it."""

    def __init__(self, folder: Path, key: str, *, every: float) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        for old in folder.iterdir():
            if not old.name.startswith(key):  # of other settings, or incomplete
                if old.suffix == ".safetensors":
                    logger.info(
                        f"{folder.name} was started with other settings or data; it starts again"
                    )
                old.unlink()
        self.path, self.notes = folder / f"{key}.safetensors", folder / f"{key}.json"
        self.every, self.spent = every, 0.0
        self.begin = self.saved = time.monotonic()

    def load(self, student: Student) -> bool:
        """Continue from the checkpoint, if there is one that can be read."""
        if not self.path.is_file():
            return False
        try:
            self.spent = float(json.loads(self.notes.read_text("utf-8"))["minutes"])
            student.load_checkpoint(self.path)
        except (SafetensorError, OSError, ValueError, KeyError):
            logger.info(f"{self.path} is damaged; its stage starts again")
            return False
        logger.info(f"{self.path.parent.name} continues from step {student.steps:,}")
        return True

    @property
    def minutes(self) -> float:
        """How long the stage has been training, over all its runs."""
        return self.spent + (time.monotonic() - self.begin) / 60

    def save(self, student: Student) -> None:
        """Write the checkpoint in place of the old one."""
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

        If it cannot be written, that is logged and the run continues: the one before is whole.
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


def has_average(path: Path, stage: StageSchedule) -> bool:
    """Whether a checkpoint holds an average of its weights; one is taken every ten steps."""
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
    partial = out.with_name(f".{out.name}.part")
    with writing_tensors(out):
        save_file({name: value.contiguous() for name, value in mixed.items()}, partial)
    partial.replace(out)


@dataclass(frozen=True)
class Context:
    """What the training stages share."""

    recipe: Distillation
    dataset: DistillationData
    base: Path
    folder: Path
    words: Words
    teacher: Teacher
    precision: str

    def student(self, stage: StageSchedule) -> Student:
        """Open the student with a stage's rates; its weights are those of the base."""
        with silenced_libraries():
            model, tokenizer = open_student(
                self.base, table=np.load(self.folder / "table.npy"), spec=self.words.spec
            )
        if model.config.hidden_size != self.teacher.dimension:
            raise OptionError(
                f"the student's vectors have {model.config.hidden_size} dimensions and the "
                f"teacher's {self.teacher.dimension}; expected as many. Choose another of the two."
            )
        return Student(
            model,
            tokenizer,
            rates=stage,
            new_rows=list(self.words.rows.values()),
            precision=self.precision,
            longest=stage.longest,
            average=stage.average,
        )

    def itself(self, student: Student, key: str) -> CachedTeacher:
        """Let the student, as it is now, be the teacher; its vectors are kept by the stage's key.

        Only for a stage that has not started: later the student is another.
        """
        cache = TeacherCache(self.folder / "own-goals", key, self.teacher.dimension)
        return CachedTeacher(cache, StudentModel(student).encode)

    def data(self, student: Student, teacher: CachedTeacher | None = None) -> DistillationTexts:
        """Tokenize what is distilled on, and have the teacher's vectors of it."""
        teacher = teacher or self.teacher
        weights = {entry.title: entry.weight for entry in self.recipe.parallel}
        texts = [
            ParallelText(name, [s for s, _ in pairs], [t for _, t in pairs], weights[name])
            for name, pairs in self.dataset.chosen.items()
        ]
        cache = teacher.cache
        missing = len({s for text in texts for s in text.source}) - len(cache)
        if missing > 0:
            logger.info(f"the teacher reads about {counted(missing, 'sentence')}")
        return prepare(texts, student, cache, teacher.encode, self.folder / "ids")

    def measure(self, student: Student, title: str) -> dict[str, float]:
        """Score the student on the recipe's evaluations, and log them."""
        if not self.dataset.measures:
            return {}
        model = StudentModel(student)
        scores = {m.title: round(m(model), 4) for m in self.dataset.measures}
        shown = ", ".join(f"{name} {score:.4f}" for name, score in scores.items())
        logger.info(f"{title}: {shown}")
        return scores


@dataclass(frozen=True)
class StudentModel:
    """A student as evaluation sees a model."""

    student: Student

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give unit vectors: (n, dim)."""
        with torch.no_grad():
            blocks = [
                encode(self.student, texts[at : at + 1024]).numpy()
                for at in range(0, len(texts), 1024)
            ]
        found: NDArray[np.float32] = np.concatenate(blocks)
        return found


def open_context(
    recipe: Distillation,
    dataset: DistillationData,
    base: Path,
    folder: Path,
    *,
    threads: int | None,
) -> Context:
    """Open the teacher and choose the precision that this machine computes in."""
    bundle, key = find_teacher(recipe.teacher or recipe.base, folder)
    cache = Path(recipe.output.cache or folder / "cache").expanduser()
    teacher = Teacher(bundle, key, cache, threads=threads)
    precision = best_precision() if recipe.precision == "auto" else recipe.precision
    if recipe.precision == "bfloat16":
        check_bfloat16("precision is bfloat16")
    words = Words.read(folder / "vocabulary")
    return Context(recipe, dataset, base, folder, words, teacher, precision)


def nested_of(recipe: Distillation, dimension: int) -> Matryoshka:
    """Give the lengths of the vector that are trained, the whole one first."""
    sizes = tuple(sorted({dimension, *recipe.matryoshka}, reverse=True))
    if sizes[0] != dimension:
        raise OptionError(
            f"matryoshka is {list(recipe.matryoshka)}; expected sizes up to the model's "
            f"{dimension}. Remove the larger ones."
        )
    return Matryoshka(sizes, (1.0, *[recipe.short_weight] * (len(sizes) - 1)))


class _StageRun:
    """A training stage of a student: its checkpoints, its lines in the log, its scores."""

    def __init__(
        self, context: Context, stage: StageSchedule, title: str, key: str, student: Student
    ) -> None:
        self.context, self.stage, self.title, self.student = context, stage, title, student
        minutes = context.recipe.output.checkpoint_minutes
        self.checkpoints = StageCheckpoints(context.folder / title, key, every=minutes)
        self.every = max(1, min(20, stage.steps // 10)) if stage.steps else 10

    def report(self, step: int, progress: float, losses: dict[str, float], speed: str) -> None:
        """Log a step, and save a checkpoint when it is due."""
        minutes = self.checkpoints.minutes
        left = spell(60 * minutes * (1 - progress) / progress) if progress > 0 else "?"
        known = {name: round(loss, 4) for name, loss in losses.items() if np.isfinite(loss)}
        shown = ", ".join(f"{name} {loss:.4f}" for name, loss in known.items())
        logger.info(f"{self.title} step {step:,} ({progress:.0%}): {shown}; {speed}, {left} left")
        self._log({"step": step, "minutes": round(minutes, 2), "losses": known})
        self.checkpoints.save_when_due(self.student)

    def finish(self) -> None:
        """Save the end of the stage, and measure it."""
        self.checkpoints.save(self.student)
        if self.context.dataset.measures:
            # What the stage hands on is its average, so that is what is measured.
            path = self.checkpoints.path
            averaged = has_average(path, self.stage)
            self.student.load_checkpoint(path, optimizer=False, averaged=averaged)
            self._log({"scores": self.context.measure(self.student, self.title)})

    def _log(self, row: dict[str, object]) -> None:
        # A full disk costs a row of the log, not the run.
        path = self.context.folder / "log.jsonl"
        with contextlib.suppress(OSError), path.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"stage": self.title, **row}, ensure_ascii=False) + "\n")


def run_distil(context: Context, stage: Distil, key: str) -> None:
    """Distil the student, from its base or from a checkpoint of this stage."""
    student = context.student(stage)
    data = context.data(student)
    run = _StageRun(context, stage, "distil", key, student)
    run.checkpoints.load(student)

    def report(seen: StepReport) -> None:
        losses = {"target": seen.loss, "source": seen.source_loss, "contrast": seen.contrast}
        run.report(seen.step, seen.progress, losses, f"{seen.tokens_per_second:,.0f} tokens/s")

    goals, seed, spent = context.teacher.cache.open(), context.recipe.seed, run.checkpoints.spent
    distil(student, data, goals, stage, seed=seed, report=report, every=run.every, spent=spent)
    run.finish()


def run_tune(context: Context, stage: Tune, title: str, key: str, start: Path) -> None:
    """Tune the student on the recipe's tasks; `start` holds the weights it starts with."""
    student = context.student(stage)
    student.load_checkpoint(start, optimizer=False)
    # Everything that depends on the student as it starts is made before a checkpoint is read.
    teacher = context.itself(student, key) if stage.own_goals else context.teacher
    builder = LessonBuilder(
        context.recipe, context.dataset, context.data(student, teacher), teacher, student
    )
    lessons = make_lessons(builder, stage)
    run = _StageRun(context, stage, title, key, student)
    if not run.checkpoints.load(student):
        student.load_checkpoint(start, optimizer=False)
    begin, first = time.monotonic(), student.steps

    def report(step: int, progress: float, losses: dict[str, float]) -> None:
        speed = f"{(time.monotonic() - begin) / (step - first):.2f} s/step"
        run.report(step, progress, losses, speed)

    tune(
        student,
        lessons,
        stage,
        nested=nested_of(context.recipe, context.teacher.dimension),
        seed=context.recipe.seed,
        report=report,
        every=run.every,
        spent=run.checkpoints.spent,
    )
    run.finish()
