"""Rows of the recipe's files → the tasks that a student is tuned on."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...errors import DataError, counted
from ..distil import Distillable
from ..joint import (
    PositivePairs,
    Rehearsal,
    ScoredPairs,
    blend_scores,
    likeness_rows,
)
from ..joint import Task as Lesson
from ..names import AlignedNames
from ..neighbours import Neighbours, nearest_rows
from ..student import Student
from ..words import Dictionary
from .checks import KINDS
from .material import Material
from .settings import Distillation, Task, Tune
from .teacher import Taught
from .texts import Pair
from .words import (
    alterations,
    entry_rows,
    learn_words,
    word_links,
    word_senses,
    word_swaps,
)

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class Making:
    """What lessons are made of, besides their own rows."""

    recipe: Distillation
    material: Material
    data: Distillable
    teacher: Taught
    student: Student

    @cached_property
    def words(self) -> Dictionary:
        """A dictionary of pieces, learnt once for all lessons that want it."""
        return learn_words(self.recipe, self.material, self.student)


def make_lessons(making: Making, stage: Tune) -> list[Lesson]:
    """Make every task of a stage that leads it, has its turn in it or a weight."""
    recipe, named = making.recipe, {*stage.lead, *(n for names in stage.turns for n in names)}
    lessons: list[Lesson] = []
    for task in recipe.task:
        task = dataclasses.replace(
            task,
            weight=stage.weights.get(task.title, task.weight),
            size=stage.sizes.get(task.title, task.size),
        )
        if task.weight or task.title in named:
            lessons.append(_lesson(task, making))
    return lessons


def _lesson(task: Task, making: Making) -> Lesson:
    material, data, teacher = making.material, making.data, making.teacher
    rows, seed = material.rows.get(task.title, []), making.recipe.seed
    if task.kind == "teacher":
        goals, title, weight = teacher.cache.open(), task.title, task.weight
        alter = alterations(task, making.words) if task.mixed or task.dropped else None
        return Rehearsal(
            data, goals, title, weight, task.tokens, task.contrast, task.source_share, alter
        )
    if task.kind == "scores":
        return _blended(task, scored_pairs(task, rows), teacher)
    if task.kind == "likeness":
        texts = list(dict.fromkeys(material.translations(task)))
        vectors = teacher.vectors([source for source, _ in texts])
        alike = likeness_rows(texts, vectors, np.random.default_rng(seed))
        return ScoredPairs(task.title, alike, task.weight, _size(task))
    if task.kind == "neighbours":
        return _neighbours(task, material, data, teacher.cache.open(), seed=seed)
    if task.kind in ("links", "swaps"):
        make = word_links if task.kind == "links" else word_swaps
        return make(task, making.words, material, data, making.student, _size(task))
    if task.kind == "senses":
        place = {name: at[0] for name, at in _places(task).items()}
        senses = word_senses(
            task, [{name: row[at] for name, at in place.items()} for row in rows], _size(task)
        )
        _check_found(task, senses.words)
        return senses
    if task.kind == "names":
        return names(task, rows)
    if task.kind == "groups":
        return groups(task, rows)
    if task.kind == "translations":
        return _positive(task, material.translations(task))
    return pairs(task, rows)


def scored_pairs(task: Task, rows: Rows) -> ScoredPairs:
    """Every language of the left against every one of the right, ranked by the score."""
    place = _places(task)
    found = [
        (
            float(row[place["score"][0]]),
            tuple(row[i] for i in place["left"]),
            tuple(row[i] for i in place["right"]),
        )
        for row in rows
    ]
    return ScoredPairs(task.title, found, task.weight, _size(task))


def _blended(task: Task, made: ScoredPairs, teacher: Taught) -> ScoredPairs:
    if not task.teacher_share:
        return made
    # The first column of a side is in the language that the teacher knows.
    one = teacher.vectors([left[0] for _, left, _ in made.rows])
    alike = (one * teacher.vectors([right[0] for _, _, right in made.rows])).sum(1)
    made.rows = blend_scores(made.rows, alike, share=task.teacher_share, highest=task.highest)
    return made


def pairs(task: Task, rows: Rows) -> PositivePairs:
    """Two texts that belong together; with labels, the negatives of one text are its hard ones.

    A text with several positives counts once, with the first. Rows of one key do not compete.
    """
    place = {name: at[0] for name, at in _places(task).items()}
    keys = [row[place["key"]] for row in rows] if "key" in place else []
    if "label" not in place:
        return _positive(task, [(row[place["a"]], row[place["b"]]) for row in rows], keys=keys)
    by: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        found = by.setdefault(row[place["a"]], {})
        found.setdefault(row[place["label"]], []).append(row[place["b"]])
    kept = [(text, found) for text, found in by.items() if task.positive in found]
    hard = [found.get(task.negative, []) for _, found in kept]
    return _positive(task, [(text, found[task.positive][0]) for text, found in kept], hard=hard)


def groups(task: Task, rows: Rows) -> PositivePairs:
    """Texts of one group mean the same; at most `most` of each are taken, the first ones."""
    place = {name: at[0] for name, at in _places(task).items()}
    by: dict[str, dict[str, None]] = {}
    for row in rows:
        by.setdefault(row[place["group"]], {})[row[place["text"]]] = None
    found = [list(texts)[: task.most or None] for texts in by.values()]
    return _positive(task, [tuple(texts) for texts in found if len(texts) > 1])


def names(task: Task, rows: Rows) -> AlignedNames:
    """Names by concept, or rows of two names that mean the same; in the order of the files."""
    place = {name: at[0] for name, at in _places(task).items()}
    if "synonym" in place:
        found = [(row[place["name"]], row[place["synonym"]]) for row in rows]
        concepts = [tuple(dict.fromkeys(pair)) for pair in dict.fromkeys(found)]
    else:
        by: dict[str, dict[str, None]] = {}
        for row in rows:
            by.setdefault(row[place["concept"]], {})[row[place["name"]]] = None
        concepts = [tuple(texts)[: task.most or None] for texts in by.values()]
    several = [texts for texts in concepts if len(texts) > 1]
    _check_found(task, several)
    return AlignedNames(task.title, several, task.weight, _size(task), task.run)


def _neighbours(
    task: Task, material: Material, data: Distillable, goals: NDArray[np.float16], *, seed: int
) -> Neighbours:
    """Sentences of the entries with their nearest ones, `draws` of each entry."""
    rng = np.random.default_rng(seed)
    rows = []
    for name in task.draws or task.parallel or material.chosen:
        found, most = entry_rows((name,), material), task.draws.get(name, task.most)
        rows.append(rng.choice(found, most, replace=False) if 0 < most < len(found) else found)
    chosen = np.concatenate(rows)
    near = nearest_rows(goals[data.goal[chosen]].astype(np.float32), task.near)
    return Neighbours(
        task.title, data, goals, chosen, near, task.weight, _size(task), task.source_share,
        task.contrast, relations=task.relations,
    )  # fmt: skip


def _positive(
    task: Task,
    found: Sequence[Pair] | Sequence[tuple[str, ...]],
    *,
    hard: Sequence[Sequence[str]] = (),
    keys: Sequence[object] = (),
) -> PositivePairs:
    _check_found(task, found)
    return PositivePairs(
        task.title, found, hard, keys, weight=task.weight, size=_size(task), run=task.run
    )


def _check_found(task: Task, found: Sequence[object]) -> None:
    if len(found) < 2:
        raise DataError(
            f"task {task.title} has {counted(len(found), 'example')} in {', '.join(task.files)}; "
            "expected two or more. Check its columns and the values positive and negative."
        )


def _size(task: Task) -> int:
    return task.size or KINDS[task.kind].size


def _places(task: Task) -> dict[str, list[int]]:
    """Say where each column of a task stands in a row of `task_columns`."""
    places: dict[str, list[int]] = {}
    at = 0
    for name, value in task.columns.items():
        count = 1 if isinstance(value, str) else len(value)
        places[name] = list(range(at, at + count))
        at += count
    return places
