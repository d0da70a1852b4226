"""What a concept is confused with: its exclusions, its siblings, and neighbours that were mined."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...text.cleanup import compose, squeeze
from ..data import file_rows
from ..recipe import Data, Negatives

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
    """Two names of one meaning, and the concept they stand under."""

    a: str
    b: str
    meaning: str
    concept: str


@dataclass(frozen=True)
class Confusable:
    """The look-alikes of each concept, in the order of the concepts, `added` ones last.

    `loners` are names that stand for themselves: told to be no name of a concept, and known
    under no other.
    """

    beside: list[list[str]]
    added: list[str]
    loners: list[Pair]

    def with_siblings(self, concepts: Sequence[str], length: int) -> "Confusable":
        """Add the concepts whose codes begin with the same `length` letters; none for 0."""
        if not length:
            return self
        families: dict[str, list[str]] = defaultdict(list)
        for concept in concepts:
            families[concept[:length]].append(concept)
        beside = [list(others) for others in self.beside]
        for i, concept in enumerate(concepts):
            family = families[concept[:length]]
            if len(family) <= _MOST_SIBLINGS:
                known = {concept, *beside[i]}
                beside[i] += [other for other in family if other not in known]
        return Confusable(beside, self.added, self.loners)


def read_confusable(
    entry: Data, root: Path, names: Mapping[str, str], concepts: Sequence[str], *, strict: bool
) -> Confusable:
    """Read the negatives of an entry; each side of a row is a concept or a name of one."""
    known = set(concepts)
    beside: dict[str, dict[str, None]] = {concept: {} for concept in concepts}
    loners: dict[str, Pair] = {}
    for negatives in entry.negatives:
        for left, right in _pairs(negatives, root, strict):
            a, b = (resolve(side, known, names, fold(side)) for side in (left, right))
            if a is None or a == b:
                continue
            if b is None:
                text = without_code(right)
                b = f"\0{fold(text)}"  # no code of a table begins so
                loners.setdefault(b, Pair(text, text, b, b))
                beside.setdefault(b, {})
            beside[a][b] = beside[b][a] = None
    listed = [list(others) for others in beside.values()]
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
