"""Files of a folder: which are read, and how much of them."""

import os
import random
import tracemalloc
import unicodedata
import zipfile
from pathlib import Path

import pytest

from malmoi.documents import DocumentError, SkippedPath, find_files, read_documents
from malmoi.errors import DataError
from malmoi.io.files import read_lines, read_text
from tests.documents.samples import hwp, hwpx, ole, pdf
from tests.support.logs import record_messages


def put(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("글", "utf-8")


def ids(*paths: Path, **options: list[str]) -> list[str]:
    return [file.id for file in find_files(paths, **options)]


def test_sub_folders_are_read_in_one_order_without_hidden_files(tmp_path: Path) -> None:
    put(tmp_path, "b.md", "a/x.txt", "a.txt", ".git/c.md", "a/.d.txt", "~$a.docx", "a/b/y.pdf")
    assert ids(tmp_path) == ["a.txt", "b.md", "a/x.txt", "a/b/y.pdf"]


def test_two_files_of_one_name_have_two_ids(tmp_path: Path) -> None:
    put(tmp_path, "one/a.txt", "two/a.txt", "three/a.txt")
    assert ids(tmp_path / "one", tmp_path / "two") == ["one/a.txt", "two/a.txt"]
    assert ids(tmp_path / "one/a.txt", tmp_path / "two/a.txt") == ["one/a.txt", "two/a.txt"]


def test_files_that_a_shell_listed_have_the_ids_of_their_folder(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "b.txt", "c/d.txt")
    assert ids(*sorted(tmp_path.iterdir())) == ids(tmp_path)
    assert ids(tmp_path / "c/d.txt") == ["d.txt"]
    assert ids(tmp_path, tmp_path / "a.txt") == ids(tmp_path)  # asked for twice, found once


def test_patterns_choose_files(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "B.TXT", "c.md", "sub/d.txt", "sub/deep/e.py", "drafts/f.txt")
    assert ids(tmp_path, include=["*.txt"]) == ["B.TXT", "a.txt", "drafts/f.txt", "sub/d.txt"]
    assert ids(tmp_path, include=["sub/**/*.py"]) == ["sub/deep/e.py"]
    assert ids(tmp_path, include=["sub/"], exclude=["deep"]) == ["sub/d.txt"]
    assert ids(tmp_path, exclude=["drafts", "[ab].*", "sub/*.txt"]) == ["c.md"]


def test_files_of_other_forms_are_counted_in_one_line(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "b.png", "c.png", "d.tar", "old.doc")
    messages = record_messages()
    assert ids(tmp_path) == ["a.txt", "old.doc"]  # reading the old form says what to do
    assert len(messages) == 1
    assert messages[0].startswith("3 files are of a form that is not read (2 .png, 1 .tar)")
    assert ids(tmp_path / "b.png") == ["b.png"]  # named itself


@pytest.mark.skipif(os.name == "nt", reason="making links needs a privilege on Windows")
def test_links_are_followed_once_and_loops_end(tmp_path: Path) -> None:
    put(tmp_path, "real/a.txt", "real/sub/b.txt", "elsewhere/c.txt")
    root = tmp_path / "real"
    (root / "loop").symlink_to(root)
    (root / "0-link.txt").symlink_to(root / "a.txt")
    (root / "sub/up").symlink_to(root)
    (root / "other").symlink_to(tmp_path / "elsewhere")
    assert ids(root) == ["a.txt", "sub/b.txt", "other/c.txt"]
    (root / "broken").symlink_to(tmp_path / "nowhere")
    skipped: list[SkippedPath] = []
    assert len(list(find_files(root, skipped=skipped))) == 3
    assert [one.id for one in skipped] == ["broken"]


def test_names_are_in_nfc_and_two_spellings_do_not_collide(tmp_path: Path) -> None:
    name = "계약서 📎.txt"
    put(tmp_path, unicodedata.normalize("NFD", name))
    assert ids(tmp_path) == [name]
    put(tmp_path, name)
    if len(list(tmp_path.iterdir())) == 2:  # a file system that knows both
        assert sorted(ids(tmp_path)) == [name, f"{name}~2"]


@pytest.mark.skipif(os.name == "nt", reason="names are bytes on POSIX only")
def test_names_in_cp949_are_text(tmp_path: Path) -> None:
    raw = os.fsencode(tmp_path) + b"/" + "가.txt".encode("cp949")
    try:
        os.close(os.open(raw, os.O_CREAT | os.O_WRONLY))
    except OSError:
        pytest.skip("this file system takes names in UTF-8 only")
    assert ids(tmp_path) == ["가.txt"]


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read all")
def test_a_folder_without_permission_is_named_and_the_rest_is_found(tmp_path: Path) -> None:
    put(tmp_path, "a.txt", "closed/b.txt")
    (tmp_path / "closed").chmod(0)
    skipped: list[SkippedPath] = []
    try:
        assert [file.id for file in find_files(tmp_path, skipped=skipped)] == ["a.txt"]
    finally:
        (tmp_path / "closed").chmod(0o700)
    assert [(one.id, "Permission denied" in one.reason) for one in skipped] == [("closed", True)]


def test_a_folder_that_cannot_be_listed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "a.txt", "closed/b.txt")
    listed = os.scandir

    def scandir(path: str) -> object:
        if path.endswith("closed"):
            raise PermissionError(13, "Permission denied")
        return listed(path)

    monkeypatch.setattr(os, "scandir", scandir)
    skipped: list[SkippedPath] = []
    messages = record_messages()
    assert [file.id for file in find_files(tmp_path, skipped=skipped)] == ["a.txt"]
    assert [one.id for one in skipped] == ["closed"]
    assert messages == [skipped[0].reason]


def test_a_path_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is no file or folder"):
        ids(tmp_path / "nowhere")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_pipes_are_never_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    assert ids(tmp_path) == []
    with pytest.raises(DataError, match="neither a file nor a folder"):
        ids(tmp_path / "pipe.txt")


def test_many_tiny_files_are_found_quickly(tmp_path: Path) -> None:
    for number in range(3000):
        (tmp_path / f"{number}.txt").touch()
    deep = tmp_path
    for _ in range(150):
        deep = deep / "d"
    deep.mkdir(parents=True)
    put(deep, "a.txt")
    assert len(ids(tmp_path)) == 3001


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


def test_a_zip_file_is_read_like_a_folder(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("hr/leave.md", "# 휴가\n\n15일이다.\n")
        opened.writestr("../up.txt", "밖이 아니다.")
        opened.writestr("photo.png", b"\x89PNG")
        opened.writestr("old.doc", b"\xd0\xcf\x11\xe0")
        opened.writestr("__MACOSX/._leave.md", "x")
        opened.writestr(".hidden.txt", "x")
    messages = record_messages()
    found = list(read_documents(path))
    assert [(one.id, one.title, one.type) for one in found] == [
        ("a.zip/hr/leave.md", "휴가", "md"),
        ("a.zip/up.txt", "up", "txt"),
    ]
    assert found[0].source == f"{path}/hr/leave.md"
    [message] = messages
    assert "old.doc in" in message and "member" not in message
    assert [one.id for one in find_files(tmp_path)] == ["a.zip"]
    with zipfile.ZipFile(path, "w") as opened:
        opened.writestr("photo.png", b"\x89PNG")
    with pytest.raises(DocumentError, match="has no document inside that is read"):
        list(read_documents(path))
