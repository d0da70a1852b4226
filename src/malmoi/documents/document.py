"""What a file becomes: a document of blocks as its author made them, and passages to search."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

Kind = Literal["heading", "paragraph", "list", "table", "code"]


@dataclass(frozen=True)
class Block:
    """A piece of a document as its author made it.

    Attributes:
        text: list items, rows of a table and lines of code have a line each; cells of a row are
            separated by " | ", and the first row of a table is its header.
        kind: what the piece is.
        level: of a heading, 1 to 6.
        page: of a PDF; the slide of a presentation.
    """

    text: str
    kind: Kind = "paragraph"
    level: int = 0
    page: int | None = None


@dataclass(frozen=True)
class SourceDocument:
    """A document as it was read from a file.

    Attributes:
        id: the file's path relative to its root, with "/" and in NFC; the row of a table has its
            number or id after a "#", and a further part of a very long file its number after "#".
        title: the file's own title, its first heading, or its name.
        blocks: the text in the order of reading.
        source: the file's path as it was given.
        type: the name of the loader: "pdf", "docx", ...
        modified: when the file was changed, in seconds since the epoch.
        metadata: other columns of a row, headers of an e-mail, the author of a document.
    """

    id: str
    title: str
    blocks: tuple[Block, ...]
    source: str
    type: str
    modified: float
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Attachment:
    """A file inside of an e-mail."""

    name: str
    data: bytes


@dataclass(frozen=True)
class Content:
    """What a loader reads from a file; `read_documents` makes a SourceDocument of it.

    Attributes:
        blocks: the text in the order of reading.
        title: what the file itself says; empty without one.
        metadata: as of a SourceDocument.
        part: what follows the "#" in the id; empty for a whole file.
        attachments: files inside of it, read after it.
    """

    blocks: tuple[Block, ...]
    title: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""
    attachments: tuple[Attachment, ...] = ()


@dataclass(frozen=True)
class Passage:
    """A part of a document that is found as one.

    Attributes:
        text: what it says.
        headings: the headings above it, outermost first.
        page: the page on which it starts.
        sentences: where each sentence starts and ends in `text`.
    """

    text: str
    headings: tuple[str, ...] = ()
    page: int | None = None
    sentences: tuple[tuple[int, int], ...] = ()


Splitter = Callable[[SourceDocument], Sequence[Passage]]


@dataclass(frozen=True)
class FoundFile:
    """A file to be read.

    Attributes:
        path: where it is, starting with the path that was asked for.
        id: its path relative to `root`, with "/" and in NFC.
        root: the folder that was asked for, or the one that all paths asked for have in common.
        size: in bytes.
        modified: when it was changed, in seconds since the epoch.
    """

    path: Path
    id: str
    root: Path
    size: int
    modified: float


@dataclass(frozen=True)
class SkippedPath:
    """A file or folder that could not be looked into.

    Attributes:
        path: where it is.
        id: as of a `FoundFile`; what is inside an unreadable folder has an id that starts with
            this and "/". It is empty if a root itself cannot be read.
        reason: one line that says why.
    """

    path: Path
    id: str
    reason: str


@dataclass(frozen=True)
class RowColumns:
    """Which columns of a table hold what; what is None is found by the usual names.

    Attributes:
        text: the columns whose texts make the document, in this order.
        title: the column of the title.
        id: the column whose values go into ids; a row's number without one.
        fields: the columns to keep as metadata; by default all that are not text.
    """

    text: tuple[str, ...] | None = None
    title: str | None = None
    id: str | None = None
    fields: tuple[str, ...] | None = None
