"""The packages: imports point one way, none in a circle, torch stays in train and export."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import ROOT

SOURCE = ROOT / "src/malmoi"
# A module may use those above it, never those below (docs/architecture.md has the same list).
ORDER = [
    "errors", "types", "text", "io", "bundle", "runtime", "encoders", "heads", "index", "documents",
    "corpus", "terms", "clinical", "evaluation", "mining", "export", "training", "scale", "client",
    "integrations", "serve", "cli",
]  # fmt: skip
TRAINING = {"torch", "transformers", "sentence_transformers", "datasets", "accelerate"}
TORCH = {"training", "export"}
MODULES = sorted(path for path in SOURCE.rglob("*.py") if path.parent != SOURCE / "models")
INSIDE = [path for path in MODULES if path.parent != SOURCE]


def package(path: Path) -> str:
    """The top-level package that a file belongs to."""
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    """A file's module as a dotted name under malmoi."""
    return ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")


def imports(path: Path) -> set[str]:
    """Every module a file imports anywhere in it, malmoi's own as "malmoi.package.module"."""
    found = set()
    own = ["malmoi", *path.relative_to(SOURCE).parent.parts]
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = own[: len(own) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            found |= {stem, *(f"{stem}.{alias.name}" for alias in node.names)}
    return found


def graph() -> dict[str, set[str]]:
    """Which of malmoi's modules each of them imports, at its top or inside a function."""
    names = {name_of(path): path for path in MODULES}
    return {
        name: {one.removeprefix("malmoi.") for one in imports(path)} & names.keys() - {name}
        for name, path in names.items()
    }


def circle(edges: dict[str, set[str]]) -> list[str]:
    """A chain of modules that import one another in a circle; empty if there is none."""
    done: set[str] = set()

    def visit(name: str, chain: list[str]) -> list[str]:
        if name in chain:
            return [*chain[chain.index(name) :], name]
        if name in done:
            return []
        for other in sorted(edges[name]):
            if found := visit(other, [*chain, name]):
                return found
        done.add(name)
        return []

    return next((found for name in sorted(edges) if (found := visit(name, []))), [])


def test_every_package_has_a_place() -> None:
    assert {package(path) for path in MODULES} - {"__init__", "__main__"} == set(ORDER)


def test_the_architecture_page_lists_every_package_in_order() -> None:
    page = (ROOT / "docs/architecture.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)(?:/|\.py)` \|", page, re.M)
    assert [row for row in rows if row in ORDER] == ORDER


@pytest.mark.parametrize("path", INSIDE, ids=name_of)
def test_imports_point_one_way(path: Path) -> None:
    own = ORDER.index(package(path))
    for name in imports(path):
        parts = name.split(".")
        if parts[0] == "malmoi" and len(parts) > 1 and parts[1] in ORDER:
            assert ORDER.index(parts[1]) <= own, f"{path.name} imports {name}, which is below it"


def test_no_modules_import_one_another_in_a_circle() -> None:
    # A package's __init__ shows names of its modules, which is no circle.
    edges = {name: {one for one in found if not is_package(one)} for name, found in graph().items()}
    assert circle(edges) == []


def is_package(name: str) -> bool:
    return (SOURCE / name.replace(".", "/")).is_dir()


def test_a_circle_would_be_found() -> None:
    assert circle({"a": {"b"}, "b": {"c"}, "c": {"b"}}) == ["b", "c", "b"]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_heavy_libraries_have_one_home(path: Path) -> None:
    heads = {name.split(".")[0] for name in imports(path)}
    if package(path) not in TORCH:
        assert not heads & TRAINING
        if path.name != "session.py":
            assert "onnxruntime" not in heads
    assert "pickle" not in heads


def test_importing_malmoi_loads_neither_torch_nor_onnxruntime() -> None:
    code = (
        "import sys, malmoi, malmoi.training, malmoi.export, malmoi.cli\n"
        "heavy = {'torch', 'onnxruntime', 'transformers', 'sentence_transformers', 'matplotlib',"
        " 'sklearn', 'pyarrow', 'huggingface_hub', 'scipy', 'onnx'}\n"
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
