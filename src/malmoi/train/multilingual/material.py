"""Everything a run reads from files, read and checked before torch is imported."""

import logging
import random
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError, counted
from ..data import check_file, hash_files
from ..measuring import Measure, read_measure
from .settings import Distillation, Parallel, Task
from .texts import Pair, Reader, choose, locate, named_files, without

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Material:
    """The texts of a recipe.

    `pairs` are all of an entry's, by its title, and `chosen` those that the distillation reads;
    `held` are in neither. `rows` are those of the tasks, by title. `hashes` are of every file.
    """

    reader: Reader
    pairs: dict[str, list[Pair]]
    chosen: dict[str, list[Pair]]
    held: list[Pair]
    rows: dict[str, list[tuple[str, ...]]]
    measures: list[Measure]
    hashes: dict[str, str]

    def translations(self, task: Task) -> list[Pair]:
        """Give the pairs of the entries that a task names, or of all that are distilled on."""
        found: list[Pair] = []
        for name in task.parallel or task.draws or self.chosen:
            pairs, most = self.chosen[name], task.draws.get(name, task.most)
            if most and len(pairs) > most:
                pairs = random.Random(f"{task.title} {name}").sample(pairs, most)
            found += pairs
        return found


def read_material(recipe: Distillation, root: Path, *, strict: bool = False) -> Material:
    """Find and read every file; raises DataError for the first that cannot be used."""
    files = {name: check_file(locate(root, name), name, root) for name in named_files(recipe)}
    reader = Reader(root, strict)
    held = reader.held(recipe.held_out) if recipe.held_out else []
    pairs = {entry.title: _pairs(reader, entry, held) for entry in recipe.parallel}
    chosen = {
        entry.title: choose(entry, pairs[entry.title], seed=recipe.seed)
        for entry in recipe.parallel
        if entry.weight
    }
    rows = {task.title: reader.task(task) for task in recipe.task if task.files}
    measures = [read_measure(entry, root, strict=strict) for entry in recipe.evaluation]
    count = sum(map(len, pairs.values()))
    logger.info(
        f"{counted(count, 'sentence pair')}, {sum(map(len, chosen.values())):,} of them to distil "
        f"on, {len(held):,} held out"
    )
    return Material(reader, pairs, chosen, held, rows, measures, hash_files(files))


def _pairs(reader: Reader, entry: Parallel, held: list[Pair]) -> list[Pair]:
    pairs = without(reader.parallel(entry), held)
    if not pairs:
        raise DataError(
            f"{', '.join(entry.files)} hold nothing but what is held out; expected more. "
            "Lower held_out.pairs, or add files."
        )
    return pairs
