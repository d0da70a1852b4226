"""Where derived files are kept: beside their lexicon, or in the user's cache if that is closed."""

import contextlib
import hashlib
import json
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import OutputError
from ..io.files import writing_folder
from ..lexicon import Lexicon
from ..lexicon.lexicon import SHIPPED

FOLDER = "linking"
STAMP = "stamp.json"


@dataclass(frozen=True)
class DerivedCache:
    """Folders in which derived files may be found, and the one to which new ones are written.

    `beside` is the lexicon's own, which holds the vectors of one model; `cache` is the user's,
    which may hold those of several. Either may be None.
    """

    beside: Path | None
    cache: Path | None
    writable: bool  # whether `beside` is

    def find(self, name: str, stamp: Mapping[str, Any], *, cached: str = "") -> Path | None:
        """Give the folder whose stamp says all that this one says, if there is one.

        `cached` is its name in the cache where that is another.
        """
        for parent, child in ((self.beside, name), (self.cache, cached or name)):
            if parent is not None and read_stamp(parent / child).items() >= stamp.items():
                return parent / child
        return None

    def keep(
        self,
        name: str,
        stamp: Mapping[str, Any],
        save: Callable[[Path], None],
        *,
        cached: str = "",
    ) -> None:
        """Write a folder, whole or not at all; where that cannot be, nothing happens.

        What is derived is in memory by now, so a full disk costs the next start some time and
        this one nothing.
        """
        parent, child = (self.beside, name) if self.writable else (self.cache, cached or name)
        if parent is None:
            return
        with contextlib.suppress(OutputError), writing_folder(parent / child, replace=True) as half:
            save(half)
            (half / STAMP).write_text(json.dumps(dict(stamp)), "utf-8")


NO_CACHE = DerivedCache(None, None, writable=False)


def cache_of(lexicon: Lexicon) -> DerivedCache:
    """Find where a lexicon's derived files belong; nowhere for one that stands in memory only."""
    if lexicon.folder is None:
        return NO_CACHE
    key = hashlib.sha256(lexicon.identity.encode()).hexdigest()[:16]
    cache = cache_folder()
    cached = None if cache is None else cache / FOLDER / key
    if lexicon.folder.parent == SHIPPED:  # an installation is nobody's to write to
        return DerivedCache(None, cached, writable=False)
    beside = lexicon.folder / FOLDER
    writable = os.access(beside if beside.exists() else beside.parent, os.W_OK | os.X_OK)
    return DerivedCache(beside, cached, writable=writable)


def read_stamp(folder: Path) -> dict[str, Any]:
    """Give what a folder says it was made of; nothing where it is missing or broken."""
    try:
        data = json.loads((folder / STAMP).read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    return data if isinstance(data, dict) else {}


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
