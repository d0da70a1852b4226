"""One joint run: the teachers' goals in every step, and labelled tasks and matches beside them."""

import copy
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from malmoi.errors import DataError, OptionError
from malmoi.export.module import set_dropout
from malmoi.export.source import read_source
from malmoi.io.tables import read_rows
from malmoi.training.batching import Step
from malmoi.training.checkpoint import write_tensors
from malmoi.training.data import Measure, find_trainable, hash_files
from malmoi.training.distil.goals import open_teachers, read_texts
from malmoi.training.distil.recipe import (
    DistillationData,
    TextReader,
    locate,
    read_distillation_data,
    tidy,
)
from malmoi.training.distil.student import open_model
from malmoi.training.distil.teachers import JointTeacher
from malmoi.training.distil.training import open_student
from malmoi.training.distributed import joining
from malmoi.training.loop import train as loop
from malmoi.training.optimizer import TableAdamW
from malmoi.training.schema import Output

from .build import LessonBuilder
from .build import read_rows as read_task_rows
from .lessons import Lesson, Matryoshka, nearest_rows
from .matches import (
    Frozen,
    Matches,
    Shares,
    TokenStudent,
    draw_bills,
    draw_documents,
    draw_lines,
    draw_pairs,
    open_head,
    read_bills,
)
from .measure import Development
from .recipe import Joint, JointRecipe

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Prepared:
    """What a run is made of: its recipe and files, where it is kept, the teachers."""

    recipe: JointRecipe
    root: Path
    folder: Path
    base: Path
    data: DistillationData
    rows: Mapping[str, list[tuple[str, ...]]]
    teacher: JointTeacher
    bf16: bool


def run(
    recipe: JointRecipe, root: Path, folder: Path, *, threads: int, prepare: bool = False
) -> dict[str, float]:
    """Prepare what is not prepared, train from the newest checkpoint, and give the scores."""
    torch.set_num_threads(threads)
    base = read_source(find_trainable(recipe.base), max_tokens=recipe.max_tokens).root
    data = read_distillation_data(recipe, root)
    reader = TextReader(root)
    rows = {task.title: read_task_rows(reader, task) for task in recipe.task if task.files}
    _check_data(data.hashes | _hash_tasks(recipe, root), folder)
    student = open_student(recipe, base)
    teacher = open_teachers(recipe, data, student, folder, threads=threads)
    assert isinstance(teacher, JointTeacher)
    if prepare:
        return {}
    made = Prepared(recipe, root, folder, base, data, rows, teacher, student.bf16)
    with joining() as processes:
        output = Output(
            folder=str(folder / "joint"),
            checkpoint_minutes=recipe.joint.checkpoint_minutes,
            checkpoint_steps=0,
            keep=2,
        )
        state = loop(
            make_task(made),
            recipe.joint.schedule(),
            output,
            seed=recipe.seed,
            processes=processes,
            resume=True,
        )
    return dict(state.best_scores)


def _hash_tasks(recipe: JointRecipe, root: Path) -> dict[str, str]:
    tasks = [entry for task in recipe.task for entry in (task, *task.extra_files)]
    return hash_files({name: locate(root, name) for entry in tasks for name in entry.files})


def _check_data(hashes: Mapping[str, str], folder: Path) -> None:
    """Raise where the files are not those that the run started with."""
    stamp = folder / "data.json"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        stamp.write_text(json.dumps(hashes, indent=1), "utf-8")
        return
    before = json.loads(stamp.read_text("utf-8"))
    changed = sorted(k for k in before.keys() & hashes.keys() if before[k] != hashes[k])
    if changed:
        raise DataError(
            f"{', '.join(changed)} changed since the run in {folder} began; expected the same "
            "files. Restore them, or start a run in another folder."
        )


def make_task(made: Prepared) -> "JointTask":
    """Open the student with its token head, and build everything that a step may draw."""
    recipe, data, joint = made.recipe, made.data, made.recipe.joint
    precision = "bfloat16" if made.bf16 else "float32"
    student = TokenStudent(*open_model(made.base), precision=precision, longest=joint.longest)
    student.layer = joint.layer
    student.model.eval()
    frozen = copy.deepcopy(student.model).eval().requires_grad_(False)
    before = Frozen(frozen, joint.layer, student.bf16)
    begin = time.monotonic()
    lines = data.lines["kowiki-sentences"]
    rng = np.random.default_rng(recipe.seed)
    sample = [lines[i] for i in rng.choice(len(lines), min(2000, len(lines)), replace=False)]
    sample += [pair[0] for pair in data.chosen["docs"][:1000]]
    open_head(student, made.base, sample, joint.token_size)
    texts = read_texts(recipe, data, made.teacher, student, made.folder)
    builder = LessonBuilder(recipe, data, made.rows, texts, made.teacher, student)
    lessons = {task.title: builder.build(task) for task in recipe.task}
    matches = make_matches(data, joint, made.root, before, student)
    logger.info(f"tasks are ready after {time.monotonic() - begin:.0f} s")
    nested = nested_of(recipe, student.table.shape[1])
    task = JointTask(student, joint, lessons, matches, nested, seed=recipe.seed)
    task.measures = data.measures
    task.development = Development(made.root)
    return task


def nested_of(recipe: JointRecipe, dimension: int) -> Matryoshka:
    """Give the lengths of the vector that are trained, the whole one first."""
    sizes = tuple(sorted({dimension, *recipe.matryoshka}, reverse=True))
    if sizes[0] != dimension:
        raise OptionError(
            f"matryoshka is {list(recipe.matryoshka)}; expected sizes up to the model's "
            f"{dimension}. Remove the larger ones."
        )
    return Matryoshka(sizes, (1.0, *[recipe.short_weight] * (len(sizes) - 1)))


def make_matches(
    data: DistillationData, joint: Joint, root: Path, before: Frozen, student: TokenStudent
) -> dict[str, Matches]:
    """Make the match tasks: bills, wiki, documents, answers, chat, translations."""
    documents = [
        [(tidy(row["en"]), tidy(row["ko"])) for row in read_rows(root / f"parallel/{name}.tsv")]
        for name in joint.documents
    ]
    boolq = [
        (tidy(row["question"]), tidy(row["paragraph"]))
        for row in read_rows(root / "contrast/kobest-boolq.tsv")
        if row["split"] == "train"
    ]
    near = nearest_rows(student.encode([paragraph for _, paragraph in boolq]), 12)
    pairs = [pair for name in joint.translations for pair in data.chosen[name]]
    chat = [
        (tidy(row["question"]), tidy(row["answer"])) for row in read_rows(root / "faq/chatbot.tsv")
    ]
    draws = {
        "bills": draw_bills(read_bills(root / "text/assembly-bills.tsv", held=False)),
        "wiki": draw_lines(data.lines["kowiki-sentences"], (3, 8)),
        "documents": draw_documents(documents, (3, 7)),
        "answers": draw_pairs(boolq, near),
        "chat": draw_pairs(chat),
        "translations": draw_pairs(pairs),
    }
    sizes = {"translations": 2 * joint.match_size, "chat": 2 * joint.match_size}
    shares = {"translations": Shares(both=True), "chat": Shares(vector=0.3, tokens=0.3, kept=1.0)}
    return {
        name: Matches(
            name, draws[name], sizes.get(name, joint.match_size), shares.get(name, Shares()), before
        )
        for name in joint.matches
    }


class JointTask:
    """The joint run for the training loop."""

    measures: Sequence[Measure] = ()
    development: Development | None = None

    def __init__(
        self, student: TokenStudent, joint: Joint, lessons: Mapping[str, Lesson],
        matches: Mapping[str, Matches], nested: Matryoshka, *, seed: int,
    ) -> None:  # fmt: skip
        self.student, self.joint, self.seed, self.nested = student, joint, seed, nested
        self.lessons, self.matches = lessons, matches
        self.module = torch.nn.ModuleDict({"encoder": student.model, "token_head": student.head})
        self.losses: dict[str, list[float]] = {}

    def optimizer(self, schedule: object) -> torch.optim.Optimizer:
        """AdamW for the layers and the head; rows of the table move when they were read."""
        table = self.student.embeddings.weight
        own = [(n, p) for n, p in self.module.named_parameters() if p is not table]
        flat = [p for n, p in own if p.ndim < 2 or "embeddings" in n]
        ids = {id(p) for p in flat}
        deep = [p for _, p in own if id(p) not in ids]
        assert isinstance(table, torch.nn.Parameter)
        rates = torch.full((len(table),), self.joint.table_rate / self.joint.learning_rate)
        return TableAdamW(
            [
                {"params": deep, "weight_decay": 0.01, "scale": 1.0},
                {"params": flat, "weight_decay": 0.0, "scale": 1.0},
            ],
            table=table,
            row_scales=rates,
            learning_rate=self.joint.learning_rate,
            average=self.joint.average,
        )

    def plan(self, epoch: int) -> list[Step]:
        """Number the steps; what each learns is drawn by its number."""
        return [Step(epoch * 1000 + i, np.zeros(1, np.int64)) for i in range(1000)]

    def loss(self, step: Step) -> Tensor:
        """Add up the goals, one match task and a few labelled tasks."""
        rng = np.random.default_rng((self.seed, step.data))
        joint, total = self.joint, torch.zeros(())
        set_dropout(self.student.model, 0.0)
        total = joint.goals * self._one("goals", self.lessons["goals"], rng)
        [name] = _draw(joint.matches, 1, rng)
        total = total + joint.match_factor * self._one(name, self.matches[name], rng)
        set_dropout(self.student.model, joint.dropout)
        for name in _draw(joint.tasks, joint.tasks_per_step, rng):
            loss = self._one(name, self.lessons[name], rng)
            total = total + joint.factors.get(name, 1.0) * loss
        set_dropout(self.student.model, 0.0)
        if step.data % 50 == 49:
            means = sorted((name, float(np.mean(found))) for name, found in self.losses.items())
            logger.info(", ".join(f"{name} {mean:.3f}" for name, mean in means))
            self.losses = {}
        return total

    def _one(self, name: str, lesson: Lesson | Matches, rng: np.random.Generator) -> Tensor:
        loss = lesson.loss(self.student, self.nested, rng)
        self.losses.setdefault(name, []).append(float(loss.detach()))
        return loss

    def evaluate(self) -> dict[str, float]:
        """Score the student on the recipe's evaluations and on the development sets."""
        self.student.model.eval()
        scores = {one.title: round(one(self.student), 4) for one in self.measures}
        if self.development is not None:
            scores |= self.development.scores(self.student)
        logger.info(json.dumps(scores, ensure_ascii=False))
        return scores

    def save(self, folder: Path) -> None:
        """Write the weights by the model's own names, and the token head."""
        model = self.student.model.state_dict()
        tensors = {
            n: v.float().contiguous().clone() for n, v in model.items() if v.is_floating_point()
        }
        tensors["token_head.weight"] = self.student.head.weight.detach().clone()
        write_tensors(tensors, folder / "weights.safetensors")


def _draw(shares: Mapping[str, float], count: int, rng: np.random.Generator) -> list[str]:
    names, chance = list(shares), np.array(list(shares.values()), dtype=np.float64)
    drawn = rng.choice(len(names), min(count, len(names)), replace=False, p=chance / chance.sum())
    return [names[i] for i in drawn]
