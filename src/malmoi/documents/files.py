"""Files and folders → documents: every file found once, in one order, and read by its type."""

import contextlib
import importlib
import logging
import os
import re
import stat
import tempfile
import unicodedata
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path, PurePosixPath
from typing import cast

from ..errors import DataError, DocumentError, MalmoiError, counted
from .content import ARCHIVE, check_archive, damaged, find_type, is_readable_name
from .document import Block, Content, FoundFile, RowColumns, SkippedPath, SourceDocument
from .text import is_heading, is_placeholder

logger = logging.getLogger(__name__)

_SHOWN = 5  # how many endings of files that were left out are named
_Inode = tuple[int, int]


def find_files(
    paths: str | Path | Iterable[str | Path],
    *,
    include: Sequence[str] = (),
    exclude: Sequence[str] = (),
    skipped: list[SkippedPath] | None = None,
) -> Iterator[FoundFile]:
    """Yield the files of folders and sub-folders, and files that are named themselves.

    Hidden files and folders, and files of a form that no loader reads, are left out, unless
    `include` or a path itself names them. Links are followed; a file or folder that is reached
    twice is yielded once. What cannot be looked into is logged, and the rest is still yielded.

    Args:
        paths: files and folders. Ids are relative to the folder; of several paths, to the folder
            that they have in common, so that two files never have the same id.
        include: patterns such as "*.pdf" or "manuals/**/*.md"; without one every file of a known
            form. A pattern without "/" is matched against names, another against the path from
            the root; a folder that matches means all that is in it. Case does not matter.
        exclude: the same for what is left out.
        skipped: a list to which files and folders that could not be looked into are added.
    """
    given = [Path(paths)] if isinstance(paths, str | Path) else [Path(path) for path in paths]
    for path in given:
        if not os.path.lexists(path):
            raise DataError(f"there is no file or folder {path}. Check the name.")
    search = _Search(
        _common_root(given),
        _matcher(include) if include else None,
        _matcher(exclude),
        [] if skipped is None else skipped,
    )
    for path in given:
        yield from search.files(path)
    yield from search.linked_files()
    search.report()


def as_text(name: str) -> str:
    """Give a file's name as text in NFC; bytes that are not UTF-8 are read as cp949.

    >>> as_text("a\\udcb0\\udca1.txt")
    'a가.txt'
    """
    if name.isascii():
        return name
    try:
        name.encode()
    except UnicodeEncodeError:
        raw = os.fsencode(name)
        try:
            name = raw.decode("cp949")
        except UnicodeDecodeError:
            name = raw.decode("utf-8", "backslashreplace")
    return unicodedata.normalize("NFC", name)


@dataclass
class _Search:
    """One search: what was seen already, what was left out, and links to look at last."""

    root: Path
    included: Callable[[str], bool] | None
    excluded: Callable[[str], bool]
    skipped: list[SkippedPath]
    seen: set[_Inode] = field(default_factory=set)
    ids: set[str] = field(default_factory=set)
    links: list[tuple[str, str]] = field(default_factory=list)
    others: Counter[str] = field(default_factory=Counter)

    def files(self, path: Path) -> Iterator[FoundFile]:
        """Yield the files of a path that was asked for."""
        id = as_text(_relative(path, self.root))
        try:
            info = path.stat()
        except OSError as error:
            self.skip(str(path), id, error)
            return
        if stat.S_ISDIR(info.st_mode):
            yield from self.folder(str(path), id)
        elif stat.S_ISREG(info.st_mode):
            yield from self.file(str(path), id, info)
        else:
            raise DataError(f"{path} is neither a file nor a folder. Name a file or a folder.")

    def linked_files(self) -> Iterator[FoundFile]:
        """Yield what links lead to and was not found without them; links of links follow."""
        while self.links:
            path, id = self.links.pop(0)
            try:
                info = Path(path).stat()
            except OSError as error:
                self.skip(path, id, error)
                continue
            if stat.S_ISDIR(info.st_mode):
                yield from self.folder(path, id)
            elif stat.S_ISREG(info.st_mode) and self.wants(id):
                yield from self.file(path, id, info, linked=True)

    def folder(self, path: str, id: str) -> Iterator[FoundFile]:
        """Yield the files of a folder, then those of its sub-folders, by name."""
        waiting = [(path, id)]
        while waiting:
            path, id = waiting.pop()
            folders: list[tuple[str, str]] = []
            for child, entry in self.entries(path, id):
                try:
                    if entry.is_symlink():
                        self.links.append((entry.path, child))
                    elif entry.is_dir():
                        folders.append((entry.path, child))
                    elif entry.is_file() and self.wants(child):
                        yield from self.file(entry.path, child, entry.stat())
                except FileNotFoundError:
                    continue  # it was removed a moment ago
                except OSError as error:
                    self.skip(entry.path, child, error)
            waiting += reversed(folders)

    def entries(self, path: str, id: str) -> list[tuple[str, "os.DirEntry[str]"]]:
        """List what is in a folder with its id, by name, without what is hidden or excluded."""
        try:
            info = Path(path).stat()
            if self.seen_before(info):
                return []
            with os.scandir(path) as entries:
                found = sorted((as_text(one.name), one.name, one) for one in entries)
        except OSError as error:
            self.skip(path, id, error)
            return []
        visible = [(name, one) for name, _, one in found if not name.startswith((".", "~$"))]
        children = ((f"{id}/{name}" if id else name, one) for name, one in visible)
        return [(child, one) for child, one in children if not self.excluded(child)]

    def file(
        self, path: str, id: str, info: os.stat_result, *, linked: bool = False
    ) -> Iterator[FoundFile]:
        """Yield a file that has not been seen; two names that differ in NFC and NFD get two ids."""
        if self.seen_before(info) and (linked or info.st_nlink == 1):
            return
        unique, number = id, 2
        while unique in self.ids:
            unique, number = f"{id}~{number}", number + 1
        self.ids.add(unique)
        yield FoundFile(Path(path), unique, self.root, info.st_size, info.st_mtime)

    def seen_before(self, info: os.stat_result) -> bool:
        """Note a file or folder, and say whether it was noted before (never without inodes)."""
        inode = (info.st_dev, info.st_ino)
        if inode in self.seen and info.st_ino:
            return True
        self.seen.add(inode)
        return False

    def wants(self, id: str) -> bool:
        """Say whether a file of a folder is one to read; others are counted by their endings."""
        if self.included is not None:
            return self.included(id)
        if is_readable_name(id):
            return True
        self.others[Path(id).suffix.lower() or "no ending"] += 1
        return False

    def skip(self, path: str, id: str, error: OSError) -> None:
        """Note what could not be looked into; one line for each."""
        reason = f"cannot read {as_text(path)}: {error.strerror or error}. Check its permissions."
        self.skipped.append(SkippedPath(Path(path), id, reason))
        logger.warning(reason)

    def report(self) -> None:
        """Log how many files were left out for their form."""
        if self.others:
            most = [f"{count:,} {suffix}" for suffix, count in self.others.most_common(_SHOWN)]
            more = ", …" if len(self.others) > _SHOWN else ""
            total = counted(self.others.total(), "file is", "files are")
            logger.info(
                f"{total} of a form that is not read ({', '.join(most)}{more}); name them with "
                "include to read them as text"
            )


def _common_root(paths: Sequence[Path]) -> Path:
    if len(paths) == 1 and paths[0].is_dir():
        return paths[0]
    folders = [path if path.is_dir() else path.parent for path in paths]
    if len(folders) == 1:
        return folders[0]
    try:
        return Path(os.path.commonpath([path.absolute() for path in folders] or [Path.cwd()]))
    except ValueError as error:
        raise DataError(
            "the paths are on different drives; expected a folder that holds them all. "
            "Give them one after the other."
        ) from error


def _relative(path: Path, root: Path) -> str:
    """Give a path relative to the root, with "/"; empty for the root itself."""
    relative = os.path.relpath(path.absolute(), root.absolute()).replace(os.sep, "/")
    return "" if relative == "." else relative


def _matcher(patterns: Sequence[str]) -> Callable[[str], bool]:
    """Make a test of ids: a pattern fits a path, or the path of a folder that it is in."""
    names = [_regex(one) for one in patterns if "/" not in one.rstrip("/")]
    whole = [_regex(one) for one in patterns if "/" in one.rstrip("/")]
    name = re.compile("|".join(names), re.IGNORECASE) if names else None
    path = re.compile("|".join(whole), re.IGNORECASE) if whole else None

    def fits(id: str) -> bool:
        parts = id.split("/")
        if name is not None and any(map(name.fullmatch, parts)):
            return True
        heads = ("/".join(parts[: n + 1]) for n in range(len(parts)))
        return path is not None and any(map(path.fullmatch, heads))

    return fits


def _regex(pattern: str) -> str:
    pattern = unicodedata.normalize("NFC", pattern).strip("/").removeprefix("./")
    signs = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    parts = re.split(r"(\*\*/|\*\*|\*|\?|\[!?\]?[^\]]*\])", pattern)
    made = []
    for part in parts:
        if part in signs:
            made.append(signs[part])
        elif part.startswith("[") and part.endswith("]"):
            made.append("[" + part[1:-1].replace("\\", r"\\").replace("!", "^", 1) + "]")
        else:
            made.append(re.escape(part))
    return f"(?:{''.join(made)})"


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
_DEEPEST = 3  # e-mails and archives inside of one another


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
        if type == ARCHIVE:
            if depth >= _DEEPEST:
                return
            for document in _read_archive(file, depth):
                empty = False
                yield document
            if empty:
                raise DocumentError(f"{name} has no document inside that is read. Unpack it.")
            return
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


def _read_archive(file: FoundFile, depth: int) -> Iterator[SourceDocument]:
    """Read the documents of a zip file, as "a.zip/b.pdf"; those that cannot be read are logged.

    How many there are, and how large all are, is bounded as for Office files.
    """
    check_archive(file.path)
    with zipfile.ZipFile(file.path) as archive:
        members = [one for one in archive.infolist() if not one.is_dir()]
        for member in members:
            name = _member_name(member)
            hidden = any(part.startswith((".", "__MACOSX")) for part in name.split("/"))
            if hidden or not is_readable_name(name):
                continue
            with tempfile.TemporaryDirectory(prefix="malmoi-") as folder:
                path = Path(folder) / f"member{PurePosixPath(name).suffix}"
                path.write_bytes(archive.read(member))
                inner = FoundFile(
                    path, f"{file.id}/{name}", path.parent, member.file_size, file.modified
                )
                try:
                    for one in _read(inner, None, depth=depth + 1):
                        yield replace(one, source=f"{as_text(str(file.path))}/{name}")
                except DocumentError as error:
                    logger.warning(str(error).replace(str(path), f"{name} in {file.path}"))


def _member_name(member: zipfile.ZipInfo) -> str:
    """The path of a zip file's member; Korean Windows writes cp949 without saying so."""
    name = member.filename
    if not member.flag_bits & 0x800:
        with contextlib.suppress(UnicodeError):
            name = name.encode("cp437").decode("cp949")
    parts = name.replace("\\", "/").split("/")
    return unicodedata.normalize("NFC", "/".join(one for one in parts if one not in ("", "..")))


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
    named = content.title.strip()
    title = named if type in _TABLES or not is_placeholder(named) else ""
    title = title or _first_title(blocks)
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
