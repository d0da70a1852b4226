"""What the training stages work with: the student, its data, its scores."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ...errors import OptionError, counted
from ..bfloat16 import best_precision, check_bfloat16
from ..distil import Distillable, ParallelText, TeacherCache, prepare
from ..joint import Nested, encode
from ..quiet import quiet
from ..student import Rates, Student, open_student
from .material import Material
from .pieces import Words
from .settings import Distillation, Learning
from .teacher import Taught, Teacher, find_teacher

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Workshop:
    """What the training stages share."""

    recipe: Distillation
    material: Material
    base: Path
    folder: Path
    words: Words
    teacher: Teacher
    precision: str

    def student(self, stage: Learning) -> Student:
        """Open the student with a stage's rates; its weights are those of the base."""
        with quiet():
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
            rates=rates_of(stage),
            new_rows=list(self.words.rows.values()),
            precision=self.precision,
            longest=stage.longest,
            average=stage.average,
        )

    def itself(self, student: Student, key: str) -> Taught:
        """Let the student, as it is now, be the teacher; its vectors are kept by the stage's key.

        Only a stage that has not begun may be asked: later the student is another.
        """
        cache = TeacherCache(self.folder / "own-goals", key, self.teacher.dimension)
        return Taught(cache, Measured(student).encode)

    def data(self, student: Student, teacher: Taught | None = None) -> Distillable:
        """Tokenize what is distilled on, and have the teacher's vectors of it."""
        teacher = teacher or self.teacher
        weights = {entry.title: entry.weight for entry in self.recipe.parallel}
        texts = [
            ParallelText(name, [s for s, _ in pairs], [t for _, t in pairs], weights[name])
            for name, pairs in self.material.chosen.items()
        ]
        cache = teacher.cache
        missing = len({s for text in texts for s in text.source}) - len(cache)
        if missing > 0:
            logger.info(f"the teacher reads about {counted(missing, 'sentence')}")
        return prepare(texts, student, cache, teacher.encode, self.folder / "ids")

    def measure(self, student: Student, title: str) -> dict[str, float]:
        """Score the student on the recipe's evaluations, and tell it."""
        if not self.material.measures:
            return {}
        model = Measured(student)
        scores = {m.title: round(m(model), 4) for m in self.material.measures}
        shown = ", ".join(f"{name} {score:.4f}" for name, score in scores.items())
        logger.info(f"{title}: {shown}")
        return scores


@dataclass(frozen=True)
class Measured:
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


def open_workshop(
    recipe: Distillation, material: Material, base: Path, folder: Path, *, threads: int | None
) -> Workshop:
    """Open the teacher and choose the precision that this machine computes in."""
    bundle, key = find_teacher(recipe.teacher or recipe.base, folder)
    cache = Path(recipe.output.cache or folder / "cache").expanduser()
    teacher = Teacher(bundle, key, cache, threads=threads)
    precision = best_precision() if recipe.precision == "auto" else recipe.precision
    if recipe.precision == "bfloat16":
        check_bfloat16("precision is bfloat16")
    words = Words.read(folder / "vocabulary")
    return Workshop(recipe, material, base, folder, words, teacher, precision)


def rates_of(stage: Learning) -> Rates:
    """Give a stage's learning rates as the student wants them."""
    return Rates(
        dense=stage.learning_rate,
        old_rows=stage.old_rows,
        new_rows=stage.new_rows,
        frozen_layers=stage.frozen_layers,
        warmup=stage.warmup,
        floor=stage.floor,
        weight_decay=stage.weight_decay,
        clip=stage.clip,
    )


def nested_of(recipe: Distillation, dimension: int) -> Nested:
    """Give the lengths of the vector that are trained, the whole one first."""
    sizes = tuple(sorted({dimension, *recipe.matryoshka}, reverse=True))
    if sizes[0] != dimension:
        raise OptionError(
            f"matryoshka is {list(recipe.matryoshka)}; expected sizes up to the model's "
            f"{dimension}. Correct the list."
        )
    return Nested(sizes, (1.0, *[recipe.short_weight] * (len(sizes) - 1)))
