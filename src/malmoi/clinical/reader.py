"""A note → its mentions with their context, each linked to codes; and a note as an HTML page."""

import html
import re
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Protocol

from ..errors import CutWarning
from ..linking.linker import Linked, Linker, check_k
from ..text.cleanup import as_text
from .context import Assertion, ContextRules, NoteContext
from .mentions import Deadline, MentionFinder, MentionSpan, definitions, longest


class MentionTagger(Protocol):
    """A tagger: text in, entities with text, start, end, type and score out."""

    def tag(self, text: str, /) -> Sequence[Any]:
        """Give the entities of a text."""


# "CXR상 pneumonia", "가족력상 위암": words before a name that are not part of it.
_LEADS = re.compile(r"(?:상|에서|는|은|으로|력|및)[\s:]*$")
# Mentions linked at once: a whole batch, or few enough to check the deadline in between.
_ALL, _STEP = 256, 32


@dataclass(frozen=True)
class NoteMention:
    """A mention of a note: note[start:end] is its text; `attributes` are its context."""

    start: int
    end: int
    text: str
    attributes: tuple[str, ...]
    by: str
    linked: Linked
    assertion: Assertion = Assertion()

    @property
    def status(self) -> str:
        """Whether it is present, negated, possible, hypothetical or historical."""
        return self.assertion.status

    @property
    def experiencer(self) -> str:
        """Whose it is: the patient's, the family's or another person's."""
        return self.assertion.experiencer

    @property
    def score(self) -> float:
        """How likely the mention is a diagnosis and the first code right."""
        return self.linked.best.score if self.linked.best else 0.0

    def to_json(self) -> dict[str, object]:
        """The mention as the command line prints it."""
        return {
            "mention": self.text,
            "start": self.start,
            "end": self.end,
            "attributes": list(self.attributes),
            **asdict(self.assertion),
            "by": self.by,
            "candidates": [candidate.to_json() for candidate in self.linked.candidates],
        }


@dataclass(frozen=True)
class NoteScan:
    """The mentions of a note up to `cut`, where there was no time for more; None is all of it."""

    mentions: list[NoteMention]
    cut: int | None


class NoteReader:
    """Finds the mentions of notes by dictionary and, where there is one, a tagger."""

    def __init__(self, linker: Linker, *, tagger: MentionTagger | None = None) -> None:
        """Take a linker, whose lexicon is the dictionary, and perhaps a tagger."""
        self.linker, self.tagger = linker, tagger
        self._rules = ContextRules.open()
        self._finder = MentionFinder(linker.indexes, linker.normalizer, linker.expander)

    def read(self, note: str, *, k: int = 5, within: float | None = None) -> list[NoteMention]:
        """Give the linked mentions of a note in order.

        k       candidates of each
        within  seconds; a note that takes longer is read as far as there is time for, with a
                CutWarning; `scan` says it in its result instead
        """
        found = self.scan(note, k=k, within=within)
        if found.cut is not None:
            warnings.warn(
                f"the note was read up to character {found.cut:,} of {len(note):,}: there was no "
                "time for more. Allow more with: within",
                CutWarning,
                stacklevel=2,
            )
        return found.mentions

    def scan(self, note: str, *, k: int = 5, within: float | None = None) -> NoteScan:
        """Give the linked mentions of a note in order, and where it was cut for lack of time.

        Half of the time is for finding mentions, the rest for linking them. A tagger reads the
        whole note.
        """
        note = as_text(note, where="note")
        deadline = Deadline.within(within)
        check_k(k)
        defined = definitions(note)
        found, cut = self._finder.find(note, defined, deadline.half())
        spans = [one for one in self._joined(note, found) if cut is None or one.start < cut]
        step = _ALL if within is None else _STEP
        context = NoteContext.of(note, [(span.start, span.end) for span in spans], self._rules)
        known: dict[str, Linked] = {}
        mentions: list[NoteMention] = []
        for at in range(0, len(spans), step):
            if deadline.passed():
                cut = spans[at].start
                break
            batch = spans[at : at + step]
            new = list(dict.fromkeys(one.to_link for one in batch if one.to_link not in known))
            known |= zip(new, self.linker.link(new, k=k, defined=defined), strict=True)
            for one in batch:
                linked = replace(known[one.to_link], mention=one.text)
                code = linked.best.code if linked.best else ""
                said = context.assertion(
                    one.start,
                    one.end,
                    chronic=self._rules.is_chronic(code),
                    symptom=code.startswith("R"),
                )
                place = (one.start, one.end, one.text)
                mentions.append(NoteMention(*place, said.attributes, one.by, linked, said))
        return NoteScan([one for one in mentions if one.linked.candidates], cut)

    def _joined(self, note: str, spans: list[MentionSpan]) -> list[MentionSpan]:
        """Add what the tagger found; of two that overlap the longer one stays.

        A tagger of English may take in the Korean before a name; then the name stays.
        """
        if self.tagger is None:
            return spans
        tagged = [
            MentionSpan(one.start, one.end, note[one.start : one.end], "tagger")
            for one in self.tagger.tag(note)
            if note[one.start : one.end].strip()
        ]
        names = {span.end: span for span in spans}
        tagged = [one for one in tagged if not _leads_in(one, names.get(one.end))]
        return longest([*spans, *tagged], len(note))


def _leads_in(tagged: MentionSpan, name: MentionSpan | None) -> bool:
    """Tell whether a tagger's span is a name with words before it that are not part of it."""
    if name is None or tagged.start >= name.start:
        return False
    return bool(_LEADS.search(tagged.text[: name.start - tagged.start]))


_STYLE = (
    "body{font:16px/1.7 sans-serif;max-width:50em;margin:2em auto;white-space:pre-wrap}"
    "mark{background:#cfe8ff;border-radius:3px;padding:0 2px}mark.negated{background:#e4e4e4;"
    "text-decoration:line-through}mark.uncertain{background:#fff0b3}mark.family,mark.history"
    "{background:#e6dcff}mark sub{font-size:.65em;color:#456;margin-left:2px}"
)


def to_html(note: str, mentions: Sequence[NoteMention], *, title: str = "note") -> str:
    """Give a whole HTML page: the note unchanged, its mentions marked, every character escaped."""
    parts = [
        f'<!doctype html><html lang="ko"><meta charset="utf-8"><title>{html.escape(title)}</title>',
        f"<style>{_STYLE}</style><body>",
    ]
    at = 0
    for mention in mentions:
        parts += [html.escape(note[at : mention.start]), _mark(mention)]
        at = mention.end
    return "".join([*parts, html.escape(note[at:]), "</body></html>\n"])


def _mark(mention: NoteMention) -> str:
    best = mention.linked.best
    code = best.code if best else ""
    shown = " / ".join(name for name in (best.ko, best.en) if name) if best else ""
    context = f" ({', '.join(mention.attributes)})" if mention.attributes else ""
    hint = html.escape(f"{code} {shown}{context}", quote=True)
    kinds = " ".join(mention.attributes)
    return (
        f'<mark class="{kinds}" title="{hint}">{html.escape(mention.text)}'
        f"<sub>{html.escape(code)}</sub></mark>"
    )
