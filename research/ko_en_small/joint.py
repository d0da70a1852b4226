"""One joint run: the teachers' goals in every step, and labelled tasks and matches beside them."""

import copy
import dataclasses
import json
import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from malmoi.errors import DataError, OptionError
from malmoi.export.module import set_dropout
from malmoi.export.silence import silenced_libraries
from malmoi.export.source import read_source
from malmoi.io.tables import read_rows
from malmoi.train.base_model import find_trainable
from malmoi.train.batching import Step
from malmoi.train.checkpoint import write_tensors
from malmoi.train.distil.data import DistillationData, read_distillation_data, tidy
from malmoi.train.distil.lessons.base import Matryoshka, nearest_rows
from malmoi.train.distil.lessons.build import LessonBuilder
from malmoi.train.distil.pieces import read_vocabulary, write_table, write_vocabulary
from malmoi.train.distil.recipe import Distillation
from malmoi.train.distil.run import Stages
from malmoi.train.distil.student import open_student
from malmoi.train.distil.training import Context, nested_of, open_context, write_goals
from malmoi.train.distributed import joining
from malmoi.train.loop import train as loop
from malmoi.train.optimizer import TableAdamW
from malmoi.train.schema import Output, Schedule

from .matches import (
    Frozen,
    Matches,
    Shares,
    TokenStudent,
    draw_bills,
    draw_documents,
    draw_lines,
    draw_pairs,
    fit_head,
    read_bills,
)
from .measure import Development

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Joint:
    """[joint]: how the run is made; shares are chances to be drawn in a step."""

    base_sha256: str
    steps: int
    longest: int = 384
    learning_rate: float = 1e-4
    table_rate: float = 1e-4
    decay: str = "constant"
    warmup: int = 200
    average: float = 0.999
    dropout: float = 0.05
    evaluate_steps: int = 500
    checkpoint_minutes: float = 10.0
    layer: int = 4
    token_size: int = 64
    tasks_per_step: int = 2
    goals: float = 1.0  # what the goals count in every step
    tasks: Mapping[str, float] = field(default_factory=dict)  # chances of the recipe's [[task]]
    factors: Mapping[str, float] = field(default_factory=dict)  # of their losses
    matches: Mapping[str, float] = field(default_factory=dict)  # chances, one in every step
    match_size: int = 24
    documents: Sequence[str] = ()  # parallel files whose rows are in the order of their pages
    translations: Sequence[str] = ()

    @classmethod
    def read(cls, settings: dict[str, Any]) -> "Joint":
        """Read the table of the recipe; an unknown key is refused."""
        known = {one.name for one in dataclasses.fields(cls)}
        for name in settings:
            if name not in known:
                raise OptionError(
                    f"[joint] has the key {name}; known are {', '.join(sorted(known))}. Remove it."
                )
        return cls(**settings)

    def shortened(self, steps: int) -> "Joint":
        """Give the same run with another length and an evaluation at its end only."""
        return dataclasses.replace(self, steps=steps, evaluate_steps=steps)

    def schedule(self) -> Schedule:
        """Give the schedule of the training loop."""
        return Schedule(
            epochs=0, steps=self.steps, learning_rate=self.learning_rate, warmup=self.warmup,
            decay=self.decay, evaluate_steps=self.evaluate_steps,
        )  # fmt: skip


def run(
    settings: dict[str, Any], joint: Joint, root: Path, folder: Path, *, threads: int,
    prepare: bool = False,
) -> dict[str, float]:  # fmt: skip
    """Prepare what is not prepared, train from the newest checkpoint, and give the scores."""
    torch.set_num_threads(threads)
    recipe = Distillation(**settings)
    source = read_source(find_trainable(recipe.base), max_tokens=recipe.max_tokens)
    data = read_distillation_data(recipe, root)
    _check_data(data, folder)
    with joining() as processes:
        stages, words, table = (
            Stages(folder, processes),
            folder / "vocabulary",
            folder / "table.npy",
        )
        stages.run(
            "vocabulary",
            [recipe.base],
            lambda _: write_vocabulary(recipe, data, source.root, words),
        )
        stages.run(
            "align",
            [],
            lambda _: write_table(recipe, data, source.root, read_vocabulary(words), table),
        )
        context = open_context(recipe, data, source.root, folder, processes, threads=threads)
        stages.run(
            "goals", [recipe.teachers, recipe.parallel, recipe.text], lambda _: write_goals(context)
        )
        if prepare:
            return {}
        # Opened again: the joined teachers are read from disk.
        context = open_context(recipe, data, source.root, folder, processes, threads=threads)
        task = make_task(context, joint, root)
        output = Output(
            folder=str(folder / "joint"), checkpoint_minutes=joint.checkpoint_minutes,
            checkpoint_steps=0, keep=2,
        )  # fmt: skip
        state = loop(
            task, joint.schedule(), output, seed=recipe.seed, processes=processes, resume=True
        )
    return dict(state.best_scores)


def _check_data(data: DistillationData, folder: Path) -> None:
    """Raise where the files are not those that the run started with."""
    stamp = folder / "data.json"
    if not stamp.exists():
        folder.mkdir(parents=True, exist_ok=True)
        stamp.write_text(json.dumps(data.hashes, indent=1), "utf-8")
        return
    before = json.loads(stamp.read_text("utf-8"))
    changed = sorted(k for k in before.keys() & data.hashes.keys() if before[k] != data.hashes[k])
    if changed:
        raise DataError(
            f"{', '.join(changed)} changed since the run in {folder} began; expected the same "
            "files. Restore them, or start a run in another folder."
        )


def make_task(context: Context, joint: Joint, root: Path) -> "JointTask":
    """Open the student with its token head, and build everything that a step may draw."""
    recipe, data = context.recipe, context.dataset
    with silenced_libraries():
        model, tokenizer = open_student(
            context.base, table=np.load(context.folder / "table.npy"), spec=context.words.spec
        )
    student = TokenStudent(model, tokenizer, precision=context.precision, longest=joint.longest)
    student.layer = joint.layer
    student.model.eval()
    frozen = copy.deepcopy(student.model).eval().requires_grad_(False)
    before = Frozen(frozen, joint.layer, student.bf16)
    begin = time.monotonic()
    lines = data.lines["kowiki-sentences"]
    rng = np.random.default_rng(recipe.seed)
    sample = [lines[i] for i in rng.choice(len(lines), 2000, replace=False)]
    sample += [pair[0] for pair in data.chosen["docs"][:1000]]
    fit_head(student, sample, joint.token_size)
    texts = context.data(student)
    builder = LessonBuilder(recipe, data, texts, context.teacher, student)
    lessons = {task.title: builder.build(task) for task in recipe.task}
    matches = make_matches(data, joint, root, before, student)
    logger.info(f"tasks are ready after {time.monotonic() - begin:.0f} s")
    nested = nested_of(recipe, context.teacher.dimension)
    task = JointTask(student, joint, lessons, matches, nested, seed=recipe.seed)
    task.measures = data.measures
    task.development = Development(root)
    return task


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

    measures: Sequence[Any] = ()
    development: Development | None = None

    def __init__(
        self, student: TokenStudent, joint: Joint, lessons: Mapping[str, Any],
        matches: Mapping[str, Matches], nested: Matryoshka, *, seed: int,
    ) -> None:  # fmt: skip
        self.student, self.joint, self.seed, self.nested = student, joint, seed, nested
        self.lessons, self.matches = lessons, matches
        self.module = torch.nn.ModuleDict({"encoder": student.model, "token_head": student.head})
        self.losses: dict[str, list[float]] = {}
        for name in (*joint.tasks, *joint.factors):
            if name not in lessons:
                raise OptionError(f"[joint] names the task {name}; the recipe has none. Remove it.")

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
        total = total + self._one(name, self.matches[name], rng)
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

    def _one(self, name: str, lesson: Any, rng: np.random.Generator) -> Tensor:
        loss: Tensor = lesson.loss(self.student, self.nested, rng)
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
        """Write the weights and the token head."""
        write_tensors(
            {
                **self.student.weights(),
                "token_head.weight": self.student.head.weight.detach().clone(),
            },
            folder / "weights.safetensors",
        )


def _draw(shares: Mapping[str, float], count: int, rng: np.random.Generator) -> list[str]:
    names, chance = list(shares), np.array(list(shares.values()), dtype=np.float64)
    drawn = rng.choice(len(names), min(count, len(names)), replace=False, p=chance / chance.sum())
    return [names[i] for i in drawn]
