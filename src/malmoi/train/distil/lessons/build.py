"""Rows of the recipe's files → the lessons that a student is tuned on."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ....errors import DataError, counted
from ..alignment import ibm1, write_bags
from ..data import DistillationData, Pair
from ..distillation import CachedTeacher, DistillationTexts
from ..recipe import LESSONS, Distillation, LessonRecipe, Tune
from ..student import Student
from .base import Lesson, PositivePairs, ScoredPairs, TeacherReplay, blend_scores, similarity_rows
from .relations import AlignedNames, Neighbours, nearest_rows
from .substitution import Alter, Swaps, word_pairs
from .words import Dictionary, SenseOccurrence, WordLinks, WordSenses, as_dictionary, frozen_copy

WordRows = Sequence[dict[str, str]]


def word_senses(task: LessonRecipe, rows: WordRows, size: int) -> WordSenses:
    """Words in brackets, or the first that reads as the target; rows without one are left out.

    With the columns of the senses' names, all sentences of one target are compared with each
    other; without them, only the two of a row.
    """
    words: dict[str, dict[SenseOccurrence, None]] = {}
    for number, row in enumerate(rows):
        found = [find_word(row[side], row.get("target", "")) for side in ("a", "b")]
        if found[0] is None or found[1] is None:
            continue
        if "sense_a" in row:
            word, senses = row.get("target", ""), (row["sense_a"], row["sense_b"])
        else:
            same = row["same"].lower() == (task.positive or "true").lower()
            word, senses = str(number), ("one", "one" if same else "two")
        for columns, sense in zip(found, senses, strict=True):
            assert columns is not None
            words.setdefault(word, {})[SenseOccurrence(*columns, sense)] = None
    several = [list(found) for found in words.values() if len(found) > 1]
    return WordSenses(
        task.title, several, task.layers, task.weight, size, each=task.each, drop=task.drop
    )


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


def learn_words(recipe: Distillation, dataset: DistillationData, student: Student) -> Dictionary:
    """Learn from all the parallel text which new pieces mean which others."""
    with tempfile.TemporaryDirectory(prefix="malmoi-links-") as folder:
        bags = write_bags(dataset.aligned(recipe), student.tokenizer, Path(folder))
        lexical = ibm1(bags, len(student.table), rounds=recipe.align.rounds)
    rows = np.flatnonzero(student.is_new.numpy()) if student.is_new.any() else lexical.target
    return as_dictionary(lexical, np.unique(rows).tolist())


def word_links(
    task: LessonRecipe, words: Dictionary, dataset: DistillationData, data: DistillationTexts,
    student: Student, size: int,
) -> WordLinks:  # fmt: skip
    """Link the words of a task's parallel entries."""
    chosen = entry_rows(task.parallel or tuple(dataset.chosen), dataset)
    part = DistillationTexts(data.source, data.target, data.goal, np.zeros_like(data.weight))
    part.weight[chosen] = data.weight[chosen]
    return WordLinks(task.title, part, words, frozen_copy(student), task.layers, task.weight, size)


def word_swaps(
    task: LessonRecipe, words: Dictionary, dataset: DistillationData, data: DistillationTexts,
    student: Student, size: int,
) -> Swaps:  # fmt: skip
    """Make new sentences of a task's parallel entries."""
    names = [student.tokenizer.id_to_token(i) or "" for i in range(len(student.table))]
    pairs = word_pairs(words, names, student.table.numpy(), near=task.near)
    chosen = entry_rows(task.parallel or tuple(dataset.chosen), dataset)
    return Swaps(
        task.title, data, chosen, words, pairs, frozen_copy(student), alterations(task, words),
        task.weight, size, task.contrast, task.relations,
    )  # fmt: skip


def alterations(task: LessonRecipe, words: Dictionary) -> Alter:
    """What a task does to a translation before the student reads it."""
    return Alter(words, task.mixed, task.dropped)


def entry_rows(names: Sequence[str], dataset: DistillationData) -> NDArray[np.int64]:
    """Say which rows of what is distilled on belong to the parallel entries named."""
    ends = np.cumsum([len(pairs) for pairs in dataset.chosen.values()])
    spans = {
        name: np.arange(end - len(pairs), end)
        for end, (name, pairs) in zip(ends, dataset.chosen.items(), strict=True)
    }
    return np.concatenate([spans[name] for name in names])


Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class LessonBuilder:
    """What lessons are built from, besides their own rows."""

    recipe: Distillation
    dataset: DistillationData
    data: DistillationTexts
    teacher: CachedTeacher
    student: Student

    @cached_property
    def words(self) -> Dictionary:
        """A dictionary of pieces, learnt once for all lessons that want it."""
        return learn_words(self.recipe, self.dataset, self.student)


def make_lessons(builder: LessonBuilder, stage: Tune) -> list[Lesson]:
    """Make every task of a stage that leads it, has its turn in it or a weight."""
    recipe, named = builder.recipe, {*stage.lead, *(n for names in stage.turns for n in names)}
    lessons: list[Lesson] = []
    for task in recipe.task:
        weight = stage.weights.get(task.title, task.weight)
        size = stage.sizes.get(task.title, task.size)
        task = task.model_copy(update={"weight": weight, "size": size})
        if task.weight or task.title in named:
            lessons.append(_lesson(task, builder))
    return lessons


def _lesson(task: LessonRecipe, builder: LessonBuilder) -> Lesson:
    dataset, data, teacher = builder.dataset, builder.data, builder.teacher
    rows, seed = dataset.rows.get(task.title, []), builder.recipe.seed
    if task.kind == "teacher":
        goals, title, weight = teacher.cache.open(), task.title, task.weight
        alter = alterations(task, builder.words) if task.mixed or task.dropped else None
        return TeacherReplay(
            data, goals, title, weight, task.tokens, task.contrast, task.source_share, alter
        )
    if task.kind == "scores":
        return _blended(task, scored_pairs(task, rows), teacher)
    if task.kind == "likeness":
        texts = list(dict.fromkeys(dataset.translations(task)))
        vectors = teacher.vectors([source for source, _ in texts])
        alike = similarity_rows(texts, vectors, np.random.default_rng(seed))
        return ScoredPairs(task.title, alike, task.weight, _size(task))
    if task.kind == "neighbours":
        return _neighbours(task, dataset, data, teacher.cache.open(), seed=seed)
    if task.kind in ("links", "swaps"):
        make = word_links if task.kind == "links" else word_swaps
        return make(task, builder.words, dataset, data, builder.student, _size(task))
    if task.kind == "senses":
        columns = {name: at[0] for name, at in _column_numbers(task).items()}
        senses = word_senses(
            task, [{name: row[at] for name, at in columns.items()} for row in rows], _size(task)
        )
        _check_found(task, senses.words)
        return senses
    if task.kind == "names":
        return names(task, rows)
    if task.kind == "groups":
        return groups(task, rows)
    if task.kind == "translations":
        return _positive(task, dataset.translations(task))
    return pairs(task, rows)


def scored_pairs(task: LessonRecipe, rows: Rows) -> ScoredPairs:
    """Every language of the left against every one of the right, ranked by the score."""
    columns = _column_numbers(task)
    found = [
        (
            float(row[columns["score"][0]]),
            tuple(row[i] for i in columns["left"]),
            tuple(row[i] for i in columns["right"]),
        )
        for row in rows
    ]
    return ScoredPairs(task.title, found, task.weight, _size(task))


def _blended(task: LessonRecipe, made: ScoredPairs, teacher: CachedTeacher) -> ScoredPairs:
    if not task.teacher_share:
        return made
    # The first column of a side is in the language that the teacher knows.
    one = teacher.vectors([left[0] for _, left, _ in made.rows])
    alike = (one * teacher.vectors([right[0] for _, _, right in made.rows])).sum(1)
    made.rows = blend_scores(made.rows, alike, share=task.teacher_share, highest=task.highest)
    return made


def pairs(task: LessonRecipe, rows: Rows) -> PositivePairs:
    """Two texts that belong together; with labels, the negatives of one text are its hard ones.

    A text with several positives counts once, with the first. Rows of one key do not compete.
    """
    columns = {name: at[0] for name, at in _column_numbers(task).items()}
    keys = [row[columns["key"]] for row in rows] if "key" in columns else []
    if "label" not in columns:
        return _positive(task, [(row[columns["a"]], row[columns["b"]]) for row in rows], keys=keys)
    by: dict[str, dict[str, list[str]]] = {}
    for row in rows:
        found = by.setdefault(row[columns["a"]], {})
        found.setdefault(row[columns["label"]], []).append(row[columns["b"]])
    kept = [(text, found) for text, found in by.items() if task.positive in found]
    hard = [found.get(task.negative, []) for _, found in kept]
    return _positive(task, [(text, found[task.positive][0]) for text, found in kept], hard=hard)


def groups(task: LessonRecipe, rows: Rows) -> PositivePairs:
    """Texts of one group mean the same; at most `most` of each are taken, the first ones."""
    columns = {name: at[0] for name, at in _column_numbers(task).items()}
    by: dict[str, dict[str, None]] = {}
    for row in rows:
        by.setdefault(row[columns["group"]], {})[row[columns["text"]]] = None
    found = [list(texts)[: task.most or None] for texts in by.values()]
    return _positive(task, [tuple(texts) for texts in found if len(texts) > 1])


def names(task: LessonRecipe, rows: Rows) -> AlignedNames:
    """Names by concept, or rows of two names that mean the same; in the order of the files."""
    columns = {name: at[0] for name, at in _column_numbers(task).items()}
    if "synonym" in columns:
        found = [(row[columns["name"]], row[columns["synonym"]]) for row in rows]
        concepts = [tuple(dict.fromkeys(pair)) for pair in dict.fromkeys(found)]
    else:
        by: dict[str, dict[str, None]] = {}
        for row in rows:
            by.setdefault(row[columns["concept"]], {})[row[columns["name"]]] = None
        concepts = [tuple(texts)[: task.most or None] for texts in by.values()]
    several = [texts for texts in concepts if len(texts) > 1]
    _check_found(task, several)
    return AlignedNames(task.title, several, task.weight, _size(task), task.run)


def _neighbours(
    task: LessonRecipe,
    dataset: DistillationData,
    data: DistillationTexts,
    goals: NDArray[np.float16],
    *,
    seed: int,
) -> Neighbours:
    """Sentences of the entries with their nearest ones, `draws` of each entry."""
    rng = np.random.default_rng(seed)
    rows = []
    for name in task.draws or task.parallel or dataset.chosen:
        found, most = entry_rows((name,), dataset), task.draws.get(name, task.most)
        rows.append(rng.choice(found, most, replace=False) if 0 < most < len(found) else found)
    chosen = np.concatenate(rows)
    near = nearest_rows(goals[data.goal[chosen]].astype(np.float32), task.near)
    return Neighbours(
        task.title, data, goals, chosen, near, task.weight, _size(task), task.source_share,
        task.contrast, relations=task.relations,
    )  # fmt: skip


def _positive(
    task: LessonRecipe,
    found: Sequence[Pair] | Sequence[tuple[str, ...]],
    *,
    hard: Sequence[Sequence[str]] = (),
    keys: Sequence[object] = (),
) -> PositivePairs:
    _check_found(task, found)
    return PositivePairs(
        task.title, found, hard, keys, weight=task.weight, size=_size(task), run=task.run
    )


def _check_found(task: LessonRecipe, found: Sequence[object]) -> None:
    if len(found) < 2:
        raise DataError(
            f"task {task.title} has {counted(len(found), 'example')} in {', '.join(task.files)}; "
            "expected two or more. Check its columns and the values positive and negative."
        )


def _size(task: LessonRecipe) -> int:
    return task.size or LESSONS[task.kind].size


def _column_numbers(task: LessonRecipe) -> dict[str, list[int]]:
    """Give the number of each column of a task in a row of `task_columns`."""
    numbers: dict[str, list[int]] = {}
    at = 0
    for name, value in task.columns.items():
        count = 1 if isinstance(value, str) else len(value)
        numbers[name] = list(range(at, at + count))
        at += count
    return numbers
