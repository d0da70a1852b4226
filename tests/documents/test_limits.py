"""Input that is broken, hostile, in motion or huge: one line of reason, bounded memory, no harm."""

import os
import random
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from malmoi.documents import DocumentError, find_files, read_documents
from malmoi.errors import DataError
from malmoi.io.files import read_lines, read_text
from tests.documents.samples import hwp, hwpx, ole, pdf


def refused(path: Path, data: bytes | None = None) -> str:
    """Read a file that cannot be read, and give the one line that says why."""
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(DocumentError) as raised:
        list(read_documents(path))
    assert "\n" not in str(raised.value)
    assert str(path) in str(raised.value)
    return str(raised.value)


def archive(path: Path, entries: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as opened:
        for name, data in entries.items():
            opened.writestr(name, data)
    return path


@pytest.mark.parametrize(
    ("name", "part"),
    [
        ("a.docx", "word/document.xml"),
        ("a.xlsx", "xl/workbook.xml"),
        ("a.pptx", "ppt/presentation.xml"),
        ("a.hwpx", "Contents/content.hpf"),
    ],
)
def test_zip_bombs(tmp_path: Path, name: str, part: str) -> None:
    path = archive(tmp_path / name, {part: b"<a/>", "big.xml": bytes(40 * 2**20)})
    assert "contents packed to 1/" in refused(path)
    many = {f"{number}.xml": b"" for number in range(20_001)}
    assert "20,002 files inside; expected at most 20,000" in refused(
        archive(path, {part: b"<a/>", **many})
    )


def test_a_hangul_stream_that_unpacks_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("malmoi.documents.hwp._LARGEST_STREAM", 2**20)
    assert "has more than 1 MiB in one part" in refused(
        tmp_path / "a.hwp", hwp([("가" * 600_000, 0)])
    )


def test_entities_that_unfold_are_not(tmp_path: Path) -> None:
    path = hwpx(tmp_path / "a.hwpx", "")
    with zipfile.ZipFile(path, "a") as opened, pytest.warns(UserWarning, match="Duplicate name"):
        opened.writestr("Contents/section0.xml", '<!DOCTYPE a [<!ENTITY b "ha">]><a><p>&b;</p></a>')
    assert "is damaged" in refused(path)


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.txt", b"", "is empty; expected text"),
        ("a.md", b" \n\n ", "has no text"),
        ("a.txt", b"\x89PNG\r\n\x1a\n" + bytes(100), "is a PNG image"),
        ("a.txt", bytes(random.Random(0).randbytes(5000)), "is binary data"),
        ("a.docx", b"plain", "is plain text; expected a docx file"),
        ("a.zip", b"PK\x03\x04rest", "is damaged: its list of contents cannot be read"),
        ("a.doc", ole({"WordDocument": b"x"}), "Word's old form; expected a document. Save it as"),
        ("a.docx", ole({"EncryptedPackage": b"x"}), "is encrypted. Save it without a password"),
        ("a.hwp", hwp([("가", 0)], flags=3), "is encrypted"),
        ("a.hwp", hwp([("가", 0)], flags=5), "is a distribution copy"),
        ("a.hwp", b"HWP Document File V3.00 \x1a\1\2\3\4\5", "Hangul's version 3"),
        ("a.rtf", b"{\\rtf1 text}", "is an RTF document; expected a document. Save it as .docx"),
        ("a.eml", b"no headers at all", "has no headers of an e-mail"),
    ],
)
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, data: bytes, words: str) -> None:
    assert words in refused(tmp_path / name, data)


def test_an_archive_of_another_kind_and_an_encrypted_document(tmp_path: Path) -> None:
    other = archive(tmp_path / "a.docx", {"readme.txt": b"x"})
    assert "is a ZIP archive of another kind; expected a docx file" in refused(other)
    assert "is encrypted" in refused(hwpx(tmp_path / "a.hwpx", "", encrypted=True))


def test_damaged_documents_are_read_or_refused(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    openpyxl = pytest.importorskip("openpyxl")
    word = docx.Document()
    word.add_paragraph("본문이다.")
    word.save(str(tmp_path / "a.docx"))
    book = openpyxl.Workbook()
    book.active.append(["가", "나"])
    book.save(tmp_path / "a.xlsx")
    section = "<hp:p><hp:run><hp:t>글</hp:t></hp:run></hp:p>"
    hwpx(tmp_path / "a.hwpx", section)
    (tmp_path / "a.hwp").write_bytes(hwp([("본문이다.", 0)], [["가", "나"]]))
    (tmp_path / "a.eml").write_bytes(b"Subject: a\r\nContent-Type: multipart/mixed\r\n\r\nx")
    chance = random.Random(7)
    for path in sorted(tmp_path.iterdir()):
        whole = path.read_bytes()
        for _ in range(12):
            data = bytearray(whole[: chance.randrange(1, len(whole) + 1)])
            for _ in range(chance.randrange(4)):
                data[chance.randrange(len(data))] = chance.randrange(256)
            path.write_bytes(data)
            try:
                list(read_documents(path))
            except DocumentError as error:
                assert "\n" not in str(error)


def test_a_file_that_vanishes_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("글")
    (tmp_path / "b.txt").write_text("글")
    files = list(find_files(tmp_path))
    (tmp_path / "a.txt").unlink()
    with pytest.raises(DocumentError, match="vanished before it was read"):
        list(read_documents(files[0]))
    assert list(read_documents(files[1]))


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_file_without_permission_is_said(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("글")
    (tmp_path / "a.txt").chmod(0)
    with pytest.raises(DocumentError, match=r"cannot read .*: Permission denied"):
        list(read_documents(tmp_path / "a.txt"))


def test_a_very_long_file_comes_in_parts_and_memory_stays_flat(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    line = "출장비는 교통비와 숙박비로 나누며 실비로 정산한다. " * 4
    with path.open("w", encoding="utf-8") as file:
        for number in range(30_000):
            file.write(f"{number}번째 {line}\n" + "\n" * (number % 7 == 0))
    assert path.stat().st_size > 8_000_000
    tracemalloc.start()
    try:
        ids, characters = [], 0
        for document in read_documents(path):
            ids.append(document.id)
            characters += sum(len(block.text) for block in document.blocks)
            assert sum(len(block.text) for block in document.blocks) < 2_100_000
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert ids[:3] == ["a.txt", "a.txt#2", "a.txt#3"]
    assert characters > 3_000_000
    assert peak < 40_000_000


@pytest.mark.parametrize("data", [pdf([[(60, 700, 12, "가")]]), b"PK\x03\x04\x14\0\6\0\x08\0\0\0"])
def test_binary_files_are_never_read_as_text(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(data)
    for read in (read_text, lambda path: list(read_lines(path))):
        with pytest.raises(DataError, match=r"is a (PDF|ZIP) .*, not text; .*malmoi index"):
            read(path)


def test_text_with_a_stray_control_character_is_text(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("앞\0뒤\x07 글".encode())
    assert list(read_lines(path)) == ["앞\0뒤\x07 글"]
