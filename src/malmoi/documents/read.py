"""A file as documents: the loader that its content asks for, and every failure in one line."""

import importlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import cast

from ..errors import DataError, DocumentError, MalmoiError
from .content import damaged, find_type, is_readable_name
from .document import Block, Content, FoundFile, RowColumns, SourceDocument
from .find import as_text, find_files
from .text import is_heading

logger = logging.getLogger(__name__)

Loader = Callable[[FoundFile], Iterator[Content]]
# Where each loader is; a library is imported when a file needs it.
_LOADERS = {
    "txt": "text:load_text",
    "md": "text:load_markdown",
    "html": "html:load_html",
    "pdf": "pdf:load_pdf",
    "docx": "office:load_docx",
    "pptx": "office:load_pptx",
    "xlsx": "office:load_xlsx",
    "csv": "tables:load_table",
    "tsv": "tables:load_table",
    "jsonl": "tables:load_table",
    "eml": "html:load_mail",
    "hwpx": "hwp:load_hwpx",
    "hwp": "hwp:load_hwp",
}
_TABLES = ("csv", "tsv", "jsonl")
_DEEPEST = 3  # e-mails inside of one another


def read_documents(
    file: FoundFile | str | Path, *, columns: RowColumns | None = None
) -> Iterator[SourceDocument]:
    """Yield what a file holds: one document, one for each row of a table, several for an e-mail.

    The form is found by the content, and by the name only where the content is plain text. A file
    that cannot be read raises a DocumentError whose one line says why.

    Args:
        file: of `find_files`, or the path of a file.
        columns: which columns of a table hold what; by default found by their names.
    """
    if not isinstance(file, FoundFile):
        if Path(file).is_dir():
            raise DataError(f"{file} is a folder; expected a file. List its files by find_files.")
        file = next(find_files(file))
    yield from _read(file, columns, depth=0)


def _read(file: FoundFile, columns: RowColumns | None, *, depth: int) -> Iterator[SourceDocument]:
    name = as_text(str(file.path))
    empty = True
    try:
        with file.path.open("rb") as content:
            type = find_type(content, name)
        for number, one in enumerate(_load(type, file, columns), start=1):
            document = _document(one, file, type, number)
            if document.blocks:
                yield document
            for inner in _attached(one, document, depth):
                empty = False
                yield inner
            empty = empty and not document.blocks
    except FileNotFoundError as error:
        raise DocumentError(
            f"{name} vanished before it was read. Read the folder again."
        ) from error
    except OSError as error:
        if isinstance(error, MalmoiError):
            raise
        reason = error.strerror or error.__class__.__name__
        raise DocumentError(f"cannot read {name}: {reason}. Check its permissions.") from error
    except MemoryError as error:
        raise DocumentError(f"{name} needs more memory than there is. Break it up.") from error
    except DocumentError:
        raise
    except DataError as error:
        raise DocumentError(str(error)) from error
    except MalmoiError:
        raise
    except Exception as error:  # libraries fail in dozens of ways on damaged files
        raise damaged(file.path, error) from error
    if empty:
        raise DocumentError(f"{name} has no text; expected some. Check the file.")


def _load(type: str, file: FoundFile, columns: RowColumns | None) -> Iterator[Content]:
    module, function = _LOADERS[type].split(":")
    loader = getattr(importlib.import_module(f".{module}", __package__), function)
    if type in _TABLES:
        return cast(Iterator[Content], loader(file, columns))
    return cast(Loader, loader)(file)


def _attached(content: Content, parent: SourceDocument, depth: int) -> Iterator[SourceDocument]:
    """Read the attachments of an e-mail like files; those that cannot be read are logged."""
    for attachment in content.attachments:
        name = PurePosixPath(as_text(attachment.name).replace("\\", "/")).name
        if not is_readable_name(name) or depth >= _DEEPEST:
            continue
        with tempfile.TemporaryDirectory(prefix="malmoi-") as folder:
            path = Path(folder) / f"attachment{PurePosixPath(name).suffix}"
            path.write_bytes(attachment.data)
            id = f"{parent.id}#{name}"
            file = FoundFile(path, id, path.parent, len(attachment.data), parent.modified)
            try:
                for one in _read(file, None, depth=depth + 1):
                    metadata = {**parent.metadata, **one.metadata}
                    yield replace(one, source=parent.source, metadata=metadata)
            except DocumentError as error:
                reason = str(error).replace(str(path), f"{name} in {parent.source}")
                logger.warning(reason)


def _document(content: Content, file: FoundFile, type: str, number: int) -> SourceDocument:
    part = content.part or ("" if number == 1 else str(number))
    blocks = tuple(_block(one) for one in content.blocks if one.text.strip())
    title = content.title.strip() or _first_title(blocks)
    return SourceDocument(
        id=f"{file.id}#{part}" if part else file.id,
        title=title or PurePosixPath(file.id).stem,
        blocks=blocks,
        source=as_text(str(file.path)),
        type=type,
        modified=file.modified,
        metadata=content.metadata,
    )


def _block(block: Block) -> Block:
    text = block.text.strip("\n") if block.kind in ("code", "list") else block.text.strip()
    return replace(block, text=text)


def _first_title(blocks: Sequence[Block]) -> str:
    """Find a heading at the start that names the document; "1. 개요" names a part of it."""
    for block in blocks[:3]:
        if block.kind == "heading" and block.level <= 2 and not is_heading([block.text]):
            return block.text
    return ""
