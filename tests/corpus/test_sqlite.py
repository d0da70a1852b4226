"""Corpus files that were restored, copied, damaged, or stand where nothing may be written."""

import contextlib
import itertools
import os
import shutil
import sqlite3
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from malmoi.corpus import Document, Filter, StoredDocument, StoreInfo, checksums, vector_index
from malmoi.corpus.sqlite import SqliteStore
from malmoi.corpus.store import PassageKey, PassageVectors
from malmoi.errors import CorpusBusy, CorpusError, MalmoiError
from tests.corpus.test_store import DIM, ids, stored, unit
from tests.support.logs import record_messages

ABOUT = StoreInfo(model="none", dimension=DIM, words="bigrams")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.malmoi"


def alter(path: Path, *statements: str) -> None:
    """Change a file behind the store's back."""
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


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


def test_damaged_fields_are_one_line(path: Path) -> None:
    fill(path, 0, 3)
    for value in ("{broken", "[1]", "3", "[" * 100_000):
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE documents SET metadata = ? WHERE id = '1'", (value,))
        connection.close()
        with opened(path) as store, pytest.raises(CorpusError, match="damaged"):
            store.get(["1"])


def test_odd_numbers_and_texts(path: Path) -> None:
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
        "from tests.corpus.test_sqlite import *\n"
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
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    "share of Hangul": "UPDATE passages SET hangul = x'00' WHERE row = 3",
    "fields": "UPDATE documents SET metadata = '{\"n\": 1}' WHERE row = 3",
    "title": "UPDATE documents SET title = 'x' WHERE row = 3",
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_changed_row_is_refused_wherever_it_is_read(path: Path, change: str) -> None:
    with opened(path) as store:
        store.write([stored(f"{i}", f"배송 {i}", i) for i in range(10)])
    alter(path, change)
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


def test_a_file_without_checksums_gets_them_when_written(
    path: Path,
    tmp_path: Path,
) -> None:
    fill(path, 0, 5)
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        for table, column in (
            *(("documents", name) for name in ("checksum", "text_checksum")),
            *(("passages", name) for name in ("checksum", "words_checksum")),
            ("vectors", "checksum"),
        ):
            connection.execute(f"ALTER TABLE {table} DROP COLUMN {column}")
        connection.execute("DROP TABLE checksums")
        connection.execute("PRAGMA user_version = 2")
    (tmp_path / "x.malmoi.index").unlink()
    with opened(path) as store:
        assert ids(store.vector_search(unit(3), 1)) == ["3"]  # type: ignore[arg-type]
        assert [one.document.id for one in store.scan()] == ["0", "1", "2", "3", "4"]
        store.write([stored("5", "배송 5", 5)])
        assert len(list(store.scan())) == 6
        assert store.check() == []
    with contextlib.closing(sqlite3.connect(path)) as connection:
        [[sums]] = connection.execute("SELECT count(checksum) FROM vectors")
    assert sums == 1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("UPDATE words_docsize SET sz = x'07' WHERE id = 3", "keyword index does not fit"),
        ("UPDATE words_content SET c0 = 'x' WHERE id = 3", "words of 1 passages are not as"),
    ],
)
def test_a_check_compares_the_words(path: Path, change: str, message: str) -> None:
    fill(path, 0, 10)
    with opened(path) as store:
        assert store.check() == []
    alter(path, change)
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


# What rows are found by: each is checked before its first answer, and before it is written to.
LOOKUPS = {
    "word block": (
        "UPDATE words_data SET block = CAST(zeroblob(length(block)) AS BLOB) WHERE id > 10",
        lambda store: store.keyword_search(["배송"], 9),
    ),
    "term of a leaf": (
        "UPDATE words_idx SET pgno = pgno + 2",
        lambda store: store.keyword_search(["배송"], 9),
    ),
    "length of a passage": (
        "UPDATE words_docsize SET sz = x'07' WHERE id = 3",
        lambda store: store.keyword_search(["배송"], 9),
    ),
    "field": (
        "UPDATE facts SET value = 77 WHERE row = 3 AND field = 1",
        lambda store: only(store, 2),
    ),
    "name of a field": (
        "UPDATE fields SET name = 'm' WHERE field = 1",
        lambda store: only(store, 2),
    ),
    "checksum": (
        "UPDATE checksums SET value = value + 1 WHERE part = 'fields'",
        lambda store: only(store, 2),
    ),
    "analysis": ("INSERT INTO terms VALUES ('가', '나')", lambda store: store.remembered(["가"])),
}


def only(store: SqliteStore, number: int) -> object:
    return store.vector_search(unit(1), 9, filters=[Filter("n", "=", number)])  # type: ignore[arg-type]


def make_lookups(path: Path) -> None:
    with opened(path) as store:
        for i in range(10):
            document = Document(
                f"{i}", f"배송 {i}", {"n": i, "list": [i, float(i), -0.0, "a", "a"]}
            )
            store.write([StoredDocument(document, unit(i))])  # type: ignore[arg-type]
        store.delete(["7"])
        store.flush()


@pytest.mark.parametrize("name", LOOKUPS)
@pytest.mark.parametrize("way", ["read", "write", "repair"])
def test_what_rows_are_found_by_is_rebuilt_when_it_is_damaged(
    tmp_path: Path, name: str, way: str
) -> None:
    path, (change, use) = tmp_path / "x.malmoi", LOOKUPS[name]
    make_lookups(path)
    with opened(path) as store:
        assert store.check() == []
        right = use(store)
        documents = store.get(["0", "9"])
    alter(path, change)
    messages = record_messages()
    with opened(path) as store:
        assert "not as written" in "; ".join(store.check())
        if way == "read":
            assert use(store) == right
        elif way == "write":
            store.write([stored("8", "배송 8", 8, n=8)])
        else:
            done = store.repair(no_model)
            assert (done.documents, done.encoded, done.lost) == (9, 0, ())
            assert done.kept.name == "x.malmoi.damaged-1" and done.kept.exists()
    assert sum("rebuilt" in line for line in messages) == (way != "repair")
    with opened(path) as store:
        assert store.check() == [] and len(store) == 9
        assert len(use(store)) == len(right)
        assert len(store.keyword_search(["배송"], 99)) == 9
        assert store.get(["0", "9"]) == documents
    assert sum("rebuilt" in line for line in messages) == (way != "repair")


def test_a_changed_schema_is_refused(path: Path) -> None:
    make_lookups(path)
    data = path.read_bytes()
    assert b"fields (field INTEGER PRIMARY KEY" in data
    path.write_bytes(
        data.replace(b"fields (field INTEGER PRIMARY", b"fields (field INTEGER PRIMERY")
    )
    with opened(path) as store, pytest.raises(CorpusError, match="list of tables is not as"):
        only(store, 2)


def test_damaged_words_are_not_made_the_keyword_index(path: Path) -> None:
    make_lookups(path)
    alter(
        path,
        "UPDATE words_docsize SET sz = x'07' WHERE id = 3",
        "UPDATE words_content SET c0 = 'x' WHERE id = 3",
    )
    with opened(path) as store, pytest.raises(CorpusError, match="not what was written"):
        store.keyword_search(["배송"], 9)


def test_nothing_is_rebuilt_in_a_read_only_place(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_lookups(path)
    alter(path, "UPDATE words_docsize SET sz = x'07' WHERE id = 3")
    monkeypatch.setattr("malmoi.corpus.schema.is_frozen", lambda path: True)
    monkeypatch.setattr("malmoi.corpus.sqlite.is_frozen", lambda path: True)
    with opened(path) as store:
        with pytest.raises(CorpusError, match=r"damaged: .* not as written.*--repair"):
            store.keyword_search(["배송"], 9)


def test_a_writer_that_is_killed_leaves_a_file_that_gets_its_checksums_later(
    path: Path,
) -> None:
    make_lookups(path)
    alter(path, "DELETE FROM checksums")
    with opened(path) as store:
        assert len(store.keyword_search(["배송"], 99)) == 9
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        [[count]] = connection.execute("SELECT count(*) FROM checksums")
    assert count == 4


def no_model(passages: object) -> list[NDArray[np.float32]]:
    raise AssertionError("nothing is encoded again")


def test_a_repair_makes_vectors_again_and_names_what_is_lost(path: Path, tmp_path: Path) -> None:
    make_lookups(path)
    alter(
        path,
        "UPDATE vectors SET vector = zeroblob(length(vector)) WHERE row = 4",
        "UPDATE passages SET text = 'x' WHERE row = 6",
        "UPDATE documents SET title = 'x' WHERE row = 9",
        "DELETE FROM passages WHERE row = 10",
    )
    with opened(path) as store, opened(path) as other:
        len(other)
        store._connection.execute("PRAGMA busy_timeout = 10")
        with pytest.raises(CorpusBusy):
            store.repair(no_model)
        assert [one.name for one in tmp_path.iterdir() if one.name.startswith(".")] == []
    with opened(path) as store:
        done = store.repair(lambda passages: [PassageVectors(unit(33)[None]) for _ in passages])
    assert (done.documents, done.encoded, done.lost) == (6, 1, ("5", "8", "9"))
    with opened(path) as store:
        assert store.check() == []
        assert ids(store.vector_search(unit(33), 1)) == ["3"]  # type: ignore[arg-type]


def test_a_document_is_not_said_to_be_missing_by_a_damaged_index(path: Path) -> None:
    make_lookups(path)
    with contextlib.closing(sqlite3.connect(path)) as connection:
        query = "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_documents_1'"
        [[page]], [[size]] = connection.execute(query), connection.execute("PRAGMA page_size")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    at = data.index(b"5", (page - 1) * size + 40, page * size)
    data[at] = ord("6")
    path.write_bytes(data)
    with opened(path) as store:
        assert store.get(["3"])
        with pytest.raises(CorpusError, match="the index of documents is not as written"):
            store.get(["5"])
    with opened(path) as store:
        assert store.repair(no_model).lost == ()
    with opened(path) as store:
        assert store.get(["5"]) and store.check() == []


def test_what_others_write_during_a_check_is_no_damage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, really = tmp_path / "x.malmoi", checksums._checksum
    make_lookups(path)
    with opened(path) as store, opened(path) as other:
        other.check_lookups(*checksums.PARTS)
        late = itertools.count(100)

        def writing(connection: sqlite3.Connection, part: str) -> int:
            if connection is store._connection:
                other.write([stored(f"{next(late)}", "배송 나중", 3)])
            return really(connection, part)

        monkeypatch.setattr(checksums, "_checksum", writing)
        assert len(store.keyword_search(["배송"], 99)) == 10
        assert store.check() == []
        assert len(store) == 9 + next(late) - 100


@pytest.mark.parametrize("removed", [False, True])
def test_a_file_that_is_replaced_while_it_is_open_is_not_used(
    tmp_path: Path, removed: bool
) -> None:
    path, backup = tmp_path / "x.malmoi", tmp_path / "backup"
    fill(path, 0, 10)
    shutil.copy(path, backup)
    with opened(path) as store:
        path.unlink() if removed else backup.replace(path)
        for use in (
            lambda: store.vector_search(unit(1), 1),
            lambda: store.get(["1"]),
            lambda: store.write([stored("new", "배송", 1)]),  # it would be lost with the old file
        ):
            with pytest.raises(CorpusError, match="replaced or removed"):
                use()


@pytest.mark.parametrize("value", ["NULL", "'text'", "1e300"])
def test_damage_in_the_list_of_removed_rows_is_told(path: Path, value: str) -> None:
    fill(path, 0, 10)
    path.with_name("x.malmoi.index").unlink()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA writable_schema = ON")  # a flipped bit heeds no NOT NULL
        connection.execute(
            "UPDATE sqlite_master SET sql = replace(sql, 'row INTEGER NOT NULL', 'row') "
            "WHERE name = 'removed'"
        )
        connection.commit()
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute(f"UPDATE removed SET row = {value} WHERE number = 2")
        connection.commit()
    with opened(path) as store, pytest.raises(CorpusError, match="damaged"):
        store.vector_search(unit(1), 1)


def test_long_fields_are_not_held_together_to_check_them(tmp_path: Path) -> None:
    path, count, size = tmp_path / "x.malmoi", 60, 200_000
    with opened(path) as store:
        for i in range(count):
            store.write([stored(str(i), f"배송 {i}", i, year=2000 + i, original=f"{i}" * size)])
    with opened(path) as store:
        tracemalloc.start()
        found = store.vector_search(unit(7), 1, filters=[Filter.parse("year=2007")])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert ids(found) == ["7"]  # type: ignore[arg-type]
    assert peak < 10 * size < count * size


def test_an_index_that_is_replaced_while_it_is_opened_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = tmp_path / "x.malmoi", tmp_path / "other.index"
    fill(path, 0, 5)
    shutil.copy(tmp_path / "x.malmoi.index", other)
    fill(path, 5, 10)
    really = vector_index.open_index

    def replacing(place: Path) -> object:
        found = really(place)  # and now another process replaces the file
        other.replace(place)
        monkeypatch.setattr(vector_index, "open_index", really)
        return found

    monkeypatch.setattr(vector_index, "open_index", replacing)
    with opened(path) as store:
        assert store._vector_index.seen.row == 0  # nothing of it was taken
        for seed in (0, 9):
            assert ids(store.vector_search(unit(seed), 1)) == [str(seed)]  # type: ignore[arg-type]
