"""A corpus follows files and folders: what is new, has changed, is gone or cannot be read."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import malmoi
from malmoi import Corpus
from malmoi.corpus import SyncReport, group_hits, watch_files
from malmoi.corpus.sqlite import SqliteStore
from malmoi.documents import Block, DocumentError, FoundFile, Passage, SourceDocument
from malmoi.errors import DataError
from tests.support import ROOT


@pytest.fixture
def corpus(tmp_path: Path, encoder: malmoi.TextEncoder) -> Corpus:
    return Corpus.open(tmp_path / "x.malmoi", encoder, words="bigrams")


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    write(folder / "a.md", "# Sea\n\n## Boats\n\nThe boat sails.\n\n## Cats\n\nthe cat sleeps\n")
    write(folder / "sub/b.txt", "고양이 잔다.\n\n배를 타고 간다.\n")
    return folder


def write(path: Path, text: str, *, age: float = 60.0) -> Path:
    """Write a file that was changed some time ago, so that it counts as settled."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def ids(corpus: Corpus) -> list[str]:
    return [one.document.id for one in corpus.store.documents()]


def test_a_folder_in_a_few_lines(corpus: Corpus, docs: Path) -> None:
    assert corpus.sync(docs) == SyncReport(files=2, written=2)
    assert ids(corpus) == ["a.md", "sub/b.txt"]
    [hit, *_] = corpus.search("the cat sleeps", 3)
    assert (hit.document, hit.passage, hit.title) == ("a.md", "the cat sleeps", "Sea")
    assert (hit.headings, hit.page, hit.number, hit.type) == (("Sea", "Cats"), None, 1, "md")
    assert Path(hit.source) == docs / "a.md" and hit.modified is not None
    around = corpus.neighbours(hit.id, hit.number)
    assert [passage.text for passage in around.values()] == ["The boat sails.", "the cat sleeps"]
    found = corpus.search_documents("cat", 5)
    assert found[0].id == "a.md" and len(found) == 2
    assert found[0].title == "Sea" and found[0].score == found[0].hits[0].score
    assert group_hits([]) == []
    document = corpus.get("a.md")
    assert document is not None and document.text == "The boat sails.\n\nthe cat sleeps"


def test_unchanged_files_are_not_read_again(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.sync(docs)
    monkeypatch.setattr("malmoi.corpus.sync.read_documents", None)
    assert corpus.sync(docs) == SyncReport(files=2, unchanged=2)
    monkeypatch.undo()
    # Touched, but the same: read, and neither encoded nor written.
    monkeypatch.setattr(corpus, "vectors_of", None)
    os.utime(docs / "a.md", (1, 1))
    assert corpus.sync(docs) == SyncReport(files=2, unchanged=2)


def test_new_changed_and_gone(corpus: Corpus, docs: Path) -> None:
    corpus.sync(docs)
    write(docs / "a.md", "# Sea\n\n## Boats\n\nThe boat sails.\n", age=30)
    write(docs / "c.txt", "sweet pear")
    (docs / "sub/b.txt").unlink()
    assert corpus.sync(docs) == SyncReport(files=2, written=2, removed=1)
    assert ids(corpus) == ["a.md", "c.txt"]
    assert all("cat" not in hit.text for hit in corpus.search("the cat sleeps", 9))
    assert corpus.search("고양이", 9, mode="keyword") == []
    assert corpus.store.check() == []
    (docs / "c.txt").unlink()
    assert corpus.sync(docs, keep_missing=True) == SyncReport(files=1, unchanged=1)
    assert ids(corpus) == ["a.md", "c.txt"]


def test_only_the_part_that_was_asked_for(corpus: Corpus, docs: Path) -> None:
    corpus.sync(docs)
    corpus.add([{"id": "mine", "text": "dog"}])
    (docs / "a.md").unlink()
    (docs / "sub/b.txt").unlink()
    write(docs / "sub/c.txt", "pear")
    assert corpus.sync(docs / "sub") == SyncReport(files=1, written=1, removed=1)
    # A file keeps the id under which it came in, and what was added by hand stays.
    assert ids(corpus) == ["a.md", "c.txt", "mine"]
    assert corpus.sync(docs, include=["*.txt"]).removed == 1
    assert ids(corpus) == ["c.txt", "mine"]


def test_narrower_patterns_remove_nothing_that_is_there(corpus: Corpus, docs: Path) -> None:
    corpus.sync(docs)
    assert corpus.sync(docs, include=["*.md"]).removed == 0
    assert corpus.sync(docs, exclude=["sub"]).removed == 1
    assert ids(corpus) == ["a.md"]


def test_two_files_of_one_name_never_collide(corpus: Corpus, tmp_path: Path) -> None:
    for name in ("one", "two"):
        write(tmp_path / name / "a.txt", f"the {name} boat")
        corpus.sync(tmp_path / name)
    corpus.add([{"id": "b.txt", "text": "mine"}])
    write(tmp_path / "one/b.txt", "theirs")
    corpus.sync(tmp_path / "one")
    assert ids(corpus) == ["a.txt", "b.txt", "one/b.txt", "two/a.txt"]
    for name in ("one", "two"):
        assert corpus.sync(tmp_path / name).written == 0


def test_a_folder_that_moved_is_the_same(corpus: Corpus, docs: Path, tmp_path: Path) -> None:
    corpus.sync(docs)
    shutil.move(docs, tmp_path / "elsewhere")
    (tmp_path / "elsewhere/sub/b.txt").unlink()
    report = corpus.sync(tmp_path / "elsewhere")
    assert (report.files, report.removed) == (1, 1)
    assert ids(corpus) == ["a.md"]
    assert corpus.sync(tmp_path / "elsewhere") == SyncReport(files=1, unchanged=1)


def test_files_that_cannot_be_read_are_named_and_the_rest_goes_on(
    corpus: Corpus, docs: Path
) -> None:
    corpus.sync(docs)
    write(docs / "empty.txt", " \n")
    (docs / "a.md").write_bytes(b"\x7fELF" + bytes(range(256)) * 4)
    os.utime(docs / "a.md", (1, 1))
    report = corpus.sync(docs)
    assert len(report.failed) == 2 and (report.unchanged, report.removed) == (1, 1)
    assert any("empty.txt has no text" in line for line in report.failed)
    assert ids(corpus) == ["sub/b.txt"]
    with pytest.raises(DataError, match="there is no file or folder"):
        corpus.sync(docs / "none")
    assert ids(corpus) == ["sub/b.txt"]


def test_a_file_that_breaks_off_leaves_nothing(
    corpus: Corpus, docs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def some(file: FoundFile, **options: object) -> Iterator[SourceDocument]:
        for number in range(5):
            block = Block(f"the cat {number}")
            yield SourceDocument(f"{file.id}#{number}", "", (block,), "", "csv", 1.0)
        raise DocumentError(f"{file.id} breaks off")

    monkeypatch.setattr("malmoi.corpus.sync.read_documents", some)
    monkeypatch.setattr("malmoi.corpus.sync._PASSAGES", 2)
    report = corpus.sync(docs / "a.md")
    assert report.failed == ("a.md breaks off",)
    assert (ids(corpus), corpus.store.files()) == ([], {})


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything"
)
def test_what_may_not_be_read_now_stays(corpus: Corpus, docs: Path) -> None:
    corpus.sync(docs)
    (docs / "sub").chmod(0)
    try:
        assert corpus.sync(docs).removed == 0
    finally:
        (docs / "sub").chmod(0o755)
    assert ids(corpus) == ["a.md", "sub/b.txt"]


def test_a_change_within_a_tick_is_seen(corpus: Corpus, docs: Path) -> None:
    path = write(docs / "a.md", "the cat", age=0)
    stamp = path.stat()
    corpus.sync(docs)
    path.write_text("the dog", "utf-8")
    os.utime(path, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))
    assert corpus.sync(docs).written == 1


def test_filters_by_folder_and_type(corpus: Corpus, docs: Path) -> None:
    write(docs / "sub/deep/c.md", "the cat")
    corpus.sync(docs)
    for condition, expected in (
        ("folder=sub", {"sub/b.txt", "sub/deep/c.md"}),
        ("folder=sub/deep", {"sub/deep/c.md"}),
        ("type=md", {"a.md", "sub/deep/c.md"}),
    ):
        for mode in ("dense", "keyword", "hybrid"):
            hits = corpus.search("cat 고양이", 9, mode=mode, filter=condition)  # type: ignore[arg-type]
            assert {hit.id for hit in hits} <= expected
        assert {hit.id for hit in corpus.search("cat", 9, filter=condition)} == expected


def test_a_splitter_of_ones_own(tmp_path: Path, encoder: malmoi.TextEncoder, docs: Path) -> None:
    def by_blocks(document: SourceDocument) -> list[Passage]:
        return [Passage(block.text.upper()) for block in document.blocks]

    with Corpus.open(tmp_path / "x.malmoi", encoder, words="bigrams") as corpus:
        corpus.sync(docs)
    with Corpus.open(tmp_path / "x.malmoi", encoder, splitter=by_blocks) as corpus:
        assert corpus.sync(docs).written == 2  # split in another way: read again
        assert corpus.search("cat sleeps", 1, mode="keyword")[0].text == "THE CAT SLEEPS"
        assert corpus.split(malmoi.Document("x", "sea\n\ncat"))[1].text == "CAT"


def test_a_long_document_is_split_and_comes_back_whole(corpus: Corpus) -> None:
    text = "\n\n \n".join(f"Part {i}: " + "the cat sleeps. " * 30 for i in range(5)) + "  end\n"
    corpus.add([malmoi.Document("long", text, {"n": 1}, title="Cats")])
    assert len(corpus) == 1 and corpus.store.passage_count() > 3
    document = corpus.get("long")
    assert document is not None and (document.text, document.title) == (text, "Cats")
    hit = corpus.search("Part 3", 1, mode="keyword")[0]
    assert (hit.id, hit.title, hit.metadata) == ("long", "Cats", {"n": 1})
    assert "Part 3" in hit.snippet and len(hit.snippet) < 250 < len(hit.text)
    assert corpus.delete("long") == 1 and corpus.store.passage_count() == 0


def test_a_watched_folder_is_followed(corpus: Corpus, docs: Path) -> None:
    reports = watch_files(corpus, [docs], every=0.01)
    assert next(reports).written == 2
    write(docs / "new.txt", "sea")
    assert next(reports).written == 1


@pytest.mark.slow
def test_a_sync_that_is_killed_is_completed_by_the_next(tmp_path: Path) -> None:
    bench = [sys.executable, str(ROOT / "bench/run.py"), "--no-record", "sync_kill"]
    done = subprocess.run(
        [*bench, "--kills", "6", "--folder", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert '"different": 0' in done.stdout


def test_the_index_follows_replaced_passages(corpus: Corpus, docs: Path) -> None:
    assert isinstance(corpus.store, SqliteStore)
    corpus.sync(docs)
    for round in range(3):
        write(docs / "a.md", f"# Sea\n\n## Boats\n\nboat {round}\n\n## Cats\n\ncat {round}\n")
        os.utime(docs / "a.md", (round + 1, round + 1))
        corpus.sync(docs)
        assert corpus.search(f"cat {round}", 1, mode="dense")[0].text == f"cat {round}"
    rows = corpus.store._vector_index.index
    with corpus.store._locked() as connection:
        [[size]] = connection.execute("SELECT sum(length(vector)) FROM vectors")
    assert len(rows) == size // (16 * 4)


def test_frequent_words_give_way_in_a_large_corpus(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("malmoi.corpus.sqlite._OCCURRENCES", 5)
    corpus.add({"id": str(i), "text": f"cat number{i % 3}" if i else "pear"} for i in range(12))
    store = corpus.store
    assert isinstance(store, SqliteStore)
    assert store._affordable(["cat", "number0", "pear"]) == ["pear", "number0"]
    assert store._affordable(["cat", "none"]) == ["none", "cat"]
    assert [hit.id for hit in corpus.search("cat pear", 1, mode="keyword")] == ["0"]
    assert len(corpus.search("cat", 20, mode="keyword")) == 11
