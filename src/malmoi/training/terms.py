"""Term files → pairs of names of one concept, with what each concept is confused with.

A file has a name and a concept in every row; names of one concept are synonyms, and at most so
many pairs are drawn of each. A file of strict pairs (`synonym` is a column too) makes every row
a meaning of its own: an inclusion term is narrower than its code, and no other name of it. In a
file of pairs with a label (sent0, sent1, label) the label joins rows. Without columns a file is one
of these pairs, a lexicon, or any table that `malmoi lexicon build` reads: KOSTOM, MRCONSO, KCD.
A concept is confused with what its exclusions name, with its siblings, and with mined neighbours.
"""

import logging
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import DataError, OptionError, by_number, counted
from ..evaluation.tasks.concepts import is_held_out
from ..io.files import read_lines
from ..terms.export import PAIR_COLUMNS, draw, synonyms
from ..text.cleanup import compose, squeeze
from .data import Found, file_rows
from .objectives.pairs import Data, Negatives, TrainingExamples, entry_rows, find_pairs
from .sampler import BatchClusters

logger = logging.getLogger(__name__)

# "결핵성 장염(A18.31†)", "Listeriosis (A32.-)": the code that an exclusion sends its reader to.
_CODE = re.compile(r"\(([^()]+)\)\s*$")
# Beyond so many siblings a code says little: all of a chapter would be.
_MOST_SIBLINGS = 40


def fold(name: str) -> str:
    """Give what two spellings of one name have in common, before any model sees them.

    >>> fold("  Liver   CIRRHOSIS ")
    'liver cirrhosis'
    """
    return squeeze(compose(name)).strip().casefold()


@dataclass(frozen=True, slots=True)
class Pair:
    """Two names of one meaning, and the concept they belong to."""

    a: str
    b: str
    meaning: str
    concept: str


@dataclass(frozen=True)
class Confusable:
    """What each concept is confused with, in the order of the concepts, `added` ones last.

    `loners` are names without a concept: given as confusable, and known under no
    concept.
    """

    confused_with: list[list[str]]
    added: list[str]
    loners: list[Pair]

    def with_siblings(self, concepts: Sequence[str], length: int) -> "Confusable":
        """Add the concepts whose codes begin with the same `length` letters; none for 0."""
        if not length:
            return self
        families: dict[str, list[str]] = defaultdict(list)
        for concept in concepts:
            families[concept[:length]].append(concept)
        confused_with = [list(others) for others in self.confused_with]
        for i, concept in enumerate(concepts):
            family = families[concept[:length]]
            if len(family) <= _MOST_SIBLINGS:
                known = {concept, *confused_with[i]}
                confused_with[i] += [other for other in family if other not in known]
        return Confusable(confused_with, self.added, self.loners)


def read_confusable(
    entry: Data, root: Path, names: Mapping[str, str], concepts: Sequence[str], *, strict: bool
) -> Confusable:
    """Read the negatives of an entry; each side of a row is a concept or a name of one."""
    known = set(concepts)
    confused_with: dict[str, dict[str, None]] = {concept: {} for concept in concepts}
    loners: dict[str, Pair] = {}
    for negatives in entry.negatives:
        for left, right in _pairs(negatives, root, strict):
            a, b = (resolve(side, known, names, fold(side)) for side in (left, right))
            if a is None or a == b:
                continue
            if b is None:
                text = without_code(right)
                b = f"\0{fold(text)}"  # no code of a table starts so
                loners.setdefault(b, Pair(text, text, b, b))
                confused_with.setdefault(b, {})
            confused_with[a][b] = confused_with[b][a] = None
    listed = [list(others) for others in confused_with.values()]
    return Confusable(listed, list(loners), list(loners.values()))


def _pairs(negatives: Negatives, root: Path, strict: bool) -> Iterator[tuple[str, str]]:
    columns = negatives.columns
    for file in negatives.files:
        for *_, row in file_rows(root / file, columns, negatives.where, {}, strict):
            yield row[columns["a"]], row[columns["b"]]


def resolve(text: str, concepts: set[str], names: Mapping[str, str], folded: str) -> str | None:
    """Find the concept that a cell means: itself, a name of it, or a code in brackets at the end.

    >>> resolve("장외예르시니아증(A28.2)", {"A28.2"}, {}, "")
    'A28.2'
    >>> resolve("Listeriosis (A32.-)", {"A32"}, {}, "")
    'A32'
    """
    if text in concepts:
        return text
    if folded in names:
        return names[folded]
    bracket = _CODE.search(text)
    for part in re.split(r"[,\s]+", bracket[1]) if bracket else ():
        for code in (part.rstrip("†*+"), part.split("-")[0].rstrip(".†*+")):
            if code in concepts:
                return code
    return None


def without_code(text: str) -> str:
    """Leave out the code at the end of an exclusion.

    >>> without_code("유해음식물에 의한 독성효과(T61-T62)")
    '유해음식물에 의한 독성효과'
    """
    shorter = squeeze(compose(_CODE.sub("", text))).strip()
    return shorter or text


class _Numbers(dict[str, int]):
    """Texts → numbers from 0, in the order they come."""

    def of(self, text: str) -> int:
        return self.setdefault(text, len(self))


def read_synonyms(entry: Data, root: Path, *, seed: int, strict: bool) -> TrainingExamples:
    """Read the files of an entry with the objective term-alignment."""
    options = find_pairs(entry.objective).settle(entry.options, where="the recipe")
    entry, found_rows = _term_rows(entry, root, strict)
    rows = _kept(entry, found_rows)
    concepts = _Numbers()
    for *_, row in rows:
        concepts.of(row[entry.columns["concept"]])
    if "synonym" in entry.columns:
        joined = tuple(entry.columns.values()) == PAIR_COLUMNS
        pairs = _strict_pairs(entry, rows, options["pairs"] if joined else 0)
    else:
        pairs = _drawn_pairs(entry, rows, options["pairs"], seed)
    if not pairs:
        raise DataError(
            f"{', '.join(entry.files)} have no concept with two names; expected some, for a name "
            "is learnt from another. Check the columns in the recipe."
        )
    found = read_confusable(entry, root, names_of(pairs), list(concepts), strict=strict)
    confusable = found.with_siblings(list(concepts), options["siblings"])
    count = len({pair.concept for pair in pairs})
    logger.info(
        f"{counted(len(pairs), 'pair')} of {counted(count, 'concept')}; "
        f"{sum(map(bool, confusable.confused_with)):,} have others that they are confused with"
    )
    return _examples(
        [*pairs, *confusable.loners], [*concepts, *confusable.added], confusable, options
    )


def names_of(pairs: Sequence[Pair]) -> dict[str, str]:
    """Map every name, folded, to the first concept that has it."""
    found: dict[str, str] = {}
    for pair in pairs:
        for name in (pair.a, pair.b):
            found.setdefault(fold(name), pair.concept)
    return found


def _kept(entry: Data, rows: list[Found]) -> list[Found]:
    """Leave out the concepts that are held out."""
    if not entry.hold_out:
        return rows
    column = entry.columns["concept"]
    kept = [row for row in rows if not is_held_out(row[2][column], entry.hold_out)]
    left = len(rows) - len(kept)
    are = by_number(left, "is", "are")
    logger.info(f"{left:,} of {counted(len(rows), 'row')} {are} of concepts that are held out")
    return kept


def _term_rows(entry: Data, root: Path, strict: bool) -> tuple[Data, list[Found]]:
    """Read an entry's rows by its columns, or by the form of its files where it has none."""
    if entry.columns:
        return entry, list(entry_rows(entry, root, entry.columns, {}, strict))
    forms = {_is_pairs(root / file) for file in entry.files}
    if len(forms) > 1:
        raise DataError(
            f"{', '.join(entry.files)} are of different forms; expected all pairs (sent0, sent1, "
            "label), or all tables of codes. Put them into two [[data]]."
        )
    if forms == {True}:
        columns = dict(zip(("name", "synonym", "concept"), PAIR_COLUMNS, strict=True))
        entry = entry.model_copy(update={"columns": columns})
        return entry, list(entry_rows(entry, root, columns, {}, strict))
    chosen = [name for name in ("where", "without", "held_out") if getattr(entry, name)]
    if chosen:
        raise OptionError(
            f"{', '.join(entry.files)} are read by their form, which {chosen[0]} cannot choose "
            "rows of; expected columns. Export the names: malmoi lexicon export FILE --names"
        )
    entry = entry.model_copy(update={"columns": {"name": "name", "concept": "code"}})
    rows = [
        (file, line, {"name": name, "code": code})
        for file in entry.files
        for line, code, name in synonyms(root / file)
        if name
    ]
    return entry, rows[: entry.limit or None]


def _is_pairs(path: Path) -> bool:
    """Whether a file's header is that of pairs with a label."""
    if path.is_dir() or path.suffix.lower() not in (".tsv", ".txt", ".csv"):
        return False
    first = next(read_lines(path, mixed=True), "")
    return [cell.strip() for cell in re.split("[\t,]", first)] == list(PAIR_COLUMNS)


def _strict_pairs(entry: Data, rows: Sequence[Found], most: int) -> list[Pair]:
    """Take every row as a pair; with `most`, rows of one concept are one meaning, so many of it."""
    columns, seen = entry.columns, set()
    pairs: list[Pair] = []
    taken: Counter[str] = Counter()
    for *_, row in rows:
        a, b, concept = (row[columns[name]] for name in ("name", "synonym", "concept"))
        key = (fold(a), fold(b), concept)
        if key[0] == key[1] or key in seen:
            continue
        seen.add(key)
        taken[concept] += 1
        if not most or taken[concept] <= most:
            pairs.append(Pair(a, b, concept if most else f"{len(pairs)}", concept))
    return pairs


def _drawn_pairs(entry: Data, rows: Sequence[Found], most: int, seed: int) -> list[Pair]:
    names: dict[str, dict[str, str]] = {}
    for *_, row in rows:
        name, concept = row[entry.columns["name"]], row[entry.columns["concept"]]
        names.setdefault(concept, {}).setdefault(fold(name), name)
    return [
        Pair(a, b, concept, concept)
        for concept, group in names.items()
        for a, b in draw(list(group.values()), most, concept, seed)
    ]


def _examples(
    pairs: Sequence[Pair],
    concepts: Sequence[str],
    confusable: Confusable,
    options: Mapping[str, Any],
) -> TrainingExamples:
    texts, folded, meanings = _Numbers(), _Numbers(), _Numbers()
    number = {concept: i for i, concept in enumerate(concepts)}
    columns = np.array([[texts.of(pair.a), texts.of(pair.b)] for pair in pairs], dtype=np.int32)
    names = [[folded.of(fold(pair.a)), folded.of(fold(pair.b))] for pair in pairs]
    # A meaning and its concept together: row 3 of a strict file is not the code "3".
    labels = [meanings.of(f"{pair.concept}\0{pair.meaning}") for pair in pairs]
    clusters = BatchClusters(
        labels=np.array(labels, dtype=np.int64),
        concepts=np.array([number[pair.concept] for pair in pairs], dtype=np.int64),
        names=np.array(names, dtype=np.int64),
        confused_with=[[number[one] for one in others] for others in confusable.confused_with],
        together=options["together"],
        neighbours=options["neighbours"],
    )
    return TrainingExamples(list(texts), columns, clusters.labels, (), clusters)
