"""Corpus files that were restored, copied, damaged, or stand where nothing may be written."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from malmoi.corpus import StoreInfo
from malmoi.corpus.sqlite import SqliteStore
from malmoi.corpus.store import PassageKey
from malmoi.errors import CorpusError, MalmoiError
from tests.corpus.test_store import DIM, ids, stored, unit

ABOUT = StoreInfo(model="none", dimension=DIM, words="bigrams")


@contextlib.contextmanager
def opened(path: Path) -> Iterator[SqliteStore]:
    with contextlib.closing(SqliteStore(path, create=lambda: ABOUT)) as store:
        yield store


def fill(path: Path, first: int, last: int, *, start: int = 0) -> None:
    """Write documents whose vectors are those of their numbers, and the index file."""
    with opened(path) as store:
        for i in range(first, last):
            store.write([stored(f"{start + i}", f"배송 {start + i}", start + i)])
        store.flush()


def nearest(path: Path, seed: int, *, exact: bool) -> str:
    with opened(path) as store:
        return ids(store.vector_search(unit(seed), 1, exact=exact))[0]  # type: ignore[arg-type]


@pytest.mark.parametrize("written_after", [False, True])
def test_a_restored_backup_gets_a_new_index(tmp_path: Path, written_after: bool) -> None:
    path, backup = tmp_path / "x.malmoi", tmp_path / "backup"
    fill(path, 0, 10)
    shutil.copy(path, backup)
    fill(path, 10, 30)
    shutil.copy(backup, path)  # and the newer index file stays where it is
    assert (tmp_path / "x.malmoi.index").exists()
    if written_after:  # other documents get the numbers of those that were lost
        fill(path, 10, 30, start=100)
    for seed in (0, 5, 9, *((115, 129) if written_after else ())):
        for exact in (False, True):
            assert nearest(path, seed, exact=exact) == str(seed)


def test_a_copy_without_its_log_gets_a_new_index(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.malmoi", tmp_path / "y.malmoi"
    fill(path, 0, 10)
    with opened(path) as store:
        store.write([stored(f"{i}", f"배송 {i}", i) for i in range(10, 20)])
        store.flush()
        shutil.copy(path, copy)  # what the log holds is missing
        shutil.copy(tmp_path / "x.malmoi.index", tmp_path / "y.malmoi.index")
    with opened(copy) as store:
        count = len(store)
        store.write([stored("new", "환불", 77)])
        assert ids(store.vector_search(unit(77), 1)) == ["new"]  # type: ignore[arg-type]
        assert len(store.vector_search(unit(3), 99)) == count + 1


def test_an_index_follows_a_file_that_is_replaced(tmp_path: Path) -> None:
    path, backup = tmp_path / "x.malmoi", tmp_path / "backup"
    fill(path, 0, 10)
    shutil.copy(path, backup)
    with opened(path) as store:
        store.write([stored("late", "환불", 50)])
        assert ids(store.vector_search(unit(50), 1)) == ["late"]  # type: ignore[arg-type]
        with sqlite3.connect(backup) as old, sqlite3.connect(path) as now:
            old.backup(now)
        now.close()
        old.close()
        assert len(store.vector_search(unit(50), 99)) == 10


def test_damaged_fields_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "x.malmoi"
    fill(path, 0, 3)
    for value in ("{broken", "[1]", "3", "[" * 100_000):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE documents SET metadata = ? WHERE id = '1'", (value,))
        connection.close()
        with opened(path) as store, pytest.raises(CorpusError, match="damaged"):
            store.get(["1"])


def test_odd_numbers_and_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.malmoi"
    fill(path, 0, 3)
    with opened(path) as store:
        assert len(store.keyword_search(["배송"], 10**30)) == 3
        assert len(store.vector_search(unit(1), 10**8)) == 3
        assert store.get(["\ud800"]) == {}


@pytest.mark.skipif(sys.platform != "linux" or os.geteuid() != 0, reason="only root may mount")
def test_a_corpus_is_read_from_a_read_only_place(tmp_path: Path) -> None:
    path = tmp_path / "place" / "x.malmoi"
    path.parent.mkdir()
    fill(path, 0, 10)
    code = (
        "import sys; sys.path.insert(0, '.')\n"
        "from pathlib import Path\n"
        "from tests.corpus.test_states import *\n"
        f"path = Path({str(path)!r})\n"
        "with opened(path) as store:\n"
        "    assert ids(store.vector_search(unit(7), 1)) == ['7'] and len(store) == 10\n"
        "    assert ids(store.keyword_search(['배송'], 99))\n"
        "    try: store.write([stored('x', 'y', 1)])\n"
        "    except MalmoiError as error: print(error)\n"
    )
    script = f"mount --bind {path.parent} {path.parent} && mount -o remount,ro,bind {path.parent}"
    command = ["unshare", "-m", "sh", "-c", f'{script} && exec "$0" "$@"', sys.executable, "-c"]
    root = Path(__file__).parents[2]
    done = subprocess.run([*command, code], capture_output=True, text=True, cwd=root, check=False)
    if "unshare" in done.stderr or "mount:" in done.stderr:
        pytest.skip("this machine gives no mount namespaces")
    assert done.returncode == 0, done.stderr
    assert "may not be written" in done.stdout


def test_what_changes_in_a_read_only_place_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "x.malmoi"
    fill(path, 0, 3)
    monkeypatch.setattr("malmoi.corpus.schema.is_frozen", lambda path: True)
    monkeypatch.setattr("malmoi.corpus.sqlite.is_frozen", lambda path: True)
    with contextlib.closing(SqliteStore(path)) as store:
        assert len(store) == 3
        path.write_bytes(path.read_bytes() + b"\0" * 8192)
        with pytest.raises(CorpusError, match="was changed while it is open"):
            len(store)
    (tmp_path / "x.malmoi-wal").write_bytes(b"x" * 100)
    with pytest.raises(MalmoiError, match="holds documents that are not in it yet"):
        SqliteStore(path)


DAMAGE = {
    "vector": "UPDATE vectors SET vector = zeroblob(length(vector)) WHERE row = 3",
    "vector's type": "UPDATE vectors SET vector = 'x' WHERE row = 3",
    "passage": "UPDATE passages SET text = '배송 4' WHERE row = 3",
    "place": "UPDATE passages SET page = 7 WHERE row = 3",
    "fields": "UPDATE documents SET metadata = '{\"n\": 1}' WHERE row = 3",
    "title": "UPDATE documents SET title = 'x' WHERE row = 3",
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_changed_row_is_refused_wherever_it_is_read(tmp_path: Path, change: str) -> None:
    path = tmp_path / "x.malmoi"
    with opened(path) as store:
        store.write([stored(f"{i}", f"배송 {i}", i) for i in range(10)])
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    with opened(path) as store:
        assert "not as they were written" in "; ".join(store.check())
        with pytest.raises(CorpusError, match="not what was written"):
            list(store.scan())
        with pytest.raises(CorpusError, match="not what was written"):
            store.vector_search(unit(2), 10)  # type: ignore[arg-type]
            store.passages([PassageKey("2")])
        store.write([stored("2", "배송 2", 2)])  # written again, it is whole
        assert store.check() == []
        assert len(list(store.scan())) == 10
        assert ids(store.vector_search(unit(2), 1)) == ["2"]  # type: ignore[arg-type]


def test_a_file_without_checksums_is_read_as_it_is_and_gets_them_when_written(
    tmp_path: Path,
) -> None:
    path = tmp_path / "x.malmoi"
    fill(path, 0, 5)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for table, column in (
            *(("documents", name) for name in ("checksum", "text_checksum")),
            *(("passages", name) for name in ("checksum", "words_checksum")),
            ("vectors", "checksum"),
        ):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("PRAGMA user_version = 2")
    before = path.read_bytes()
    (tmp_path / "x.malmoi.index").unlink()
    with opened(path) as store:
        assert ids(store.vector_search(unit(3), 1)) == ["3"]  # type: ignore[arg-type]
        assert [one.document.id for one in store.scan()] == ["0", "1", "2", "3", "4"]
        assert path.read_bytes() == before
        store.write([stored("5", "배송 5", 5)])
        assert len(list(store.scan())) == 6
        assert store.check() == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        [[sums]] = connection.execute("SELECT count(checksum) FROM vectors")
    assert sums == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE words_docsize SET sz = x'07' WHERE id = 3", "index of words does not fit"),
        ("UPDATE words_content SET c0 = 'x' WHERE id = 3", "words of 1 passages are not as"),
    ],
)
def test_a_check_compares_the_words(tmp_path: Path, change: str, message: str) -> None:
    path = tmp_path / "x.malmoi"
    fill(path, 0, 10)
    with opened(path) as store:
        assert store.check() == []
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(change)
    with opened(path) as store:
        assert message in "; ".join(store.check())


def test_a_backup_is_whole_while_others_write(tmp_path: Path) -> None:
    path, copy = tmp_path / "x.malmoi", tmp_path / "y.malmoi"
    fill(path, 0, 10)
    with opened(path) as writer, opened(path) as store:
        writer.write([stored("10", "배송 10", 10)])  # in the log, not yet in the file
        with writer._transaction() as connection:
            connection.execute("DELETE FROM documents")  # not committed while the copy is made
            store.backup(copy)
        with pytest.raises(CorpusError, match="the corpus itself"):
            store.backup(path)
    with opened(copy) as found:
        found.write([stored("11", "배송 11", 11)])
        with opened(path) as store, pytest.raises(CorpusError, match="is in use"):
            store.backup(copy)
        found.delete(["11"])
        assert found.check() == [] and len(list(found.scan())) == 11
        assert ids(found.vector_search(unit(10), 1)) == ["10"]  # type: ignore[arg-type]
    with opened(path) as store:
        store.backup(copy)  # in place of the earlier one
    assert not list(tmp_path.glob(".*"))
