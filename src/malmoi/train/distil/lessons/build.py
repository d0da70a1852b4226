"""Rows of the recipe's files → the lessons that a student is tuned on."""

import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ....errors import DataError, counted
from ....types import Ints
from ..alignment import ibm1, write_bags
from ..data import DistillationData, Pair
from ..distillation import DistillationTexts
from ..recipe import LESSONS, Distillation, LessonRecipe, Tune
from ..student import Student
from ..teachers import CachedTeacher, JointTeacher
from .base import (
    Lesson,
    Passages,
    PositivePairs,
    ScoredPairs,
    TeacherReplay,
    blend_scores,
    similarity_rows,
)
from .relations import AlignedNames, Neighbours, nearest_rows
from .words import (
    Alter,
    Dictionary,
    SenseOccurrence,
    Swaps,
    WordLinks,
    WordSenses,
    as_dictionary,
    frozen_copy,
    word_pairs,
)

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class LessonBuilder:
    """What lessons are built from, besides their own rows."""

    recipe: Distillation
    dataset: DistillationData
    data: DistillationTexts
    teacher: CachedTeacher | JointTeacher
    student: Student

    @cached_property
    def words(self) -> Dictionary:
        """Which new tokens mean which others, learnt once from all the parallel text."""
        student = self.student
        with tempfile.TemporaryDirectory(prefix="malmoi-links-") as folder:
            bags = write_bags(self.dataset.aligned(self.recipe), student.tokenizer, Path(folder))
            lexical = ibm1(bags, len(student.table), rounds=self.recipe.align.rounds)
            sides = (bags.target.ids, bags.source.ids)
            target, source = (np.bincount(ids, minlength=len(student.table)) for ids in sides)
        # What both sides hold (names, numbers, signs) is no translation of anything.
        return as_dictionary(lexical, np.flatnonzero(target > 4 * source).tolist())

    def build(self, task: LessonRecipe) -> Lesson:
        """Make the lesson of one [[task]]."""
        rows = self.dataset.rows.get(task.title, [])
        if task.kind == "scores":
            return self._blended(task, scored_pairs(task, rows))
        if task.kind == "translations":
            return _positive(task, self.dataset.translations(task))
        own = {
            "teacher": self._replay,
            "likeness": self._similarities,
            "neighbours": self._neighbours,
            "links": self._links,
            "swaps": self._swaps,
            "passages": self._passages,
        }
        if task.kind in own:
            return own[task.kind](task)
        read: dict[str, Callable[[LessonRecipe, Rows], Lesson]] = {
            "senses": word_senses,
            "names": names,
            "groups": groups,
            "pairs": pairs,
        }
        return read[task.kind](task, rows)

    def _replay(self, task: LessonRecipe) -> Lesson:
        alter = Alter(self.words, task.mixed, task.dropped) if task.mixed or task.dropped else None
        return TeacherReplay(
            self.data, task.title, task.weight, task.tokens, task.contrast, task.source_share, alter
        )

    def _passages(self, task: LessonRecipe) -> Lesson:
        names = task.text or tuple(self.dataset.lines)
        lines = [self.dataset.lines[name] for name in names]
        _check_found(task, [line for part in lines for line in part])
        return Passages(task.title, lines, task.join, task.inside, task.weight, _size(task))

    def _similarities(self, task: LessonRecipe) -> Lesson:
        texts = list(dict.fromkeys(self.dataset.translations(task)))
        vectors = self.teacher.vectors([source for source, _ in texts])
        rows = similarity_rows(texts, vectors, np.random.default_rng(self.recipe.seed))
        return ScoredPairs(task.title, rows, task.weight, _size(task))

    def _blended(self, task: LessonRecipe, made: ScoredPairs) -> Lesson:
        if not task.teacher_share:
            return made
        # The first column of a side is in the language that the teacher knows.
        one = self.teacher.vectors([left[0] for _, left, _ in made.rows])
        alike = (one * self.teacher.vectors([right[0] for _, _, right in made.rows])).sum(1)
        rows = blend_scores(made.rows, alike, share=task.teacher_share, highest=task.highest)
        return replace(made, rows=rows)

    def _neighbours(self, task: LessonRecipe) -> Lesson:
        """Sentences of the entries with their nearest ones, `draws` of each entry."""
        rng, rows = np.random.default_rng(self.recipe.seed), []
        for name in task.draws or task.parallel or self.dataset.chosen:
            found, most = self._entry_rows((name,)), task.draws.get(name, task.most)
            rows.append(rng.choice(found, most, replace=False) if 0 < most < len(found) else found)
        chosen = np.concatenate(rows)
        near = nearest_rows(self.data.goal_at(chosen).numpy(), task.near)
        return Neighbours(
            task.title, self.data, chosen, near, task.weight, _size(task),
            task.source_share, task.contrast, relations=task.relations,
        )  # fmt: skip

    def _links(self, task: LessonRecipe) -> Lesson:
        chosen = self._entry_rows(task.parallel)
        part = replace(self.data, weight=np.zeros_like(self.data.weight))
        part.weight[chosen] = self.data.weight[chosen]
        frozen = frozen_copy(self.student)
        return WordLinks(
            task.title, part, self.words, frozen, task.layers, task.weight, _size(task)
        )

    def _swaps(self, task: LessonRecipe) -> Lesson:
        student, words = self.student, self.words
        names = [student.tokenizer.id_to_token(i) or "" for i in range(len(student.table))]
        return Swaps(
            task.title, self.data, self._entry_rows(task.parallel), words,
            word_pairs(words, names, student.table.numpy(), near=task.near), frozen_copy(student),
            Alter(words, task.mixed, task.dropped), task.weight, _size(task), task.contrast,
            task.relations,
        )  # fmt: skip

    def _entry_rows(self, names: Sequence[str]) -> Ints:
        """Say which rows of what is distilled on belong to the entries named, or to all."""
        chosen = self.dataset.chosen
        ends = np.cumsum([len(pairs) for pairs in chosen.values()])
        spans = {
            name: np.arange(end - len(pairs), end)
            for end, (name, pairs) in zip(ends, chosen.items(), strict=True)
        }
        return np.concatenate([spans[name] for name in names or chosen])


def make_lessons(builder: LessonBuilder, stage: Tune) -> list[Lesson]:
    """Make every task of a stage that leads it, has its turn in it or a weight."""
    named = {*stage.lead, *(name for names in stage.turns for name in names)}
    lessons: list[Lesson] = []
    for task in builder.recipe.task:
        weight = stage.weights.get(task.title, task.weight)
        size = stage.sizes.get(task.title, task.size)
        if weight or task.title in named:
            lessons.append(builder.build(task.model_copy(update={"weight": weight, "size": size})))
    return lessons


def scored_pairs(task: LessonRecipe, rows: Rows) -> ScoredPairs:
    """Every language of the left against every one of the right, ranked by the score."""
    spans, at = {}, 0
    for name, value in task.columns.items():
        width = 1 if isinstance(value, str) else len(value)
        spans[name], at = slice(at, at + width), at + width
    left, right, score = spans["left"], spans["right"], spans["score"].start
    found = [(float(row[score]), row[left], row[right]) for row in rows]
    return ScoredPairs(task.title, found, task.weight, _size(task))


def word_senses(task: LessonRecipe, rows: Rows) -> WordSenses:
    """Words in brackets, or the first that reads as the target; rows without one are left out.

    With the columns of the senses' names, all sentences of one target are compared with each
    other; without them, only the two of a row.
    """
    words: dict[str, dict[SenseOccurrence, None]] = {}
    for number, row in enumerate(_cells(task, rows)):
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
    _check_found(task, several)
    return WordSenses(
        task.title, several, task.layers, task.weight, _size(task), each=task.each, drop=task.drop
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


def pairs(task: LessonRecipe, rows: Rows) -> PositivePairs:
    """Two texts that belong together; with labels, the negatives of one text are its hard ones.

    A text with several positives counts once, with the first. Rows of one key do not compete.
    """
    cells = _cells(task, rows)
    if "label" not in task.columns:
        keys = [row["key"] for row in cells] if "key" in task.columns else []
        return _positive(task, [(row["a"], row["b"]) for row in cells], keys=keys)
    by: dict[str, dict[str, list[str]]] = {}
    for row in cells:
        by.setdefault(row["a"], {}).setdefault(row["label"], []).append(row["b"])
    kept = [(text, found) for text, found in by.items() if task.positive in found]
    hard = [found.get(task.negative, []) for _, found in kept]
    return _positive(task, [(text, found[task.positive][0]) for text, found in kept], hard=hard)


def groups(task: LessonRecipe, rows: Rows) -> PositivePairs:
    """Texts of one group mean the same; at most `most` of each are taken, the first ones."""
    return _positive(task, _grouped(task, rows, "group", "text"))


def names(task: LessonRecipe, rows: Rows) -> AlignedNames:
    """Names by concept, or rows of two names that mean the same; in the order of the files."""
    if "synonym" in task.columns:
        found = dict.fromkeys((row["name"], row["synonym"]) for row in _cells(task, rows))
        several: list[tuple[str, ...]] = [pair for pair in found if pair[0] != pair[1]]
    else:
        several = _grouped(task, rows, "concept", "name")
    _check_found(task, several)
    return AlignedNames(task.title, several, task.weight, _size(task), task.run)


def _grouped(task: LessonRecipe, rows: Rows, group: str, text: str) -> list[tuple[str, ...]]:
    """Gather different texts by their group, `most` at most; groups of one are left out."""
    by: dict[str, dict[str, None]] = {}
    for row in _cells(task, rows):
        by.setdefault(row[group], {})[row[text]] = None
    found = (tuple(texts)[: task.most or None] for texts in by.values())
    return [texts for texts in found if len(texts) > 1]


def _cells(task: LessonRecipe, rows: Rows) -> list[dict[str, str]]:
    """Name the cells of each row by their role; each role has one column."""
    return [dict(zip(task.columns, row, strict=True)) for row in rows]


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
