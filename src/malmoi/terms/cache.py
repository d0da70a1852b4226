"""Where derived files are stored: in the lexicon's folder, or in the user's cache otherwise."""

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import OutputError
from ..io.files import writing_folder
from ..io.fingerprint import (
    SHORT,
    find_changed,
    has_stamp,
    hash_folder,
    hash_text,
    read_stamp,
    write_json,
)
from .lexicon import Lexicon
from .segment import SHIPPED

FOLDER = "linking"
STAMP = "stamp.json"
_FILES = "files"  # of a stamp: the hashes of what stands next to it


@dataclass(frozen=True)
class DerivedCache:
    """Folders in which derived files may be found, and the one to which new ones are written.

    `local` is in the lexicon's folder and holds the vectors of one model; `user` is in the user's
    cache and may hold those of several. Either may be None.
    """

    local: Path | None
    user: Path | None
    writable: bool  # whether `local` is

    def find(self, name: str, stamp: Mapping[str, Any], *, cached: str = "") -> Path | None:
        """Give the folder whose stamp has all fields of this one, if there is one.

        `cached` is its name in the user's cache where that is another.
        """
        for parent, child in ((self.local, name), (self.user, cached or name)):
            if parent is None or not has_stamp(parent / child / STAMP, stamp):
                continue
            # Damaged ones are made again, as if there were none.
            if _is_whole(parent / child):
                return parent / child
        return None

    def every(self, part: str, stamp: Mapping[str, Any]) -> Iterator[Path]:
        """Give the folders of a part, of whatever segment, whose stamp has all fields of this."""
        for parent in (self.local, self.user):
            for folder in sorted(parent.glob(f"*/{part}*")) if parent is not None else ():
                if has_stamp(folder / STAMP, stamp) and _is_whole(folder):
                    yield folder

    def store(
        self,
        name: str,
        stamp: Mapping[str, Any],
        save: Callable[[Path], object],
        *,
        cached: str = "",
    ) -> None:
        """Write a folder, whole or not at all; nothing happens where that is not possible.

        What is derived is in memory by now, so a full disk costs the next start some time and
        this one nothing.
        """
        parent, child = (self.local, name) if self.writable else (self.user, cached or name)
        if parent is None:
            return
        with contextlib.suppress(OutputError), writing_folder(parent / child, replace=True) as new:
            save(new)
            write_json(new / STAMP, {**stamp, _FILES: hash_folder(new)}, indent=None)


def _is_whole(folder: Path) -> bool:
    files = read_stamp(folder / STAMP).get(_FILES, {})
    return isinstance(files, dict) and find_changed(folder, files) is None


NO_CACHE = DerivedCache(None, None, writable=False)


def cache_of(lexicon: Lexicon) -> DerivedCache:
    """Find where a lexicon's derived files belong; nowhere for one that is in memory only."""
    if lexicon.folder is None:
        return NO_CACHE
    key = hash_text(lexicon.identity)[:SHORT]
    cache = cache_folder()
    user = None if cache is None else cache / FOLDER / key
    if lexicon.folder.parent == SHIPPED:  # part of the installation, which is not written to
        return DerivedCache(None, user, writable=False)
    local = lexicon.folder / FOLDER
    writable = os.access(local if local.exists() else local.parent, os.W_OK | os.X_OK)
    return DerivedCache(local, user, writable=writable)


def cache_folder() -> Path | None:
    """Give the user's folder for what can be made again, None where there is none."""
    if sys.platform == "win32":
        named = os.environ.get("LOCALAPPDATA")
    else:
        named = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    try:
        folder = Path(named or "").expanduser() / "malmoi"
        if not folder.is_absolute():
            return None
        folder.mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # no home, or none that may be written to
        return None
    return folder if os.access(folder, os.W_OK | os.X_OK) else None
