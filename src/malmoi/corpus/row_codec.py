"""The rows of a corpus file: written with a checksum, compared with it when they are read."""

import json
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..documents import Passage
from ..errors import CorpusError
from ..io.files import parse_json
from .store import Document, StoredDocument, hangul_share, passage_digest

# Rows with their checksums, as `read_document` and `read_passage` read them. The number of the
# last passage is part of a document's, so that none can be missing.
_LAST = "(SELECT max(number) FROM passages WHERE document = d.row)"
DOCUMENT = (
    "d.row, d.id, d.title, d.metadata, d.source, d.type, d.modified, d.file, d.digest, "
    f"{_LAST}, d.checksum"
)
PASSAGE = (
    "p.row, p.document, p.number, p.text, p.headings, p.page, p.sentences, p.hangul, p.digest, "
    "p.checksum"
)
ABOUT = 11  # columns of `DOCUMENT`


def row_checksum(values: Iterable[Any]) -> int:
    """A checksum of the values of a row, as they come out of SQLite."""
    return zlib.crc32("\0".join(map(str, values)).encode("utf-8", "surrogatepass"))


def read_document(row: Sequence[Any], *, text: str = "") -> Document:
    """A document, read and checked; `row` starts with the columns of `DOCUMENT`."""
    *values, checksum = row[:ABOUT]
    _, id, title, metadata, source, type, modified, *_ = values
    try:
        if checksum not in (None, row_checksum(values)):
            raise damaged()
        return Document(id, text, dict(parse_json(metadata)), title, source, type, modified)
    except (ValueError, TypeError):
        raise damaged() from None


def checked_passage(row: Sequence[Any]) -> Sequence[Any]:
    """The columns of `PASSAGE`, if they are as they were written."""
    if row[-1] not in (None, row_checksum(row[:-1])):
        raise damaged()
    return row


def read_passage(row: Sequence[Any]) -> Passage:
    """A passage, read and checked, from the columns of `PASSAGE`."""
    _, _, _, text, headings, page, sentences, *_ = checked_passage(row)
    try:
        spans = tuple((int(start), int(end)) for start, end in parse_json(sentences))
        return Passage(text, tuple(map(str, parse_json(headings))), page, spans)
    except (ValueError, TypeError):
        raise damaged() from None


def whole_text(text: str | None, checksum: int | None, *, passages: Sequence[str] = ()) -> str:
    """The text of a document, which is that of its passages unless it is kept apart."""
    if checksum not in (None, row_checksum([text])):
        raise damaged()
    return "\n\n".join(passages) if text is None else text


def document_row(row: int, stored: StoredDocument) -> tuple[Any, ...]:
    """The row of the table `documents` of a document."""
    one = stored.document
    joined = "\n\n".join(passage.text for passage in stored.passages)
    text = None if one.text == joined or stored.file else one.text
    # What SQLite makes of numbers: floats, and NULL of those that are none.
    modified = None if one.modified is None or math.isnan(one.modified) else one.modified + 0.0
    metadata, file, digest = _json(one.metadata), stored.file or None, stored.digest
    about = (metadata, one.title, one.source, one.type, modified, file, digest)
    last = len(stored.passages) - 1 if stored.passages else None
    values = (row, one.id, one.title, metadata, *about[2:], last)
    return (row, one.id, text, *about, row_checksum(values), row_checksum([text]))


def passage_row(
    place: int, document: int, number: int, title: str, one: Passage, words: Sequence[str]
) -> tuple[Any, ...]:
    """The row of the table `passages` of a passage."""
    values = (
        place,
        document,
        number,
        one.text,
        json.dumps(one.headings, ensure_ascii=False),
        one.page,
        json.dumps(one.sentences),
        hangul_share(one.text),
        passage_digest(title, one),
    )
    return (*values, row_checksum(values), row_checksum([" ".join(words)]))


def _json(metadata: Mapping[str, Any]) -> str:
    return json.dumps(dict(metadata), ensure_ascii=False) if metadata else "{}"


def vector_checksum(row: int, raw: bytes) -> int:
    """The checksum of a passage's vectors, which tells those of another passage too."""
    return zlib.crc32(raw, row & 0xFFFFFFFF)


def is_whole(row: int, raw: bytes, checksum: int | None) -> bool:
    """Tell whether vectors are as they were written; without a checksum they are taken as such."""
    # Damage may also turn the bytes into text or a number.
    return isinstance(raw, bytes) and checksum in (None, vector_checksum(row, raw))


def checked_vectors(row: int, raw: bytes, checksum: int | None) -> bytes:
    """The vectors of a passage, if they are as they were written."""
    if not is_whole(row, raw, checksum):
        raise damaged()
    return raw


def damaged() -> CorpusError:
    """What is said of a row that is not as it was written."""
    return CorpusError(
        "a document of the corpus is damaged: what was read is not what was written. See what is "
        "left with: malmoi corpus check, and restore a backup, or build the corpus again with: "
        "malmoi index"
    )
