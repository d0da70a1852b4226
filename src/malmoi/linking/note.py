"""A note → its mentions, each linked, with where it stands and what is said of it."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from ..text import as_text
from .attributes import said
from .defined import definitions
from .finder import Finder, Span
from .linker import Linked, Linker


class Tags(Protocol):
    """A tagger: text in, entities with text, start, end, type and score out."""

    def tag(self, text: str, /) -> Sequence[Any]:
        """Give the entities of a text."""


# "CXR상 pneumonia", "가족력상 위암": what stands before a name without being part of it.
_LEADS = re.compile(r"(?:상|에서|는|은|으로|력|및)[\s:]*$")


@dataclass(frozen=True)
class NoteMention:
    """A mention of a note: note[start:end] is its text; `attributes` are what is said of it."""

    start: int
    end: int
    text: str
    attributes: tuple[str, ...]
    by: str
    linked: Linked

    def to_json(self) -> dict[str, object]:
        """The mention as the command line prints it."""
        return {
            "mention": self.text,
            "start": self.start,
            "end": self.end,
            "attributes": list(self.attributes),
            "by": self.by,
            "candidates": [candidate.to_json() for candidate in self.linked.candidates],
        }


class NoteReader:
    """Finds the mentions of notes by dictionary and, where there is one, a tagger."""

    def __init__(self, linker: Linker, *, tagger: Tags | None = None) -> None:
        """Take a linker, whose lexicon is the dictionary, and perhaps a tagger."""
        self.linker, self.tagger = linker, tagger
        self._finder = Finder(linker.shelves, linker.normal, linker.reader)

    def read(self, note: str, *, k: int = 5) -> list[NoteMention]:
        """Give the linked mentions of a note in order."""
        note = as_text(note, where="note")
        defined = definitions(note)
        spans = self._joined(note, self._finder.find(note, defined))
        asked = [span.asked or span.text for span in spans]
        linked = self.linker.link(asked, k=k, defined=defined)
        attributes = said(note, [(span.start, span.end) for span in spans])
        return [
            NoteMention(
                span.start, span.end, span.text, about, span.by, replace(found, mention=span.text)
            )
            for span, about, found in zip(spans, attributes, linked, strict=True)
            if found.candidates
        ]

    def _joined(self, note: str, spans: list[Span]) -> list[Span]:
        """Add what the tagger found; of two that overlap the longer one stays.

        A tagger of English may take in the Korean before a name; then the name stays.
        """
        if self.tagger is None:
            return spans
        tagged = [
            Span(one.start, one.end, note[one.start : one.end], "tagger")
            for one in self.tagger.tag(note)
            if note[one.start : one.end].strip()
        ]
        tagged = [one for one in tagged if not any(_leads_in(one, name) for name in spans)]
        kept: list[Span] = []
        for span in sorted([*spans, *tagged], key=lambda one: (one.start - one.end, one.start)):
            if all(span.end <= other.start or other.end <= span.start for other in kept):
                kept.append(span)
        return sorted(kept, key=lambda span: span.start)


def _leads_in(tagged: Span, name: Span) -> bool:
    """Tell whether a tagger's span is a name with words before it that only lead up to it."""
    if tagged.end != name.end or tagged.start >= name.start:
        return False
    return bool(_LEADS.search(tagged.text[: name.start - tagged.start]))
