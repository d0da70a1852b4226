"""Files of marked entities → texts with spans, and the labelling schemes IOB1, IOB2 and BIOES.

CoNLL files have a token a line with its label in the last column, and a blank line after each
sentence. JSON lines have a text and its entities. Both become a text and spans in characters;
every repair is counted.

Labels that make no sense are repaired by conlleval's rule: an I-X (or E-X) that follows no X
starts an entity, and an entity ends where anything but its own continuation stands. With BIOES, a
B-X that is not followed by I-X or E-X is an entity by itself.
"""

import json
import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import DataError, counted
from ..io.files import read_lines
from ..io.tables import BadRows
from ..text.cleanup import is_whole

logger = logging.getLogger(__name__)

SCHEMES = ("auto", "iob1", "iob2", "bioes")
Note = Callable[[int, str, str], None]

# L(ast) and U(nit) are what E(nd) and S(ingle) are called in BILOU files.
_SAME = {"L": "E", "U": "S"}


@dataclass(frozen=True, slots=True)
class LabelledWord:
    """A word with its label, and the line it stands in."""

    word: str
    label: str
    line: int = 0


def find_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """Find out which scheme labels are written in.

    >>> find_scheme([["O", "B-X", "E-X", "S-X"]]), find_scheme([["I-X", "B-X", "O", "I-X"]])
    ('bioes', 'iob1')
    """
    starts = after = 0  # B- at the start of an entity, and I- there
    for labels in sentences:
        before = "O"
        for label in labels:
            if label[0] in "ESLU" and label != "O":
                return "bioes"
            continues = before[2:] == label[2:] and before != "O"
            starts += label[0] == "B" and not continues
            after += label[0] == "I" and not continues
            before = label
    return "iob1" if after > starts and not starts else "iob2"


def spans_of(
    tokens: Sequence[LabelledWord], scheme: str, note: Note | None = None
) -> Iterator[tuple[int, int, str]]:
    """Yield (first, last + 1, type) of each entity; `note` is called for each repair."""
    first, name = -1, ""
    for i, token in enumerate([*tokens, LabelledWord("", "O")]):
        mark, kind = _SAME.get(token.label[0], token.label[0]), token.label[2:]
        continues = mark in "IE" and first >= 0 and kind == name
        if mark in "IE" and not continues and scheme != "iob1" and note:
            after = "another type" if first >= 0 else "O"
            note(token.line, f"{mark}- after {after}", "it begins an entity")
        if first >= 0 and not continues:
            yield first, i, name
            first = -1
        if mark != "O" and not continues:
            first, name = i, kind
        if mark in "ES" and scheme == "bioes" and first >= 0:
            yield first, i + 1, name
            first = -1


_TAG = re.compile(r"^(O|[BIESLU]-.+)$")
_LISTS = ("entities", "spans", "labels", "label", "ents")
_TYPES = ("type", "label", "entity", "tag")


@dataclass(frozen=True, slots=True)
class EntitySpan:
    """An entity, text[start:end], and its type."""

    start: int
    end: int
    type: str


@dataclass(frozen=True, slots=True)
class Marked:
    """A text with the entities that people have marked in it."""

    text: str
    spans: tuple[EntitySpan, ...]


@dataclass
class Findings:
    """What was wrong in a file and how it was repaired; `strict` raises at the first."""

    path: str
    strict: bool
    counts: Counter[str] = field(default_factory=Counter)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, line: int, found: str, repair: str) -> None:
        """Count one repair, or raise a DataError if reading is strict."""
        if self.strict:
            raise DataError(
                f"line {line} of {self.path}: {found}. Correct that line; without --strict "
                f"{repair}."
            )
        what = f"{found} ({repair})"
        self.counts[what] += 1
        self.lines.setdefault(what, line)

    def report(self) -> None:
        """Log each kind of repair once, with its first line."""
        for what, count in self.counts.items():
            logger.info(
                f"{self.path}: {counted(count, 'time')} {what}, first in line {self.lines[what]:,}"
            )


def read_marked(
    path: str | Path, *, scheme: str = "auto", letters: bool | None = None, strict: bool = False
) -> list[Marked]:
    """Read a file of entities: .jsonl with texts and spans, any other as CoNLL columns.

    - `scheme`: iob1, iob2, bioes, or auto, which finds it out from the file.
    - `letters`: whether each line is one character, spaces included; None finds it out.
    - `strict`: raise a DataError at the first line that needs repair.
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
            words = [token.word for sentence in sentences[:200] for token in sentence]
            letters = " " in words and all(len(word) <= 2 for word in words)
        found = [_joined(s, scheme, "" if letters else " ", findings) for s in sentences]
    findings.report()
    if not found:
        raise DataError(
            f"{path} has no sentence; expected one or more. Name a file with a token and its label "
            "in each line, or JSON lines with text and entities."
        )
    return found


def _sentences(path: str | Path, findings: Findings) -> Iterator[list[LabelledWord]]:
    sentence: list[LabelledWord] = []
    for number, line in enumerate(read_lines(path), start=1):
        # Comments may stand before any sentence; a token "##" has a label after it.
        comment = line.startswith("##") and not _TAG.match(_cells(line)[-1].strip())
        if line.startswith("-DOCSTART-") or comment:
            continue
        if not line.strip(" \r\n"):
            if sentence:
                yield sentence
            sentence = []
            continue
        sentence.append(_token(line, number, findings))
    if sentence:
        yield sentence


def _cells(line: str) -> list[str]:
    return line.split("\t") if "\t" in line else line.split()


def _token(line: str, number: int, findings: Findings) -> LabelledWord:
    """Take the first column as the token and the last as its label."""
    cells = _cells(line)
    word, label = cells[0], cells[-1].strip() if len(cells) > 1 else ""
    if not _TAG.match(label):
        found = "a line without a label" if len(cells) < 2 else "a label that is none"
        findings.add(number, found, "the token is kept as O")
        label = "O"
    return LabelledWord(word, label, number)


def _joined(
    tokens: Sequence[LabelledWord], scheme: str, between: str, findings: Findings
) -> Marked:
    starts, at = [], 0
    for token in tokens:
        starts.append(at)
        at += len(token.word) + len(between)
    text = between.join(token.word for token in tokens)
    spans = tuple(
        EntitySpan(starts[first], starts[last - 1] + len(tokens[last - 1].word), name)
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


def _span(item: Any) -> EntitySpan:
    if isinstance(item, list):
        start, end, name = item
        return EntitySpan(int(start), int(end), str(name))
    name = next(item[key] for key in _TYPES if key in item)
    return EntitySpan(int(item["start"]), int(item["end"]), str(name))


def _kept(
    text: str, spans: list[EntitySpan], line: int, findings: Findings
) -> Iterator[EntitySpan]:
    """Leave out spans outside the text, and the shorter of two that overlap."""
    taken: list[EntitySpan] = []
    for span in sorted(spans, key=lambda s: (s.start - s.end, s.start)):
        if not 0 <= span.start < span.end <= len(text):
            findings.add(line, "an entity's offsets are outside its text", "it is left out")
        elif all(span.end <= other.start or other.end <= span.start for other in taken):
            taken.append(span)
        else:
            findings.add(line, "two entities overlap", "the longer one is kept")
    yield from sorted(taken, key=lambda s: s.start)
