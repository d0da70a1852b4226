"""The stages that train, distillation and tuning: what they share, and each on the one loop."""

import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file

from ...errors import DataError, OptionError, counted
from ...export.module import set_dropout
from ...export.silence import silenced_libraries
from ...io.files import writing
from ...io.fingerprint import read_stamp, write_json
from ...types import Ints
from ..batching import Step
from ..checkpoint import State, found
from ..distributed import Processes
from ..log import draw_log
from ..loop import best_precision, check_bfloat16
from ..loop import train as loop
from ..run_dir import RunPaths
from ..schema import Output
from .data import DistillationData
from .distillation import (
    WEIGHTS,
    DistillationTexts,
    DistilTask,
    ParallelText,
    StageTask,
    prepare,
)
from .lessons.base import Lesson, Matryoshka, draw_tasks
from .lessons.build import LessonBuilder, make_lessons
from .pieces import read_vocabulary
from .recipe import BASE, Distil, Distillation, Parallel, StageSchedule, Text, Tune, trusted
from .student import Student, open_student
from .teachers import CachedTeacher, JointTeacher, Sides, TeacherCache, open_teacher
from .vocabulary import Extended

logger = logging.getLogger(__name__)

Weights = Mapping[str, torch.Tensor]
Read = Callable[[str], Weights]

_STAMP = "stage.json"
_FITTED = 10_000  # rows on which several teachers are joined
_BLOCK = 8192


@dataclass(frozen=True)
class Context:
    """What the training stages share."""

    recipe: Distillation
    dataset: DistillationData
    base: Path
    folder: Path
    words: Extended
    teacher: CachedTeacher | JointTeacher
    precision: str
    processes: Processes

    def student(self, stage: StageSchedule) -> Student:
        """Open the student for a stage; its weights are those of the base."""
        with silenced_libraries():
            model, tokenizer = open_student(
                self.base, table=np.load(self.folder / "table.npy"), spec=self.words.spec
            )
        if model.config.hidden_size != self.teacher.dimension:
            raise OptionError(
                f"the student's vectors have {model.config.hidden_size} dimensions and the "
                f"teacher's {self.teacher.dimension}; expected as many. Choose another of the "
                "two, or name it in [[teachers]], which brings it to the student's width."
            )
        student = Student(
            model,
            tokenizer,
            new_rows=list(self.words.rows.values()),
            precision=self.precision,
            longest=stage.longest,
            frozen_layers=stage.frozen_layers,
        )
        student.embeddings.sparse = self.processes.world == 1  # gradients of several are added
        return student

    def itself(self, student: Student, key: str) -> CachedTeacher:
        """Let the student, as it is now, be the teacher; its vectors are kept by the stage's key.

        Only for a stage that has not started: later the student is another.
        """
        cache = TeacherCache(self.folder / "own-goals", key, self.teacher.dimension)
        return CachedTeacher(cache, student.encode)

    def texts(self) -> list[tuple[Parallel | Text, ParallelText]]:
        """List what is distilled on, entry by entry: pairs first, then text in one language."""
        listed: list[tuple[Parallel | Text, ParallelText]] = []
        for entry in self.recipe.parallel:
            if entry.weight:
                source, target = zip(*self.dataset.chosen[entry.title], strict=True)
                listed.append((entry, ParallelText(entry.title, source, target, entry.weight)))
        for text in self.recipe.text:
            if text.weight:
                lines = self.dataset.texts[text.title]
                listed.append((text, ParallelText(text.title, lines, lines, text.weight)))
        return listed

    def data(
        self, student: Student, teacher: CachedTeacher | None = None, *, projected: bool = False
    ) -> DistillationTexts:
        """Tokenize what is distilled on, with the goals of it."""
        texts = [text for _, text in self.texts()]
        teacher = teacher or (self.teacher if isinstance(self.teacher, CachedTeacher) else None)
        folder = self.folder / f"ids-{self.processes.rank}"
        if teacher is None:
            goals = open_goals(self.folder / "goals", projected=projected)
            return prepare(texts, student, same_goals(texts), goals, folder)
        cache = teacher.cache
        missing = len({s for text in texts for s in text.source}) - len(cache)
        if missing > 0:
            logger.info(f"the teacher reads about {counted(missing, 'sentence')}")
        goal = np.concatenate([cache.rows(text.source, teacher.encode) for text in texts])
        return prepare(texts, student, goal, cache.open(), folder)


def open_context(
    recipe: Distillation,
    dataset: DistillationData,
    base: Path,
    folder: Path,
    processes: Processes,
    *,
    threads: int | None,
) -> Context:
    """Open the teachers and choose the precision that this machine computes in."""
    cache = Path(recipe.output.cache or folder / "cache").expanduser()
    words = read_vocabulary(folder / "vocabulary")
    teacher: CachedTeacher | JointTeacher
    if recipe.teachers:
        names = [one.model for one in recipe.teachers]
        opened = [open_teacher(name, folder, cache, threads=threads) for name in names]
        width = int(np.load(folder / "table.npy", mmap_mode="r").shape[1])
        teacher = JointTeacher(recipe.teachers, opened, width)
        fitted = folder / "goals/joined.npz"
        if fitted.is_file():
            teacher.load(fitted)
    else:
        teacher = open_teacher(recipe.teacher or recipe.base, folder, cache, threads=threads)
    precision = best_precision() if recipe.precision == "auto" else recipe.precision
    if recipe.precision == "bfloat16":
        check_bfloat16("precision is bfloat16")
    return Context(recipe, dataset, base, folder, words, teacher, precision, processes)


def same_goals(texts: Sequence[ParallelText]) -> Ints:
    """Give each row the number of the first row with the same source, whose goal is its own."""
    first: dict[str, int] = {}
    sources = (source for text in texts for source in text.source)
    return np.array([first.setdefault(s, i) for i, s in enumerate(sources)], dtype=np.int64)


def open_goals(folder: Path, *, projected: bool = False) -> NDArray[np.float16]:
    """Map the goals that `write_goals` wrote: (rows, width), or those for a projection."""
    width = int(read_stamp(folder / "about.json")["total" if projected else "width"])
    path = folder / ("side-by-side.f16" if projected else "goals.f16")
    return np.memmap(path, dtype=np.float16, mode="r").reshape(-1, width)


def write_goals(context: Context) -> None:
    """Join several teachers into one goal for every text, and write the goals: (rows, width)."""
    teacher = context.teacher
    assert isinstance(teacher, JointTeacher)
    entries = context.texts()
    counts = [len(text.source) for _, text in entries]
    share = min(1.0, _FITTED / sum(counts))
    rng = np.random.default_rng(context.recipe.seed)
    student = context.student(context.recipe.distil)
    student.model.eval()
    sample, own = [], []
    for (entry, text), count in zip(entries, counts, strict=True):
        rows = np.sort(rng.choice(count, max(1, round(share * count)), replace=False))
        sides = entry_sides(context.recipe, entry, text, rows)
        sample.append(teacher.side_by_side(sides))
        own.append(student.encode(next(iter(sides.texts.values()))))
    teacher.fit(sample, np.concatenate(own))
    folder = context.folder / "goals"
    folder.mkdir(exist_ok=True)
    projected = context.recipe.distil.goal == "projection"
    with writing(folder / "goals.f16") as goals, writing(folder / "side-by-side.f16") as wide:
        for (entry, text), count in zip(entries, counts, strict=True):
            logger.info(f"goals of {entry.title}: {counted(count, 'text')}")
            for begin in range(0, count, _BLOCK):
                rows = np.arange(begin, min(begin + _BLOCK, count))
                part, present = teacher.side_by_side(entry_sides(context.recipe, entry, text, rows))
                goals.write(teacher.goals(part, present).astype(np.float16).tobytes())
                if projected:
                    wide.write(teacher.complete(part, present).astype(np.float16).tobytes())
    teacher.save(folder / "joined.npz")
    write_json(folder / "about.json", {"width": teacher.dimension, "total": teacher.total})


def entry_sides(
    recipe: Distillation, entry: Parallel | Text, text: ParallelText, rows: Ints
) -> Sides:
    """Give the texts of some rows by language, and what each teacher is trusted with of them."""
    if isinstance(entry, Parallel):
        sides: dict[str, Sequence[str]] = {
            entry.languages[0]: [text.source[row] for row in rows],
            entry.languages[1]: [text.target[row] for row in rows],
        }
    else:
        sides = {entry.language: [text.source[row] for row in rows]}
    return Sides(sides, tuple(trusted(one, entry, sides) for one in recipe.teachers))


def nested_of(recipe: Distillation, dimension: int) -> Matryoshka:
    """Give the lengths of the vector that are trained, the whole one first."""
    sizes = tuple(sorted({dimension, *recipe.matryoshka}, reverse=True))
    if sizes[0] != dimension:
        raise OptionError(
            f"matryoshka is {list(recipe.matryoshka)}; expected sizes up to the model's "
            f"{dimension}. Remove the larger ones."
        )
    return Matryoshka(sizes, (1.0, *[recipe.short_weight] * (len(sizes) - 1)))


class TuneTask(StageTask):
    """A stage [[tune]] for the training loop: each step adds up the losses of a few lessons."""

    def __init__(
        self, student: Student, lessons: Sequence[Lesson], stage: Tune, nested: Matryoshka,
        *, seed: int, rank: int,
    ) -> None:  # fmt: skip
        super().__init__(student, stage, seed=seed)
        self.lessons, self.nested, self.rank = lessons, nested, rank
        set_dropout(student.model, stage.dropout)
        self.losses: dict[str, list[float]] = {}

    def plan(self, epoch: int) -> list[Step]:
        """Number the steps; what each learns is drawn by its number."""
        count = self.stage.steps or 200
        return [Step(epoch * count + i, np.zeros(1, np.int64)) for i in range(count)]

    def loss(self, step: Step) -> torch.Tensor:
        """Draw the lessons of a step, and add up their losses."""
        # A generator of its own for every step: a run that was stopped continues the same.
        number = step.data + 1
        rng = np.random.default_rng((self.seed, number, self.rank)[: 3 if self.rank else 2])
        total = torch.zeros(())
        for lesson, factor in draw_tasks(self.lessons, self.stage, rng, number):
            loss = lesson.loss(self.student, self.nested, rng)
            total = total + factor * loss
            self.losses.setdefault(lesson.name, []).append(float(loss.detach()))
        if number % max(1, min(50, self.stage.steps // 10)) == 0:
            means = sorted((name, float(np.mean(found))) for name, found in self.losses.items())
            logger.info(", ".join(f"{name} {mean:.3f}" for name, mean in means))
            self.losses = {}
        return total


def begin_stage(folder: Path, key: str) -> None:
    """Make a stage's folder its own: what other settings or an older malmoi left is removed."""
    stamp = read_stamp(folder / _STAMP)
    if stamp.get("key") == key:
        return
    if folder.is_dir():
        if any(folder.glob("*.safetensors")):
            raise DataError(
                f"{folder} was started by an older malmoi, whose checkpoints this one cannot "
                "continue; expected a new run. Remove the folder and run again with --resume: "
                "the stages before it stay."
            )
        logger.info(f"{folder.name} was started with other settings or data; it starts again")
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    write_json(folder / _STAMP, {"key": key})


def prepare_stage(
    context: Context, stage: Distil | Tune, title: str, key: str, start: Weights | None
) -> StageTask:
    """Make the task of a stage that starts from the weights `start`, or from the base's."""
    processes, recipe = context.processes, context.recipe
    if processes.first:
        begin_stage(context.folder / title, key)
    student = context.student(stage)
    if start is not None:
        student.load(start)
    # Everything that depends on the student as it starts is made before a checkpoint is read.
    student.model.eval()
    share = slice(processes.rank, None, processes.world)
    own: StageTask
    if isinstance(stage, Distil):
        data = context.data(student, projected=stage.goal == "projection")
        own = DistilTask(student, data, stage, seed=recipe.seed, share=share)
    else:
        teacher = context.itself(student, key) if stage.own_goals else None
        data = context.data(student, teacher)
        builder = LessonBuilder(recipe, context.dataset, data, teacher or context.teacher, student)
        nested = nested_of(recipe, context.teacher.dimension)
        lessons = make_lessons(builder, stage)
        own = TuneTask(student, lessons, stage, nested, seed=recipe.seed, rank=processes.rank)
    own.measures = context.dataset.measures
    return own


def run_stage(context: Context, task: StageTask, title: str, key: str) -> State:
    """Train one stage from its start, or from its last checkpoint, to the weights it hands on."""
    folder, processes, recipe = context.folder / title, context.processes, context.recipe
    schedule = task.stage.schedule()
    output = Output(
        folder=str(folder),
        checkpoint_minutes=recipe.output.checkpoint_minutes,
        checkpoint_steps=0,
        keep=1,
    )
    state = loop(task, schedule, output, seed=recipe.seed, processes=processes, resume=True)
    if processes.first:
        draw_log(RunPaths(folder).log, folder / "training.png")
        result = {"key": key, "steps": state.step, "minutes": round(state.seconds / 60, 2)}
        write_json(folder / _STAMP, {**result, "scores": state.best_scores})
    processes.wait()
    return state


def read_weights(context: Context, name: str, *, averaged: bool) -> dict[str, torch.Tensor]:
    """Give the weights that a stage hands on, or its last ones, not averaged; or the base's."""
    if name == BASE:
        return context.student(context.recipe.distil).weights()
    paths = RunPaths(context.folder / name)
    last = paths.best / WEIGHTS if averaged else found(paths.checkpoints)[-1] / "model.safetensors"
    return load_file(last)


def mix_weights(shares: Mapping[str, float], read: Read) -> dict[str, torch.Tensor]:
    """Give the weighted mean of weights, which are read by their names one after another.

    Between a student before and after tuning lies one that keeps what tuning would forget.
    """
    total = sum(shares.values())
    mixed: dict[str, torch.Tensor] = {}
    for title, share in shares.items():
        for name, value in read(title).items():
            part = value.float() * (share / total)
            mixed[name] = mixed[name] + part if name in mixed else part
    return mixed


def stage_results(folder: Path) -> dict[str, object]:
    """Read what a finished stage says of itself: steps, minutes, scores."""
    found: dict[str, object] = json.loads((folder / _STAMP).read_text("utf-8"))
    return found
