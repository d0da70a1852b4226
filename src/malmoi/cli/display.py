"""Text for a terminal: widths of Korean letters, columns, tables, bars, colours."""

import os
import re
import shutil
import sys
import unicodedata
from collections.abc import Sequence

_ANSI = {"bold": "1", "dim": "2", "green": "32", "yellow": "33", "blue": "34", "cyan": "36"}
_STYLE = re.compile("\x1b\\[[0-9;]*m")
_WIDEST = 120


def terminal_width() -> int:
    """How many columns there are; 100 where nobody looks at a terminal."""
    columns = shutil.get_terminal_size((100, 24)).columns
    return max(40, min(columns, _WIDEST))


def coloured() -> bool:
    """Whether stdout is a terminal that shows colours, and nobody said NO_COLOR."""
    plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return sys.stdout.isatty() and not plain


def style(text: str, name: str) -> str:
    """Colour a text, where colours are shown."""
    return f"\x1b[{_ANSI[name]}m{text}\x1b[0m" if text and coloured() else text


def width(text: str) -> int:
    """How many columns a text takes: a Hangul syllable two, an accent none.

    >>> width("배 boat"), width("\\u1112\\u1161\\u11ab")
    (7, 2)
    """
    if text.isascii():
        return len(_STYLE.sub("", text)) if "\x1b" in text else len(text)
    count = 0
    for letter in _STYLE.sub("", text):
        if unicodedata.combining(letter) or unicodedata.category(letter) in ("Cf", "Me", "Cc"):
            continue
        if "\u1160" <= letter <= "\u11ff":  # vowels and finals join the initial consonant
            continue
        count += 2 if unicodedata.east_asian_width(letter) in "WF" else 1
    return count


def clean(text: str) -> str:
    """One line without control characters: a document must not steer the reader's terminal."""
    return " ".join("".join(c if c.isprintable() else " " for c in text).split())


def shorten(text: str, columns: int) -> str:
    """Cut a text to so many columns, with "…" at its end.

    >>> shorten("당뇨병성 신증", 9)
    '당뇨병성…'
    """
    if width(text) <= columns:
        return text
    kept, used = [], 0
    for letter in text:
        used += width(letter)
        if used > columns - 1:
            break
        kept.append(letter)
    return "".join(kept).rstrip() + "…"


def pad(text: str, columns: int, *, right: bool = False) -> str:
    """Fill a text with spaces up to so many columns."""
    space = " " * max(0, columns - width(text))
    return space + text if right else text + space


def wrap(text: str, columns: int) -> list[str]:
    """Break a text between words, and inside a word only if it is longer than a line.

    >>> wrap("한국어 도움말도 넓이를 지킨다", 14)
    ['한국어', '도움말도', '넓이를 지킨다']
    """
    lines: list[str] = []
    line = ""
    for word in text.split():
        joined = f"{line} {word}" if line else word
        if width(joined) <= columns:
            line = joined
            continue
        if line:
            lines.append(line)
        while width(word) > columns:
            cut = shorten(word, columns + 1).removesuffix("…") or word[0]
            lines.append(cut)
            word = word[len(cut) :]
        line = word
    return [*lines, line] if line else lines


def number(value: float) -> str:
    """Write a number once and for all: three digits that count.

    >>> number(6.02), number(0.98312), number(1234567.0), number(42)
    ('6.02', '0.983', '1,234,567', '42')
    """
    if isinstance(value, int):
        return f"{value:,}"
    size = abs(value)
    digits = 0 if size >= 100 else 1 if size >= 10 else 2 if size >= 1 else 3
    return f"{value:,.{digits}f}"


def bar(share: float, columns: int = 8) -> str:
    """Draw a share of 0 to 1.

    >>> bar(0.5, 4)
    '██░░'
    """
    full = round(max(0.0, min(1.0, share)) * columns)
    return "█" * full + "░" * (columns - full)


def cell(value: object) -> str:
    """Show a value in a table."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return number(value)
    if isinstance(value, list | tuple):
        shown = " ".join(cell(item) for item in value[:4])
        return f"{shown} … ({len(value)})" if len(value) > 4 else shown
    if isinstance(value, dict):
        return ", ".join(f"{name} {cell(item)}" for name, item in value.items())
    return clean(str(value))


def table(rows: Sequence[dict[str, object]], columns: int) -> list[str]:
    """Lay out rows in columns under bold names; the widest texts give way."""
    names = list(rows[0])
    for row in rows:
        names += [name for name in row if name not in names]
    cells = [[cell(row.get(name)) for name in names] for row in rows]
    right = [all(isinstance(row.get(name), int | float | None) for row in rows) for name in names]
    sizes = [max(map(width, column)) for column in zip(*[names, *cells], strict=True)]
    while sum(sizes) + 2 * (len(sizes) - 1) > columns and max(sizes) > 12:
        sizes[sizes.index(max(sizes))] -= 1

    def line(texts: Sequence[str]) -> str:
        parts = [
            pad(shorten(text, size), size, right=aligned)
            for text, size, aligned in zip(texts, sizes, right, strict=True)
        ]
        return "  ".join(parts).rstrip()

    return [style(line(names), "bold"), *map(line, cells)]


def mark(text: str, words: Sequence[str]) -> str:
    """Make the words that a query and a text share stand out."""
    found = [re.escape(word) for word in sorted(words, key=len, reverse=True) if word]
    if not found or not coloured():
        return text
    return re.sub("|".join(found), lambda m: style(m[0], "yellow"), text, flags=re.IGNORECASE)
