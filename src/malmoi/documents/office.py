"""Word documents, presentations and workbooks as blocks."""

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from ..errors import require
from .content import check_archive
from .document import Block, Content, FoundFile
from .text import LONGEST_PART, mark_headings

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_NO_SHEET_NAME = re.compile(r"(Sheet|시트) ?\d*", re.I)
_NUMBER = re.compile(r"[\d.,%:/ -]+")
_LONGEST_TABLE = 20_000  # characters of one block; its header is repeated in the next
_NO_TITLE = re.compile(
    r"Microsoft (Word|PowerPoint|Excel) - |(Word|PowerPoint) |문서 ?\d|제목 없음"
)


def _title(properties: Any) -> str:
    title = (properties.title or "").strip()
    return "" if _NO_TITLE.match(title) else title


def _metadata(properties: Any) -> dict[str, Any]:
    found = {"author": properties.author, "subject": properties.subject}
    return {name: value for name, value in found.items() if value and value != "python-docx"}


def load_docx(file: FoundFile) -> Iterator[Content]:
    """Read a Word document: headings, paragraphs, lists and tables in their order, then notes."""
    docx = require("docx", extra="documents", purpose=f"reading {file.path}")
    check_archive(file.path)
    document = docx.Document(str(file.path))
    word = _Word(document)
    blocks = tuple(mark_headings(word.blocks()))
    properties = document.core_properties
    yield Content(blocks, word.title or _title(properties), _metadata(properties))


class _Word:
    """Walks the XML of a Word document; python-docx opens it and knows its styles."""

    def __init__(self, document: Any) -> None:
        self.title = ""
        self._document = document
        self._styles = {style.style_id: style for style in document.styles}
        self._items: list[str] = []  # of the list that is being read

    def blocks(self) -> Iterator[Block]:
        """Yield the blocks of the body, then those of footnotes and endnotes."""
        yield from self._inside(self._document.element.body)
        yield from self._end_of_list()
        for relation in self._document.part.rels.values():
            if relation.reltype.endswith(("/footnotes", "/endnotes")):
                yield from self._notes(relation.target_part.blob)

    def _inside(self, element: Any) -> Iterator[Block]:
        for child in element:
            match str(child.tag).removeprefix(_W):
                case "p":
                    yield from self._paragraph(child)
                case "tbl":
                    yield from self._end_of_list()
                    yield from self._table(child)
                case "sdt" | "sdtContent" | "ins" | "moveTo" | "customXml" | "smartTag":
                    yield from self._inside(child)

    def _paragraph(self, element: Any) -> Iterator[Block]:
        text = _word_text(element)
        style = self._style(element)
        name = (style.name or "").lower() if style is not None else ""
        if text and not name.startswith(("toc ", "table of figures")):
            level = self._level(element, style, name)
            depth = self._list_level(element, style, name)
            if level:
                yield from self._end_of_list()
                yield Block(" ".join(text.split()), "heading", level)
            elif depth is not None:
                self._items.append("  " * depth + "- " + " ".join(text.split()))
            else:
                yield from self._end_of_list()
                yield Block(text)
            if name == "title" and not self.title:
                self.title = " ".join(text.split())
        for box in element.iter(f"{_W}txbxContent"):
            if not any(True for _ in box.iterancestors(_FALLBACK)):
                yield from self._end_of_list()
                yield from self._inside(box)
                yield from self._end_of_list()

    def _end_of_list(self) -> Iterator[Block]:
        if self._items:
            yield Block("\n".join(self._items), "list")
            self._items = []

    def _table(self, element: Any) -> Iterator[Block]:
        rows = []
        for row in element.iter(f"{_W}tr"):
            if next(row.iterancestors(f"{_W}tbl")) is element:
                rows.append([cell for cell in row.iter(f"{_W}tc") if _row_of(cell) is row])
        if all(len(cells) <= 1 for cells in rows):  # a frame around text
            for cells in rows:
                for cell in cells:
                    yield from self._inside(cell)
                    yield from self._end_of_list()
            return
        lines = [" | ".join(_cell_text(cell) for cell in cells) for cells in rows]
        if text := "\n".join(line for line in lines if line.strip(" |")):
            yield Block(text, "table")

    def _notes(self, blob: bytes) -> Iterator[Block]:
        from lxml import etree  # python-docx brings it

        root = etree.fromstring(blob, etree.XMLParser(resolve_entities=False))
        for note in root:
            if note.get(f"{_W}type") in (None, "normal"):
                text = " ".join(filter(None, map(_word_text, note.iter(f"{_W}p"))))
                if text.strip():
                    yield Block(text.strip())

    def _style(self, element: Any) -> Any:
        found = element.find(f"{_W}pPr/{_W}pStyle")
        return self._styles.get(found.get(f"{_W}val")) if found is not None else None

    def _level(self, element: Any, style: Any, name: str) -> int:
        """Find the level of a heading, by its own outline, its style's or the style's name."""
        if name == "title":
            return 1
        own = element.find(f"{_W}pPr/{_W}outlineLvl")
        chain = [own] if own is not None else []
        while style is not None and len(chain) < 10:
            if (found := style.element.find(f"{_W}pPr/{_W}outlineLvl")) is not None:
                chain.append(found)
            if named := re.fullmatch(r"(?:heading|제목|개요) ?(\d)", (style.name or "").lower()):
                return min(int(named[1]), 6)
            style = style.base_style
        level = int(chain[0].get(f"{_W}val")) + 1 if chain else 0
        return min(level, 6) if level < 10 else 0  # the tenth means body text

    def _list_level(self, element: Any, style: Any, name: str) -> int | None:
        """Find how deep in a list a paragraph is; None outside of lists."""
        number = element.find(f"{_W}pPr/{_W}numPr")
        if number is None and style is not None and style.element is not None:
            number = style.element.find(f"{_W}pPr/{_W}numPr")
        if number is None:
            return 0 if name.startswith("list ") and name != "list paragraph" else None
        depth = number.find(f"{_W}ilvl")
        return min(int(depth.get(f"{_W}val")), 8) if depth is not None else 0


def _row_of(cell: Any) -> Any:
    return next(cell.iterancestors(f"{_W}tr"))


def _word_text(element: Any) -> str:
    """Give the text of a paragraph: inserted text too, deleted text and text boxes not."""
    parts = []
    stack = [iter(element)]
    while stack:
        child = next(stack[-1], None)
        if child is None:
            stack.pop()
            continue
        match str(child.tag).removeprefix(_W):
            case "t" | "{http://schemas.openxmlformats.org/officeDocument/2006/math}t":
                parts.append(child.text or "")
            case "tab":
                parts.append("\t")
            case "br" | "cr":
                parts.append("\n")
            case "noBreakHyphen":
                parts.append("-")
            case "txbxContent" | "pPr" | "del" | "moveFrom":
                pass
            case _:
                if child.tag != _FALLBACK:
                    stack.append(iter(child))
    return "".join(parts).strip()


def _cell_text(cell: Any) -> str:
    return " ".join(" ".join(map(_word_text, cell.iter(f"{_W}p"))).split())


def load_pptx(file: FoundFile) -> Iterator[Content]:
    """Read a presentation: each slide's title, texts, tables and notes, with its number as page."""
    pptx = require("pptx", extra="documents", purpose=f"reading {file.path}")
    check_archive(file.path)
    show = pptx.Presentation(str(file.path))
    blocks = [
        block
        for number, slide in enumerate(show.slides, start=1)
        for block in _slide(slide, number)
    ]
    yield Content(tuple(blocks), _title(show.core_properties), _metadata(show.core_properties))


def _slide(slide: Any, number: int) -> Iterator[Block]:
    title = slide.shapes.title
    if title is not None and (text := " ".join(title.text_frame.text.split())):
        yield Block(text, "heading", 1, number)
    own = title.element if title is not None else None
    shapes = [one for one in _shapes(slide.shapes) if one.element is not own]
    for shape in sorted(shapes, key=lambda one: (one.top or 0, one.left or 0)):
        if shape.has_text_frame:
            yield from _frame(shape.text_frame, number)
        elif getattr(shape, "has_table", False) and shape.has_table:
            rows = [[" ".join(cell.text.split()) for cell in row.cells] for row in shape.table.rows]
            if text := "\n".join(" | ".join(row) for row in rows if any(row)):
                yield Block(text, "table", page=number)
    notes = slide.notes_slide.notes_text_frame if slide.has_notes_slide else None
    if notes is not None and (text := notes.text.strip()):
        yield Block(text, page=number)


def _shapes(shapes: Iterable[Any]) -> Iterator[Any]:
    """Yield shapes, and those inside of groups."""
    for shape in shapes:
        if hasattr(shape, "shapes"):
            yield from _shapes(shape.shapes)
        else:
            yield shape


def _frame(frame: Any, number: int) -> Iterator[Block]:
    """Yield a text frame: one paragraph, or a list of several."""
    lines = [(one.level, " ".join(one.text.split())) for one in frame.paragraphs]
    lines = [(level, text) for level, text in lines if text]
    if len(lines) == 1:
        yield Block(lines[0][1], page=number)
    elif lines:
        text = "\n".join("  " * level + "- " + text for level, text in lines)
        yield Block(text, "list", page=number)


def load_xlsx(file: FoundFile) -> Iterator[Content]:
    """Read a workbook: each sheet a heading with its tables; a large one comes in parts."""
    openpyxl = require("openpyxl", extra="documents", purpose=f"reading {file.path}")
    check_archive(file.path, largest_xml=512 * 2**20)  # sheets are read row by row
    with file.path.open("rb") as opened:
        book = openpyxl.load_workbook(opened, read_only=True, data_only=True)
        try:
            title = _title(book.properties) or PurePosixPath(file.id).stem
            for blocks in _sheet_parts(book.worksheets):
                yield Content(blocks, title)
        finally:
            book.close()


def _sheet_parts(sheets: Sequence[Any]) -> Iterator[tuple[Block, ...]]:
    """Gather the blocks of sheets into parts of bounded length."""
    blocks: list[Block] = []
    length = 0
    for sheet in sheets:
        heading = Block(sheet.title, "heading", 1)
        unnamed = len(sheets) == 1 and _NO_SHEET_NAME.fullmatch(sheet.title) is not None
        named = unnamed
        for block in _sheet_blocks(_sheet_rows(sheet)):
            if length > LONGEST_PART:
                yield tuple(blocks)
                blocks, length, named = [], 0, unnamed
            if not named:
                blocks.append(heading)
                named = True
            blocks.append(block)
            length += len(block.text)
    yield tuple(blocks)


def _sheet_blocks(rows: Iterable[list[str]]) -> Iterator[Block]:
    """Yield the tables of a sheet; a row of one cell over a table is a paragraph.

    An empty row ends a table if a new header follows, and else is only a gap in it.
    """
    header: list[str] = []
    lines: list[str] = []
    gap, length = True, 0
    for cells in rows:
        filled = [cell for cell in cells if cell]
        if not filled:
            gap = True
            continue
        starts = gap and (len(filled) == 1 or not header or _is_header(filled, header))
        if starts or (not header and len(filled) == 1) or length > _LONGEST_TABLE:
            if len(lines) > 1 or (lines and starts):
                yield Block("\n".join(lines), "table")
            lines, length = [_line(header, header)] if header and not starts else [], 0
        gap = False
        if not header or starts:
            header = cells if len(filled) > 1 else []
        if header:
            lines.append(_line(cells, header))
            length += len(lines[-1])
        else:
            yield Block(filled[0])
    if lines:
        yield Block("\n".join(lines), "table")


def _is_header(filled: list[str], header: list[str]) -> bool:
    """Say whether a row after a gap starts a new table: short names only, or another width."""
    if any(_NUMBER.fullmatch(cell) or len(cell) > 30 for cell in filled):
        return False
    return len(filled) != sum(map(bool, header)) or all(len(cell) <= 12 for cell in filled)


def _line(cells: list[str], header: list[str]) -> str:
    """Write a row from the column on in which its table starts."""
    first = next((at for at, cell in enumerate(header) if cell), 0)
    return " | ".join(cells[min(first, len(cells) - 1) :] if not any(cells[:first]) else cells)


def _sheet_rows(sheet: Any) -> Iterator[list[str]]:
    for row in sheet.iter_rows():
        cells = [_shown(cell) for cell in row]
        while cells and not cells[-1]:
            cells.pop()
        yield cells


def _shown(cell: Any) -> str:
    """Show a cell as a person sees it: 80,000 and 12.5% if it is formatted so, a date as a date."""
    value = cell.value
    if value is None:
        return ""
    if isinstance(value, datetime.datetime):
        whole = value.time() == datetime.time()
        return value.date().isoformat() if whole else value.isoformat(" ", "minutes")
    if isinstance(value, int | float) and not isinstance(value, bool):
        form = cell.number_format or ""
        if "%" in form:
            return f"{value * 100:.6g}%"
        value = int(value) if isinstance(value, float) and value.is_integer() else value
        return f"{value:,}" if "#,##0" in form else str(value)
    return " ".join(str(value).split())
