"""Linker: a mention → concepts, ranked, with the names that speak for each.

`retrieve` finds the names that a mention may mean, `rank` scores them; this module joins the two.
"""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from typing import overload

import numpy as np

from ..errors import DataError, OptionError, OutputError
from ..io.fingerprint import read_stamp, write_json
from ..text.cleanup import as_text
from .cache import FOLDER, cache_of
from .expansion import QueryExpander
from .lay_names import add_lay_names
from .lexicon import Lexicon
from .name_index import NameEncoder, open_name_indexes, open_vocabulary
from .normalize import Normalizer, Variants
from .rank import SPELLING, Evidence, FeatureExtractor, RankedConcept, Ranker, Weights
from .retrieve import Retrieved, Retriever
from .segment import SHIPPED

_BATCH = 256  # mentions that are encoded together, and multiplied with all names at once
_NAMES = 3  # how many matched names a candidate shows


@dataclass(frozen=True)
class Candidate:
    """A concept that a mention may mean. `why` is exact, abbreviation, fuzzy or meaning."""

    code: str
    score: float
    ko: str | None
    en: str | None
    names: tuple[str, ...]
    why: str

    def to_json(self) -> dict[str, object]:
        """The candidate as the command line prints it."""
        return {**vars(self), "names": list(self.names)}


@dataclass(frozen=True)
class Linked:
    """A mention and its candidates, best first."""

    mention: str
    candidates: tuple[Candidate, ...]

    @property
    def best(self) -> Candidate | None:
        """The first candidate, None where nothing was found."""
        return self.candidates[0] if self.candidates else None

    def is_nil(self, threshold: float) -> bool:
        """Tell whether no candidate reaches a calibrated score."""
        return self.best is None or self.best.score < threshold

    def to_json(self) -> dict[str, object]:
        """The result as the command line prints it."""
        return {"mention": self.mention, "candidates": [c.to_json() for c in self.candidates]}


class Linker:
    """Links mentions to a lexicon by spelling and, with an encoder, by meaning.

    The first time a lexicon is used its names are indexed and encoded, and both are stored in its
    folder. Several codes for one mention (post-coordination) are not attempted.
    """

    def __init__(
        self,
        lexicon: Lexicon | str | Path,
        encoder: NameEncoder | None = None,
        *,
        weights: Weights | None = None,
        abbreviations: str | Path | None = None,
        variants: str | Path | None = None,
        synonyms: str | Path | None = None,
        rebuild: bool = False,
        keep: bool = True,
        progress: bool = False,
    ) -> None:
        """Open the tables and the index, deriving what is missing.

        weights        how much each feature counts; without an encoder, those for spelling alone
        abbreviations  a table that extends the shipped one
        variants       a table that replaces the shipped one
        synonyms       a table that replaces the shipped one, and the shipped lay names
        rebuild        derive everything again, also where another model's vectors are stored
        keep           store what is derived; without it nothing is written, and any model will do
        progress       show how far encoding is
        """
        self.lexicon = lexicon if isinstance(lexicon, Lexicon) else Lexicon.open(lexicon)
        self.encoder = encoder
        self.weights = weights or (Weights() if encoder is not None else SPELLING)
        self.normalizer = Normalizer(Variants.open(variants))
        cache = cache_of(self.lexicon)
        # The lexicon, and the shipped lay names after its own where its codes are those of ICD.
        self.names = self.lexicon
        if synonyms is None:
            self.names = add_lay_names(self.lexicon, self.normalizer, cache, keep=keep)
        lay_names = self.names is not self.lexicon
        # Names that stand in the index need not be looked up as synonyms.
        self.expander = QueryExpander.open(
            abbreviations=abbreviations, synonyms=synonyms, sample=not lay_names
        )
        how = {"rebuild": rebuild, "keep": keep, "progress": progress}
        self.indexes = open_name_indexes(self.names, self.normalizer, encoder, cache=cache, **how)
        self._retriever = Retriever(
            self.indexes, self.normalizer, self.expander, encoder, lay_names=lay_names
        )
        own = len(self.lexicon.segments)
        self.vocabulary = open_vocabulary(self.names, self.indexes, cache, own=own, keep=keep)
        extractor = FeatureExtractor(self.names, self.indexes, lay_from=len(self.lexicon))
        self._ranker = Ranker(extractor, np.asarray(self.names.concepts), self.weights)
        self._shown = lru_cache(maxsize=20_000)(self._shown_of)
        self._text = lru_cache(maxsize=20_000)(self.names.text)

    # A str is a Sequence[str] too, so the type checker needs to know that the first overload wins.
    @overload
    def link(  # type: ignore[overload-overlap]
        self,
        mentions: str,
        *,
        k: int = ...,
        defined: Mapping[str, str] | None = ...,
        quick: bool = ...,
    ) -> Linked: ...
    @overload
    def link(
        self,
        mentions: Sequence[str],
        *,
        k: int = ...,
        defined: Mapping[str, str] | None = ...,
        quick: bool = ...,
    ) -> list[Linked]: ...
    def link(
        self,
        mentions: str | Sequence[str],
        *,
        k: int = 5,
        defined: Mapping[str, str] | None = None,
        quick: bool = False,
    ) -> Linked | list[Linked]:
        """Rank concepts for a mention, or for each of a list.

        k        candidates of each
        defined  abbreviations that the text around the mentions explains
        quick    where a mention is itself a name, do not look for others that mean the like

        >>> linker.link("고혈압").best.code
        'I10'
        """
        if isinstance(mentions, str):
            return next(self.link_iter([mentions], k=k, defined=defined, quick=quick))
        return list(self.link_iter(mentions, k=k, defined=defined, quick=quick))

    def link_iter(
        self,
        mentions: Iterable[str],
        *,
        k: int = 5,
        defined: Mapping[str, str] | None = None,
        quick: bool = False,
    ) -> Iterator[Linked]:
        """Rank concepts for a stream of mentions, some hundreds at a time; options as in `link`.

        >>> [one.best.code for one in linker.link_iter(["고혈압", "HTN"])]
        ['I10', 'I10']
        """
        check_k(k)
        for text, found in self._retrieve(mentions, defined or {}, quick):
            yield Linked(text, tuple(map(self._candidate, self._ranker.rank(found, k))))

    def evidence(self, mentions: Sequence[str]) -> list[list[Evidence]]:
        """Give the features of each name considered, for choosing weights."""
        return [self._ranker.evidence(found) for _, found in self._retrieve(mentions, {}, False)]

    def _retrieve(
        self, mentions: Iterable[str], defined: Mapping[str, str], quick: bool
    ) -> Iterator[tuple[str, list[Retrieved]]]:
        stream = iter(mentions)
        while batch := list(itertools.islice(stream, _BATCH)):
            texts = [as_text(text, where="mention") for text in batch]
            found = self._retriever.retrieve(texts, defined, quick=quick)
            yield from zip(texts, found, strict=True)

    def _candidate(self, ranked: RankedConcept) -> Candidate:
        code, ko, en = self._shown(ranked.concept)
        names = dict.fromkeys(map(self._text, ranked.rows[: 2 * _NAMES]))
        score = round(ranked.score, 4)
        return Candidate(code, score, ko, en, tuple(names)[:_NAMES], ranked.why)

    def _shown_of(self, concept: int) -> tuple[str, str | None, str | None]:
        return self.lexicon.codes[concept], *self.lexicon.shown(concept)


def check_k(k: int) -> None:
    """Refuse a number of candidates below 1."""
    if k < 1:
        raise OptionError(f"k is {k}; expected 1 or more. Leave it out for 5.")


# Scores are made to be about the chance of being right, so without dev data this is the border.
UNCALIBRATED = 0.5
_FILE = "nil.json"


@dataclass(frozen=True)
class Threshold:
    """A border between answers and NIL, and what it did on the data it was chosen on."""

    score: float
    mentions: int
    accuracy: float  # of the decision: answered and right, or NIL and rightly so
    answered: float  # the share of mentions at or above the border
    model: str = ""


def calibrate(linked: Sequence[Linked], right: Sequence[bool], *, model: str = "") -> Threshold:
    """Choose the border that decides best: keep right first candidates, turn wrong ones to NIL.

    `right` says of each mention whether its first candidate is what it means; a mention that
    means nothing in the lexicon is never right.

    >>> from .linker import Candidate, Linked
    >>> found = [Candidate("A", score, None, None, (), "fuzzy") for score in (0.9, 0.6, 0.2)]
    >>> calibrate([Linked("a", (one,)) for one in found], [True, True, False]).score
    0.4
    """
    if not linked:
        raise DataError("no mention was given; expected dev data to calibrate on. Name a file.")
    scores = np.array([one.best.score if one.best else 0.0 for one in linked])
    truth = np.array(right, bool)
    distinct = np.unique(scores)
    borders = np.concatenate([[0.0], (distinct[1:] + distinct[:-1]) / 2, [1.0]])
    decided = [float(((scores >= border) == truth).mean()) for border in borders]
    # Of equally good borders the middle one, which other data are likeliest to agree with.
    best = np.flatnonzero(np.array(decided) == max(decided))
    border = float(borders[best[len(best) // 2]])
    kept = float((scores >= border).mean())
    return Threshold(round(border, 4), len(linked), max(decided), kept, model)


def save_threshold(threshold: Threshold, lexicon: Path) -> None:
    """Keep a border with its lexicon."""
    folder = lexicon / FOLDER
    if lexicon.parent == SHIPPED:
        raise OutputError(
            f"{lexicon.name} is part of the installation; expected a lexicon of yours. "
            "Copy it with: malmoi lexicon build sample --out NAME.lexicon"
        )
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot write to {lexicon}: {error.strerror}. Copy the lexicon to a folder of yours."
        ) from error
    write_json(folder / _FILE, asdict(threshold), indent=None)


def load_threshold(lexicon: Path | None, *, model: str = "") -> Threshold | None:
    """Give the border kept with a lexicon, None where there is none or another model's."""
    try:
        found = Threshold(**read_stamp((lexicon or Path()) / FOLDER / _FILE))
    except TypeError:  # no such file, or fields of another version
        return None
    return found if found.model == model else None
