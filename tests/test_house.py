"""The house: imports point one way, torch stays in train, and importing malmoi loads little."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src/malmoi"
# A module may use those above it, never those below (docs/architecture.md draws the same list).
ORDER = [
    "errors",
    "symbols",
    "text",
    "offsets",
    "morphemes",
    "files",
    "tables",
    "arrays",
    "progress",
    "bundle",
    "catalog",
    "tokens",
    "pairs",
    "session",
    "pooling",
    "precision",
    "runner",
    "words",
    "encoder",
    "joining",
    "reranker",
    "notes",
    "tagger",
    "lexicon",
    "index",
    "corpus",
    "linking",
    "mining",
    "evaluate",
    "plots",
    "train",
    "scale",
    "client",
    "serve",
    "cli",
]
TRAINING = {"torch", "transformers", "sentence_transformers", "datasets", "accelerate"}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE / "models")


def room(path: Path) -> str:
    """The top-level module that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def imports(path: Path) -> set[str]:
    """Every module a file imports anywhere in it, malmoi's own as "malmoi.room"."""
    found = set()
    package = ["malmoi", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found |= {stem} if node.module else {f"{stem}.{alias.name}" for alias in node.names}
            if stem == "malmoi":
                found |= {f"malmoi.{alias.name}" for alias in node.names}
    return found


def test_every_module_has_a_place() -> None:
    assert {room(path) for path in MODULES} - {"__init__", "__main__"} <= set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_one_way(path: Path) -> None:
    if room(path) in ("__init__", "__main__"):
        return
    own = ORDER.index(room(path))
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "malmoi" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER.index(parts[1]) <= own, f"{path.name} imports {name}, which is below it"


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_heavy_libraries_have_one_home(path: Path) -> None:
    heads = {name.split(".")[0] for name in imports(path)}
    if room(path) != "train":
        assert not heads & TRAINING
        if path.name != "session.py":
            assert "onnxruntime" not in heads
    assert "pickle" not in heads


def test_importing_malmoi_loads_neither_torch_nor_onnxruntime() -> None:
    code = (
        "import sys, malmoi, malmoi.train, malmoi.cli\n"
        "heavy = {'torch', 'onnxruntime', 'transformers', 'sentence_transformers', 'matplotlib',"
        " 'sklearn', 'pyarrow', 'huggingface_hub', 'scipy', 'onnx'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
