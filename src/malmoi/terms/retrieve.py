"""The first stage of linking: a mention → the names that it may mean.

Names are found in three ways: by an equal normal form (exact), by character n-grams in common, and
by the nearest vectors. A mention is looked up as it stands and under each of its expansions.
"""

from collections.abc import Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from ..runtime.pooling import normalize
from ..text.cleanup import mend_surrogates
from ..types import Floats
from .expansion import Expansion, QueryExpander
from .name_index import PLAIN, NameEncoder, NameIndex, highest
from .ngram_index import Counted
from .normalize import LONGEST, NormalForms, Normalizer

NGRAM_NAMES = 64  # names that n-grams contribute
VECTOR_NAMES = 40  # names that vectors contribute
_NO_ROWS = np.empty(0, np.int64)


@dataclass(frozen=True)
class Query:
    """One expansion of a mention, ready to be looked up."""

    expansion: Expansion
    forms: NormalForms
    exact: Mapping[int, AbstractSet[int]]  # names of an equal form, and the levels of the match
    vector: Floats | None  # (dim,), of unit length; None where only spelling counts

    @property
    def names(self) -> set[int]:
        """The names of the lexicon that the text is as it stands."""
        return {row for row, levels in self.exact.items() if PLAIN in levels}


@dataclass(frozen=True)
class Retrieved:
    """The names to be considered for a query, by number, with what the search found out."""

    query: Query
    rows: NDArray[np.int64]  # (names,), ascending
    ngrams: Floats  # (names,), cosines of the n-grams
    cosines: Floats | None  # (names,), cosines of the vectors


class Retriever:
    """Finds names in all segments of a lexicon."""

    def __init__(
        self,
        indexes: Sequence[NameIndex],
        normalizer: Normalizer,
        expander: QueryExpander,
        encoder: NameEncoder | None,
        *,
        lay_names: bool,
    ) -> None:
        """Take the index of each segment; `lay_names` says that the last one is of lay names."""
        self._indexes, self._normalizer, self._expander = indexes, normalizer, expander
        self._encoder, self._lay_names = encoder, lay_names
        self._starts = np.cumsum([0, *(len(index.segment) for index in indexes)])

    def retrieve(
        self, mentions: Sequence[str], defined: Mapping[str, str], *, quick: bool = False
    ) -> Iterator[list[Retrieved]]:
        """Give what was found for each mention, the mention as it stands before its expansions.

        All are encoded together, and multiplied with all names at once. A mention without letters
        gives an empty list. `defined` are abbreviations that the text around them explains. With
        `quick` no neighbours by meaning are looked for where a mention is itself a name.
        """
        expanded = [self._expand(mention, defined) for mention in mentions]
        every = [one for found in expanded for one in found]
        forms = [self._normalizer.form(one.text) for one in every]
        exact = [self._exact(form) for form in forms]
        vectors = self._vectors([one.text for one in every], exact)
        near = [_NO_ROWS] * len(every)
        names = [quick and any(PLAIN in levels for levels in one.values()) for one in exact]
        wanted = [] if vectors is None else [i for i, is_name in enumerate(names) if not is_name]
        if vectors is not None and wanted:
            for i, rows in zip(wanted, self._nearest(vectors[wanted]), strict=True):
                near[i] = rows
        one_each = [None] * len(every) if vectors is None else vectors
        queries = map(Query, every, forms, exact, one_each)
        found = map(self._retrieve, queries, near)
        for own in expanded:
            yield list(islice(found, len(own)))

    def _expand(self, mention: str, defined: Mapping[str, str]) -> list[Expansion]:
        text = mend_surrogates(mention[: 4 * LONGEST])
        form = self._normalizer.form(text)
        if not form.plain:
            return []  # empty, or only punctuation: nothing to look for
        if self._lay_names and text not in defined:
            matches = self._indexes[-1].spelling.find(form.key)
            if any(level == PLAIN for _, level in matches):
                return [Expansion(text, "mention")]  # its code is known, whatever else it may mean
        return self._expander.expand(text, defined)

    def _exact(self, form: NormalForms) -> dict[int, set[int]]:
        """Give the names whose keys equal a form's, each with the levels at which they do."""
        found: dict[int, set[int]] = {}
        # Not a set: its order would differ between processes, and with it whose vector is taken.
        for key in dict.fromkeys((form.key, form.core_key, form.bag)):
            if not key:
                continue
            for start, index in zip(self._starts.tolist(), self._indexes, strict=False):
                for row, level in index.spelling.find(key):
                    # A plain form equals a plain form; a core may equal either of the others.
                    if level != PLAIN or key == form.key:
                        found.setdefault(start + row, set()).add(level)
        return found

    def _vectors(
        self, texts: Sequence[str], exact: Sequence[Mapping[int, AbstractSet[int]]]
    ) -> Floats | None:
        """Encode texts; one that is a name of the lexicon has a vector there already."""
        if self._encoder is None or not texts:
            return None
        known = [min((row for row in one if PLAIN in one[row]), default=None) for one in exact]
        unknown = [text[:LONGEST] for text, row in zip(texts, known, strict=True) if row is None]
        encoded = iter(np.asarray(self._encoder.encode(unknown), np.float32) if unknown else ())
        found = [next(encoded) if row is None else self._vector(row) for row in known]
        return normalize(np.stack(found))  # (n, dim)

    def _vector(self, row: int) -> Floats:
        part = int(np.searchsorted(self._starts, row, "right")) - 1
        vectors = self._indexes[part].vectors
        assert vectors is not None
        return vectors.unit(row - int(self._starts[part]))

    def _nearest(self, vectors: Floats) -> list[NDArray[np.int64]]:
        """Give the names nearest to each vector, in any order."""
        rows, scores = [], []
        for start, index in zip(self._starts, self._indexes, strict=False):
            if index.vectors is not None:
                found, products = index.vectors.nearest(vectors, VECTOR_NAMES)
                rows.append(start + found)
                scores.append(products)
        top = highest(np.concatenate(scores, axis=1), VECTOR_NAMES)
        return list(np.take_along_axis(np.concatenate(rows, axis=1), top, axis=1))

    def _retrieve(self, query: Query, near: NDArray[np.int64]) -> Retrieved:
        """Join the names of all three ways; each is scored by its n-grams and its vector."""
        counted = Counted.of(query.forms.core)
        also = np.concatenate([near, np.fromiter(query.exact, np.int64, len(query.exact))])
        rows, ngrams, cosines = [], [], []
        for start, end, index in zip(self._starts, self._starts[1:], self._indexes, strict=False):
            inside = also[(also >= start) & (also < end)] - start
            found, scores = index.spelling.grams.find(counted, NGRAM_NAMES, inside)
            rows.append(found + start)
            ngrams.append(scores)
            if query.vector is not None and index.vectors is not None:
                cosines.append(index.vectors.cosines(query.vector, found))
        scored = np.concatenate(cosines) if cosines else None
        return Retrieved(query, np.concatenate(rows), np.concatenate(ngrams), scored)
