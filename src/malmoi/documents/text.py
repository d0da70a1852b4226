"""Plain text and Markdown as blocks; a very long file comes in parts of bounded size."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

from ..io.files import read_lines
from .dates import iso_date
from .document import Block, Content, FoundFile

# Characters of a part. A file of this size is one document; memory holds one part at a time.
LONGEST_PART = 1_000_000

BULLET = re.compile(
    r"\s*(?:[-*+•·∙▪◦‣○●–]|\(?\d{1,3}[.)]|\(?[가-하A-Za-z]\)|[가나라마바사아자차카타파하A-Za-z]\.|[①-⑳⑴-⒇])\s+\S"
)
_RULE = re.compile(r"\s*([-=_*~─━═])\1{2,}\s*")
_HEADING = re.compile(
    r"\d{1,2}(?:\.\d{1,2}){1,3}\.?\s+[가-힣A-Z(]|\d{1,2}[.)]\s+\S|[IVX]{1,4}\.\s*\S|[Ⅰ-Ⅻ]\.?\s*\S"
    r"|제\s*\d+\s*[편장절관조](?:의\s*\d+)?(?:[\s.(]|$)|[■□◆◇▶▣★☆◎]\s*\S"
    r"|\[[^\]]+\]$|<[^>]+>$|【[^】]+】$"
)
_SENTENCE_END = re.compile(r"[.?!。…:;,]['\"”’)]*$")
_LONGEST_HEADING = 50
_WRAPPED = (40, 120)  # columns between which lines of one paragraph are broken by their width


def load_text(file: FoundFile) -> Iterator[Content]:
    """Read plain text: paragraphs between empty lines, lists, and lines that look like headings."""
    lines = read_lines(file.path, mixed=True)
    for part in _parts(lines, lambda line: not line.strip()):
        yield Content(tuple(text_blocks(part)))


def text_blocks(lines: Iterable[str]) -> Iterator[Block]:
    """Make blocks of the lines of a plain text."""
    paragraph: list[str] = []
    for line in chain(lines, [""]):
        if line.strip():
            paragraph.append(line.rstrip())
        elif paragraph:
            yield from _paragraph_blocks(paragraph)
            paragraph = []


def _paragraph_blocks(lines: list[str]) -> Iterator[Block]:
    """Make blocks of lines that no empty line separates."""
    if len(lines) > 1 and (rule := _RULE.fullmatch(lines[1])) and rule[1] in "=-" and _short(lines):
        yield Block(lines[0].strip(), "heading", 1 if rule[1] == "=" else 2)
        lines = lines[2:]
    elif is_heading(lines):
        yield Block(lines[0].strip(), "heading", _level(lines[0].strip()))
        lines = lines[1:]
    lines = [line for line in lines if not _RULE.fullmatch(line)]
    if not lines:
        return
    first = next((at for at, line in enumerate(lines) if BULLET.match(line)), len(lines))
    if first < len(lines) and sum(map(bool, map(BULLET.match, lines))) > 1:
        if first:
            yield from _prose(lines[:first])
        yield Block("\n".join(lines[first:]), "list")
    else:
        yield from _prose(lines)


def _prose(lines: list[str]) -> Iterator[Block]:
    """Join lines that were broken by their width; keep others, each a paragraph if it is long."""
    widths = [_width(line) for line in lines]
    longest = max(widths)
    if longest > _WRAPPED[1]:
        yield from (Block(line.strip()) for line in lines)
    elif len(lines) > 1 and longest >= _WRAPPED[0] and min(widths[:-1]) >= 0.7 * longest:
        yield Block(" ".join(line.strip() for line in lines))
    else:
        yield Block("\n".join(line.strip() for line in lines))


def _short(lines: list[str]) -> bool:
    return len(lines[0].strip()) <= _LONGEST_HEADING


def is_heading(lines: list[str]) -> bool:
    """Say whether the first line is a heading: numbered or marked, short, not a sentence."""
    line = lines[0].strip()
    if len(line) > _LONGEST_HEADING or not _HEADING.match(line) or _SENTENCE_END.search(line):
        return False
    # A numbered line among others like it is an item of a list.
    return len(lines) == 1 or not BULLET.match(lines[1]) or not BULLET.match(line)


def mark_headings(blocks: Iterable[Block]) -> list[Block]:
    """Make headings of paragraphs that are numbered or marked like ones, where a file has none.

    Korean documents are rarely written with styles: "1. 배경", "□ 추진 계획" and "제3조(목적)" are
    lines like the others. One that is followed by another of its kind is an item of a list.
    """
    found = list(blocks)
    if any(block.kind == "heading" for block in found):
        return found
    marks = [_mark(block) for block in found]
    for at, mark in enumerate(marks[:-1]):
        if mark and mark != marks[at + 1]:
            text = found[at].text
            found[at] = replace(found[at], kind="heading", level=_level(text))
    return found


def _mark(block: Block) -> str:
    """Say what kind of mark makes a paragraph look like a heading; empty for none."""
    if block.kind != "paragraph" or "\n" in block.text or not is_heading([block.text]):
        return ""
    return re.sub(r"\d+", "0", re.match(r"제\s*\d+\s*.|[\d.]+|[IVXⅠ-Ⅻ]+|.", block.text)[0])  # type: ignore[index]


def _level(line: str) -> int:
    """Give the level of a numbered heading; the first is left to the document's title."""
    if line.startswith("제"):
        return "편장절관조".index(re.search("[편장절관조]", line)[0]) + 2  # type: ignore[index]
    number = re.match(r"\d+(?:\.\d+)*", line)
    return min(2 + number[0].count("."), 6) if number else 2


def _width(line: str) -> int:
    """Count columns as a terminal does: Hangul and full-width characters have two."""
    return len(line.encode("cp949", "replace"))  # which has two bytes for exactly these


def _parts(lines: Iterable[str], may_end: Any) -> Iterator[list[str]]:
    """Gather lines into parts of bounded length that end where a paragraph or section does."""
    part: list[str] = []
    length = 0
    for line in lines:
        if length > LONGEST_PART and (may_end(line) or length > 2 * LONGEST_PART):
            yield part
            part, length = [], 0
        part.append(line)
        length += len(line) + 1
    if part:
        yield part


# What programs write where nobody gave a title.
_PLACEHOLDER = re.compile(
    r"Microsoft \w+ - .*"
    r"|[\[(<]?(?:anonymous|untitled|no title|unknown|무제|제목 ?없음|이름 ?없음)[\])>]?"
    r"(?:[ -]?(?:document|page|문서))?[ -]?\d*|(?:Document|문서) ?\d+|(?:Word|PowerPoint) ?"
    r"(?:Document|문서|Presentation|프레젠테이션)|.*\.(?:docx?|hwpx?|pptx?|xlsx?|indd|tmp|html?)",
    re.I,
)


def is_placeholder(title: str) -> bool:
    """Say whether a title is one that a program made up.

    >>> [is_placeholder(one) for one in ("(anonymous)", "Microsoft Word - a.doc", "무제 정리")]
    [True, True, False]
    """
    return _PLACEHOLDER.fullmatch(title.strip()) is not None


def load_markdown(file: FoundFile) -> Iterator[Content]:
    """Read Markdown: headings, paragraphs, lists, tables, code; the fields of its front matter."""
    fields, lines = _front_matter(read_lines(file.path, mixed=True))
    title = str(fields.pop("title", ""))
    for part in _parts(lines, re.compile("#{1,6} ").match):
        yield Content(tuple(markdown_blocks("\n".join(part))), title=title, metadata=fields)


def _front_matter(lines: Iterator[str]) -> tuple[dict[str, Any], Iterator[str]]:
    """Take the front matter off a file's lines, with its fields."""
    first = next(lines, "")
    if first.rstrip() != "---":
        return {}, chain([first], lines)
    taken = [first]
    for line in lines:
        taken.append(line)
        if line.rstrip() in ("---", "..."):
            return _fields(taken[1:-1]), lines
        if len(taken) > 200 or not re.match(r"[\w.-]+\s*:|\s|#|-|$", line):
            break  # a rule at the head of a text, no front matter
    return {}, chain(taken, lines)


_FIELD = re.compile(r"([\w.-]+)\s*:(?:\s+(.*)|$)")
_ITEM = re.compile(r"\s*-\s+(.*)")


def _fields(lines: Iterable[str]) -> dict[str, Any]:
    """The fields of front matter: text, and lists on one line or below; deeper ones as text."""
    found: dict[str, Any] = {}
    name = ""
    for line in lines:
        if field := _FIELD.match(line):
            name, value = field[1], (field[2] or "").strip()
            found[name] = "" if value in ("|", ">", "|-", ">-") else _field_value(value)
        elif name and (item := _ITEM.match(line)):
            own = found[name] if isinstance(found[name], list) else []
            found[name] = [*own, _unquoted(item[1])]
        elif name and isinstance(found[name], str) and line[:1].isspace() and line.strip():
            found[name] = f"{found[name]} {line.strip()}".strip()
    date = iso_date(found.get("date"))
    return {**found, **({"date": date} if date else {})}


def _field_value(text: str) -> str | list[str]:
    if text.startswith("[") and text.endswith("]"):
        return [_unquoted(one) for one in text[1:-1].split(",") if one.strip()]
    return _unquoted(text)


def _unquoted(text: str) -> str:
    """A value without its quotes, or without the comment after it."""
    text = text.strip()
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    return re.sub(r"\s+#.*", "", text)


def markdown_blocks(text: str) -> Iterator[Block]:
    """Make blocks of Markdown, with its signs taken off."""
    from markdown_it import MarkdownIt  # only where it is read: it takes time

    tokens: Any = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    at = 0
    while at < len(tokens):
        token, end = tokens[at], at + 1
        match token.type:
            case "heading_open":
                end = _closing(tokens, at)
                yield Block(_plain(tokens[at + 1]), "heading", int(token.tag[1]))
            case "paragraph_open":
                end = _closing(tokens, at)
                yield Block(_plain(tokens[at + 1]))
            case "bullet_list_open" | "ordered_list_open":
                end = _closing(tokens, at)
                yield Block("\n".join(_items(tokens[at:end])), "list")
            case "table_open":
                end = _closing(tokens, at)
                yield Block("\n".join(_rows(tokens[at:end])), "table")
            case "fence" | "code_block":
                yield Block(token.content.strip("\n"), "code")
            case "html_block":
                yield Block(_without_tags(token.content))
        at = end


def _closing(tokens: list[Any], at: int) -> int:
    """Find where the element that opens at a token ends."""
    depth = 0
    for end in range(at, len(tokens)):
        depth += tokens[end].nesting
        if depth == 0:
            return end + 1
    return len(tokens)


def _plain(inline: Any) -> str:
    """Give the text of an inline token as it is read."""
    parts = []
    for child in inline.children or ():
        match child.type:
            case "text" | "code_inline":
                parts.append(child.content)
            case "softbreak":
                parts.append(" ")
            case "hardbreak":
                parts.append("\n")
            case "image":
                parts.append(child.content)  # what it shows, in words
            case "html_inline" if re.match(r"<br\b", child.content):
                parts.append("\n")
    return "".join(parts).strip()


def _items(tokens: list[Any]) -> Iterator[str]:
    """Give the lines of a list: each item with its sign, inner lists moved to the right."""
    numbers: list[int | None] = []
    sign = ""
    for token in tokens:
        indent = "  " * (len(numbers) - 1)
        match token.type:
            case "bullet_list_open":
                numbers.append(None)
            case "ordered_list_open":
                numbers.append(int(token.attrs.get("start", 1)))
            case "bullet_list_close" | "ordered_list_close":
                numbers.pop()
            case "list_item_open":
                number = numbers[-1]
                sign = "- " if number is None else f"{number}. "
                numbers[-1] = None if number is None else number + 1
            case "inline" | "fence" | "code_block" | "html_block":
                text = _plain(token) if token.type == "inline" else token.content.strip("\n")
                for line in text.split("\n"):
                    yield f"{indent}{sign}{line}"
                    sign = " " * len(sign)


def _rows(tokens: list[Any]) -> Iterator[str]:
    cells: list[str] = []
    for token in tokens:
        if token.type == "inline":
            cells.append(_plain(token).replace("\n", " "))
        elif token.type == "tr_close":
            yield " | ".join(cells)
            cells = []


def _without_tags(html: str) -> str:
    """Give the text in a piece of HTML inside Markdown."""
    html = re.sub(r"(?is)<!--.*?-->|<(script|style)\b.*?</\1\s*>", " ", html)
    return re.sub(r"[ \t]*\n\s*", "\n", re.sub(r"(?s)<[^>]*>", " ", html)).strip()
