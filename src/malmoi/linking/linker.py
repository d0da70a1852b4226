"""Linker: a mention → concepts, ranked, with the names that speak for each and why."""

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import overload

import numpy as np
from numpy.typing import NDArray

from ..errors import OptionError
from ..lexicon import Lexicon
from ..runtime.pooling import normalize
from ..text.cleanup import as_text, mend_surrogates
from ..types import Floats
from .cache import cache_of
from .expansion import Expansion, QueryExpander
from .features import AT, SPELLING, VECTORS_FIRST, Evidence, FeatureExtractor, Query, Weights
from .lay_names import add_lay_names
from .name_index import PLAIN, NameEncoder, highest, open_name_indexes
from .normalize import LONGEST, NormalForms, Normalizer, Variants

_BATCH = 256  # encoded together, and multiplied with all names at once
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
        return {
            "code": self.code,
            "score": self.score,
            "ko": self.ko,
            "en": self.en,
            "names": list(self.names),
            "why": self.why,
        }


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

    The first time a lexicon is used its names are indexed and encoded, and both are kept beside
    it; `keep=False` writes nothing, and then any model will do. `abbreviations` names a
    table that extends the shipped one, `variants` and `synonyms` tables that replace theirs.
    Post-coordination (several codes for one mention) is not attempted.
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
        """Open the tables and the index, deriving what is missing."""
        self.lexicon = lexicon if isinstance(lexicon, Lexicon) else Lexicon.open(lexicon)
        self.encoder = encoder
        self.weights = weights or (Weights() if encoder is not None else SPELLING)
        self.normal = Normalizer(Variants.open(variants))
        place = cache_of(self.lexicon)
        both = self.lexicon
        if synonyms is None:
            both = add_lay_names(self.lexicon, self.normal, place, keep=keep)
        # Names that stand in the index need not be asked for one by one.
        self.reader = QueryExpander.open(
            abbreviations=abbreviations, synonyms=synonyms, sample=both is self.lexicon
        )
        shelves = open_name_indexes(
            both, self.normal, encoder, place=place, rebuild=rebuild, keep=keep, progress=progress
        )
        self.names = both  # the lexicon, with names of the shipped tables where its codes are ICD's
        self._gatherer = FeatureExtractor(both, shelves, own=len(self.lexicon))
        self.shelves = shelves
        self._concepts = np.asarray(both.concepts)
        self._array = self.weights.array()
        self._shown = lru_cache(maxsize=20_000)(self._shown_of)
        self._text = lru_cache(maxsize=20_000)(self.names.text)

    # A str is a Sequence[str] to the type checker, so the first overload must be told to win.
    @overload
    def link(  # type: ignore[overload-overlap]
        self, mentions: str, *, k: int = ..., defined: Mapping[str, str] | None = ...
    ) -> Linked: ...
    @overload
    def link(
        self, mentions: Sequence[str], *, k: int = ..., defined: Mapping[str, str] | None = ...
    ) -> list[Linked]: ...
    def link(
        self,
        mentions: str | Sequence[str],
        *,
        k: int = 5,
        defined: Mapping[str, str] | None = None,
    ) -> Linked | list[Linked]:
        """Rank concepts for a mention, or for each of a list.

        `defined` holds abbreviations that the text around the mentions explains.
        """
        if isinstance(mentions, str):
            return next(self.link_iter([mentions], k=k, defined=defined))
        return list(self.link_iter(mentions, k=k, defined=defined))

    def link_iter(
        self, mentions: Iterable[str], *, k: int = 5, defined: Mapping[str, str] | None = None
    ) -> Iterator[Linked]:
        """Rank concepts for a stream of mentions, some hundreds at a time."""
        if k < 1:
            raise OptionError(f"k is {k}; expected 1 or more. Leave it out for 5.")
        for batch in self._batches(mentions, defined or {}):
            for text, found in zip(batch.texts, self._evidence(batch), strict=True):
                yield Linked(text, self._candidates(found, k))

    def evidence(self, mentions: Sequence[str]) -> list[list[Evidence]]:
        """Give all that speaks for each name considered, for choosing weights."""
        return [found for batch in self._batches(mentions, {}) for found in self._evidence(batch)]

    def _batches(self, mentions: Iterable[str], defined: Mapping[str, str]) -> Iterator["_Batch"]:
        stream = iter(mentions)
        while batch := list(itertools.islice(stream, _BATCH)):
            yield self._prepare(batch, defined)

    def _prepare(self, batch: list[str], defined: Mapping[str, str]) -> "_Batch":
        texts = [as_text(text, where="mention") for text in batch]
        readings = [self._readings(text, defined) for text in texts]
        forms = [self.normal.form(reading.text) for found in readings for reading in found]
        exact = [self._gatherer.exact(form) for form in forms]
        vectors = self._vectors([r.text for found in readings for r in found], exact)
        return _Batch(texts, readings, forms, exact, vectors, self._near(vectors))

    def _evidence(self, batch: "_Batch") -> Iterator[list[Evidence]]:
        at = 0
        for readings in batch.readings:
            gathered = []
            for reading in readings:
                vector = None if batch.vectors is None else batch.vectors[at]
                asked = Query(reading, batch.forms[at], vector, batch.exact[at])
                gathered.append(self._gatherer.gather(asked, batch.near[at], self._array))
                at += 1
            _trust_exact(gathered)
            yield gathered

    def _readings(self, text: str, defined: Mapping[str, str]) -> list[Expansion]:
        shown = mend_surrogates(text[: 4 * LONGEST])
        form = self.normal.form(shown)
        if not form.plain:
            return []  # empty, or only signs: nothing to look for
        if self._gatherer.is_told(form) and shown not in defined:
            return [Expansion(shown, "mention")]  # its code is known, whatever else it may mean
        return self.reader.readings(shown, defined)

    def _vectors(self, texts: list[str], exact: Sequence[Mapping[int, set[int]]]) -> Floats | None:
        """Encode texts; one that is a name of the lexicon has a vector there already."""
        if self.encoder is None or not texts:
            return None
        known = [next((row for row in one if PLAIN in one[row]), None) for one in exact]
        asked = [text[:LONGEST] for text, row in zip(texts, known, strict=True) if row is None]
        encoded = iter(np.asarray(self.encoder.encode(asked), np.float32) if asked else ())
        found = [next(encoded) if row is None else self._gatherer.vector(row) for row in known]
        return normalize(np.stack(found))

    def _near(self, vectors: Floats | None) -> Sequence[NDArray[np.int64]]:
        if vectors is None:
            return _Nothing()
        rows, scores = [], []
        for start, shelf in zip(self._gatherer.starts, self._gatherer.shelves, strict=False):
            if shelf.vectors is not None:
                found, products = shelf.vectors.nearest(vectors, VECTORS_FIRST)
                rows.append(start + found)
                scores.append(products)
        near, _ = highest(
            np.concatenate(rows, axis=1), np.concatenate(scores, axis=1), VECTORS_FIRST
        )
        return list(near)

    def _candidates(self, found: list[Evidence], k: int) -> tuple[Candidate, ...]:
        if not found:
            return ()
        ranked = rank(found, self._concepts, self._array, most=k)[:k]
        named = set(found[0].rows[found[0].features[:, AT["plain"]] > 0].tolist())
        return tuple(self._candidate(found, one, named) for one in ranked)

    def _candidate(self, found: list[Evidence], one: "RankedConcept", named: set[int]) -> Candidate:
        """Show a concept; `named` are the names that the mention is as it stands."""
        code, ko, en = self._shown(one.concept)
        names = list(dict.fromkeys(self._text(row) for row in one.rows[: 2 * _NAMES]))
        best = found[one.reading]
        at = int(best.rows.searchsorted(one.rows[0]))
        return Candidate(
            code,
            round(self.weights.squash(one.score), 4),
            ko,
            en,
            tuple(names[:_NAMES]),
            why(best.reading, best.features[at]) if named.isdisjoint(one.rows) else "exact",
        )

    def _shown_of(self, concept: int) -> tuple[str, str | None, str | None]:
        return self.lexicon.codes[concept], *self.lexicon.shown(concept)


@dataclass(frozen=True)
class _Batch:
    """Mentions with their readings, and what is known of every reading, one after the other."""

    texts: list[str]
    readings: list[list[Expansion]]
    forms: list[NormalForms]
    exact: list[dict[int, set[int]]]
    vectors: Floats | None
    near: Sequence[NDArray[np.int64]]


@dataclass(frozen=True)
class RankedConcept:
    """A concept's place: its score, the reading that won, its names by score."""

    concept: int
    score: float
    reading: int
    rows: tuple[int, ...]


def rank(
    found: Sequence[Evidence], concepts: NDArray[np.int32], weights: Floats, *, most: int
) -> list[RankedConcept]:
    """Rank up to `most` concepts by their best name under the best reading.

    Of equal scores the earlier name of the lexicon wins.
    """
    rows = np.concatenate([one.rows for one in found])
    scores = np.concatenate([one.features @ weights for one in found])
    owners = np.repeat(np.arange(len(found)), [len(one.rows) for one in found])
    order = np.lexsort((rows, -scores))
    placed: dict[int, tuple[float, int, list[int]]] = {}
    looked = zip(
        concepts[rows[order]].tolist(),
        rows[order].tolist(),
        scores[order].tolist(),
        owners[order].tolist(),
        strict=True,
    )
    for place, (number, row, score, owner) in enumerate(looked):
        if number in placed:
            if row not in placed[number][2]:
                placed[number][2].append(row)
        elif len(placed) < most:
            placed[number] = (score, owner, [row])
        elif place > 8 * most:
            break  # further names say nothing that is shown
    return [
        RankedConcept(n, score, owner, tuple(names)) for n, (score, owner, names) in placed.items()
    ]


def _trust_exact(gathered: Sequence[Evidence]) -> None:
    """Where a mention is itself a name, take back what other readings of it are given ahead.

    "DM" in a lexicon that has that very name is not diabetes. The table of lay names keeps a
    little, for it is there to say what people mean: 당뇨 is diabetes, whatever R81 is called.
    """
    if len(gathered) > 1 and (gathered[0].features[:, AT["plain"]] > 0).any():
        for one in gathered[1:]:
            one.features[:, AT["derived"]] = 0.2 if one.reading.why == "synonym" else -0.5


def why(reading: Expansion, features: Floats) -> str:
    """Say what speaks for a name in one word."""
    exact = any(features[AT[name]] for name in ("plain", "core", "bag"))
    if reading.why == "abbreviation":
        return "abbreviation"
    if reading.why in ("synonym", "sample"):
        return "meaning"
    if exact:
        return "exact" if reading.why == "mention" else "fuzzy"
    spelled = features[AT["letters"]] >= 0.6 or features[AT["gram"]] >= 0.5
    return "fuzzy" if spelled or not features[AT["dense"]] else "meaning"


class _Nothing(Sequence[NDArray[np.int64]]):
    """No near names, for any mention."""

    def __getitem__(self, i: object) -> NDArray[np.int64]:  # type: ignore[override]
        return np.empty(0, np.int64)

    def __len__(self) -> int:
        return 0
