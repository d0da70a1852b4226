"""A file as documents: the loader that its content asks for, and every failure in one line."""

import importlib
import logging
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path, PurePosixPath
from typing import cast

from ..errors import DataError, DocumentError, MalmoiError
from .content import find_type
from .document import Block, Content, FoundFile, RowColumns, SourceDocument
from .find import as_text, find_files

logger = logging.getLogger(__name__)

Loader = Callable[[FoundFile], Iterator[Content]]
# Where each loader is; a library is imported when a file needs it.
_LOADERS = {
    "txt": "text:load_text",
    "md": "text:load_markdown",
}


def read_documents(
    file: FoundFile | str | Path, *, columns: RowColumns | None = None
) -> Iterator[SourceDocument]:
    """Yield what a file holds: one document, or one for each row of a table.

    The form is found by the content, and by the name only where the content is plain text. A file
    that cannot be read raises a DocumentError whose one line says why.

    Args:
        file: of `find_files`, or the path of a file.
        columns: which columns of a table hold what; by default found by their names.
    """
    if not isinstance(file, FoundFile):
        file = next(find_files(file))
    name = as_text(str(file.path))
    empty = True
    try:
        with file.path.open("rb") as content:
            type = find_type(content, name)
        for number, one in enumerate(_load(type, file, columns), start=1):
            document = _document(one, file, type, number)
            empty = empty and not document.blocks
            if document.blocks:
                yield document
    except FileNotFoundError as error:
        raise DocumentError(
            f"{name} vanished before it was read. Index the folder again."
        ) from error
    except OSError as error:
        if isinstance(error, MalmoiError):
            raise
        reason = error.strerror or error.__class__.__name__
        raise DocumentError(f"cannot read {name}: {reason}. Check its permissions.") from error
    except DocumentError:
        raise
    except DataError as error:
        raise DocumentError(str(error)) from error
    if empty:
        raise DocumentError(f"{name} has no text; expected some. Check the file.")


def _load(type: str, file: FoundFile, columns: RowColumns | None) -> Iterator[Content]:
    if type not in _LOADERS:
        raise DocumentError(f"{file.id} is of the type {type}, which is not read yet.")
    module, function = _LOADERS[type].split(":")
    loader = getattr(importlib.import_module(f".{module}", __package__), function)
    return cast(Loader, loader)(file)


def _document(content: Content, file: FoundFile, type: str, number: int) -> SourceDocument:
    part = content.part or ("" if number == 1 else str(number))
    blocks = tuple(_block(one) for one in content.blocks if one.text.strip())
    first = next((one.text for one in blocks if one.kind == "heading"), "")
    return SourceDocument(
        id=f"{file.id}#{part}" if part else file.id,
        title=content.title.strip() or first or PurePosixPath(file.id).stem,
        blocks=blocks,
        source=as_text(str(file.path)),
        type=type,
        modified=file.modified,
        metadata=content.metadata,
    )


def _block(block: Block) -> Block:
    text = block.text.strip("\n") if block.kind in ("code", "list") else block.text.strip()
    return block if text == block.text else replace(block, text=text)
