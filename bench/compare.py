"""A bench of two commits in turns: `python bench/run.py --against COMMIT NAME …`.

The other commit is unpacked once under build/bench/against-COMMIT, with its own source and its own
benches (it must have bench/run.py). Both run in processes of their own and change places every
turn, so that whatever else the machine does meets both alike.
"""

import json
import os
import statistics
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

from bench.common import BUILD, ROOT, Row, data_root, spread

# Row by row what the row is about, and its figures as numbers.
Figures = list[tuple[str, dict[str, float]]]


def compare(name: str, arguments: Sequence[str], commit: str, *, turns: int) -> Iterator[Row]:
    """Run a bench of both commits in turn; gives each figure's medians and the ratio by turn."""
    trees = {"now": ROOT, "before": unpacked(commit)}
    found: dict[str, list[Figures]] = {"now": [], "before": []}
    for turn in range(turns):
        for label in sorted(trees, reverse=bool(turn % 2)):
            print(f"turn {turn + 1} of {turns}: {label}", file=sys.stderr, flush=True)
            found[label].append(figures(trees[label], name, arguments))
    return ratios(found["before"], found["now"])


def unpacked(commit: str) -> Path:
    """The tree of a commit, with the vectors and the environment that this checkout has made."""
    done = subprocess.run(["git", "rev-parse", "--short=7", commit], cwd=ROOT, capture_output=True)
    if done.returncode:
        sys.exit(f"git knows no commit {commit!r}")
    tree = BUILD / f"against-{done.stdout.decode().strip()}"
    if not tree.exists():
        archive = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, stdout=-1)
        with tarfile.open(fileobj=BytesIO(archive.stdout)) as packed:
            packed.extractall(tree, filter="data")
    if not (tree / "bench/run.py").is_file():
        sys.exit(f"{commit} has no bench/run.py; compare with a commit that has one")
    build = tree / BUILD.relative_to(ROOT)
    build.mkdir(parents=True, exist_ok=True)
    links = {build / path.name: path for path in BUILD.glob("search-*.npy")}
    for link, target in (links | {tree / ".venv": ROOT / ".venv"}).items():
        if target.exists() and not link.exists():
            link.symlink_to(target)
    return tree


def figures(tree: Path, name: str, arguments: Sequence[str]) -> Figures:
    """One run of a tree's own bench."""
    command = [sys.executable, str(tree / "bench/run.py"), "--no-record", name, *arguments]
    env = os.environ | {"MALMOI_DATA": str(data_root())}
    done = subprocess.run(command, cwd=tree, env=env, stdout=subprocess.PIPE, text=True)
    rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if not rows:
        sys.exit(f"{name} gave no figures in {tree.name}; its own message stands above")
    return [(str(next(iter(row.values()))), numbers(row)) for row in rows]


def numbers(row: Row) -> dict[str, float]:
    """The figures of a row that are numbers above zero; of one with a range the median."""
    first = {key: value[0] if isinstance(value, list) else value for key, value in row.items()}
    kinds = (int, float)
    return {k: v for k, v in first.items() if type(v) in kinds and v > 0}


def ratios(before: list[Figures], now: list[Figures]) -> Iterator[Row]:
    """A row for each figure that every run of both has."""
    for place, (about, found) in enumerate(now[0]):
        for heading in found:
            pairs = [
                (old[place][1][heading], new[place][1][heading])
                for old, new in zip(before, now, strict=True)
                if heading in old[place][1] and heading in new[place][1]
            ]
            if len(pairs) == len(now):
                yield {
                    "row": about,
                    "figure": heading,
                    "before": statistics.median(old for old, _ in pairs),
                    "now": statistics.median(new for _, new in pairs),
                    "now / before": spread([new / old for old, new in pairs], 3),
                }
