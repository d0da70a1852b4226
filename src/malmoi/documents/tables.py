"""Rows of .csv, .tsv and .jsonl files as documents, their columns known by their names."""

import json
import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ..errors import DocumentError, counted
from ..io.tables import read_cells, read_typed_rows, show_columns
from .document import Block, Content, FoundFile, RowColumns

logger = logging.getLogger(__name__)

# Names of columns without case, spaces and signs. Of several columns of one kind the first named
# here is taken as title; all texts are kept, in the order of the table.
_TITLES = re.findall(
    r"\w+",
    """제목 title subject headline 질문 question 문의 문의내용 질의 query q 주제 topic 항목 이름
    name 명칭 상품명 제품명 용어 term""",
)
_TEXTS = re.findall(
    r"\w+",
    """내용 본문 text body content contents 텍스트 문서 document passage 답변 answer a 답
    응답 reply response 설명 description 해설 정의 definition 문장 sentence 문단
    paragraph 요약 summary abstract context 답변내용 상세내용 상세설명 기사 article message
    메시지 comment 댓글""",
)
_IDS = re.findall(
    r"\w+",
    """id 번호 no idx index key docid 문서번호 uid 아이디 순번 연번""",
)
_SIGNS = re.compile(r"[\W_]+")
_NUMBER = re.compile(r"[\d\s.,:%/+-]*")
_LONGEST_TITLE = 200


@dataclass(frozen=True)
class _Roles:
    """Which columns of a table hold what."""

    texts: tuple[str, ...]
    title: str | None
    id: str | None
    named: bool  # whether any column was named or known; else a row is shown with its columns


def load_table(file: FoundFile, columns: RowColumns | None) -> Iterator[Content]:
    """Read the rows of a table; a first line that names no column is a row like the others."""
    columns = columns or RowColumns()
    rows = _json_rows(file) if _is_json(file.path) else _cell_rows(file)
    roles: _Roles | None = None
    seen: set[int] = set()
    empty = 0
    for number, row in enumerate(rows, start=1):
        if roles is None:
            roles = _roles(list(row), columns, str(file.path))
        content = _content(row, roles, columns, str(number))
        if not any(block.text.strip() for block in content.blocks):
            empty += 1
            continue
        if hash(content.part) in seen:  # an id that comes twice: the row's number makes it one
            content = replace(content, part=f"{content.part}~{number}")
        seen.add(hash(content.part))
        yield content
    if empty:
        logger.info(f"{file.path}: {counted(empty, 'row has', 'rows have')} no text")


def _is_json(path: Path) -> bool:
    return path.suffix.lower() in (".jsonl", ".ndjson")


def _json_rows(file: FoundFile) -> Iterator[Mapping[str, Any]]:
    for _, row in read_typed_rows(file.path):
        yield row


def _cell_rows(file: FoundFile) -> Iterator[Mapping[str, Any]]:
    """Yield rows by the names of the first line, or by numbers if it has no names."""
    rows = read_cells(file.path)
    first = next(rows, None)
    if first is None:
        return
    header = [cell.strip() for cell in first[1]]
    odd = 0
    if not _is_header(header):
        yield {str(at): cell for at, cell in enumerate(first[1], start=1)}
        header = [str(at) for at in range(1, len(header) + 1)]
    names = _unique(header)
    for _, cells in rows:
        odd += len(cells) != len(names)
        if len(cells) > len(names):  # nothing is lost: what is too many belongs to the last one
            cells = [*cells[: len(names) - 1], ", ".join(cells[len(names) - 1 :])]
        yield dict(zip(names, cells, strict=False))
    if odd:
        logger.warning(
            f"{file.path}: {counted(odd, 'row has', 'rows have')} another number of fields than "
            f"the header ({len(names)}); missing ones are empty, further ones are in the last"
        )


def _is_header(cells: Sequence[str]) -> bool:
    """Say whether a first line names columns: a known name, or short different texts throughout."""
    if any(_plain(cell) in {*_TITLES, *_TEXTS, *_IDS} for cell in cells):
        return True
    short = all(cell and len(cell) <= 30 and not _NUMBER.fullmatch(cell) for cell in cells)
    return short and len(set(cells)) == len(cells) > 1


def _unique(names: Iterable[str]) -> list[str]:
    found: list[str] = []
    for at, name in enumerate(names, start=1):
        name = name or str(at)
        found.append(f"{name} ({at})" if name in found else name)
    return found


def _plain(name: str) -> str:
    return _SIGNS.sub("", name.casefold())


def _roles(names: list[str], columns: RowColumns, file: str) -> _Roles:
    """Find which columns hold what: those that were named, else those of known names."""
    asked = [*(columns.text or ()), columns.title, columns.id, *(columns.fields or ())]
    for name in asked:
        if name is not None and name not in names:
            raise DocumentError(
                f"{file} has no column {name!r}; it has {show_columns(names)}. "
                "Name columns that it has."
            )
    known = {_plain(name): name for name in reversed(names)}
    id = columns.id or next((known[one] for one in _IDS if one in known), None)
    title = columns.title or next((known[one] for one in _TITLES if one in known), None)
    texts = columns.text or tuple(
        name for name in names if _plain(name) in (*_TEXTS, *_TITLES) and name not in (title, id)
    )
    if columns.text is not None and columns.title is None and title in texts:
        title = None
    if not texts and title is None:
        texts = tuple(name for name in names if name != id) or tuple(names)
        return _Roles(texts, None, id, named=len(texts) == 1)
    return _Roles(texts, title, id, named=True)


def _content(row: Mapping[str, Any], roles: _Roles, columns: RowColumns, number: str) -> Content:
    title = _text(row.get(roles.title)) if roles.title else ""
    values = [(name, _text(row.get(name))) for name in roles.texts]
    if roles.named:
        blocks = [Block(value) for _, value in values]
        if title:
            short = len(title) <= _LONGEST_TITLE
            blocks.insert(0, Block(title, "heading", 1) if short else Block(title))
    else:
        shown = (value if name.isdigit() else f"{name}: {value}" for name, value in values if value)
        blocks = [Block("\n".join(shown))]
        words = (value for _, value in values if value and not _NUMBER.fullmatch(value))
        title = next(words, "")
    kept = columns.fields
    if kept is None:
        kept = tuple(name for name in row if name not in roles.texts and name != roles.title)
    part = _text(row.get(roles.id)) if roles.id else ""
    metadata = {name: row[name] for name in kept if name in row}
    return Content(tuple(blocks), title[:_LONGEST_TITLE], metadata, part or number)


def _text(value: Any) -> str:
    """Give a value of a row as text: lists with a line for each, objects as JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, list):
        return "\n".join(filter(None, map(_text, value)))
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False)
    return str(value)
