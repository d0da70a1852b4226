"""Files: whole or not at all, and read in whatever encoding they are."""

import errno
import os
from pathlib import Path

import pytest

import malmoi.io.files as files
from malmoi.errors import DataError, OutputError
from malmoi.io.files import read_lines, writing, writing_folder
from tests.support.logs import record_messages

LINES = ["당뇨병성 신증", "DM nephropathy", "", "끝"]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_korean_encodings_are_read_and_told(tmp_path: Path, encoding: str, end: str) -> None:
    path = tmp_path / "notes.txt"
    path.write_bytes(end.join(LINES).encode(encoding))
    told = record_messages()
    assert list(read_lines(path)) == LINES
    assert len(told) == (encoding != "utf-8")


def test_utf16_line_ends_are_found_on_character_borders(tmp_path: Path) -> None:
    # U+0A00 and U+0D0A hold the bytes of line ends without being any.
    path = tmp_path / "x.txt"
    path.write_bytes("\u0a00\u0d0a가\n나".encode("utf-16"))
    assert list(read_lines(path)) == ["\u0a00\u0d0a가", "나"]


def test_a_character_cut_at_the_end_of_what_is_sniffed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "_BLOCK", 4)
    for encoding in ("utf-8", "cp949"):
        path = tmp_path / f"{encoding}.txt"
        path.write_bytes("배가가가\n당뇨\n".encode(encoding))
        assert list(read_lines(path)) == ["배가가가", "당뇨"]


def test_korean_after_a_megabyte_of_english(tmp_path: Path) -> None:
    path = tmp_path / "late.txt"
    path.write_bytes(b"english\n" * 200_000 + "당뇨\n".encode("cp949"))
    told = record_messages()
    assert list(read_lines(path))[-1] == "당뇨"
    assert told == [f"{path} is cp949, not UTF-8; reading it as cp949"]


def test_one_broken_line_is_told_and_the_rest_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "broken.txt"
    path.write_bytes("좋은 줄\n".encode() * 3 + b"\xff\xfe\xfa broken\n" + "끝\n".encode())
    told = record_messages()
    lines = list(read_lines(path))
    assert len(lines) == 5 and lines[-1] == "끝" and "\ufffd" in lines[3]
    assert len(told) == 1 and "the first is line 4" in told[0]


def test_a_replacement_character_that_was_in_the_file_is_no_fault(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("\ufffd", "utf-8")
    told = record_messages()
    assert list(read_lines(path)) == ["\ufffd"] and not told


def test_lines_of_a_mixed_file_are_decoded_one_by_one(tmp_path: Path) -> None:
    path = tmp_path / "mixed.tsv"
    lines = ["code\tko", "A00\t콜레라", "A01\t장티푸스", "B00\t헤르페스"]
    raw = [line.encode("cp949" if line.startswith("B") else "utf-8") for line in lines]
    path.write_bytes(b"\xef\xbb\xbf" + b"\r\n".join(raw) + b"\n")
    logged = record_messages()
    assert list(read_lines(path, mixed=True)) == lines
    assert len(logged) == 1 and "the first cp949 line is 4" in logged[0]
    assert list(read_lines(path))[3] != lines[3]  # one encoding for all


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
def test_a_file_of_one_encoding_is_no_mixed_one(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "t.tsv"
    path.write_bytes("\n".join(LINES).encode(encoding))
    logged = record_messages()
    assert list(read_lines(path, mixed=True)) == LINES
    expected = {"cp949": ["cp949, not UTF-8"], "utf-16": ["utf-16-le, not UTF-8"]}
    assert len(logged) == len(expected.get(encoding, []))
    assert all(part in logged[0] for part in expected.get(encoding, []))


def test_an_endless_line_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "LONGEST_LINE", 3 * 2**20)
    path = tmp_path / "long.txt"
    path.write_bytes(b"ok\n" + b"a" * (5 * 2**20))
    with pytest.raises(DataError, match="line 2 of .* is longer than 3 MiB; expected one text"):
        list(read_lines(path))


@pytest.mark.parametrize(("name", "found"), [("none.txt", "there is no file"), ("", "is a folder")])
def test_what_cannot_be_read_is_said(tmp_path: Path, name: str, found: str) -> None:
    with pytest.raises(DataError, match=found):
        list(read_lines(tmp_path / name))


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    path.write_bytes(b"old")
    with pytest.raises(KeyboardInterrupt), writing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt
    assert path.read_bytes() == b"old" and os.listdir(tmp_path) == ["out.bin"]
    with writing(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new" and os.listdir(tmp_path) == ["out.bin"]


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "out.bin"
    with pytest.raises(OutputError, match=r"the disk is full; nothing was changed"):
        with writing(path) as file:
            file.write(b"x")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert not os.listdir(tmp_path)


def test_a_read_only_place_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, *args: object, **options: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    for name in ("open", "unlink"):  # it refuses to remove what is not there, too
        monkeypatch.setattr(Path, name, refuse)
    with pytest.raises(OutputError, match="no permission to write"), writing(tmp_path / "x"):
        pass


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="does not exist. Make it first"):
        with writing(tmp_path / "none/out.bin"):
            pass


def test_a_folder_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    with pytest.raises(RuntimeError), writing_folder(folder) as half:
        (half / "a").write_text("half")
        raise RuntimeError
    assert not os.listdir(tmp_path)
    with writing_folder(folder) as half:
        (half / "a").write_text("whole")
    assert os.listdir(folder) == ["a"] and os.listdir(tmp_path) == ["model"]


def test_a_full_folder_is_kept_unless_it_is_to_be_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "mine").touch()
    with pytest.raises(OutputError, match="exists already and is not empty"):
        with writing_folder(folder):
            pass
    with writing_folder(folder, replace=True) as half:
        (half / "new").touch()
    assert os.listdir(folder) == ["new"] and os.listdir(tmp_path) == ["model"]


def test_a_file_in_a_folder_is_named_by_where_it_was_to_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(number: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with (
        pytest.raises(OutputError, match=r"cannot write .*/bundle/a\.json: the disk is full"),
        writing_folder(tmp_path / "bundle") as half,
        writing(half / "a.json"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []
