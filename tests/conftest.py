"""What many tests share: tiny bundles, and the command line as a function."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import graphs
import malmoi
from graphs import Run


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    """A tiny bundle with a manifest."""
    return graphs.write_bundle(tmp_path / "tiny")


@pytest.fixture
def encoder(bundle: Path) -> malmoi.TextEncoder:
    """The tiny bundle, opened."""
    return malmoi.load(bundle)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """Run `malmoi …` in a process of its own, in an empty folder."""

    def call(*args: object, stdin: str | bytes = "") -> "subprocess.CompletedProcess[str]":
        raw = stdin if isinstance(stdin, bytes) else stdin.encode("utf-8", "surrogatepass")
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "malmoi", *map(str, args)],
            input=raw,
            capture_output=True,
            cwd=tmp_path,
            env=os.environ | {"COLUMNS": "120", "NO_COLOR": "1"},
            timeout=120,
        )
        return subprocess.CompletedProcess(
            done.args, done.returncode, done.stdout.decode(), done.stderr.decode()
        )

    return call
