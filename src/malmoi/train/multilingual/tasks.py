"""Rows of the recipe's files → the tasks that a student is tuned on."""

import dataclasses
from collections.abc import Sequence

import numpy as np

from ...errors import DataError
from ..distil import Distillable
from ..joint import (
    PositivePairs,
    Rehearsal,
    ScoredPairs,
    Sense,
    WordSenses,
    blend_scores,
    likeness_rows,
)
from ..joint import Task as Lesson
from .checks import KINDS
from .material import Material
from .settings import Distillation, Task, Tune
from .teacher import Teacher
from .texts import Pair

Rows = Sequence[tuple[str, ...]]


def make_lessons(
    recipe: Distillation, stage: Tune, material: Material, data: Distillable, teacher: Teacher
) -> list[Lesson]:
    """Make every task of a stage that leads it or has a weight in it."""
    lessons: list[Lesson] = []
    for task in recipe.task:
        task = dataclasses.replace(
            task,
            weight=stage.weights.get(task.title, task.weight),
            size=stage.sizes.get(task.title, task.size),
        )
        if task.weight or task.title in stage.lead:
            lessons.append(_lesson(task, material, data, teacher, seed=recipe.seed))
    return lessons


def _lesson(
    task: Task, material: Material, data: Distillable, teacher: Teacher, *, seed: int
) -> Lesson:
    rows = material.rows.get(task.title, [])
    if task.kind == "teacher":
        goals, title, weight = teacher.cache.open(), task.title, task.weight
        return Rehearsal(data, goals, title, weight, task.tokens, task.contrast, task.source_share)
    if task.kind == "scores":
        return _blended(task, scored_pairs(task, rows), teacher)
    if task.kind == "likeness":
        texts = list(dict.fromkeys(material.translations(task)))
        vectors = teacher.vectors([source for source, _ in texts])
        alike = likeness_rows(texts, vectors, np.random.default_rng(seed))
        return ScoredPairs(task.title, alike, task.weight, _size(task))
    if task.kind == "senses":
        return word_senses(task, rows)
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


def _blended(task: Task, made: ScoredPairs, teacher: Teacher) -> ScoredPairs:
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


def word_senses(task: Task, rows: Rows) -> WordSenses:
    """Words in brackets, or the first that reads as the target; rows without one are left out."""
    place = {name: at[0] for name, at in _places(task).items()}
    positive = (task.positive or "true").lower()
    senses = []
    for row in rows:
        target = row[place["target"]] if "target" in place else ""
        found = [find_word(row[place[side]], target) for side in ("a", "b")]
        if found[0] and found[1]:
            (one, begin), (two, end) = found[0], found[1]
            same = row[place["same"]].lower() == positive
            senses.append(Sense((one, two), (begin, end), same))
    _check_found(task, senses)
    return WordSenses(task.title, senses, task.layers, task.weight, _size(task))


def find_word(text: str, target: str) -> tuple[str, tuple[int, int]] | None:
    """Give the text without brackets and the characters of the word in question.

    >>> find_word("[배]를 타다", "배"), find_word("그 배는 크다", "배"), find_word("달다", "배")
    (('배를 타다', (0, 1)), ('그 배는 크다', (2, 3)), None)
    """
    begin, end = text.find("["), text.find("]")
    if 0 <= begin < end:
        return text[:begin] + text[begin + 1 : end] + text[end + 1 :], (begin, end - 1)
    begin = text.find(target) if target else -1
    return (text, (begin, begin + len(target))) if begin >= 0 else None


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
            f"task {task.title} has {len(found)} examples in {', '.join(task.files)}; expected "
            "two or more. Check its columns and the values positive and negative."
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
