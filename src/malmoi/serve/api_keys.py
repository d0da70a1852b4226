"""API keys: made once and shown once, kept as hashes, checked in constant time.

A line of the file is a key: its name, its hash, its rate, and what it may do. A line without
rights, as older versions wrote it, may do everything.
"""

import datetime
import hashlib
import hmac
import logging
import re
import secrets
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ..errors import DataError, MalmoiError, OptionError, check_choice
from ..io.files import read_lines, writing

RATE = 600  # requests a minute when a key's line says nothing else
RIGHTS = ("search", "upload", "notes", "embeddings")
_PREFIX = "mm_"
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_LINE = re.compile(rf"({_NAME.pattern})\t([0-9a-f]{{64}})\t([1-9]\d{{0,6}})(?:\t(.+))?", re.ASCII)
_LISTS = ("corpora", "lexicons", "allow", "groups")
_HEADER = (
    "# malmoi's API keys: name, sha256 of the key, requests a minute, rights. Change it with:\n"
    "# malmoi key add, list and revoke\n"
)
_LOOKED_EVERY = 1.0  # seconds between two looks whether the file changed

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Rights:
    """What a key may do and see; None is everything.

    Attributes:
        corpora: the corpora it sees, by name.
        lexicons: the lexicons it sees.
        allow: what it may call, of RIGHTS.
        groups: whose documents it sees besides those that name no groups.
        until: the last day on which it is good.
    """

    corpora: tuple[str, ...] | None = None
    lexicons: tuple[str, ...] | None = None
    allow: tuple[str, ...] | None = None
    groups: tuple[str, ...] | None = None
    until: datetime.date | None = None

    def __post_init__(self) -> None:
        for right in self.allow or ():
            check_choice("allow", right, RIGHTS)
        for name in _LISTS:
            for one in getattr(self, name) or ():
                if not one or re.search(r"[\s,=*]", one):
                    raise OptionError(
                        f"{name} has a name that is empty or has a space, a comma, = or * in it; "
                        "expected plain names. Rename it."
                    )

    def __str__(self) -> str:
        """What the file keeps; a list that is there and empty is a dash."""
        lists = ((name, getattr(self, name)) for name in _LISTS)
        parts = [f"{name}={','.join(own) or '-'}" for name, own in lists if own is not None]
        return " ".join(parts + ([f"until={self.until}"] if self.until else []))

    @classmethod
    def read(cls, text: str) -> Self:
        """Read what `str` gave; raises a ValueError.

        >>> Rights.read("corpora=hr allow=search groups=-").groups
        ()
        """
        found = dict(part.split("=") for part in text.split(" "))
        until = found.pop("until", None)
        if not found.keys() <= {*_LISTS}:
            raise ValueError("an unknown right")
        lists = {n: tuple(v.split(",")) if v != "-" else () for n, v in found.items()}
        day = None if until is None else datetime.date.fromisoformat(until)
        return cls(**lists, until=day)


@dataclass(frozen=True)
class Key:
    """Who may call, by a hash of their key, how often, and what."""

    name: str
    digest: str  # sha256, in hex
    rate: int = RATE  # requests a minute
    rights: Rights = field(default_factory=Rights)


@dataclass
class Access:
    """The request that is being answered: whose it is, and what it read."""

    key: Key | None = None
    corpus: str = ""
    hits: int | None = None

    @property
    def rights(self) -> Rights:
        """Those of its key."""
        return self.key.rights if self.key else Rights()


_ACCESS: ContextVar[Access | None] = ContextVar("access", default=None)


def access() -> Access:
    """The request that is being answered; outside of one, an access with all rights."""
    return _ACCESS.get() or Access()


def begin(access: Access) -> None:
    """Note whose request this task answers."""
    _ACCESS.set(access)


def make_key(name: str, file: Path, *, rate: int = RATE, rights: Rights | None = None) -> str:
    """Add a key to a file and give it; the file keeps its hash alone.

    The key is 32 random bytes, so a fast hash without salt is enough: there is nothing to guess.
    """
    if not _NAME.fullmatch(name):
        raise OptionError(
            "the name of a key has other signs than letters, digits, dot, dash and underscore, or "
            "more than 64 of them. Choose a plain name."
        )
    if not 1 <= rate <= 1_000_000:
        raise OptionError(f"rate is {rate}; expected 1 to 1,000,000 requests a minute.")
    known = read_keys(file) if file.exists() else []
    if any(key.name == name for key in known):
        raise OptionError(
            f"{file} has a key named {name} already; expected a new name. "
            "Choose another, or revoke it first: malmoi key revoke"
        )
    key = _PREFIX + secrets.token_urlsafe(32)
    before = file.read_text("utf-8") if file.exists() else _HEADER
    fields = [name, _digest(key), str(rate), str(rights or "")]
    line = "\t".join(one for one in fields if one)
    _write(file, [*before.splitlines(), line])
    return key


def revoke_key(name: str, file: Path) -> None:
    """Delete a key's line from a file."""
    names = [key.name for key in read_keys(file)]
    if name not in names:
        raise OptionError(
            f"{file} has no key named {name}; expected one of {', '.join(names) or 'none'}. "
            "See them with: malmoi key list"
        )
    lines = file.read_text("utf-8").splitlines()
    _write(file, [line for line in lines if not line.startswith(f"{name}\t")])


def _write(file: Path, lines: Sequence[str]) -> None:
    with writing(file) as out:
        out.write("".join(f"{line}\n" for line in lines).encode())
    file.chmod(0o600)


def read_keys(file: Path) -> list[Key]:
    """Read a file of keys; a bad line stops the server rather than opening it."""
    keys = []
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.rstrip())
        try:
            if found is None:
                raise ValueError("no key")
            rights = Rights.read(found[4]) if found[4] else Rights()
        except ValueError as error:
            raise DataError(
                f"line {number} of {file} is not a key; expected a name, a sha256, requests a "
                "minute and perhaps rights between tabs. Make keys with: malmoi key add"
            ) from error
        assert found is not None
        keys.append(Key(found[1], found[2], int(found[3]), rights))
    return keys


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class KeyRing:
    """All keys of a server, with what each one has left this minute.

    With a `file`, a change of it takes effect within a second.
    """

    def __init__(
        self,
        keys: list[Key],
        *,
        file: Path | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock, self._file = clock, file
        # How many requests each key has left, and when that was true: it refills evenly.
        self._left: dict[str, tuple[float, float]] = {}
        self._state, self._looked = self._look(), clock()
        self.replace(keys)

    @classmethod
    def open(cls, file: Path) -> Self:
        """Read a file's keys, and follow it."""
        return cls(read_keys(file), file=file)

    def replace(self, keys: list[Key]) -> None:
        """Take these keys for the old ones; a key that stays keeps what it has left."""
        now = self._clock()
        self._keys = keys
        self._left = {key.name: self._left.get(key.name, (float(key.rate), now)) for key in keys}

    def reload(self) -> None:
        """Read the file again; one that cannot be read changes nothing."""
        if self._file is None:
            return
        try:
            self.replace(read_keys(self._file))
        except (MalmoiError, OSError) as error:
            logger.error("the keys were not read again, the old ones stay: %s", error)
        else:
            logger.info("the keys were read again")

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self._file.stat() if self._file else None
        except OSError:
            return None
        return found and (found.st_ino, found.st_mtime_ns, found.st_size)

    def find(self, given: str) -> Key | None:
        """Find whose key this is, if it is still good. Every key is compared whole."""
        if self._clock() - self._looked >= _LOOKED_EVERY:
            self._looked = self._clock()
            if (state := self._look()) != self._state:
                self._state = state
                self.reload()
        digest = _digest(given)
        found = [key for key in self._keys if hmac.compare_digest(digest, key.digest)]
        if not found or ((until := found[-1].rights.until) and until < datetime.date.today()):
            return None
        return found[-1]

    def take(self, key: Key) -> float:
        """Count one request; gives 0, or the seconds until the next one is allowed."""
        (left, filled), now, pace = self._left[key.name], self._clock(), key.rate / 60.0
        left = min(float(key.rate), left + (now - filled) * pace)
        self._left[key.name] = (left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) / pace
