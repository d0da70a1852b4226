"""PDFs, read by PDFium in a process of its own with limits on time and memory.

Lines of pages become paragraphs, headings, lists and tables, in the order of reading.
"""

import itertools
import json
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import DocumentError, counted, require
from . import pdf_worker
from .dates import iso_date
from .document import Block, Content, FoundFile
from .text import BULLET, is_heading

# Seconds that one page, or opening a file, may take, and all of a file's pages together.
PAGE_TIME = 30.0
FILE_TIME = 900.0
MOST_TEXT = 50_000_000  # characters of a file

_MARGIN = 0.1  # of a page's height: running heads, feet and page numbers are there
_PAGE_NUMBER = re.compile(
    r"[-–—\[(<|\s]*(?:page|p\.|쪽)?\s*\d{1,4}(?:\s*(?:/|of|쪽|페이지)\s*\d{0,4})?[-–—\])>|\s]*",
    re.I,
)
_DIGITS = re.compile(r"\d+")
_DIGIT = re.compile(r"\d")
_ENDS = re.compile(r"[.?!。:;][\"'”’)\]]*$")
_MOST_LINES = 2000  # of a page that may be put into another order
_HYPHENS = ("-", "\u00ad")
_LONGEST_HEADING = 120
_LARGER = 1.12  # a heading's size over that of the text
_APART = 1.45  # of the usual distance of lines: more is a new paragraph

_OFTEN_LAST = frozenset("은는을를의에로와과며등및서도고한된할인던여면")
_SELDOM_FIRST = frozenset("을를은는의었였했됐겠습며들되됩었던었께써렇래")
_WORD = re.compile("[가-힣0]+")  # every digit counts as 0: "7일" is broken as "8일" is


def load_pdf(file: FoundFile) -> Iterator[Content]:
    """Read a PDF: paragraphs, headings by their size, lists, with their pages."""
    require("pypdfium2", extra="documents", purpose=f"reading {file.path}")
    pages: list[Page] = []
    odd = sampled = drawn = length = 0
    about: dict[str, Any] = {}
    for answer in _answers(file.path):
        if "page" not in answer:
            about = answer
            break
        odd, sampled = odd + answer["odd"], sampled + answer["sampled"]
        drawn += bool(answer["drawn"])
        page = Page(answer["page"], answer["height"], [Line(*one) for one in answer["lines"]])
        length += sum(len(line.text) for line in page.lines)
        if length > MOST_TEXT:
            raise DocumentError(
                f"{file.path} has more than {MOST_TEXT:,} characters; expected a document. "
                "Break it up."
            )
        pages.append(page)
    _check(file.path, about)
    if not sampled:
        raise DocumentError(
            f"{file.path} has {'only images' if drawn else 'nothing'} on its "
            f"{counted(len(pages), 'page')}, as scans have; expected text. Run OCR over it first."
        )
    if odd > 0.4 * sampled:
        raise DocumentError(
            f"{file.path} has fonts that do not say which characters they show; expected text "
            "that can be copied. Run OCR over it first."
        )
    found = {"author": about["author"], "date": iso_date(about.get("date"))}
    metadata = {name: value for name, value in found.items() if value}
    yield Content(tuple(page_blocks(pages)), about["title"].strip(), metadata)


def _check(path: Path, about: dict[str, Any]) -> None:
    """Raise the error that the other process told."""
    match about.get("error"):
        case None:
            return
        case "encrypted":
            reason = "is encrypted. Save it without a password."
        case "pages":
            most = pdf_worker.MOST_PAGES
            reason = f"has {about['count']:,} pages; expected at most {most:,}. Break it up."
        case "memory":
            reason = f"needs more memory than {pdf_worker.MEMORY / 2**30:.1f} GiB. Break it up."
        case "time":
            reason = f"was not read within {about['seconds']:.0f} seconds. Print it to a new PDF."
        case "ended":
            reason = "made its reader stop; it is damaged or made to harm. Take a new copy."
        case _:
            reason = f"is damaged ({about['kind']}); expected a whole PDF. Take a new copy."
    raise DocumentError(f"{path} {reason}")


def _answers(path: Path) -> Iterator[dict[str, Any]]:
    """Read a file in a process of its own: its pages, then what ends it or the error that did."""
    # -P: the script's folder has modules named like those of the standard library.
    command = [sys.executable, "-P", pdf_worker.__file__, str(path)]
    began = time.monotonic()
    with subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            while True:
                seconds = max(0.0, min(PAGE_TIME, FILE_TIME - (time.monotonic() - began)))
                asked, timer = time.monotonic(), threading.Timer(seconds, process.kill)
                timer.start()
                line = process.stdout.readline()
                timer.cancel()
                if not line and time.monotonic() - asked >= seconds:
                    yield {"error": "time", "seconds": min(PAGE_TIME, FILE_TIME)}
                    return
                answer: dict[str, Any] = json.loads(line) if line else {"error": "ended"}
                yield answer
                if "page" not in answer:
                    return
        finally:
            process.kill()  # whatever it does


class Line(NamedTuple):
    """A line of a page: its text, where it starts and ends, its baseline, size and weight."""

    text: str
    x0: float
    x1: float
    y: float
    size: float
    bold: bool


@dataclass(frozen=True)
class Page:
    """The lines of a page, and how high it is."""

    number: int
    height: float
    lines: list[Line]


class WordBreaks:
    """What a file itself shows about the syllables at which its Korean words start and end."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.words: Counter[str] = Counter()
        self.inside: Counter[str] = Counter()  # pairs of syllables within a word
        self.across: Counter[str] = Counter()  # the last of a word and the first of the next
        self.first: Counter[str] = Counter()
        self.last: Counter[str] = Counter()
        self.all: Counter[str] = Counter()
        for line in lines:
            self._add(_DIGIT.sub("0", line))

    def _add(self, line: str) -> None:
        # The edges of a line may be in the middle of a word.
        inner = _WORD.findall(line[1:-1])[1:-1]
        self.words.update(inner)
        self.first.update(word[0] for word in inner)
        self.last.update(word[-1] for word in inner)
        for word in inner:
            self.all.update(word)
            self.inside.update(word[at : at + 2] for at in range(len(word) - 1))
        self.across.update(a + b for a, b in re.findall("([가-힣0]) (?=([가-힣0]))", line))

    def is_one_word(self, left: str, right: str) -> bool:
        """Say whether two pieces next to a line's end are one word."""
        whole = self.words[left + right]
        apart = min(self.words[left], self.words[right])
        if whole or apart > 1:
            return whole >= apart
        a, b = left[-1], right[0]
        # How often each syllable ends or starts a word, in this file and in Korean.
        ends = (self.last[a] + (2.2 if a in _OFTEN_LAST else 0.6)) / (self.all[a] + 3)
        starts = (self.first[b] + (0.1 if b in _SELDOM_FIRST else 1.2)) / (self.all[b] + 3)
        space = self.across[a + b] + 9 * ends * starts
        return self.inside[a + b] + 4.5 * (1 - ends) * (1 - starts) > space


def join_lines(left: str, right: str, breaks: WordBreaks) -> str:
    """Join two lines of a paragraph: a word that was broken at the line's end is made whole.

    Korean is broken inside of words too, without a sign; what the file shows elsewhere decides.

    >>> join_lines("authori\\u00ad", "sation of", WordBreaks([]))
    'authorisation of'
    >>> join_lines("이번 출장", "비는 실비로 한다.", WordBreaks(["그 큰 출장비는 늘 크다"]))
    '이번 출장비는 실비로 한다.'
    """
    right = right.lstrip()
    if left.endswith("\u00ad"):
        return left[:-1] + right
    if left.endswith("-") and re.search(r"[a-z]-$", left) and re.match(r"[a-z]", right):
        return left[:-1] + right
    edges = _DIGIT.sub("0", left[-40:]), _DIGIT.sub("0", right[:40])
    start, end = _WORD.match(edges[1]), re.search("[가-힣0]+$", edges[0])
    if start is None or end is None:
        return left.rstrip() + " " + right
    return left + ("" if breaks.is_one_word(end[0], start[0]) else " ") + right


def page_blocks(pages: Sequence[Page]) -> list[Block]:
    """Make blocks of pages without running heads and page numbers; broken words are joined."""
    pages = _without_margins(pages)
    lines = [line for page in pages for line in page.lines]
    if not lines:
        return []
    breaks = WordBreaks(line.text for line in lines)
    form = _Form(_body_size(lines), _pitch(pages), _width(lines), _heading_sizes(lines), breaks)
    blocks: list[Block] = []
    for page in pages:
        for group in _groups(_ordered(page.lines), form):
            block = _block(group, form, page.number)
            if blocks and _continues(blocks[-1], block, page.number):
                last = blocks[-1]
                text = join_lines(last.text, block.text, breaks)
                blocks[-1] = replace(last, text=text)
            else:
                blocks.append(block)
    return blocks


@dataclass(frozen=True)
class _Form:
    """How a file is set: the size of its text, distance and width of lines, sizes of headings."""

    size: float
    pitch: float
    width: float
    headings: tuple[float, ...]
    breaks: WordBreaks


def _without_margins(pages: Sequence[Page]) -> list[Page]:
    """Leave out page numbers, and lines that most pages repeat at the same height."""
    seen: Counter[tuple[str, int]] = Counter()
    for page in pages:
        seen.update({_margin_key(line) for line in page.lines if _in_margin(line, page)})
    often = max(2, 0.5 * len(pages))
    kept = []
    for page in pages:
        heights = [line.y for line in page.lines]
        lines = [
            line
            for line in page.lines
            if not _in_margin(line, page)
            or len(pages) < 2
            or not (_repeats(seen, line) >= often or _is_page_number(line, heights))
        ]
        kept.append(Page(page.number, page.height, lines))
    return kept


def _is_page_number(line: Line, heights: list[float]) -> bool:
    """Say whether a line is a number alone, above or below everything else on its page."""
    outside = line.y < min(heights) + 2 or line.y > max(heights) - 2
    return outside and _PAGE_NUMBER.fullmatch(line.text) is not None


def _in_margin(line: Line, page: Page) -> bool:
    return not _MARGIN * page.height < line.y < (1 - _MARGIN) * page.height


def _margin_key(line: Line) -> tuple[str, int]:
    return _DIGITS.sub("#", line.text.strip()), round(line.y / 4)


def _repeats(seen: Counter[tuple[str, int]], line: Line) -> int:
    text, height = _margin_key(line)
    if not re.search(r"[^\W\d_]", text):
        return 0  # numbers alone may be those of a table
    return sum(seen[text, height + step] for step in (-1, 0, 1))


def _body_size(lines: Iterable[Line]) -> float:
    sizes: Counter[float] = Counter()
    for line in lines:
        sizes[line.size] += len(line.text)
    return sizes.most_common(1)[0][0]


def _pitch(pages: Iterable[Page]) -> float:
    """Find the usual distance of two lines that follow one another."""
    steps: Counter[float] = Counter()
    for page in pages:
        for above, below in itertools.pairwise(page.lines):
            if 0.8 * above.size < above.y - below.y < 3 * above.size:
                steps[round(2 * (above.y - below.y) / max(above.size, 1), 0) / 2] += 1
    ratio = steps.most_common(1)[0][0] if steps else 1.5
    return max(ratio, 1.0)


def _width(lines: Sequence[Line]) -> float:
    """Give how wide a full line is: nine of ten are narrower."""
    return sorted(line.x1 - line.x0 for line in lines)[int(0.9 * (len(lines) - 1))]


def _heading_sizes(lines: Iterable[Line]) -> tuple[float, ...]:
    lines = list(lines)
    body = _body_size(lines)
    return tuple(sorted({one.size for one in lines if one.size > _LARGER * body}, reverse=True))


def _ordered(lines: list[Line]) -> list[Line]:
    """Put lines into the order of reading where the file has them in another one.

    Most files have it right, columns included; sorting those could only break them.
    """
    if not 3 <= len(lines) <= _MOST_LINES:
        return lines
    up = sum(b.y > a.y + a.size and _overlap(a, b) for a, b in itertools.pairwise(lines))
    rows = [(a, b) for a, b in itertools.pairwise(lines) if _same_row(a, b)]
    long = [pair for pair in rows if min(len(one.text) for one in pair) > 15]
    return _cut(lines) if up > 1 or len(long) > 0.25 * len(lines) else lines


def _overlap(a: Line, b: Line) -> bool:
    return min(a.x1, b.x1) - max(a.x0, b.x0) > 0


def _same_row(a: Line, b: Line) -> bool:
    return abs(a.y - b.y) < 0.3 * max(a.size, 1) and not _overlap(a, b)


def _cut(lines: list[Line]) -> list[Line]:
    """Order lines by cutting the page where nothing is: between columns, else between rows."""
    if len(lines) < 2:
        return lines
    left, right = _columns(lines)
    if left:
        return _cut(left) + _cut(right)
    lines = sorted(lines, key=lambda line: (-line.y, line.x0))
    gaps = [(a.y - b.y - b.size, at) for at, (a, b) in enumerate(itertools.pairwise(lines), 1)]
    for gap, at in sorted(gaps, reverse=True)[:8]:
        if gap <= 0:
            break
        above, below = lines[:at], lines[at:]
        if _columns(above)[0] or _columns(below)[0]:
            return _cut(above) + _cut(below)
    return lines


def _columns(lines: list[Line]) -> tuple[list[Line], list[Line]]:
    """Find two columns side by side, with some lines each, that no line crosses."""
    ends = sorted(lines, key=lambda line: line.x0)
    reach = ends[0].x1
    for at, line in enumerate(ends[1:], 1):
        if line.x0 > reach + 0.5 * line.size and at >= 3 and len(ends) - at >= 3:
            left, right = ends[:at], ends[at:]
            heights = [
                (min(one.y for one in side), max(one.y for one in side)) for side in (left, right)
            ]
            shared = min(heights[0][1], heights[1][1]) - max(heights[0][0], heights[1][0])
            if shared > 0.3 * min(high - low for low, high in heights):
                order = {id(one): place for place, one in enumerate(lines)}
                return (
                    sorted(left, key=lambda one: order[id(one)]),
                    sorted(right, key=lambda one: order[id(one)]),
                )
        reach = max(reach, line.x1)
    return [], []


def _groups(lines: list[Line], form: _Form) -> Iterator[list[list[Line]]]:
    """Gather lines into paragraphs of rows; a row is one line, or cells side by side."""
    group: list[list[Line]] = []
    for line in lines:
        if group and _same_row(group[-1][-1], line) and line.x0 > group[-1][-1].x1:
            group[-1].append(line)
        elif group and _belongs(group, line, form):
            group.append([line])
        else:
            if group:
                yield group
            group = [[line]]
    if group:
        yield group


def _belongs(group: list[list[Line]], line: Line, form: _Form) -> bool:
    """Say whether a line goes on with a paragraph."""
    first, last = group[0][0], group[-1][-1]
    step = group[-1][0].y - line.y
    if abs(line.size - last.size) > 0.08 * max(last.size, 1) or line.bold != last.bold:
        return False
    if not 0 < step < _APART * form.pitch * max(last.size, 1):
        return False
    if len(group[-1]) > 1:
        return True  # rows of a table
    if line.x0 > last.x1 or line.x1 < min(first.x0, last.x0):
        return False
    # A first line moved to the right starts a paragraph, if the one before it has ended.
    indented = line.x0 > max(first.x0, last.x0) + 0.8 * line.size
    return not (indented and _ENDS.search(last.text.strip()))


def _block(group: list[list[Line]], form: _Form, page: int) -> Block:
    """Make a block of a paragraph's rows."""
    first = group[0][0]
    if sum(len(row) > 1 for row in group) > 1:
        rows = (" | ".join(cell.text.strip() for cell in row) for row in group)
        return Block("\n".join(rows), "table", page=page)
    lines = [" ".join(cell.text.strip() for cell in row) for row in group]
    wrapped = all(row[-1].x1 - row[0].x0 > 0.6 * form.width for row in group[:-1])
    short = len(group) <= 3 and sum(map(len, lines)) <= _LONGEST_HEADING
    if short and wrapped and not _ENDS.search(lines[-1]):
        if first.size in form.headings:
            level = min(form.headings.index(first.size) + 1, 4)
            return Block(" ".join(lines), "heading", level, page)
        level = min(len(form.headings) + 1, 6)
        if first.bold and len(group) == 1 and len(lines[0]) > 1:
            return Block(lines[0], "heading", level, page)
        if len(group) == 1 and is_heading(lines):
            return Block(lines[0], "heading", min(level + 1, 6), page)
    marked = [bool(BULLET.match(line)) for line in lines]
    if sum(marked) > 1 or (marked[0] and len(lines) < 4):
        return Block(_list(lines, marked, form), "list", page=page)
    return Block(_paragraph(group, form), page=page)


def _list(lines: list[str], marked: list[bool], form: _Form) -> str:
    """Join the lines of each item of a list."""
    items: list[str] = []
    for line, starts in zip(lines, marked, strict=True):
        if starts or not items:
            items.append(line)
        else:
            items[-1] = join_lines(items[-1], line, form.breaks)
    return "\n".join(items)


def _paragraph(group: list[list[Line]], form: _Form) -> str:
    """Join lines; one that ends long before the others do was ended on purpose."""
    left = min(row[0].x0 for row in group)
    last = max(row[-1].x1 for row in group)
    edge = max(last, left + 0.8 * form.width)
    text = " ".join(cell.text for cell in group[0])
    for above, row in itertools.pairwise(group):
        line = " ".join(cell.text for cell in row)
        if above[-1].x1 < edge - 0.3 * (edge - left):
            text = text.rstrip() + "\n" + line.strip()
            continue
        if above[-1].x1 < last - 1.2 * row[0].size and not text.endswith(_HYPHENS):
            text += " "  # another syllable would have fitted: the line was broken between words
        text = join_lines(text, line, form.breaks)
    return text.strip()


def _continues(last: Block, block: Block, page: int) -> bool:
    """Say whether a paragraph goes on over the end of a column or page."""
    if last.kind != "paragraph" or block.kind != "paragraph" or last.page not in (page, page - 1):
        return False
    open_end = not _ENDS.search(last.text) and len(last.text) > 30
    return open_end and re.match(r"[a-z가-힣(,]", block.text) is not None
