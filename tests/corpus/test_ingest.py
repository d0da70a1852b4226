"""Files into a corpus: columns, resuming, what is there already, and lines that are broken."""

import warnings
from pathlib import Path

import pytest

import malmoi
from malmoi import Corpus, DataError, Document
from malmoi.corpus import Columns, IngestReport, index_files
from malmoi.corpus import ingest as importing
from tests.support.logs import record_messages


@pytest.fixture
def corpus(tmp_path: Path, encoder: malmoi.TextEncoder) -> Corpus:
    return Corpus.open(tmp_path / "x.malmoi", encoder, words="bigrams")


def write(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return str(path)


def test_every_kind_of_file(corpus: Corpus, tmp_path: Path) -> None:
    files = [
        write(tmp_path / "a.txt", "the cat", "", "고양이 잔다"),
        write(tmp_path / "b.tsv", "id\ttext\tkind", 'x1\tsay "sea"\tquote'),
        write(tmp_path / "c.csv", "question,answer", '"a, dog",sea'),
        write(tmp_path / "d.jsonl", '{"id": 7, "text": "pear", "tags": ["a", 1], "ok": true}'),
    ]
    assert index_files(corpus, files[:2]) == IngestReport(read=4, written=3, unchanged=0, empty=1)
    assert corpus.get("a.txt:3") == Document("a.txt:3", "고양이 잔다")
    assert corpus.get("x1") == Document("x1", 'say "sea"', {"kind": "quote"})
    index_files(corpus, files[2:3], columns=Columns(id="answer", text="question", fields=()))
    assert corpus.get("sea") == Document("sea", "a, dog")
    index_files(corpus, files[3:])
    assert corpus.get("7") == Document("7", "pear", {"tags": ["a", 1], "ok": True})
    assert corpus.search("pear", filter="tags=1")[0].id == "7"


def test_it_resumes_where_it_stopped(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 10)
    file = write(tmp_path / "a.txt", *(f"cat {i}" for i in range(95)))
    write_batch, calls = corpus.store.write, []

    def stop_in_the_middle(*args: object, **options: object) -> None:
        calls.append(options)
        if len(calls) == 5:
            raise KeyboardInterrupt
        write_batch(*args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(corpus.store, "write", stop_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        index_files(corpus, [file])
    assert len(corpus) == 40
    monkeypatch.setattr(corpus.store, "write", write_batch)
    messages = record_messages()
    assert index_files(corpus, [file]) == IngestReport(read=55, written=55)
    assert any("resuming after line 40" in line for line in messages)
    assert index_files(corpus, [file]) == IngestReport()
    assert len(corpus) == 95
    # A changed file is read again, and only the difference is written.
    write(tmp_path / "a.txt", *(f"cat {i}" for i in range(94)), "dog", "boat")
    assert index_files(corpus, [file]) == IngestReport(read=96, written=2, unchanged=94)


def test_a_text_is_encoded_once_however_often_it_comes(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 8)
    encoded: list[str] = []
    encode = corpus.encoder.encode

    def count(texts: list[str], **options: object) -> object:
        encoded.extend(texts)
        return encode(texts, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(corpus.encoder, "encode", count)
    index_files(corpus, [write(tmp_path / "a.txt", *(f"cat {i % 7}" for i in range(200)))])
    assert len(corpus) == 200
    assert sorted(encoded) == [f"cat {i}" for i in range(7)]


def test_the_last_of_several_documents_with_one_id_stays(
    corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importing, "BATCH", 2)
    corpus.put([{"id": "x", "text": "sea"}])
    # Batches are looked at before those ahead of them are written.
    rows = [("x", "boat"), ("a", "cat"), ("x", "sea"), ("x", "pear"), ("x", "sea"), ("b", "cat")]
    file = write(tmp_path / "a.tsv", "id\ttext", *("\t".join(row) for row in rows))
    index_files(corpus, [file])
    assert corpus.get("x") == Document("x", "sea")
    assert len(corpus) == 3


def test_broken_bytes_in_one_line(corpus: Corpus, tmp_path: Path) -> None:
    lines = [f"고양이 {i}".encode() for i in range(3000)]
    lines[1234] = b"the cat \xff\xfe sleeps"
    (tmp_path / "a.txt").write_bytes(b"\n".join(lines))
    messages = record_messages()
    assert index_files(corpus, [str(tmp_path / "a.txt")]).written == 3000
    assert any("line 1235" in line for line in messages)
    found = corpus.get("a.txt:1235")
    assert found is not None and found.text == "the cat \ufffd\ufffd sleeps"


def test_bad_rows_are_passed_over_with_their_numbers(corpus: Corpus, tmp_path: Path) -> None:
    file = write(tmp_path / "a.jsonl", '{"text": "sea"}', "{broken", "[1]", '{"text": "boat"}')
    messages = record_messages()
    assert index_files(corpus, [file]).written == 2
    assert any("2 rows passed over (lines 2, 3)" in line for line in messages)


@pytest.mark.parametrize(
    ("lines", "columns", "message"),
    [
        (["id\ttext", "1\tsea"], Columns(text="body"), "no column 'body'; it has id, text"),
        (["id\ttext", "1\tsea"], Columns(fields=("year",)), "no column 'year'"),
        (["a\tb", "1\tsea"], Columns(), "no column 'text'; it has a, b"),
        (["id\ttext", "\tsea"], Columns(), "line 2 .* empty id"),
        ([""], Columns(), "is empty"),
    ],
)
def test_columns_that_are_not_there(
    corpus: Corpus, tmp_path: Path, lines: list[str], columns: Columns, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        index_files(corpus, [write(tmp_path / "a.tsv", *lines)], columns=columns)
    assert len(corpus) == 0


@pytest.mark.filterwarnings("error")
def test_long_texts_are_read_whole(corpus: Corpus, tmp_path: Path) -> None:
    messages = record_messages()
    file = write(tmp_path / "a.txt", *(f"cat {i} " * 40 for i in range(9)), "sea " * 80 + "pear")
    index_files(corpus, [file])
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
        index_files(corpus, [write(tmp_path / "a.txt", "sea")])
