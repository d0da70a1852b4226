"""Measures of the source, to compare before and after: sizes, imports, names, tests, duplicates.

    python tools/code_report.py [--against COMMIT] [--list]

Prints a table; with --against also the measures of that commit and the change. --list adds what
was counted, by name. Pairs of similar code are counted where a command `duplicates` is on PATH.
"""

import argparse
import ast
import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = "malmoi"
SHORT = 60  # lines; a module below it with one importer could stand in that one
# Folders in which short modules with one importer are the design: one file a command, a route …
ONE_EACH = {"cli", "routes", "objectives", "loaders", "tasks", "evaluation", "models"}
Edges = dict[str, set[str]]


@dataclass
class Report:
    """Figures by the name of the measure, and what was counted."""

    figures: dict[str, int | float | None] = field(default_factory=dict)
    details: dict[str, list[str]] = field(default_factory=dict)

    def add(self, name: str, found: list[str]) -> None:
        """Count a list, and keep it."""
        self.figures[name] = len(found)
        self.details[name] = sorted(found)


@dataclass(frozen=True)
class Module:
    """A source file: its dotted name, its text and its syntax tree."""

    name: str
    path: Path
    text: str
    tree: ast.Module

    @property
    def lines(self) -> int:
        return len(self.text.splitlines())

    @property
    def package(self) -> str:
        """The package that relative imports start from."""
        return self.name if self.path.name == "__init__.py" else self.name.rpartition(".")[0]


def modules(source: Path) -> dict[str, Module]:
    """Every module of the package by its dotted name."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        parts = path.relative_to(source.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text("utf-8")
        found[name] = Module(name, path, text, ast.parse(text))
    return found


def imports(module: Module, known: dict[str, Module]) -> set[str]:
    """The modules of the package that one imports, in its head or inside a function."""
    found = set()
    for node in runtime_nodes(module.tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            start = module.package.split(".")
            base = start[: len(start) - node.level + 1] if node.level else []
            stem = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{stem}.{alias.name}"
                found.add(inner if inner in known else stem)
    return found & known.keys() - {module.name}


def runtime_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """All nodes of a tree but those that only a type checker reads."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
            continue
        yield child
        yield from runtime_nodes(child)


def cycles(edges: Edges) -> list[str]:
    """Groups of modules that import each other, directly or by others (Tarjan's algorithm)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[str] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(edges[name]):
            if other not in number:
                visit(other)
                low[name] = min(low[name], low[other])
            elif other in stack:
                low[name] = min(low[name], number[other])
        if low[name] == number[name]:
            at = stack.index(name)
            group = stack[at:]
            del stack[at:]
            if len(group) > 1:
                found.append(", ".join(sorted(group)))

    for name in edges:
        if name not in number:
            visit(name)
    return found


def measure(root: Path) -> Report:
    """All measures of a checkout."""
    report = Report()
    known = modules(root / "src" / PACKAGE)
    sizes(report, known)
    importing(report, known)
    names(report, known)
    tests = [path.read_text("utf-8") for path in (root / "tests").rglob("*.py")]
    report.figures["lines of tests"] = sum(len(text.splitlines()) for text in tests)
    report.figures["test assertions"] = assertions(root / "tests")
    report.figures["pairs found by duplicates"] = duplicates(root)
    report.figures |= walks(root)
    return report


def walks(root: Path) -> dict[str, int | float | None]:
    """Files that one call of each main way goes through; nothing where it cannot be run."""
    command = [sys.executable, str(ROOT / "tools/walks.py")]
    environment = os.environ | {"PYTHONPATH": str(root / "src")}
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    found: dict[str, int | float | None] = json.loads(done.stdout) if done.returncode == 0 else {}
    return found


def sizes(report: Report, known: dict[str, Module]) -> None:
    lines = sorted(module.lines for module in known.values())
    report.figures |= {
        "lines of source": sum(lines),
        "files of source": len(lines),
        "file length, median": statistics.median(lines),
        "file length, p90": lines[int(0.9 * (len(lines) - 1))],
        "file length, longest": lines[-1],
        "packages": len({name.split(".")[1] for name, one in known.items() if is_inside(one)}),
    }
    report.add(f"functions over {SHORT} lines", long_functions(known))


def is_inside(module: Module) -> bool:
    """Whether a module is in a package of its own, not at the top."""
    return module.name.count(".") > 1 or (
        module.path.name == "__init__.py" and module.name != PACKAGE
    )


def long_functions(known: dict[str, Module]) -> list[str]:
    """Functions over the limit that give no reason for it (a comment with "long because")."""
    found = []
    for module in known.values():
        for node in ast.walk(module.tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or 0) - node.lineno + 1
                text = "\n".join(module.text.splitlines()[node.lineno - 1 : node.end_lineno])
                if length > SHORT and "long because" not in text:
                    found.append(f"{module.name}.{node.name} ({length} lines)")
    return found


def importing(report: Report, known: dict[str, Module]) -> None:
    edges = {name: imports(module, known) for name, module in known.items()}
    importers: Edges = defaultdict(set)
    for name, used in edges.items():
        for other in used:
            importers[other].add(name)
    single = [name for name in known if len(importers[name]) == 1]
    report.add(
        f"modules under {SHORT} lines with one importer",
        [
            f"{name} ({known[name].lines} lines) <- {next(iter(importers[name]))}"
            for name in single
            if known[name].lines < SHORT and not is_excepted(known[name])
        ],
    )
    report.figures["modules with one importer"] = len(single)
    report.add("import cycles", cycles(edges))


def is_excepted(module: Module) -> bool:
    """Whether a module may be short and have one importer."""
    own = module.path.name.startswith("__")
    return own or bool(ONE_EACH & set(module.name.split(".")[1:-1]))


def names(report: Report, known: dict[str, Module]) -> None:
    """Class names with several meanings."""
    classes: dict[str, list[str]] = defaultdict(list)
    for module in known.values():
        for node in module.tree.body:
            if isinstance(node, ast.ClassDef):
                classes[node.name].append(module.name)
    several = {name: where for name, where in classes.items() if len(where) > 1}
    listed = {name: f"{name}: {', '.join(where)}" for name, where in several.items()}
    public = [text for name, text in listed.items() if not name.startswith("_")]
    private = [text for name, text in listed.items() if name.startswith("_")]
    report.add("public class names in several modules", public)
    report.add("private class names in several modules", private)


def assertions(tests: Path) -> int:
    """Asserts, calls of assert functions and expected errors, in all files of tests."""
    count = 0
    for path in tests.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            count += isinstance(node, ast.Assert)
            if isinstance(node, ast.Call):
                name = ast.unparse(node.func).rpartition(".")[2]
                count += name.startswith("assert_") or name in ("raises", "warns")
    return count


def duplicates(root: Path) -> int | None:
    """Pairs that the command finds; nothing where there is no such command."""
    if shutil.which("duplicates") is None:
        return None
    command = ["duplicates", "--repo", str(root), "--most", "200", "--seconds", "120"]
    done = subprocess.run(command, capture_output=True, text=True)
    more = re.search(r"\(\+(\d+) more pairs\)", done.stdout)
    listed = len(re.findall(r"^D\d+ ", done.stdout, re.MULTILINE))
    return listed + (int(more[1]) if more else 0)


def measure_commit(commit: str) -> Report:
    """The measures of another commit of this repository."""
    with tempfile.TemporaryDirectory() as folder:
        archive = Path(folder) / "source.tar"
        command = ["git", "archive", "--output", str(archive), commit]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"git has no tree {commit!r}: {done.stderr.strip()}")
        tree = Path(folder) / "tree"
        shutil.unpack_archive(archive, tree, filter="data")
        return measure(tree)


def table(now: Report, before: Report | None) -> Iterator[str]:
    """A line for each measure."""
    if before is not None:
        yield f"{'':<44} {'before':>9} {'now':>9} {'change':>9}"
    for name, value in now.figures.items():
        if before is None:
            yield f"{name:<44} {shown(value):>9}"
            continue
        old = before.figures.get(name)
        change = f"{value - old:+,g}" if value is not None and old is not None else ""
        yield f"{name:<44} {shown(old):>9} {shown(value):>9} {change:>9}"


def shown(value: float | None) -> str:
    return "–" if value is None else f"{value:,g}" if value < 1e5 else f"{value:,.0f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--against", metavar="COMMIT", help="print that commit's measures too")
    parser.add_argument("--list", action="store_true", help="name what was counted")
    options = parser.parse_args()
    now = measure(ROOT)
    before = measure_commit(options.against) if options.against else None
    sys.stdout.write("\n".join(table(now, before)) + "\n")
    if options.list:
        for name, found in now.details.items():
            sys.stdout.write("\n".join([f"\n{name}:", *(f"  {line}" for line in found)]) + "\n")


if __name__ == "__main__":
    main()
