"""A tiny student and its teacher, in two languages made up here."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from malmoi.train.checkpoint import State
from malmoi.train.distil import distillation as d
from malmoi.train.distil.lessons.base import Lesson, Matryoshka
from malmoi.train.distil.recipe import LessonRecipe, Tune
from malmoi.train.distil.student import Student
from malmoi.train.distil.teachers import TeacherCache
from malmoi.train.distil.training import TuneTask
from malmoi.train.distributed import Processes
from malmoi.train.loop import train
from malmoi.train.schema import Output

WORDS = {
    "cat": "고양이",
    "dog": "개",
    "sleeps": "잔다",
    "runs": "달린다",
    "red": "붉은",
    "old": "늙은",
}


def tiny_tokenizer() -> Tokenizer:
    """A tokenizer whose pieces are the words of both languages."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *WORDS.values()]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def tiny_student(**options: object) -> Student:
    """A student of two layers, the same every time."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = transformers.BertModel(config)
    return Student(model, tiny_tokenizer(), new_rows=range(10, 16), **options)  # type: ignore[arg-type]


RATES = {"learning_rate": 3e-3, "old_rows": 3e-3, "new_rows": 1e-2}


def tiny_texts(student: Student, folder: Path) -> d.DistillationTexts:
    """The eight sentences with their translations and goals, ready to be learnt."""
    english, korean = sentences()
    cache = TeacherCache(folder / "cache", "key", 32)
    texts = [d.ParallelText("all", english, korean)]
    return d.prepare(texts, student, cache.rows(english, teach), cache.open(), folder / "ids")


def task(kind: str, **keys: object) -> LessonRecipe:
    """A task of a recipe with some of its keys, without files."""
    return LessonRecipe.model_construct(**{"kind": kind, "name": kind, **keys})


class Learning:
    """A task for the loop without scores and without a model to save."""

    def __init__(self, task: d.DistilTask | TuneTask) -> None:
        self.module, self.plan, self.loss = task.module, task.plan, task.loss
        self.optimizer = task.optimizer

    def evaluate(self) -> dict[str, float]:
        """Measure nothing."""
        return {}

    def save(self, folder: Path) -> None:
        """Save nothing."""


def learn(task: d.DistilTask | TuneTask, folder: Path, *, resume: bool = False) -> State:
    """Run a task through the training loop, to the end of its stage."""
    output = Output(folder=str(folder), checkpoint_steps=0, checkpoint_minutes=0)
    return train(
        Learning(task), task.stage.schedule(), output, seed=1, processes=Processes(), resume=resume
    )


class Recorded:
    """A lesson whose losses are kept."""

    def __init__(self, lesson: Lesson) -> None:
        self.lesson, self.name, self.weight = lesson, lesson.name, lesson.weight
        self.losses: list[float] = []

    def loss(self, student: Student, nested: Matryoshka, rng: np.random.Generator) -> torch.Tensor:
        """Learn the lesson."""
        found = self.lesson.loss(student, nested, rng)
        self.losses.append(float(found.detach()))
        return found


def tune(student: Student, lessons: Sequence[Lesson], stage: Tune, folder: Path) -> list[Recorded]:
    """Tune a student on lessons; gives these with all their losses."""
    recorded = [Recorded(lesson) for lesson in lessons]
    nested = Matryoshka((32, 16), (1.0, 0.5))
    learn(TuneTask(student, recorded, stage, nested, seed=1, rank=0), folder)
    return recorded


def falls(lesson: Recorded) -> bool:
    """Whether the last fifth of the losses is lower than the first fifth."""
    part = max(1, len(lesson.losses) // 5)
    return float(np.mean(lesson.losses[-part:])) < float(np.mean(lesson.losses[:part]))


def sentences() -> tuple[list[str], list[str]]:
    """Eight sentences in one language, and their translations."""
    english = [
        f"{a} {n} {v}" for a in ("red", "old") for n in ("cat", "dog") for v in ("sleeps", "runs")
    ]
    return english, [" ".join(WORDS[w] for w in s.split()) for s in english]


def teach(texts: Iterable[str]) -> NDArray[np.float32]:
    """The teacher: a unit vector that is the sum of a random row a word, (n, 32)."""
    table = np.random.default_rng(1).standard_normal((len(WORDS), 32)).astype(np.float32)
    order = list(WORDS)
    out = np.stack([sum(table[order.index(w)] for w in t.split()) for t in texts])
    return out / np.linalg.norm(out, axis=1, keepdims=True)
