"""Hard negatives: texts that are near an anchor and do not mean the same.

Anchors are encoded and searched block by block among the documents, whose vectors are kept as
float16, so that a million of them fit in a gigabyte whatever the number of anchors.
"""

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from ..errors import BundleError, DataError, OptionError, counted
from ..index.knn import RowPairs, nearest
from ..io.files import writing
from ..io.progress import progressing
from ..runtime.pooling import normalize
from ..text.cleanup import compose, squeeze
from ..types import Floats

logger = logging.getLogger(__name__)

Pick = Literal["nearest", "random"]

_ENCODED_AT_ONCE = 8192
_ANCHORS_AT_ONCE = 1024


class SupportsEncode(Protocol):
    """Anything that turns texts into vectors (n, dim)."""

    def encode(self, texts: list[str], /) -> Any:
        """One vector per text."""


@dataclass(frozen=True, slots=True)
class Triplet:
    """An anchor, a text that means the same and one that does not, with their cosines.

    `rank` is the negative's rank among all texts that may be one, from 1.
    """

    anchor: str
    positive: str
    negative: str
    positive_score: float
    negative_score: float
    rank: int


@dataclass(frozen=True)
class NegativeChoice:
    """Which of the nearest texts are taken as negatives.

    Attributes:
        count: negatives per pair.
        first: the first rank to choose from.
        last: the last rank to choose from.
        margin: how far below the positive's cosine a negative must be; nearer texts may well be
            unmarked positives. None for no limit.
        relative_margin: the same, as a share of the positive's cosine.
        pick: "nearest" of those that remain, or "random" ones.
    """

    count: int = 1
    first: int = 1
    last: int = 50
    margin: float | None = None
    relative_margin: float | None = 0.05
    pick: Pick = "nearest"
    seed: int = 0

    def __post_init__(self) -> None:
        if self.count < 1 or not 1 <= self.first <= self.last:
            raise OptionError(
                f"count is {self.count} and the ranks are {self.first} to {self.last}; expected "
                "count 1 or more, first 1 or more, and last not below first."
            )
        for name, value in (("margin", self.margin), ("relative_margin", self.relative_margin)):
            if value is not None and not math.isfinite(value):
                raise OptionError(f"{name} is {value}; expected a finite number, as 0.05.")
        if self.pick not in ("nearest", "random"):
            raise OptionError(f'pick is {self.pick!r}; known are "nearest" and "random".')

    def most(self, positive: float) -> float:
        """The highest score that a negative may have, given the positive's."""
        bounds = [math.inf]
        if self.margin is not None:
            bounds.append(positive - self.margin)
        if self.relative_margin is not None:
            bounds.append(positive - abs(positive) * self.relative_margin)
        return min(bounds)


class _Anchor(NamedTuple):
    """A distinct anchor with the rows of its positives among the documents, maybe repeated."""

    text: str
    positives: list[int]


@dataclass(frozen=True)
class _Pool:
    """The distinct anchors, and the distinct documents to choose negatives from."""

    documents: list[str]
    anchors: list[_Anchor]
    rows: dict[bytes, int]  # a text's key → its row among the documents

    def excluded(self, block: Sequence[_Anchor]) -> RowPairs:
        """The documents that are not negatives of these anchors: their positives and themselves."""
        found: set[tuple[int, int]] = set()
        for i, anchor in enumerate(block):
            found |= {(i, row) for row in anchor.positives}
            own = self.rows.get(_key(anchor.text))
            found |= {(i, own)} if own is not None else set()
        columns = np.array(sorted(found), dtype=np.int64).reshape(-1, 2)
        return RowPairs(columns[:, 0], columns[:, 1])


def mine_negatives(
    encoder: SupportsEncode,
    pairs: Iterable[tuple[str, str]],
    *,
    documents: Iterable[str] = (),
    choice: NegativeChoice | None = None,
    progress: bool = False,
) -> Iterator[Triplet]:
    """Yield hard negatives for pairs of an anchor and a positive.

    Negatives come from all positives and from `documents`. A text that equals the anchor or one
    of its positives, except for case and spacing, is never its negative. The number of pairs
    without a negative is logged.
    """
    choice = choice or NegativeChoice()
    pool = _gather(pairs, documents)
    vectors = _encode_all(encoder, pool.documents, progress)
    random = np.random.default_rng(choice.seed)
    lacking = total = 0
    with progressing("mining", total=len(pool.anchors), shown=progress) as advance:
        for start in range(0, len(pool.anchors), _ANCHORS_AT_ONCE):
            block = pool.anchors[start : start + _ANCHORS_AT_ONCE]
            anchors = _encode(encoder, [anchor.text for anchor in block])
            for found in nearest(anchors, vectors, choice.last, without=pool.excluded(block)):
                for i, (rows, scores) in enumerate(zip(found.rows, found.scores, strict=True)):
                    anchor, vector = block[found.start + i], anchors[found.start + i]
                    own = vectors[anchor.positives].astype(np.float32) @ vector
                    positives = dict(zip(anchor.positives, own.tolist(), strict=True))
                    hits = list(zip(rows[rows >= 0].tolist(), scores.tolist(), strict=False))
                    for triplets in _choose(anchor, positives, hits, pool, choice, random):
                        total, lacking = total + 1, lacking + (not triplets)
                        yield from triplets
            advance(len(block))
    if lacking:
        logger.info(
            f"{lacking:,} of {counted(total, 'pair')} found no negative at ranks {choice.first} to "
            f"{choice.last} below the margin; a smaller margin or a higher last rank finds more"
        )


def _gather(pairs: Iterable[tuple[str, str]], documents: Iterable[str]) -> _Pool:
    """Number the distinct documents, and collect the positives of each distinct anchor."""
    rows: dict[bytes, int] = {}
    texts: list[str] = []
    anchors: dict[bytes, _Anchor] = {}

    def number(text: str) -> int:
        row = rows.setdefault(_key(text), len(texts))
        if row == len(texts):
            texts.append(text)
        return row

    for anchor, positive in pairs:
        found = anchors.setdefault(_key(anchor), _Anchor(anchor, []))
        found.positives.append(number(positive))
    for text in documents:
        number(text)
    if not anchors or len(texts) < 2:
        raise DataError(
            f"found {counted(len(anchors), 'anchor')} and {counted(len(texts), 'distinct text')} "
            "to choose from; expected one anchor and two texts or more. Add some to the file."
        )
    return _Pool(texts, list(anchors.values()), rows)


def _key(text: str) -> bytes:
    """A hash that ignores case and spacing; short, because there are millions."""
    plain = squeeze(compose(text)).casefold()
    return hashlib.blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=12).digest()


def _encode(encoder: SupportsEncode, texts: list[str]) -> Floats:
    vectors: Floats = normalize(np.asarray(encoder.encode(texts), dtype=np.float32))
    if not np.isfinite(vectors).all():
        raise BundleError(
            "the encoder gave vectors that are not finite; expected numbers. "
            "Export the model again with: malmoi model export"
        )
    return vectors


def _encode_all(
    encoder: SupportsEncode, texts: Sequence[str], progress: bool
) -> NDArray[np.float16]:
    """Encode block by block into float16 (n, dim): half the memory, cosines exact to 0.001."""
    vectors: NDArray[np.float16] | None = None
    with progressing("encoding", total=len(texts), shown=progress) as advance:
        for start in range(0, len(texts), _ENCODED_AT_ONCE):
            block = _encode(encoder, list(texts[start : start + _ENCODED_AT_ONCE]))
            if vectors is None:
                vectors = np.empty((len(texts), block.shape[1]), dtype=np.float16)
            vectors[start : start + len(block)] = block
            advance(len(block))
    assert vectors is not None  # _gather gives two documents or more
    return vectors


def _choose(
    anchor: _Anchor,
    positives: Mapping[int, float],
    hits: Sequence[tuple[int, float]],
    pool: _Pool,
    choice: NegativeChoice,
    random: np.random.Generator,
) -> Iterator[list[Triplet]]:
    """Yield each positive's triplets, an empty list where no document is below the margin."""
    for positive, score in positives.items():
        most = choice.most(score)
        fit = [i for i in range(choice.first - 1, len(hits)) if hits[i][1] <= most]
        if choice.pick == "random" and len(fit) > choice.count:
            fit = sorted(random.choice(fit, size=choice.count, replace=False).tolist())
        yield [
            Triplet(
                anchor=anchor.text,
                positive=pool.documents[positive],
                negative=pool.documents[hits[i][0]],
                positive_score=round(score, 4),
                negative_score=round(hits[i][1], 4),
                rank=i + 1,
            )
            for i in fit[: choice.count]
        ]


def write_triplets(path: str | Path, triplets: Iterable[Triplet]) -> int:
    """Write triplets as .tsv or .jsonl, as they come; returns how many there were.

    In a .tsv, tabs and line ends inside a text become spaces.
    """
    path = Path(path)
    if path.suffix not in (".tsv", ".jsonl"):
        raise OptionError(
            f"{path.name} ends in {path.suffix or 'nothing'}; known are .tsv and .jsonl. "
            "Choose one of these endings."
        )
    count = 0
    with writing(path) as file:
        if path.suffix == ".tsv":
            file.write(("\t".join(Triplet.__dataclass_fields__) + "\n").encode())
        for triplet in triplets:
            row = asdict(triplet)
            line = (
                json.dumps(row, ensure_ascii=False)
                if path.suffix == ".jsonl"
                else "\t".join(squeeze(str(value)) for value in row.values())
            )
            file.write(line.encode("utf-8", "replace") + b"\n")
            count += 1
    return count
