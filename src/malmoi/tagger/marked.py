"""Files of marked entities → texts with spans, every doubtful place counted.

CoNLL files have a token a line with its label in the last column, and a blank line after each
sentence. JSON lines have a text and its entities. Both become a text and spans in letters.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError, counted
from ..files import read_lines
from ..tables import BadRows
from ..text import is_whole
from .schemes import SCHEMES, Token, find_scheme, spans_of

logger = logging.getLogger(__name__)

_TAG = re.compile(r"^(O|[BIESLU]-.+)$")
_LISTS = ("entities", "spans", "labels", "label", "ents")
_TYPES = ("type", "label", "entity", "tag")


@dataclass(frozen=True, slots=True)
class Span:
    """An entity's place in its text, text[start:end], and its type."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A text with the entities that people have marked in it."""

    text: str
    spans: tuple[Span, ...]


@dataclass
class Findings:
    """What was wrong in a file and how it was mended; `strict` stops at the first."""

    path: str
    strict: bool
    counts: Counter[str] = field(default_factory=Counter)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, line: int, found: str, mended: str) -> None:
        """Note one place; raises a DataError when reading is strict."""
        if self.strict:
            raise DataError(
                f"line {line} of {self.path}: {found}. Without --strict: {mended}. Correct it."
            )
        what = f"{found} ({mended})"
        self.counts[what] += 1
        self.lines.setdefault(what, line)

    def report(self) -> None:
        """Tell each kind of finding once, with its first line."""
        for what, count in self.counts.items():
            logger.info(
                f"{self.path}: {counted(count, 'time')} {what}, first in line {self.lines[what]:,}"
            )


def read_marked(
    path: str | Path, *, scheme: str = "auto", letters: bool | None = None, strict: bool = False
) -> list[Marked]:
    """Read a file of entities, .jsonl by texts and spans, any other as CoNLL columns.

    `scheme` is iob1, iob2, bioes, or auto, which looks at the file. `letters` says that each
    line is one letter, spaces too; left out, the file is looked at.
    """
    if scheme not in SCHEMES:
        raise DataError(f"scheme is {scheme!r}; known are {', '.join(SCHEMES)}. Choose one.")
    findings = Findings(str(path), strict)
    if Path(path).suffix.lower() in (".jsonl", ".json"):
        found = list(_from_json(path, findings))
    else:
        sentences = list(_sentences(path, findings))
        if scheme == "auto":
            scheme = find_scheme([[token.label for token in s] for s in sentences])
        if letters is None:
            letters = _is_letters(sentences)
        found = [_joined(s, scheme, "" if letters else " ", findings) for s in sentences]
    findings.report()
    if not found:
        raise DataError(f"{path} has no sentence; expected some. Check the file.")
    return found


def _sentences(path: str | Path, findings: Findings) -> Iterator[list[Token]]:
    sentence: list[Token] = []
    for number, line in enumerate(read_lines(path), start=1):
        # A header of comments may stand before the first sentence or any other; a token "##"
        # has a label after it.
        if line.startswith("-DOCSTART-") or (line.startswith("##") and not _last_tag(line)):
            continue
        if not line.strip(" \r\n"):
            if sentence:
                yield sentence
            sentence = []
            continue
        sentence.append(_token(line, number, findings))
    if sentence:
        yield sentence


def _last_tag(line: str) -> str:
    parts = line.rsplit("\t", 1) if "\t" in line else line.rsplit(None, 1)
    return parts[-1] if len(parts) == 2 and _TAG.match(parts[-1].strip()) else ""


def _token(line: str, number: int, findings: Findings) -> Token:
    """Take the first column as the token and the last as its label."""
    cells = line.split("\t") if "\t" in line else line.split()
    word, label = cells[0], cells[-1].strip() if len(cells) > 1 else ""
    if not _TAG.match(label):
        found = "a line without a label" if len(cells) < 2 else "a label that is none"
        findings.add(number, found, "the token is kept as O")
        label = "O"
    return Token(word, label, number)


def _is_letters(sentences: Sequence[Sequence[Token]]) -> bool:
    """Tell whether tokens are single letters, spaces among them."""
    some = sentences[:200]
    return any(t.word == " " for s in some for t in s) and all(
        len(t.word) <= 2 for s in some for t in s
    )


def _joined(tokens: Sequence[Token], scheme: str, between: str, findings: Findings) -> Marked:
    starts, at = [], 0
    for token in tokens:
        starts.append(at)
        at += len(token.word) + len(between)
    text = between.join(token.word for token in tokens)
    spans = tuple(
        Span(starts[first], starts[last - 1] + len(tokens[last - 1].word), name)
        for first, last, name in spans_of(tokens, scheme, findings.add)
    )
    return Marked(text, spans)


def _from_json(path: str | Path, findings: Findings) -> Iterator[Marked]:
    bad = BadRows(str(path), findings.strict)
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            text = row["text"]
            listed: list[Any] = next((row[name] for name in _LISTS if name in row), [])
            spans = [_span(item) for item in listed]
            if not isinstance(text, str) or not all(is_whole(span.type) for span in spans):
                raise TypeError
        except (ValueError, KeyError, TypeError, StopIteration, AttributeError):
            bad.add(number, "no text with entities", '{"text": …, "entities": [{"start": …}]}')
            continue
        yield Marked(text, tuple(_kept(text, spans, number, findings)))
    bad.report()


def _span(item: Any) -> Span:
    if isinstance(item, list):
        start, end, name = item
        return Span(int(start), int(end), str(name))
    name = next(item[key] for key in _TYPES if key in item)
    return Span(int(item["start"]), int(item["end"]), str(name))


def _kept(text: str, spans: list[Span], line: int, findings: Findings) -> Iterator[Span]:
    """Pass over spans outside the text, and of two that overlap the shorter."""
    inside = []
    for span in spans:
        if 0 <= span.start < span.end <= len(text):
            inside.append(span)
        else:
            findings.add(line, "an entity's offsets are outside its text", "it is left out")
    taken: list[Span] = []
    for span in sorted(inside, key=lambda s: (s.start - s.end, s.start)):
        if all(span.end <= other.start or other.end <= span.start for other in taken):
            taken.append(span)
        else:
            findings.add(line, "two entities overlap", "the longer one is kept")
    yield from sorted(taken, key=lambda s: s.start)
