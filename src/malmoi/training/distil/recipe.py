"""A recipe with `objective = "distil"`, key by key, and its files → texts.

Texts are tidied and distinct, without what is held out. Everything here runs before torch is
imported, so bad data are reported before a model is loaded.
"""

import logging
import random
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal, Self

from pydantic import model_validator as check

from ...errors import DataError, OptionError, counted
from ...io.files import read_lines
from ..data import (
    PACKAGE,
    Check,
    Measure,
    check_file,
    digest,
    file_rows,
    hash_files,
    in_package,
    is_held,
    is_number,
    read_measure,
)
from ..objective import Objective, PreparedData
from ..schema import (
    CLEAN,
    SEED,
    AboveZero,
    Amount,
    BaseRecipe,
    CleanSteps,
    Count,
    Evaluation,
    HeldRows,
    Many,
    Names,
    Output,
    Positive,
    RecipeTable,
    Schedule,
    Seed,
    Share,
    Two,
    check_titles,
    key,
    needed,
    unknown_value,
)

logger = logging.getLogger(__name__)


class HeldPairs(RecipeTable):
    """[held_out]: sentence pairs that no parallel file teaches; they measure the bundle."""

    files: Names = needed("The files, under the data root.")
    source: str = needed("The column in the teacher's language.")
    target: str = needed("The column with its translation.")
    pairs: Positive = key(1000, "How many pairs, those of smallest sha1, no sentence twice.")


class DistilledFiles(RecipeTable):
    """The keys that [[parallel]] and [[text]] share."""

    files: Names = needed("The files, under the data root.", min_length=1)
    name: str = key("", "Its name; the first file's name when left out.")
    words: Two[int] | None = key(None, "Distil only texts (sources) of [fewest, most] words.")
    limit: Count = key(0, "Distil only this many rows, drawn at random; 0 means all.")
    join: Two[int] | None = key(None, "Join runs of [fewest, most] rows into passages.")
    where: dict[str, str] = key({}, "Use only the rows with these values, by column.")
    held_out: HeldRows | None = key(None, "Rows that are left out.")

    @property
    def title(self) -> str:
        """Its name, or its first file's."""
        return self.name or Path(self.files[0]).stem

    @check(mode="after")
    def _spans(self) -> Self:
        for name, span, least in (("join", self.join, 1), ("words", self.words, 0)):
            if span is not None and not least <= span[0] <= span[1]:
                raise OptionError(
                    f"{name} is {list(span)}; expected [fewest, most] from {least} on. Swap them."
                )
        return self


class Parallel(DistilledFiles):
    """[[parallel]]: files of sentences with their translations."""

    source: Names = key(("en",), "Columns in the language that the teacher knows.", min_length=1)
    target: Names = key(("ko",), "Columns with the translations, one for each source column.")
    weight: Amount = key(1.0, "How often a sentence is drawn, next to the other entries.")
    plain: bool = key(False, "Distil no mark-up, placeholders or loose translations.")
    languages: Two[str] = key(("en", "ko"), "The languages of source and target.")

    @check(mode="after")
    def _fits(self) -> Self:
        if len(self.source) != len(self.target):
            raise OptionError(
                f"there are {len(self.source)} source and {len(self.target)} target columns; "
                "expected as many. Name them in pairs."
            )
        return self


class Text(DistilledFiles):
    """[[text]]: text in one language, whose goals are the teachers' vectors of itself."""

    columns: Names = key((), "The columns that are read; without any, the files have one per line.")
    language: str = key("ko", "Its language.")
    weight: Amount = key(1.0, "How often a text is drawn, next to the other entries.")


class TeacherRecipe(RecipeTable):
    """[[teachers]]: one of several models whose vectors are joined into one goal."""

    model: str = needed("A bundle, a folder, package:NAME/PATH, or an ONNX file of strings.")
    weight: AboveZero = key(1.0, "Its share of the goal's similarities.")
    languages: Names = key((), "Those it is trusted for, the best first; all when empty.")
    sides: Literal["first", "mean"] = key(
        "first", "Of a pair: its best language alone, or the mean of both."
    )
    entries: Names = key((), "The [[parallel]] and [[text]] it is trusted for; all when empty.")


class Distil(RecipeTable):
    """[distil]: how long, how fast, and what a step reads."""

    renamed: ClassVar[dict[str, str]] = {"old_rows": "embedding_rate"}

    steps: Count = key(0, "End after this many steps; 0 sets no limit.")
    minutes: Amount = key(0.0, "End after this many minutes; 0 sets no limit.")
    tokens: Positive = key(4096, "Padded tokens in a step.")
    longest: Positive = key(64, "Tokens of a text that are read.")
    source_share: Share = key(0.2, "The share of the steps that read the teacher's own language.")
    contrast: float = key(0.15, "The weight of the in-batch term; 0 for none.")
    temperature: AboveZero = key(0.05, "The temperature of the in-batch term.")
    learning_rate: AboveZero = key(2e-4, "The learning rate of the layers.")
    embedding_rate: Amount = key(1e-4, "The learning rate of the embedding rows.")
    warmup: Share = key(0.05, "The share of the run in which the rates rise.")
    floor: Share = key(0.02, "The share of the rates at the end.")
    weight_decay: Amount = key(0.01, "Weight decay of the layers.")
    clip: AboveZero = key(1.0, "The largest norm of the gradient.")
    average: Share = key(0.998, "The moving average of the weights; 0 for none.")
    evaluate_steps: Count = key(0, "Evaluate every this many steps, keep the best; 0: the end.")

    @check(mode="after")
    def _ends(self) -> Self:
        if not self.steps and not self.minutes:
            raise OptionError("neither steps nor minutes is set; expected one. Add a key.")
        return self


class DistillationOutput(Output):
    """[output]: where the run writes, how often it saves, and the form of the result."""

    cache: str = key("", "A folder for the teacher's vectors that runs may share, one at a time.")


class Distillation(BaseRecipe):
    """A model of one language carried over to another, by the vectors of a teacher."""

    base: str = needed("The student: a transformer with its pooling.")
    parallel: Many[Parallel] = needed("Sentences with their translations.")
    output: DistillationOutput = needed("Where the run writes.")
    distil: Distil = needed("How long and how fast.")
    objective: Literal["distil"] = key("distil", "Chooses this kind of recipe.")
    teacher: str = key("", "Any encoder as wide as the student; the base when left out.")
    teachers: Many[TeacherRecipe] = key((), "Several teachers, joined into one goal.")
    text: Many[Text] = key((), "Text in one language.")
    languages: Names = key((), "The languages, for the card.")
    max_tokens: int | None = key(None, "What the bundle reads; the base's limit when left out.")
    clean: CleanSteps | None = key(None, CLEAN)
    precision: Literal["auto", "float32", "bfloat16"] = key("auto", "Of the layers in training.")
    seed: Seed = key(1, SEED)
    held_out: HeldPairs | None = key(None, "Pairs that measure the bundle.")
    evaluation: Many[Evaluation] = key((), "What measures the student and its bundle.")

    @property
    def schedule(self) -> Schedule:
        """The schedule of the training loop."""
        shared = Distil.model_fields.keys() & Schedule.model_fields.keys()
        found = {name: getattr(self.distil, name) for name in shared}
        return Schedule(**found | {"epochs": 0, "warmup": min(self.distil.warmup, 0.999)})

    @check(mode="after")
    def _fits(self) -> Self:
        if not any(entry.weight for entry in self.parallel):
            raise OptionError("no [[parallel]] has a weight; expected one or more. Add one.")
        if self.teacher and self.teachers:
            raise OptionError("teacher and [[teachers]] are both set; expected one. Remove one.")
        titles = [entry.title for entry in (*self.parallel, *self.text)]
        check_titles(titles, "[[parallel]] or [[text]]")
        check_titles((one.title for one in self.evaluation), "[[evaluation]]")
        for i, one in enumerate(self.teachers):
            check_known(one.entries, titles, f"teachers[{i}].entries")
        self._check_trust()
        return self

    def _check_trust(self) -> None:
        """Raise unless every text that is learnt has a teacher who reads its language."""
        entries: list[Parallel | Text] = [*self.parallel, *self.text]
        for entry in entries:
            known = entry.languages if isinstance(entry, Parallel) else (entry.language,)
            if self.teachers and not any(trusted(one, entry, known) for one in self.teachers):
                raise OptionError(
                    f"no teacher is trusted for {entry.title} in {' or '.join(known)}; expected "
                    "one or more. Add a language to one of [[teachers]], or leave the entry out."
                )


def trusted(
    teacher: TeacherRecipe, entry: Parallel | Text, languages: Iterable[str]
) -> tuple[str, ...]:
    """Give the languages of an entry that a teacher is trusted for, its best first."""
    if teacher.entries and entry.title not in teacher.entries:
        return ()
    own = tuple(languages)
    return tuple(one for one in teacher.languages if one in own) if teacher.languages else own


def check_known(names: Iterable[str], known: list[str], where: str) -> None:
    """Raise an OptionError for the first name that is not known."""
    for name in names:
        if name not in known:
            raise unknown_value(name, known, where)


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
    trainer = "malmoi.training.distil.training"

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
