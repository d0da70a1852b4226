"""Files into a corpus: rows and lines, resumed; folders, followed; what cannot be read."""

import os
import shutil
import subprocess
import sys
import time
import warnings
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

import malmoi
from malmoi import Corpus, Document
from malmoi.corpus import IngestReport, group_hits, index_files, ingest, watch_files
from malmoi.corpus.sqlite import SqliteStore
from malmoi.documents import (
    Block,
    DocumentError,
    FoundFile,
    Passage,
    RowColumns,
    SourceDocument,
)
from malmoi.errors import DataError
from tests.support import ROOT
from tests.support.logs import record_messages


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
    assert corpus.sync(docs) == IngestReport(files=2, written=2)
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
    monkeypatch.setattr("malmoi.corpus.ingest.read_documents", None)
    assert corpus.sync(docs) == IngestReport(files=2, unchanged=2)
    monkeypatch.undo()
    # Touched, but the same: read, and neither encoded nor written.
    monkeypatch.setattr(corpus, "vectors_of", None)
    os.utime(docs / "a.md", (1, 1))
    assert corpus.sync(docs) == IngestReport(files=2, unchanged=2)


def test_new_changed_and_gone(corpus: Corpus, docs: Path) -> None:
    corpus.sync(docs)
    write(docs / "a.md", "# Sea\n\n## Boats\n\nThe boat sails.\n", age=30)
    write(docs / "c.txt", "sweet pear")
    (docs / "sub/b.txt").unlink()
    assert corpus.sync(docs) == IngestReport(files=2, written=2, removed=1)
    assert ids(corpus) == ["a.md", "c.txt"]
    assert all("cat" not in hit.text for hit in corpus.search("the cat sleeps", 9))
    assert corpus.search("고양이", 9, mode="keyword") == []
    assert corpus.store.check() == []
    (docs / "c.txt").unlink()
    assert corpus.sync(docs, keep_missing=True) == IngestReport(files=1, unchanged=1)
    assert ids(corpus) == ["a.md", "c.txt"]


def test_only_the_part_that_was_asked_for(corpus: Corpus, docs: Path) -> None:
    corpus.sync(docs)
    corpus.add([{"id": "mine", "text": "dog"}])
    (docs / "a.md").unlink()
    (docs / "sub/b.txt").unlink()
    write(docs / "sub/c.txt", "pear")
    assert corpus.sync(docs / "sub") == IngestReport(files=1, written=1, removed=1)
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
    assert corpus.sync(tmp_path / "elsewhere") == IngestReport(files=1, unchanged=1)


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

    monkeypatch.setattr("malmoi.corpus.ingest.read_documents", some)
    monkeypatch.setattr("malmoi.corpus.ingest._PASSAGES", 2)
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


index_rows = partial(index_files, lines=True)


def write_lines(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def test_every_kind_of_file(corpus: Corpus, tmp_path: Path) -> None:
    files = [
        write_lines(tmp_path / "a.txt", "the cat", "", "고양이 잔다"),
        write_lines(tmp_path / "b.tsv", "id\ttext\tkind", 'x1\tsay "sea"\tquote'),
        write_lines(tmp_path / "c.csv", "question,answer", '"a, dog",sea'),
        write_lines(
            tmp_path / "d.jsonl", '{"id": 7, "text": "pear", "tags": ["a", 1], "ok": true}'
        ),
    ]
    assert index_rows(corpus, files[:2]) == IngestReport(files=2, written=3, empty=1)
    assert corpus.get("a.txt:3") == Document("a.txt:3", "고양이 잔다")
    assert corpus.get("x1") == Document("x1", 'say "sea"', {"kind": "quote"})
    index_rows(corpus, files[2:3], columns=RowColumns(id="answer", text=("question",), fields=()))
    assert corpus.get("sea") == Document("sea", "a, dog")
    index_rows(corpus, files[3:])
    assert corpus.get("7") == Document("7", "pear", {"tags": ["a", 1], "ok": True})
    assert corpus.search("pear", filter="tags=1")[0].id == "7"


def test_it_resumes_where_it_stopped(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH", 10)
    file = write_lines(tmp_path / "a.txt", *(f"cat {i}" for i in range(95)))
    write_batch, calls = corpus.store.write, []

    def stop_in_the_middle(*args: object, **options: object) -> None:
        calls.append(options)
        if len(calls) == 5:
            raise KeyboardInterrupt
        write_batch(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(corpus.store, "write", stop_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        index_rows(corpus, [file])
    assert len(corpus) == 40
    monkeypatch.setattr(corpus.store, "write", write_batch)
    messages = record_messages()
    assert index_rows(corpus, [file]) == IngestReport(files=1, written=55)
    assert any("resuming after line 40" in line for line in messages)
    assert index_rows(corpus, [file]) == IngestReport(files=1)
    assert len(corpus) == 95
    # A changed file is read again, and only the difference is written.
    write_lines(tmp_path / "a.txt", *(f"cat {i}" for i in range(94)), "dog", "boat")
    assert index_rows(corpus, [file]) == IngestReport(files=1, written=2, unchanged=94)


def test_a_text_is_encoded_once_however_often_it_comes(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH", 8)
    encoded: list[str] = []
    encode = corpus.encoder.encode

    def count(texts: list[str], **options: object) -> object:
        encoded.extend(texts)
        return encode(texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(corpus.encoder, "encode", count)
    index_rows(corpus, [write_lines(tmp_path / "a.txt", *(f"cat {i % 7}" for i in range(200)))])
    assert len(corpus) == 200
    assert sorted(encoded) == [f"cat {i}" for i in range(7)]


def test_the_last_of_several_documents_with_one_id_stays(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "BATCH", 2)
    corpus.upsert([{"id": "x", "text": "sea"}])
    # Batches are looked at before those ahead of them are written.
    rows = [("x", "boat"), ("a", "cat"), ("x", "sea"), ("x", "pear"), ("x", "sea"), ("b", "cat")]
    file = write_lines(tmp_path / "a.tsv", "id\ttext", *("\t".join(row) for row in rows))
    index_rows(corpus, [file])
    assert corpus.get("x") == Document("x", "sea")
    assert len(corpus) == 3


def test_broken_bytes_in_one_line(corpus: Corpus, tmp_path: Path) -> None:
    lines = [f"고양이 {i}".encode() for i in range(3000)]
    lines[1234] = b"the cat \xff\xfe sleeps"
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    messages = record_messages()
    assert index_rows(corpus, [str(tmp_path / "a.txt")]).written == 3000
    assert any("line 1235" in line for line in messages)
    found = corpus.get("a.txt:1235")
    assert found is not None and found.text == "the cat \ufffd\ufffd sleeps"


def test_bad_rows_are_passed_over_with_their_numbers(corpus: Corpus, tmp_path: Path) -> None:
    file = write_lines(
        tmp_path / "a.jsonl", '{"text": "sea"}', "{broken", "[1]", '{"text": "boat"}'
    )
    messages = record_messages()
    assert index_rows(corpus, [file]).written == 2
    assert any("2 rows passed over (lines 2, 3)" in line for line in messages)


@pytest.mark.parametrize(
    ("lines", "columns", "message"),
    [
        (["id\ttext", "1\tsea"], RowColumns(text=("body",)), "no column 'body'; it has id, text"),
        (["id\ttext", "1\tsea"], RowColumns(fields=("year",)), "no column 'year'"),
        (["a\tb", "1\tsea"], RowColumns(), "no column 'text'; it has a, b"),
        (["id\ttext", "\tsea"], RowColumns(), "line 2 .* empty id"),
        ([""], RowColumns(), "is empty"),
    ],
)
def test_columns_that_are_not_there(
    corpus: Corpus, tmp_path: Path, lines: list[str], columns: RowColumns, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        index_rows(corpus, [write_lines(tmp_path / "a.tsv", *lines)], columns=columns)
    assert len(corpus) == 0


@pytest.mark.filterwarnings("error")
def test_long_texts_are_read_whole(corpus: Corpus, tmp_path: Path) -> None:
    messages = record_messages()
    file = write_lines(
        tmp_path / "a.txt", *(f"cat {i} " * 40 for i in range(9)), "sea " * 80 + "pear"
    )
    index_rows(corpus, [file])
    assert messages == []
    long = corpus.get("a.txt:10")
    assert long is not None and long.text.endswith("sea pear")
    [hit, *_] = corpus.search("pear", 1)
    assert hit.id == "a.txt:10" and "pear" in hit.snippet


def test_other_warnings_are_not_swallowed(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_batch = corpus.store.write

    def warn(*args: object, **options: object) -> None:
        warnings.warn("the disk is slow", UserWarning, stacklevel=1)
        write_batch(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(corpus.store, "write", warn)
    with pytest.warns(UserWarning, match="the disk is slow"):
        index_rows(corpus, [write_lines(tmp_path / "a.txt", "sea")])


@pytest.mark.parametrize(
    ("lines", "ids_", "said"),
    [
        (["id,text", "1,sea"], ["1"], "its rows are documents with their own ids"),
        (["sea", "boat"], ["a.csv:2"], "its rows are documents with their own ids"),
        (["제목,내용", "휴가,15일"], ["a.csv#1"], "belong to the file, since it has no column"),
    ],
)
def test_what_a_table_is_taken_for_is_said(
    corpus: Corpus, tmp_path: Path, lines: list[str], ids_: list[str], said: str
) -> None:
    messages = record_messages()
    index_files(corpus, [write_lines(tmp_path / "a.csv", *lines)])
    assert ids(corpus) == ids_
    assert any(said in line for line in messages)
