"""What training tests share: tiny transformers, written once a session."""

from collections.abc import Callable
from pathlib import Path

import pytest

Write = Callable[[str], Path]


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Write:
    """Give the folder of a tiny transformer of the named architecture."""
    from tests.support.tiny import tiny_transformer

    root = tmp_path_factory.mktemp("tiny")

    def write(architecture: str) -> Path:
        folder = root / architecture
        return folder if folder.exists() else tiny_transformer(folder, architecture)

    return write
