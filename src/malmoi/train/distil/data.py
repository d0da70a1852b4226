"""The files of a distillation recipe → texts: tidied, distinct, without what is held out.

Everything here runs before torch is imported, so bad data are reported before a model is loaded.
"""

import logging
import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...errors import DataError, OptionError, counted
from ...io.files import read_lines
from ..base_model import PACKAGE, in_package
from ..data import (
    Check,
    Measure,
    check_file,
    digest,
    file_rows,
    hash_files,
    is_held,
    is_number,
    read_measure,
)
from ..objective import Objective, PreparedData
from ..schema import HeldRows
from .recipe import Distillation, HeldPairs, Parallel, Text

logger = logging.getLogger(__name__)

Pair = tuple[str, str]

# Placeholders, tags, options and addresses: one may occur in a sentence, with two it is none.
_MARKUP = re.compile(r"[%$<>{}\\|=_]|--|https?:")
_FEWEST_LETTERS = 4
# A translation shorter than this share of its source leaves most of it out.
_SHORTEST = 0.2


@dataclass(frozen=True)
class TextReader:
    """Reads rows of the recipe's files under the data root."""

    root: Path
    strict: bool = False

    def rows(
        self,
        files: Sequence[str],
        columns: tuple[str, ...],
        *,
        where: Mapping[str, str] | None = None,
        held_out: HeldRows | None = None,
        number: str = "",
    ) -> Iterator[tuple[str, ...]]:
        """Yield the columns of every row that has text in each and is not held out.

        The column `number`, if any, must hold one.
        """
        needed = {name: name for name in columns}
        if held_out:
            needed[held_out.by] = held_out.by
        for file in files:
            path = locate(self.root, file)
            checks: dict[str, Check] = {number: is_number} if number else {}
            for _, _, row in file_rows(path, needed, dict(where or {}), checks, self.strict):
                if held_out is None or not is_held(row[held_out.by], held_out):
                    yield tuple(tidy(row[name]) for name in columns)

    def _of(self, entry: Parallel | Text, columns: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        return self.rows(entry.files, columns, where=entry.where, held_out=entry.held_out)

    def parallel(self, entry: Parallel) -> list[Pair]:
        """Read the distinct pairs of an entry, in the order of the files."""
        columns = (*entry.source, *entry.target)
        count = len(entry.source)
        found: dict[Pair, None] = {}
        for row in self._of(entry, columns):
            found.update(dict.fromkeys(zip(row[:count], row[count:], strict=True)))
        if not found:
            raise no_rows(entry.files)
        return list(found)

    def lines(self, entry: Text) -> list[str]:
        """Read the texts of an entry, in the order of the files."""
        if entry.columns:
            found = [text for row in self._of(entry, entry.columns) for text in row]
        else:
            paths = (locate(self.root, file) for file in entry.files)
            found = [text for path in paths for line in read_lines(path) if (text := tidy(line))]
        if not found:
            raise no_rows(entry.files)
        return found

    def held(self, held: HeldPairs) -> list[Pair]:
        """Choose the pairs that no parallel file may teach."""
        found = set(self.rows(held.files, (held.source, held.target)))
        chosen: list[Pair] = []
        sources: set[str] = set()
        targets: set[str] = set()
        for source, target in sorted(found, key=lambda pair: digest("\t".join(pair))):
            if source in sources or target in targets:
                continue
            sources.add(source)
            targets.add(target)
            chosen.append((source, target))
            if len(chosen) == held.pairs:
                break
        return chosen


def locate(root: Path, name: str) -> Path:
    """Say where a file is that a recipe names: under the data root, or in an installed package.

    >>> locate(Path("data"), "package:malmoi/data/names.tsv").name
    'names.tsv'
    """
    found = in_package(name) if name.startswith(PACKAGE) else None
    return found or root / name


def tidy(text: str) -> str:
    """Compose Hangul and make every run of white space one space.

    >>> tidy(" 배가  아프다 ")
    '배가 아프다'
    """
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_plain(source: str, target: str) -> bool:
    """Whether a pair is two sentences: letters on the target side, little mark-up, no stub.

    >>> is_plain("Save the file.", "파일을 저장합니다."), is_plain("%s of %d", "%d 중 %s")
    (True, False)
    """
    same = set(source.split())  # names and code are left as they are, and say nothing here
    letters = sum(map(str.isalpha, "".join(w for w in target.split() if w not in same)))
    whole = len(target) >= _SHORTEST * len(source)
    return letters >= _FEWEST_LETTERS and whole and len(_MARKUP.findall(source)) <= 1


def choose(entry: Parallel | Text, pairs: list[Pair], *, seed: int) -> list[Pair]:
    """Keep what the distillation reads of an entry's pairs: within its words, plain, `limit`.

    A text counts as a pair of itself. Neighbours are joined last, before the limit.
    """
    if entry.words is not None:
        least, most = entry.words
        pairs = [pair for pair in pairs if least <= len(pair[0].split()) <= most]
    if isinstance(entry, Parallel) and entry.plain:
        pairs = [pair for pair in pairs if is_plain(*pair)]
    if entry.join is not None:
        pairs = join_rows(pairs, entry.join, random.Random(f"{seed} {entry.title} join"))
    if entry.limit and len(pairs) > entry.limit:
        # A text as seed: the draw depends on the entry, and not on those before it.
        pairs = random.Random(f"{seed} {entry.title}").sample(pairs, entry.limit)
    if not pairs:
        raise DataError(
            f"{', '.join(entry.files)} have no pair within words and plain; expected some. "
            "Loosen the two in the recipe."
        )
    return pairs


def join_rows(pairs: list[Pair], span: tuple[int, int], rng: random.Random) -> list[Pair]:
    """Join neighbouring rows, from `span` [fewest, most] at a time, on both sides.

    >>> join_rows([("a", "가"), ("b", "나"), ("c", "다")], (2, 2), random.Random(0))
    [('a b', '가 나')]
    """
    joined, begin = [], 0
    while begin < len(pairs):
        end = begin + rng.randint(*span)
        part = pairs[begin:end]
        if len(part) >= span[0]:
            joined.append((" ".join(s for s, _ in part), " ".join(t for _, t in part)))
        begin = end
    return joined


def without(pairs: list[Pair], held: list[Pair]) -> list[Pair]:
    """Leave out every pair of which a sentence is held out, on either side."""
    sources, targets = {s for s, _ in held}, {t for _, t in held}
    return [pair for pair in pairs if pair[0] not in sources and pair[1] not in targets]


def named_files(recipe: Distillation) -> list[str]:
    """List every file that the recipe names, once."""
    files = [file for entry in (*recipe.parallel, *recipe.text) for file in entry.files]
    files += recipe.held_out.files if recipe.held_out else ()
    return list(dict.fromkeys([*files, *(entry.file for entry in recipe.evaluation)]))


def no_rows(files: Iterable[str]) -> DataError:
    """Say that files give nothing to learn from."""
    return DataError(
        f"{', '.join(files)} give no rows; expected some with text in every column. "
        "Check the files, and where and held_out in the recipe."
    )


@dataclass(frozen=True)
class DistillationData:
    """The texts of a recipe.

    `pairs` are all of an entry's, by its title, and `chosen` those that the distillation reads;
    `held` are in neither. `lines` are those of text in one language, `texts` those of them that
    are distilled on. `hashes` are of every file.
    """

    pairs: dict[str, list[Pair]]
    chosen: dict[str, list[Pair]]
    lines: dict[str, list[str]]
    texts: dict[str, list[str]]
    held: list[Pair]
    measures: list[Measure]
    hashes: dict[str, str]


def read_distillation_data(
    recipe: Distillation, root: Path, *, strict: bool = False
) -> DistillationData:
    """Find and read every file; raises DataError for the first that cannot be used."""
    files = {name: check_file(locate(root, name), name, root) for name in named_files(recipe)}
    reader = TextReader(root, strict)
    held = reader.held(recipe.held_out) if recipe.held_out else []
    pairs = {entry.title: without(reader.parallel(entry), held) for entry in recipe.parallel}
    for entry in recipe.parallel:
        if not pairs[entry.title]:
            raise DataError(
                f"{', '.join(entry.files)} hold nothing but what is held out; expected more. "
                "Lower held_out.pairs, or add files."
            )
    chosen = {
        entry.title: choose(entry, pairs[entry.title], seed=recipe.seed)
        for entry in recipe.parallel
        if entry.weight
    }
    lines = {entry.title: reader.lines(entry) for entry in recipe.text}
    shown = {text for pair in held for text in pair}
    texts = {}
    for text in recipe.text:
        own = [(line, line) for line in dict.fromkeys(lines[text.title]) if line not in shown]
        texts[text.title] = [line for line, _ in choose(text, own, seed=recipe.seed)]
    measures = [read_measure(entry, root, strict=strict) for entry in recipe.evaluation]
    count = sum(map(len, pairs.values()))
    logger.info(
        f"{counted(count, 'sentence pair')}, {sum(map(len, chosen.values())):,} of them to distil "
        f"on, {counted(sum(map(len, texts.values())), 'other text')}, {len(held):,} held out"
    )
    hashes = hash_files(files)
    return DistillationData(pairs, chosen, lines, texts, held, measures, hashes)


class DistilObjective(Objective[Distillation, PreparedData]):
    """A student learns the vectors of its teachers."""

    name = "distil"
    recipe = Distillation
    trainer = "malmoi.train.distil.training"

    def read(self, recipe: Distillation, root: Path, *, strict: bool) -> DistillationData:
        """Read and check the files."""
        return read_distillation_data(recipe, root, strict=strict)

    def prepare(self, recipe: Distillation, root: Path, *, strict: bool = False) -> PreparedData:
        """Read and check everything but the weights."""
        prepared = super().prepare(recipe, root, strict=strict)
        if prepared.source.steps not in (("pool",), ("pool", "normalize")):
            raise OptionError(
                f"base {recipe.base} has a Dense module; expected a transformer and its pooling. "
                "Name another base."
            )
        return prepared


OBJECTIVES = (DistilObjective(),)
