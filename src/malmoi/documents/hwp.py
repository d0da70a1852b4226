"""Documents of Hangul (한글): .hwpx, a ZIP of XML, and .hwp of version 5, records in OLE streams.

The libraries for these are under AGPL or hardly kept, and both forms are published by Hancom; so
what a search needs of them is read here: paragraphs, outline levels, tables, boxes and notes.
"""

import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from ..errors import DocumentError, require
from .content import check_archive
from .document import Block, Content, FoundFile
from .text import mark_headings

_OUTLINE = re.compile(r"(?:개요|outline|제목|heading)\s*(\d)", re.I)
_LARGEST_FILE = 512 * 2**20
_LARGEST_STREAM = 128 * 2**20  # unpacked

# Parts of a record's tag in .hwp; see "한글 문서 파일 형식 5.0", Hancom.
_STYLE, _PARAGRAPH, _TEXT, _CONTROL, _LIST = 26, 66, 67, 71, 72
_WIDE = frozenset(range(1, 24)) - {10, 13}  # control characters that take eight places


def load_hwpx(file: FoundFile) -> Iterator[Content]:
    """Read a .hwpx document in the order of its sections."""
    check_archive(file.path)
    with zipfile.ZipFile(file.path) as archive:
        names = set(archive.namelist())
        manifest = (
            archive.read("META-INF/manifest.xml") if "META-INF/manifest.xml" in names else b""
        )
        if b"encryption-data" in manifest:
            raise DocumentError(f"{file.path} is encrypted. Save it without a password.")
        package = _parse(archive.read("Contents/content.hpf"))
        header = "Contents/header.xml"
        levels = _Levels(_parse(archive.read(header)) if header in names else None)
        blocks: list[Block] = []
        for part in _sections(package, names):
            blocks += _HwpxSection(levels).blocks(_parse(archive.read(part)))
    title = next((one.text or "" for one in package.iter() if _name(one) == "title"), "")
    creators = (one for one in package.iter() if one.get("name") == "creator")
    author = next((one.text or "" for one in creators), "")
    yield Content(tuple(mark_headings(blocks)), title, {"author": author} if author else {})


def _parse(data: bytes) -> ElementTree.Element:
    # Entities that unfold into one another are stopped by expat itself; no document has a DTD.
    if b"<!DOCTYPE" in data[:4096] or b"<!ENTITY" in data[:4096]:
        raise ValueError("a DTD")
    return ElementTree.fromstring(data)


def _name(element: ElementTree.Element) -> str:
    """Give an element's name without its namespace, which differs between versions."""
    return element.tag.rpartition("}")[2]


def _sections(package: ElementTree.Element, names: set[str]) -> list[str]:
    """List the files of the sections in the order of the package's spine."""
    hrefs = {one.get("id"): one.get("href", "") for one in package.iter() if _name(one) == "item"}
    spine = [hrefs.get(one.get("idref"), "") for one in package.iter() if _name(one) == "itemref"]
    found = [href for href in spine if "section" in href and href in names]
    rest = (name for name in names if re.fullmatch(r"Contents/section\d+\.xml", name))
    return found or sorted(rest, key=lambda name: int(re.sub(r"\D", "", name)))


class _Levels:
    """Which paragraphs of a .hwpx document are headings or items, by their styles and shapes."""

    def __init__(self, header: ElementTree.Element | None) -> None:
        self._styles: dict[str, int] = {}
        self._shapes: dict[str, tuple[str, int]] = {}
        for element in header.iter() if header is not None else ():
            id = element.get("id", "")
            if _name(element) == "style":
                found = _OUTLINE.fullmatch(element.get("engName", "")) or _OUTLINE.fullmatch(
                    element.get("name", "")
                )
                self._styles[id] = int(found[1]) if found else 0
            elif _name(element) == "paraPr":
                for inner in element:
                    if _name(inner) == "heading":
                        level = int(inner.get("level", "0")) + 1
                        self._shapes[id] = (inner.get("type", "NONE"), level)

    def heading(self, paragraph: ElementTree.Element) -> int:
        """Give the level of a heading; 0 for other paragraphs."""
        kind, level = self._shapes.get(paragraph.get("paraPrIDRef", ""), ("", 0))
        named = self._styles.get(paragraph.get("styleIDRef", ""), 0)
        return min(named or (level if kind == "OUTLINE" else 0), 6)

    def is_item(self, paragraph: ElementTree.Element) -> bool:
        """Say whether a paragraph has a bullet or a number of a list."""
        return self._shapes.get(paragraph.get("paraPrIDRef", ""), ("", 0))[0] in (
            "BULLET",
            "NUMBER",
        )


class _HwpxSection:
    """Walks the XML of a section."""

    def __init__(self, levels: _Levels) -> None:
        self._levels = levels

    def blocks(self, parent: ElementTree.Element) -> Iterator[Block]:
        """Yield the blocks of the paragraphs inside an element."""
        for element in parent:
            if _name(element) == "p":
                yield from self._paragraph(element)

    def _paragraph(self, element: ElementTree.Element) -> Iterator[Block]:
        text: list[str] = []
        others: list[Block] = []
        for run in element:
            for child in run if _name(run) == "run" else ():
                if _name(child) == "t":
                    text.append(_hwpx_text(child))
                elif _name(child) == "tbl":
                    others += self._table(child)
                elif _name(child) != "secPr":
                    others += self._inside(child)
        if line := " ".join("".join(text).split(" ")).strip():
            level = self._levels.heading(element)
            if level and len(line) <= 100:
                yield Block(line, "heading", level)
            elif self._levels.is_item(element):
                yield Block(f"- {line}", "list")
            else:
                yield Block(line)
        yield from others

    def _inside(self, element: ElementTree.Element) -> Iterator[Block]:
        """Yield what is in boxes, captions, notes and equations; running heads and feet not."""
        for child in element:
            match _name(child):
                case "header" | "footer":
                    continue
                case "subList":
                    yield from self.blocks(child)
                case "script":
                    if child.text:
                        yield Block(child.text)
                case "tbl":
                    yield from self._table(child)
                case _:
                    yield from self._inside(child)

    def _table(self, element: ElementTree.Element) -> Iterator[Block]:
        rows = []
        for row in element:
            if _name(row) == "tr":
                rows.append([list(self._inside(cell)) for cell in row if _name(cell) == "tc"])
            elif _name(row) == "caption":
                yield from self._inside(row)
        yield from table_blocks(rows)


def _hwpx_text(element: ElementTree.Element) -> str:
    """Give the text of a <t>, which has elements for line breaks, tabs and spaces in it."""
    signs = {"lineBreak": "\n", "tab": "\t", "nbSpace": " ", "fwSpace": " ", "hyphen": "-"}
    parts = [element.text or ""]
    for child in element:
        parts += [signs.get(_name(child), ""), child.tail or ""]
    return "".join(parts)


def table_blocks(rows: Iterable[list[list[Block]]]) -> Iterator[Block]:
    """Make a table of rows of cells; one of a single column is a frame around its contents."""
    rows = list(rows)
    if all(len(cells) <= 1 for cells in rows):
        yield from (block for cells in rows for cell in cells for block in cell)
        return
    lines = [" | ".join(_one_line(cell) for cell in cells) for cells in rows]
    if text := "\n".join(line for line in lines if line.strip(" |")):
        yield Block(text, "table")


def _one_line(blocks: Iterable[Block]) -> str:
    return " ".join(" ".join(block.text.split()) for block in blocks)


@dataclass
class _Record:
    """A record of a .hwp stream with those below it."""

    tag: int
    data: bytes
    children: list["_Record"] = field(default_factory=list)


def load_hwp(file: FoundFile) -> Iterator[Content]:
    """Read a .hwp document of version 5."""
    olefile = require("olefile", extra="documents", purpose=f"reading {file.path}")
    if file.size > _LARGEST_FILE:
        raise DocumentError(
            f"{file.path} has {file.size // 2**20:,} MiB; expected at most "
            f"{_LARGEST_FILE // 2**20}. Break it into several."
        )
    with olefile.OleFileIO(file.path.read_bytes()) as ole:
        header = ole.openstream("FileHeader").read()
        flags = struct.unpack_from("<I", header, 36)[0]
        if flags & 2:
            raise DocumentError(f"{file.path} is encrypted. Save it without a password.")
        if flags & 4:
            raise DocumentError(
                f"{file.path} is a distribution copy (배포용), whose text is encrypted; expected a "
                "document that can be edited. Ask for the original, or print it to a PDF."
            )
        packed = bool(flags & 1)
        styles = _hwp_styles(_stream(ole, "DocInfo", packed, file.path))
        names = ["/".join(one) for one in ole.listdir() if one[0] == "BodyText"]
        blocks: list[Block] = []
        for name in sorted(names, key=lambda name: int(re.sub(r"\D", "", name) or 0)):
            records = _tree(_stream(ole, name, packed, file.path))
            blocks += _hwp_blocks(records.children, styles)
        title, author = _summary(ole)
    yield Content(tuple(mark_headings(blocks)), title, {"author": author} if author else {})


def _stream(ole: Any, name: str, packed: bool, path: Path) -> bytes:
    data: bytes = ole.openstream(name).read()
    if not packed:
        return data
    unpacker = zlib.decompressobj(-15)
    data = unpacker.decompress(data, _LARGEST_STREAM)
    if unpacker.unconsumed_tail:
        raise DocumentError(
            f"{path} has more than {_LARGEST_STREAM // 2**20} MiB in one part; expected a "
            "document. Break it into several, or check where it is from."
        )
    return data


def _records(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield tag, level and contents of the records of a stream."""
    at = 0
    while at + 4 <= len(data):
        head = struct.unpack_from("<I", data, at)[0]
        size, at = head >> 20, at + 4
        if size == 0xFFF:
            size, at = struct.unpack_from("<I", data, at)[0], at + 4
        yield head & 0x3FF, (head >> 10) & 0x3FF, data[at : at + size]
        at += size


def _tree(data: bytes) -> _Record:
    """Put records below the last one of the level above theirs."""
    root = _Record(0, b"")
    above = [root]
    for tag, level, contents in _records(data):
        record = _Record(tag, contents)
        del above[level + 1 :]
        above[-1].children.append(record)
        above.append(record)
    return root


def _hwp_styles(data: bytes) -> dict[int, int]:
    """Find which styles are of the outline: the number of each with its level."""
    found: dict[int, int] = {}
    number = 0
    for tag, _, contents in _records(data):
        if tag == _STYLE:
            length = struct.unpack_from("<H", contents)[0]
            name = contents[2 : 2 + 2 * length].decode("utf-16-le", "replace")
            if outline := _OUTLINE.fullmatch(name):
                found[number] = int(outline[1])
            number += 1
    return found


def _hwp_blocks(records: Iterable[_Record], styles: Mapping[int, int]) -> Iterator[Block]:
    for record in records:
        if record.tag != _PARAGRAPH:
            continue
        text = "".join(_hwp_text(one.data) for one in record.children if one.tag == _TEXT).strip()
        level = styles.get(record.data[10], 0) if len(record.data) > 10 else 0
        if text:
            is_heading = level and len(text) <= 100
            yield Block(text, "heading", min(level, 6)) if is_heading else Block(text)
        for control in record.children:
            if control.tag == _CONTROL:
                yield from _hwp_control(control, styles)


def _hwp_control(control: _Record, styles: Mapping[int, int]) -> Iterator[Block]:
    """Yield what is in a table, a box or a note; running heads and feet are left out."""
    kind = control.data[:4][::-1]
    if kind in (b"head", b"foot"):
        return
    if kind == b"tbl ":
        rows: dict[int, list[list[Block]]] = {}
        cell: list[Block] = []
        for record in control.children:
            if record.tag == _LIST and len(record.data) >= 12:
                cell = []
                rows.setdefault(struct.unpack_from("<H", record.data, 10)[0], []).append(cell)
            elif record.tag == _PARAGRAPH:
                cell += _hwp_blocks([record], styles)
        yield from table_blocks(rows[row] for row in sorted(rows))
        return
    waiting = list(control.children)
    while waiting:
        record = waiting.pop(0)
        if record.tag == _PARAGRAPH:
            yield from _hwp_blocks([record], styles)
        else:
            waiting[:0] = record.children


def _hwp_text(data: bytes) -> str:
    """Give the text of a paragraph without the controls that stand in it."""
    units = struct.unpack(f"<{len(data) // 2}H", data[: len(data) // 2 * 2])
    parts: list[bytes] = []
    at = 0
    while at < len(units):
        unit = units[at]
        if unit >= 32:
            parts.append(struct.pack("<H", unit))
        elif unit == 9:
            parts.append(b"\t\0")
        elif unit == 10:
            parts.append(b"\n\0")
        elif unit == 24:
            parts.append(b"-\0")
        elif unit in (30, 31):
            parts.append(b" \0")
        at += 8 if unit in _WIDE else 1
    return b"".join(parts).decode("utf-16-le", "replace")


def _summary(ole: Any) -> tuple[str, str]:
    """Give title and author; a summary that cannot be read costs only these."""
    name = "\x05HwpSummaryInformation"
    try:
        found = ole.getproperties(name) if ole.exists(name) else {}
    except Exception:
        return "", ""
    return tuple(  # type: ignore[return-value]
        value.strip("\0 ") if isinstance(value := found.get(key), str) else "" for key in (2, 4)
    )
