"""What a distillation reads: texts as ids on disk, and the goal of each, the teachers' vector.

The goals of one teacher are its cached vectors. Those of several are joined once (`write_goals`)
and kept in the run's folder.
"""

import logging
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...errors import DataError, OptionError, counted
from ...io.files import writing
from ...io.fingerprint import hash_data, read_stamp, write_json
from ...types import Floats, Ints
from .recipe import Distillation, DistillationData, Parallel, Text, trusted
from .student import Student
from .teachers import CachedTeacher, JointTeacher, Sides, open_teacher

logger = logging.getLogger(__name__)

_FITTED = 10_000  # rows on which several teachers are joined
_BLOCK = 8192


@dataclass(frozen=True)
class SentenceBags:
    """Sentences as bags of ids, laid end to end: bag i is ids[ends[i-1]:ends[i]]."""

    ids: NDArray[np.int32]
    ends: Ints

    @classmethod
    def write(cls, path: Path, lists: Iterable[Sequence[int]]) -> "SentenceBags":
        """Write lists of ids into a file, one at a time, and map it."""
        sizes = []
        with path.open("wb") as file:
            for ids in lists:
                sizes.append(len(ids))
                file.write(np.asarray(ids, dtype=np.int32).tobytes())
        if not sum(sizes):
            raise DataError(
                f"{path} holds no sentence pairs; expected at least one. "
                "Check the parallel files and their columns."
            )
        ends = np.cumsum(sizes, dtype=np.int64)
        return cls(np.memmap(path, dtype=np.int32, mode="r"), ends)

    def __len__(self) -> int:
        """Count the bags."""
        return len(self.ends)

    def take(self, rows: Ints) -> tuple[Ints, Ints]:
        """Give the ids of the chosen bags end to end, and where each starts."""
        sizes = self.sizes_at(rows)
        starts = self.ends[rows] - sizes
        offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
        at = np.arange(int(sizes.sum())) + np.repeat(starts - offsets, sizes)
        return self.ids[at].astype(np.int64), offsets.astype(np.int64)

    def lists(self, rows: Ints) -> list[list[int]]:
        """Give the ids of the chosen bags as lists."""
        flat, starts = self.take(rows)
        return [part.tolist() for part in np.split(flat, starts[1:])]

    def sizes(self) -> Ints:
        """Count the ids of each bag."""
        return np.diff(self.ends, prepend=0)

    def sizes_at(self, rows: Ints) -> Ints:
        """Count the ids of each of the chosen bags."""
        return self.ends[rows] - np.where(rows > 0, self.ends[rows - 1], 0)


@dataclass(frozen=True)
class ParallelText:
    """One entry of the recipe: what the teacher reads, and its translations.

    The two are the same list for text in one language.
    """

    entry: Parallel | Text
    source: Sequence[str]
    target: Sequence[str]

    def sides(self, rows: Ints) -> dict[str, Sequence[str]]:
        """Give the texts of some rows by language."""
        source = [self.source[row] for row in rows]
        if isinstance(self.entry, Text):
            return {self.entry.language: source}
        one, two = self.entry.languages
        return {one: source, two: [self.target[row] for row in rows]}


def list_texts(recipe: Distillation, data: DistillationData) -> list[ParallelText]:
    """List what is distilled on, entry by entry: pairs first, then text in one language."""
    listed = []
    for entry in recipe.parallel:
        if entry.weight:
            source, target = zip(*data.chosen[entry.title], strict=True)
            listed.append(ParallelText(entry, source, target))
    for text in recipe.text:
        if text.weight:
            lines = data.texts[text.title]
            listed.append(ParallelText(text, lines, lines))
    return listed


@dataclass(frozen=True)
class DistillationTexts:
    """Everything a run reads, row by row: ids of both sides, the goal's row, the drawing weight.

    Rows of the same goal mean the same; `goals` (n, width) are the vectors themselves.
    """

    source: SentenceBags
    target: SentenceBags
    goal: Ints
    weight: Floats
    goals: NDArray[np.float16]

    def goal_at(self, rows: Ints) -> Tensor:
        """Give the unit goals of the chosen rows: (n, width)."""
        found = torch.from_numpy(self.goals[self.goal[rows]].astype(np.float32))
        return torch.nn.functional.normalize(found, dim=1)


def read_texts(
    recipe: Distillation,
    data: DistillationData,
    teacher: CachedTeacher | JointTeacher,
    student: Student,
    folder: Path,
    *,
    rank: int = 0,
) -> DistillationTexts:
    """Tokenize what is distilled on into the run's folder, and find the goal of every row."""
    texts = list_texts(recipe, data)
    if isinstance(teacher, JointTeacher):
        goal, goals = same_goals(texts), open_goals(folder)
    else:
        missing = len({s for text in texts for s in text.source}) - len(teacher.cache)
        if missing > 0:
            logger.info(f"the teacher reads about {counted(missing, 'sentence')}")
        goal = np.concatenate([teacher.cache.rows(text.source, teacher.encode) for text in texts])
        goals = teacher.cache.open()
    return tokenize(texts, student, goal, goals, folder / f"ids-{rank}")


def tokenize(
    texts: Sequence[ParallelText],
    student: Student,
    goal: Ints,
    goals: NDArray[np.float16],
    folder: Path,
) -> DistillationTexts:
    """Tokenize both sides, a block at a time, on disk; `goal` (n,) is the row of each goal."""
    folder.mkdir(parents=True, exist_ok=True)
    weight = np.concatenate([np.full(len(t.source), t.entry.weight, np.float32) for t in texts])

    def ids(lists: Iterable[Sequence[str]]) -> Iterator[list[int]]:
        for part in lists:
            for begin in range(0, len(part), _BLOCK):
                yield from student.ids(part[begin : begin + _BLOCK])

    source = SentenceBags.write(folder / "source.i32", ids(t.source for t in texts))
    target = SentenceBags.write(folder / "target.i32", ids(t.target for t in texts))
    return DistillationTexts(source, target, goal, weight, goals)


def open_teachers(
    recipe: Distillation,
    data: DistillationData,
    student: Student,
    folder: Path,
    *,
    threads: int | None,
) -> CachedTeacher | JointTeacher:
    """Open the teacher, or several, joined; their goals are written unless they are there."""
    cache = Path(recipe.output.cache or folder / "cache").expanduser()
    width = student.table.shape[1]
    if not recipe.teachers:
        one = open_teacher(recipe.teacher or recipe.base, folder, cache, threads=threads)
        if one.dimension != width:
            raise OptionError(
                f"the student's vectors have {width} dimensions and the teacher's {one.dimension}; "
                "expected as many. Choose another of the two, or name it in [[teachers]], which "
                "brings it to the student's width."
            )
        return one
    opened = [open_teacher(one.model, folder, cache, threads=threads) for one in recipe.teachers]
    joint = JointTeacher(recipe.teachers, opened, width)
    key = hash_data([recipe.model_dump(include={"teachers", "parallel", "text"}), data.hashes])
    if read_stamp(folder / "goals/about.json").get("key") == key:
        joint.load(folder / "goals/joined.npz")
    else:
        write_goals(recipe, data, joint, student, folder, key)
    return joint


def same_goals(texts: Sequence[ParallelText]) -> Ints:
    """Give each row the number of the first row with the same source, whose goal is its own."""
    first: dict[str, int] = {}
    sources = (source for text in texts for source in text.source)
    return np.array([first.setdefault(s, i) for i, s in enumerate(sources)], dtype=np.int64)


def open_goals(folder: Path) -> NDArray[np.float16]:
    """Map the goals that `write_goals` wrote into a run's folder: (rows, width)."""
    width = int(read_stamp(folder / "goals/about.json")["width"])
    return np.memmap(folder / "goals/goals.f16", dtype=np.float16, mode="r").reshape(-1, width)


def write_goals(
    recipe: Distillation,
    data: DistillationData,
    teacher: JointTeacher,
    student: Student,
    folder: Path,
    key: str,
) -> None:
    """Join several teachers into one goal for every text, and write the goals: (rows, width)."""
    texts = list_texts(recipe, data)
    share = min(1.0, _FITTED / sum(len(text.source) for text in texts))
    rng = np.random.default_rng(recipe.seed)
    student.model.eval()  # type: ignore[no-untyped-call]

    def sides(text: ParallelText, rows: Ints) -> Sides:
        found = text.sides(rows)
        return Sides(found, tuple(trusted(one, text.entry, found) for one in recipe.teachers))

    sample, own = [], []
    for text in texts:
        count = len(text.source)
        rows = np.sort(rng.choice(count, max(1, round(share * count)), replace=False))
        drawn = sides(text, rows)
        sample.append(teacher.side_by_side(drawn))
        own.append(student.encode(next(iter(drawn.texts.values()))))
    teacher.fit(sample, np.concatenate(own))
    (folder / "goals").mkdir(parents=True, exist_ok=True)
    with writing(folder / "goals/goals.f16") as goals:
        for text in texts:
            count = len(text.source)
            logger.info(f"goals of {text.entry.title}: {counted(count, 'text')}")
            for begin in range(0, count, _BLOCK):
                rows = np.arange(begin, min(begin + _BLOCK, count))
                part, present = teacher.side_by_side(sides(text, rows))
                goals.write(teacher.goals(part, present).astype(np.float16).tobytes())
    teacher.save(folder / "goals/joined.npz")
    write_json(folder / "goals/about.json", {"width": teacher.dimension, "key": key})
