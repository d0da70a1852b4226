"""What many tests share: markers by folder, tiny bundles, the command line as a function."""

import io
import os
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

import malmoi
from malmoi.cli import main
from tests.support import graphs, logs
from tests.support.graphs import Run

ROOT = Path(__file__).parents[1]
# Folders of tests/ and of src/malmoi/: the marker of what is in them, and the library it needs.
FOLDERS = {
    "training": ("train", "torch"),
    "export": ("train", "torch"),
    "research": ("train", "torch"),
    "serve": ("server", "uvicorn"),
    "client": ("server", "uvicorn"),
    "scale": ("cluster", "ray"),
    "integrations": ("adapters", "langchain_core"),
}
NO_DATA = "set MALMOI_DATA to the folder of the public data sets"


def top_folder(path: Path) -> str:
    """The folder of tests/ or of src/malmoi/ that a file is in, "" when it is in none."""
    for root in (ROOT / "tests", ROOT / "src/malmoi"):
        if path != root and path.is_relative_to(root):
            return path.relative_to(root).parts[0]
    return ""


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Leave out helpers, and tests whose library is not installed; the run's end names those."""
    folder = top_folder(collection_path)
    _, library = FOLDERS.get(folder, ("", ""))
    return True if folder == "support" or (library and not find_spec(library)) else None


def pytest_collection_modifyitems(items: Iterable[pytest.Item]) -> None:
    """Give every test the marker of its folder, and `slow` to commands that start Python anew."""
    for item in items:
        marker, _ = FOLDERS.get(top_folder(item.path), ("", ""))
        if marker:
            item.add_marker(marker)
        if "run" in getattr(item, "fixturenames", ()):
            item.add_marker("slow")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the end what did not run, so that nobody takes it for tested."""
    skipped = terminalreporter.stats.get("skipped", [])
    lacking = sum(NO_DATA in str(report.longrepr) for report in skipped)
    if lacking:
        terminalreporter.write_line(f"{lacking} tests of public data skipped: {NO_DATA}")
    for folder, (_, library) in FOLDERS.items():
        if (ROOT / "tests" / folder).is_dir() and not find_spec(library):
            terminalreporter.write_line(f"tests/{folder} left out: {library} is not installed")


@pytest.fixture
def public_data() -> Callable[[str], Path]:
    """Find a file of the public data sets, or skip the test."""
    folder = Path(os.environ.get("MALMOI_DATA") or ROOT.parent / "shared/data")

    def find(name: str) -> Path:
        if not (folder / name).is_file():
            pytest.skip(NO_DATA)
        return folder / name

    return find


@pytest.fixture(scope="session", autouse=True)
def _clean_checkout() -> Iterator[None]:
    """Fail a run whose tests have left a file in the checkout."""

    def names() -> set[str]:
        return {path.name for path in ROOT.iterdir() if path.name[0] != "."} - {"build"}

    before = names()
    yield
    assert names() == before, "a test has left files in the checkout"


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
            patch.setenv("COLUMNS", "120")
            patch.setenv("NO_COLOR", "1")
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


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Give the folder of a tiny transformer of the named architecture."""
    from tests.support.tiny import tiny_transformer

    root = tmp_path_factory.mktemp("tiny")

    def write(architecture: str) -> Path:
        folder = root / architecture
        return folder if folder.exists() else tiny_transformer(folder, architecture)

    return write
