"""Lexicon: names and concepts, opened by memory map, read-only, grown by segments."""

import bisect
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import LexiconError, counted
from .builder import LexiconBuilder
from .names import KINDS, LANGUAGES, Concept, Exclusion, Name
from .readers import TableSource
from .segment import (
    CodeNumbers,
    LexiconManifest,
    Rows,
    Segment,
    Small,
    find_lexicon,
    open_segments,
    read_exclusions,
)

_KOREAN = [LANGUAGES.index("ko"), LANGUAGES.index("mixed")]
_ENGLISH = [LANGUAGES.index("en")]


class Lexicon:
    """Names and concepts, numbered through all segments in the order they were added.

    Names are rows 0 … n-1, concepts 0 … m-1; both numbers stay what they are when names are
    added, so that whatever was derived from a segment (vectors, an index) stays valid.
    """

    def __init__(
        self, segments: Sequence[Segment], *, manifest: LexiconManifest, folder: Path | None = None
    ) -> None:
        """Join segments; use `open` or `build_lexicon` to get a lexicon."""
        self.segments, self.manifest, self.folder = tuple(segments), manifest, folder
        self._starts = list(accumulate(map(len, self.segments), initial=0))
        counts = [len(segment.codes) for segment in self.segments]
        self.codes = CodeNumbers(self.segments, list(accumulate(counts, initial=0)))

    @classmethod
    def open(cls, path: str | Path, *, additions: Sequence[str | Path] = ()) -> "Lexicon":
        """Open a lexicon's folder, or the shipped "sample"; `additions` are files of your own.

        Additions (tables of any form that `malmoi lexicon build` reads) are kept in memory and
        not written; `malmoi lexicon add` writes them into the lexicon instead.

        >>> len(malmoi.Lexicon.open("sample").codes) > 100
        True
        """
        folder = find_lexicon(path)
        manifest = LexiconManifest.read(folder)
        lexicon = cls(open_segments(folder, manifest), manifest=manifest, folder=folder)
        if not additions:
            return lexicon
        builder = LexiconBuilder(base=lexicon)
        builder.read([TableSource(Path(path)) for path in additions], required=False)
        return lexicon.with_segment(builder.segment())

    def with_segment(self, segment: Segment) -> "Lexicon":
        """Give a lexicon with one segment more, in memory only."""
        return Lexicon((*self.segments, segment), manifest=self.manifest, folder=self.folder)

    def __len__(self) -> int:
        return self._starts[-1]

    def __repr__(self) -> str:
        names = counted(len(self), "name")
        return f"<Lexicon {self.label}: {names} of {counted(len(self.codes), 'concept')}>"

    @property
    def label(self) -> str:
        """The name of the folder, or of the lexicon where it has none."""
        return self.folder.name if self.folder else self.manifest.name or "in memory"

    @property
    def identity(self) -> str:
        """A hash of all that derived files depend on; it changes with every addition."""
        return "+".join(segment.identity[:16] for segment in self.segments)

    @cached_property
    def concepts(self) -> Rows:
        """The concept's number of every name. Shape (names,)."""
        return self._column("concepts", np.int32)

    @cached_property
    def languages(self) -> Small:
        """The language of every name, as a number into `LANGUAGES`. Shape (names,)."""
        return self._column("languages", np.uint8)

    @cached_property
    def kinds(self) -> Small:
        """The kind of every name, as a number into `KINDS`. Shape (names,)."""
        return self._column("kinds", np.uint8)

    def _column(self, name: str, kind: type[np.generic]) -> NDArray[Any]:
        """Join a column of all segments; that of a single one stays mapped."""
        parts = [getattr(segment, name) for segment in self.segments]
        if len(parts) == 1:
            return parts[0]  # type: ignore[no-any-return]
        return np.concatenate(parts) if parts else np.empty(0, kind)

    def text(self, i: int) -> str:
        """Give the text of name `i`."""
        segment, row = self._at(i)
        return segment.texts[row]

    def texts(self) -> Iterator[str]:
        """Give the texts of all names in order.

        >>> "고혈압" in set(lexicon.texts())
        True
        """
        for segment in self.segments:
            yield from segment.texts

    def name(self, i: int) -> Name:
        """Give name `i` with all that is known of it."""
        segment, row = self._at(i)
        return Name(
            segment.texts[row],
            self.codes[int(segment.concepts[row])],
            LANGUAGES[segment.languages[row]],
            segment.source_names[segment.sources[row]],
            KINDS[segment.kinds[row]],
            segment.original(row),
        )

    def concept_of(self, i: int) -> str:
        """Give the code that name `i` belongs to."""
        segment, row = self._at(i)
        return self.codes[int(segment.concepts[row])]

    def rows_of(self, concept: int) -> list[int]:
        """Give the names of a concept, by its number."""
        return self._numbered(segment.rows_of(concept) for segment in self.segments)

    def concept(self, code: str) -> Concept:
        """Give a concept by its code.

        >>> lexicon.concept("I10").names[0].concept
        'I10'
        """
        number = self.codes.number(code)
        if number is None:
            raise LexiconError(
                f"{self.label} has no code {code!r}; expected one of its {len(self.codes):,}. "
                "Check the code: its point, its marks, its case."
            )
        return self.concept_at(number)

    def concept_at(self, number: int) -> Concept:
        """Give a concept by its number."""
        names = tuple(self.name(row) for row in self.rows_of(number))
        return Concept(self.codes[number], *self.shown(number), names)

    def shown(self, number: int) -> tuple[str | None, str | None]:
        """Give the Korean and the English name under which a concept is shown."""
        return self._first(number, _KOREAN), self._first(number, _ENGLISH)

    def _first(self, number: int, languages: Sequence[int]) -> str | None:
        """Give the best name of a concept in a language; within a segment the best is first."""
        best: tuple[int, int] | None = None
        for segment, start in zip(self.segments, self._starts, strict=False):
            rows = segment.rows_of(number)
            found = segment.languages[rows.start : rows.stop].tolist()
            at = next((i for i, language in enumerate(found) if language in languages), None)
            if at is not None:
                row = rows.start + at
                one = (int(segment.kinds[row]), start + row)
                best = one if best is None else min(best, one)
        return None if best is None else self.text(best[1])

    def find(self, text: str) -> list[int]:
        """Give the names that equal a text but for case, width and white space.

        >>> [lexicon.concept_of(i) for i in lexicon.find("고혈압")]
        ['I10']
        """
        return self._numbered(segment.find(text) for segment in self.segments)

    def _numbered(self, rows: Iterable[Iterable[int]]) -> list[int]:
        """Number rows of each segment through the whole lexicon."""
        found = zip(self._starts, rows, strict=False)
        return [start + row for start, own in found for row in own]

    def __contains__(self, code: object) -> bool:
        return isinstance(code, str) and self.codes.number(code) is not None

    def exclusions(self) -> Iterator[Exclusion]:
        """Give the names that its tables exclude from a code, as far as they are on disk."""
        return read_exclusions(self.segments)

    def ambiguous(self) -> Iterator[tuple[str, list[str]]]:
        """Give every name that stands for several concepts, with their codes."""
        keys = np.concatenate([segment.keys for segment in self.segments])
        starts = zip(self.segments, self._starts, strict=False)
        rows = np.concatenate([segment.key_rows + start for segment, start in starts])
        order = np.argsort(keys, kind="stable")
        edges = np.flatnonzero(np.diff(keys[order])) + 1
        for group in np.split(order, edges):
            codes = {int(self.concepts[row]) for row in rows[group]}
            if len(codes) > 1:
                yield self.text(int(rows[group[0]])), [self.codes[code] for code in sorted(codes)]

    def verify(self) -> None:
        """Compare every file with the hash in the manifest, as opening does."""
        if self.folder is not None:
            open_segments(self.folder, self.manifest)

    def _at(self, i: int) -> tuple[Segment, int]:
        if not 0 <= i < len(self):
            raise IndexError(f"there is no name {i}; the lexicon has {len(self)}")
        part = bisect.bisect_right(self._starts, i) - 1
        return self.segments[part], i - self._starts[part]
