"""API keys: made once and shown once, kept as hashes, checked in constant time."""

import hashlib
import hmac
import re
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ..errors import DataError, OptionError
from ..io.files import read_lines, writing

RATE = 600  # requests a minute when a key's line says nothing else
_PREFIX = "mm_"
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)
_LINE = re.compile(rf"({_NAME.pattern})\t([0-9a-f]{{64}})\t([1-9]\d{{0,6}})", re.ASCII)
_HEADER = (
    "# malmoi's API keys: name, sha256 of the key, requests a minute. Delete a line to revoke.\n"
)


@dataclass(frozen=True)
class Key:
    """Who may call, by a hash of their key, and how often."""

    name: str
    digest: str  # sha256, in hex
    rate: int = RATE  # requests a minute


def make_key(name: str, file: Path, *, rate: int = RATE) -> str:
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
            "Choose another, or delete its line first."
        )
    key = _PREFIX + secrets.token_urlsafe(32)
    before = file.read_bytes() if file.exists() else _HEADER.encode()
    with writing(file) as out:
        out.write(before if before.endswith(b"\n") else before + b"\n")
        out.write(f"{name}\t{_digest(key)}\t{rate}\n".encode())
    file.chmod(0o600)
    return key


def read_keys(file: Path) -> list[Key]:
    """Read a file of keys; a bad line stops the server rather than opening it."""
    keys = []
    for number, line in enumerate(read_lines(file), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        found = _LINE.fullmatch(line.rstrip())
        if found is None:
            raise DataError(
                f"line {number} of {file} is not a key; expected a name, a sha256 and requests a "
                "minute between tabs. Make keys with: malmoi key"
            )
        keys.append(Key(found[1], found[2], int(found[3])))
    return keys


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogatepass")).hexdigest()


class KeyRing:
    """All keys of a server, with what each one has left this minute."""

    def __init__(self, keys: list[Key], *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        # How many requests each key has left, and when that was true: it refills evenly.
        self._left: dict[str, tuple[float, float]] = {}
        self.replace(keys)

    def replace(self, keys: list[Key]) -> None:
        """Take these keys for the old ones; a key that stays keeps what it has left."""
        now = self._clock()
        self._keys = keys
        self._left = {key.name: self._left.get(key.name, (float(key.rate), now)) for key in keys}

    def find(self, given: str) -> Key | None:
        """Find whose key this is. Every key is compared whole, whichever fits."""
        digest = _digest(given)
        found = [key for key in self._keys if hmac.compare_digest(digest, key.digest)]
        return found[-1] if found else None

    def take(self, key: Key) -> float:
        """Count one request; gives 0, or the seconds until the next one is allowed."""
        (left, filled), now, pace = self._left[key.name], self._clock(), key.rate / 60.0
        left = min(float(key.rate), left + (now - filled) * pace)
        self._left[key.name] = (left - 1 if left >= 1 else left, now)
        return 0.0 if left >= 1 else (1 - left) / pace
