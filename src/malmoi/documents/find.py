"""Files of folders: sub-folders too, in one order, each once, and what could not be looked into."""

import logging
import os
import re
import stat
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ..errors import DataError, counted
from .content import is_readable_name
from .document import FoundFile, SkippedPath

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
