"""Rows of the recipe's files → lessons about words in their sentence."""

import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..alignment import ibm1, write_bags
from ..distil import Distillable
from ..student import Student
from ..swaps import Alter, Swaps, word_pairs
from ..words import Dictionary, Occurrence, WordLinks, WordSenses, as_dictionary, frozen_copy
from .material import Material
from .settings import Distillation, Task
from .texts import Pair

Rows = Sequence[dict[str, str]]


def word_senses(task: Task, rows: Rows, size: int) -> WordSenses:
    """Words in brackets, or the first that reads as the target; rows without one are left out.

    With the columns of the senses' names, all sentences of one target are compared with each
    other; without them, only the two of a row.
    """
    words: dict[str, dict[Occurrence, None]] = {}
    for number, row in enumerate(rows):
        found = [find_word(row[side], row.get("target", "")) for side in ("a", "b")]
        if found[0] is None or found[1] is None:
            continue
        if "sense_a" in row:
            word, senses = row.get("target", ""), (row["sense_a"], row["sense_b"])
        else:
            same = row["same"].lower() == (task.positive or "true").lower()
            word, senses = str(number), ("one", "one" if same else "two")
        for place, sense in zip(found, senses, strict=True):
            assert place is not None
            words.setdefault(word, {})[Occurrence(*place, sense)] = None
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


def learn_words(recipe: Distillation, material: Material, student: Student) -> Dictionary:
    """Learn from all the parallel text which new pieces mean which others."""
    with tempfile.TemporaryDirectory(prefix="malmoi-links-") as folder:
        bags = write_bags(_stream(recipe, material), student.tokenizer, Path(folder))
        lexical = ibm1(bags, len(student.table), rounds=recipe.align.rounds)
    rows = np.flatnonzero(student.is_new.numpy()) if student.is_new.any() else lexical.target
    return as_dictionary(lexical, np.unique(rows).tolist())


def word_links(
    task: Task, words: Dictionary, material: Material, data: Distillable, student: Student,
    size: int,
) -> WordLinks:  # fmt: skip
    """Link the words of a task's parallel entries."""
    chosen = entry_rows(task.parallel or tuple(material.chosen), material)
    part = Distillable(data.source, data.target, data.goal, np.zeros_like(data.weight))
    part.weight[chosen] = data.weight[chosen]
    return WordLinks(task.title, part, words, frozen_copy(student), task.layers, task.weight, size)


def word_swaps(
    task: Task, words: Dictionary, material: Material, data: Distillable, student: Student,
    size: int,
) -> Swaps:  # fmt: skip
    """Make new sentences of a task's parallel entries."""
    names = [student.tokenizer.id_to_token(i) or "" for i in range(len(student.table))]
    pairs = word_pairs(words, names, student.table.numpy(), near=task.near)
    chosen = entry_rows(task.parallel or tuple(material.chosen), material)
    return Swaps(
        task.title, data, chosen, words, pairs, frozen_copy(student), alterations(task, words),
        task.weight, size, task.contrast, task.relations,
    )  # fmt: skip


def alterations(task: Task, words: Dictionary) -> Alter:
    """What a task does to a translation before the student reads it."""
    return Alter(words, task.mixed, task.dropped)


def entry_rows(names: Sequence[str], material: Material) -> NDArray[np.int64]:
    """Say which rows of what is distilled on belong to the parallel entries named."""
    ends = np.cumsum([len(pairs) for pairs in material.chosen.values()])
    spans = {
        name: np.arange(end - len(pairs), end)
        for end, (name, pairs) in zip(ends, material.chosen.items(), strict=True)
    }
    return np.concatenate([spans[name] for name in names])


def _stream(recipe: Distillation, material: Material) -> Iterator[Pair]:
    for entry in recipe.parallel:
        for _ in range(entry.align):
            yield from material.pairs[entry.title]
