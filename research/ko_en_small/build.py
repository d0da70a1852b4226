"""Rows of the recipe's files → the lessons of the joint run."""

import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from malmoi.errors import DataError, OptionError, counted
from malmoi.training.distil.goals import DistillationTexts
from malmoi.training.distil.recipe import DistillationData, Pair, TextReader, no_rows, tidy
from malmoi.training.distil.student import Student
from malmoi.training.distil.teachers import JointTeacher, Sides
from malmoi.types import Ints

from .lessons import (
    Lesson,
    Neighbours,
    PositivePairs,
    Row,
    ScoredPairs,
    TeacherReplay,
    blend_scores,
    nearest_rows,
)
from .recipe import JointRecipe, TaskRecipe
from .words import (
    Alter,
    Dictionary,
    SenseOccurrence,
    Swaps,
    WordSenses,
    as_dictionary,
    frozen_copy,
    ibm1,
    word_pairs,
    write_bags,
)

Rows = Sequence[tuple[str, ...]]


@dataclass(frozen=True)
class LessonBuilder:
    """What lessons are built from, besides their own rows."""

    recipe: JointRecipe
    dataset: DistillationData
    rows: Mapping[str, Rows]  # of the tasks, by title
    data: DistillationTexts
    teacher: JointTeacher
    student: Student

    @cached_property
    def words(self) -> Dictionary:
        """Which new tokens mean which others, learnt once from all the parallel text."""
        student, skipped = self.student, self.recipe.joint.not_aligned
        found = ((name, pairs) for name, pairs in self.dataset.pairs.items() if name not in skipped)
        aligned = (pair for _, pairs in found for pair in pairs)
        with tempfile.TemporaryDirectory(prefix="malmoi-links-") as folder:
            bags = write_bags(aligned, student.tokenizer, Path(folder))
            lexical = ibm1(bags, len(student.table))
            sides = (bags.target.ids, bags.source.ids)
            target, source = (np.bincount(ids, minlength=len(student.table)) for ids in sides)
        # What both sides hold (names, numbers, signs) is no translation of anything.
        return as_dictionary(lexical, np.flatnonzero(target > 4 * source).tolist())

    def build(self, task: TaskRecipe) -> Lesson:
        """Make the lesson of one [[task]], by the method or function of its kind."""
        if own := getattr(self, f"_{task.kind}", None):
            made: Lesson = own(task)
            return made
        read: dict[str, Callable[[TaskRecipe, Rows], Lesson]] = {
            "senses": word_senses,
            "groups": groups,
            "pairs": pairs,
        }
        return read[task.kind](task, self.rows[task.title])

    def _teacher(self, task: TaskRecipe) -> Lesson:
        alter = Alter(self.words, task.mixed, task.dropped) if task.mixed or task.dropped else None
        return TeacherReplay(task, self.data, alter)

    def _scores(self, task: TaskRecipe) -> Lesson:
        rows = scored_rows(task, self.rows[task.title])
        if task.teacher_share:
            # The first column of a side is in the language that the teacher knows.
            one = joint_vectors(self.teacher, [left[0] for _, left, _ in rows])
            two = joint_vectors(self.teacher, [right[0] for _, _, right in rows])
            alike = (one * two).sum(1)
            rows = blend_scores(rows, alike, share=task.teacher_share, highest=task.highest)
        return ScoredPairs(task, rows)

    def _neighbours(self, task: TaskRecipe) -> Lesson:
        """Sentences of the entries with their nearest ones, `per_entry_limit` of each entry."""
        rng, rows = np.random.default_rng(self.recipe.seed), []
        for name in task.per_entry_limit or self.dataset.chosen:
            found, most = self._entry_rows((name,)), task.per_entry_limit.get(name, 0)
            rows.append(rng.choice(found, most, replace=False) if 0 < most < len(found) else found)
        chosen = np.concatenate(rows)
        near = nearest_rows(self.data.goal_at(chosen).numpy(), task.neighbors)
        return Neighbours(task, self.data, chosen, near)

    def _swaps(self, task: TaskRecipe) -> Lesson:
        student, words = self.student, self.words
        names = [student.tokenizer.id_to_token(i) or "" for i in range(len(student.table))]
        pairs = word_pairs(words, names, student.table.numpy(), near=task.neighbors)
        alter, rows = Alter(words, task.mixed, task.dropped), self._entry_rows(task.parallel)
        return Swaps(task, self.data, rows, words, pairs, frozen_copy(student), alter)

    def _entry_rows(self, names: Sequence[str]) -> Ints:
        """Say which rows of what is distilled on belong to the entries named, or to all."""
        chosen = self.dataset.chosen
        ends = np.cumsum([len(pairs) for pairs in chosen.values()])
        spans = {
            name: np.arange(end - len(pairs), end)
            for end, (name, pairs) in zip(ends, chosen.items(), strict=True)
        }
        return np.concatenate([spans[name] for name in names or chosen])


_HANGUL = re.compile("[ㄱ-ㆎ가-힣]")


def language_of(text: str) -> str:
    """Tell Korean by its letters; all other text counts as English.

    >>> language_of("DM으로 f/u 중"), language_of("on insulin")
    ('ko', 'en')
    """
    return "ko" if _HANGUL.search(text) else "en"


def joint_vectors(teacher: JointTeacher, texts: Sequence[str]) -> NDArray[np.float32]:
    """Give the goals of any texts, each by its own language: (n, width)."""
    spoken = np.array([language_of(text) for text in texts])
    found = np.empty((len(texts), teacher.dimension), np.float32)
    for language in sorted(set(spoken)):
        rows = np.flatnonzero(spoken == language)
        trust = tuple(
            (language,) if not one.languages or language in one.languages else ()
            for one in teacher.recipes
        )
        if not any(trust):
            raise OptionError(f"no teacher reads {language}; expected one. Add one that does.")
        sides = Sides({language: [texts[int(row)] for row in rows]}, trust)
        part, present = teacher.side_by_side(sides)
        if not all(present) and present not in teacher.fills:
            raise OptionError(
                f"a teacher is not trusted for {language}, and no text of the recipe shows "
                "what the others say there; expected one. Add a [[text]] in that language."
            )
        found[rows] = teacher.goals(part, present)
    return found


def read_rows(reader: TextReader, task: TaskRecipe) -> list[tuple[str, ...]]:
    """Read the rows of a task: its columns in the order that the task maps them."""
    columns: list[str] = []
    for value in task.columns.values():
        columns += [value] if isinstance(value, str) else value
    number = str(task.columns["score"]) if task.kind == "scores" else ""
    options = {"where": task.where, "held_out": task.held_out, "number": number}
    rows = list(reader.rows(task.files, tuple(columns), **options))
    for more in task.extra_files:
        names = tuple(more.columns[name] for name in task.columns)
        for *others, last in reader.rows(more.files, names, held_out=more.held_out):
            parts = last.split(more.split) if more.split else [last]
            rows += [(*others, text) for part in parts if (text := tidy(part))]
    if not rows:
        raise no_rows(task.files)
    return rows


def scored_rows(task: TaskRecipe, rows: Rows) -> list[Row]:
    """Give the score of each row with every language of the left and of the right."""
    spans, at = {}, 0
    for name, value in task.columns.items():
        width = 1 if isinstance(value, str) else len(value)
        spans[name], at = slice(at, at + width), at + width
    left, right, score = spans["left"], spans["right"], spans["score"].start
    return [(float(row[score]), row[left], row[right]) for row in rows]


def word_senses(task: TaskRecipe, rows: Rows) -> WordSenses:
    """Words in brackets, or the first that reads as the target; rows without one are left out.

    All sentences of one target are compared with each other, by the names of their senses.
    """
    words: dict[str, dict[SenseOccurrence, None]] = {}
    for row in _cells(task, rows):
        found = [find_word(row[side], row["target"]) for side in ("a", "b")]
        if found[0] is None or found[1] is None:
            continue
        senses = (row["sense_a"], row["sense_b"])
        for columns, sense in zip(found, senses, strict=True):
            assert columns is not None
            words.setdefault(row["target"], {})[SenseOccurrence(*columns, sense)] = None
    several = [list(found) for found in words.values() if len(found) > 1]
    _check_found(task, several)
    return WordSenses(task, several)


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


def pairs(task: TaskRecipe, rows: Rows) -> PositivePairs:
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


def groups(task: TaskRecipe, rows: Rows) -> PositivePairs:
    """Texts of one group mean the same; two of each are drawn."""
    by: dict[str, dict[str, None]] = {}
    for row in _cells(task, rows):
        by.setdefault(row["group"], {})[row["text"]] = None
    return _positive(task, [tuple(texts) for texts in by.values() if len(texts) > 1])


def _cells(task: TaskRecipe, rows: Rows) -> list[dict[str, str]]:
    """Name the cells of each row by their role; each role has one column."""
    return [dict(zip(task.columns, row, strict=True)) for row in rows]


def _positive(
    task: TaskRecipe,
    found: Sequence[Pair] | Sequence[tuple[str, ...]],
    *,
    hard: Sequence[Sequence[str]] = (),
    keys: Sequence[object] = (),
) -> PositivePairs:
    _check_found(task, found)
    return PositivePairs(task, found, hard, keys)


def _check_found(task: TaskRecipe, found: Sequence[object]) -> None:
    if len(found) < 2:
        raise DataError(
            f"task {task.title} has {counted(len(found), 'example')} in {', '.join(task.files)}; "
            "expected two or more. Check its columns and the values positive and negative."
        )
