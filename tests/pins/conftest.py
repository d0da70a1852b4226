"""Files that an earlier malmoi wrote."""

import shutil
import tarfile
from pathlib import Path

import pytest

ARCHIVE = Path(__file__).parent / "files.tar.xz"


@pytest.fixture(scope="session")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files of an earlier malmoi, unpacked; copy what a test changes."""
    folder = tmp_path_factory.mktemp("files")
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(folder, filter="data")
    return folder


@pytest.fixture
def files(packed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of those files, with an empty cache folder for the user."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return Path(shutil.copytree(packed, tmp_path / "files"))
