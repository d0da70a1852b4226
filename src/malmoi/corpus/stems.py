"""English stems without another library: SQLite's Porter stemmer, asked word by word."""

import functools
import sqlite3
import threading
from collections.abc import Sequence

_MANY = 65536


class _Stemmer:
    """A table in memory whose vocabulary is what the stemmer made of the words put in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._connection = sqlite3.connect(":memory:", check_same_thread=False)
        self._connection.executescript(
            "CREATE VIRTUAL TABLE w USING fts5(x, tokenize='porter unicode61 remove_diacritics 0');"
            "CREATE VIRTUAL TABLE v USING fts5vocab(w, instance);"
        )

    def __call__(self, word: str) -> str:
        with self._lock:
            self._connection.execute("INSERT INTO w(rowid, x) VALUES (1, ?)", (word,))
            found = self._connection.execute("SELECT term FROM v ORDER BY offset").fetchall()
            self._connection.execute("DELETE FROM w WHERE rowid = 1")
        return " ".join(term for (term,) in found)


@functools.cache
def _stemmer() -> _Stemmer:
    return _Stemmer()


@functools.lru_cache(maxsize=_MANY)
def stem(word: str) -> str:
    """A word's stem as SQLite's full-text search has it; nothing where it has no letter.

    >>> stem("arriving"), stem("배송"), stem("*")
    ('arriv', '배송', '')
    """
    return _stemmer()(word)


def stems(words: Sequence[str]) -> list[str]:
    """The stems of words, those without letters left out."""
    return [found for found in map(stem, words) if found]
