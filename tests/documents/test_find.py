"""Folders: which files are found, under which ids, and what is said about the others."""

import os
import unicodedata
from pathlib import Path

import pytest

from malmoi.documents import SkippedPath, find_files
from malmoi.errors import DataError
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
    put(tmp_path, "a.txt", "b.png", "c.png", "d.zip", "old.doc")
    messages = record_messages()
    assert ids(tmp_path) == ["a.txt", "old.doc"]  # reading the old form says what to do
    assert len(messages) == 1
    assert messages[0].startswith("3 files are of a form that is not read (2 .png, 1 .zip)")
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
