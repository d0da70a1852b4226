"""Run a bench and append what it measured to bench/results/NAME.jsonl.

    python bench/run.py                          list the benches, one line each
    python bench/run.py NAME [options]           run one; its options: python bench/run.py NAME -h
    python bench/run.py --no-record NAME …       run one and write nothing
    python bench/run.py --note TEXT NAME …       say something with the record, as "machine busy"
    python bench/run.py --against COMMIT NAME …  run it in turns with another commit's
    python bench/run.py --page                   write docs/results.md and its twin from the records

A record is one JSON object: bench, date, commit, machine, load (before and after), versions,
command, figures (rows as the bench yields them) and, if given, a note.
"""

import argparse
import ast
import importlib
import json
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Folders of this file's own folder must not hide other packages ("train", "serve").
sys.path[:] = [p for p in sys.path if Path(p or ".").resolve() != ROOT / "bench"]
sys.path[:0] = [str(ROOT), str(ROOT / "src")]

from bench import page  # noqa: E402
from bench.common import Row  # noqa: E402
from bench.compare import compare  # noqa: E402

FOLDERS = ("encode", "search", "link", "mine", "train", "serve", "scale", "soak")
PACKAGES = ("malmoi", "numpy", "onnxruntime", "tokenizers", "torch", "sentence-transformers")


def benches() -> dict[str, Path]:
    """The file of every bench by its name: a module with a function `run`."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((ROOT / "bench" / folder).glob("*.py")):
            body = ast.parse(path.read_text("utf-8")).body
            if any(isinstance(node, ast.FunctionDef) and node.name == "run" for node in body):
                found[path.stem] = path
    return found


def listing() -> Iterator[str]:
    """A line for each bench, by folder."""
    known, folder = benches(), ""
    for name, path in known.items():
        if path.parent.name != folder:
            folder = path.parent.name
            yield f"{folder}/"
        doc = ast.get_docstring(ast.parse(path.read_text("utf-8"))) or ""
        yield f"  {name:<18} {doc.splitlines()[0]}"


def rows_of(name: str, arguments: Sequence[str]) -> Iterator[Row]:
    """Parse a bench's options and run it."""
    path = benches()[name]
    module = importlib.import_module(f"bench.{path.parent.name}.{name}")
    parser = argparse.ArgumentParser(
        prog=f"bench/run.py {name}",
        description=module.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    module.add_options(parser)
    found: Iterator[Row] = module.run(parser.parse_args(arguments))
    return found


def run(
    name: str,
    arguments: Sequence[str],
    *,
    note: str = "",
    record: bool = True,
    against: str | None = None,
    turns: int = 5,
) -> None:
    """Run a bench, print its rows as JSON lines, and keep them, also when it fails in the end."""
    own = ["--against", against, "--turns", str(turns)] if against else []
    figures = list[Row]()
    made: page.Record = {
        "bench": name,
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
        "commit": commit(),
        "machine": machine(),
        "load": {"before": load()},
        "versions": versions(),
        "command": shlex.join(
            ["python", "bench/run.py", *own, name, *map(without_folder, arguments)]
        ),
    }
    rows = compare(name, arguments, against, turns=turns) if against else rows_of(name, arguments)
    try:
        for row in rows:
            print(json.dumps(row, ensure_ascii=False), flush=True)
            figures.append(row)
    except SystemExit as error:  # an aim was missed, or a soak test found a fault
        note = "; ".join(filter(None, (note, str(error.code))))
        raise
    finally:
        if record and figures:
            made["load"]["after"] = load()
            made |= ({"note": note} if note else {}) | {"figures": figures}
            with (page.RESULTS / f"{name}.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(made, ensure_ascii=False) + "\n")


def load() -> list[float]:
    """How many processes wanted a core in the last 1, 5 and 15 minutes."""
    return [round(value, 2) for value in os.getloadavg()]


def without_folder(argument: str) -> str:
    """An argument with nothing in it that names a folder of this machine."""
    head, mark, value = argument.rpartition("=")
    return f"{head}{mark}…/{Path(value).name}" if Path(value).is_absolute() else argument


def commit() -> str:
    """The commit that was measured, with "+changes" where files differ from it."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
        return done.stdout.strip()

    measured = ("src", "bench/*/*.py", "bench/common.py")
    changed = git("status", "--porcelain", "--untracked-files=no", "--", *measured)
    return git("rev-parse", "--short=7", "HEAD") + ("+changes" if changed else "")


def machine() -> dict[str, object]:
    """The processor, how many cores this process may use, and the memory in GiB."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    return {"cpu": names[0] if names else "unknown", "cores": cores, "memory": round(memory, 1)}


def versions() -> dict[str, str]:
    """Versions of Python and of the packages whose speed is compared."""
    found = {"python": sys.version.split()[0]}
    for name in PACKAGES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--page", action="store_true", help="write the results pages and end")
    parser.add_argument("--no-record", action="store_true", help="write no record")
    parser.add_argument("--note", default="", help="a remark that is kept with the record")
    parser.add_argument("--against", metavar="COMMIT", help="another commit, run in turns")
    parser.add_argument("--turns", type=int, default=5, help="--against: how often both run")
    parser.add_argument("name", nargs="?", metavar="NAME")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, metavar="…")
    options = parser.parse_args()
    if options.page:
        made = page.make(page.records())
        page.PAGE.write_text(made, "utf-8")
        page.KOREAN_PAGE.write_text(page.in_korean(made), "utf-8")
    elif options.name is None:
        print("\n".join(listing()))
    elif options.name not in benches():
        sys.exit(f"there is no bench {options.name!r}; python bench/run.py lists them")
    else:
        # Processes that a bench starts measure this checkout too.
        paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(paths)
        kept = {"note": options.note, "record": not options.no_record}
        other = {"against": options.against, "turns": options.turns}
        run(options.name, options.arguments, **kept, **other)


if __name__ == "__main__":
    main()
