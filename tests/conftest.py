"""What many tests share: tiny bundles, and the command line as a function."""

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

import graphs
import logs
import malmoi
from graphs import Run
from malmoi.cli import main


@pytest.fixture(autouse=True)
def _no_recorders() -> Iterator[None]:
    """Leave nothing of a test's recorder of log messages to the next one."""
    yield
    logs.forget_recorders()


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


@pytest.fixture
def run_here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `malmoi …` like `run`, but in this process, which has read models and libraries already.

    Every command has a test with `run` too, since only a process of its own shows what is missing.
    """

    def call(*args: object, stdin: str | bytes = "") -> "subprocess.CompletedProcess[str]":
        raw = stdin if isinstance(stdin, bytes) else stdin.encode("utf-8", "surrogatepass")
        given, out, err = (io.TextIOWrapper(io.BytesIO(one), "utf-8") for one in (raw, b"", b""))
        with monkeypatch.context() as patch, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            patch.chdir(tmp_path)
            patch.setattr(warnings, "showwarning", warnings.showwarning)  # main puts its own there
            patch.setattr("sys.argv", ["malmoi", *map(str, args)])
            for name, stream in (("stdin", given), ("stdout", out), ("stderr", err)):
                patch.setattr(f"sys.{name}", stream)
            with pytest.raises(SystemExit) as leaving:
                main()
            out.flush()
            err.flush()
        texts = [one.buffer.getvalue().decode() for one in (out, err)]  # type: ignore[attr-defined]
        return subprocess.CompletedProcess(
            list(map(str, args)), int(leaving.value.code or 0), *texts
        )

    return call
