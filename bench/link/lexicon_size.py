"""A lexicon of 400,000 names: built once, opened in a moment, added to without building again.

python bench/run.py lexicon_size [--names 400000]

The names are those of KCD-9, of the merged names and of MEDIC, and of drugs; what is missing to
the number asked for are the same names with a side, a stage or an "unspecified" put to them.
Opening is measured in a process of its own; its memory is what the process holds resident, the
interpreter and numpy among it.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.common import Row, data_root, peak
from malmoi.io.tables import read_rows
from malmoi.terms import Lexicon, add_names, build_lexicon

_KOREAN = ("왼쪽", "오른쪽", "양쪽", "재발성", "만성", "급성", "초기", "말기")
_ENGLISH = ("left", "right", "bilateral", "recurrent", "chronic", "acute", "early", "late")
_OPENED = """
import json, resource, sys, time
from pathlib import Path

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20

import malmoi.terms
before, cpu, start = resident(), time.process_time(), time.perf_counter()
lexicon = malmoi.terms.Lexicon.open(sys.argv[1])
opened, cpu = time.perf_counter() - start, time.process_time() - cpu
first = [lexicon.name(row) for row in lexicon.find("당뇨병성 신장병증")]
found = time.perf_counter() - start
after = resident()
count = sum(1 for _ in lexicon.texts())
print(json.dumps({
    "names": len(lexicon), "concepts": len(lexicon.codes), "open": opened, "cpu": cpu,
    "found": found, "before": before, "after": after, "all": resident(),
    "read": time.perf_counter() - start - found,
}))
"""

_LINKED = """
import json, resource, sys, time
from pathlib import Path

import numpy as np
from malmoi.terms import Linker

def resident():
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20

class StandIn:
    name, dimension = "stand-in", 384
    def encode(self, texts, *, precision="float32", progress=False):
        made = np.random.default_rng(0).integers(-20, 20, (len(texts), 384), dtype=np.int8)
        return made if precision == "int8" else made.astype(np.float32)

cpu, start = time.process_time(), time.perf_counter()
linker = Linker(sys.argv[1], StandIn())
opened, cpu = time.perf_counter() - start, time.process_time() - cpu
linker.link(["당뇨병성 신증", "폐암 말기", "acute kidney injury", "허리 디스크"] * 16)
print(json.dumps({"open": opened, "cpu": cpu, "resident": resident()}))
"""


def variations(paths: list[Path]) -> Iterator[tuple[str, str]]:
    """Names of the tables with a word put to them, as (code, name), without end."""
    rows = [(row["code"], row["name"]) for row in read_rows(paths[0])]
    words = list(zip(_KOREAN, _ENGLISH, strict=True))
    for i in itertools.count():
        korean, english = words[i % len(words)]
        for code, name in rows:
            word = english if name.isascii() else korean
            yield code, f"{word} {name}" + (f" {i}" if i >= len(words) else "")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--names", type=int, default=400_000)


def run(options: argparse.Namespace) -> Iterator[Row]:
    wanted = options.names
    terms = data_root() / "terms"
    tables = [terms / f"{name}.tsv" for name in ("kcd9-rows", "kcd9-morphology", "names", "medic")]
    tables.append(terms / "drugs.tsv")
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "large.lexicon"
        start, cpu = time.perf_counter(), time.process_time()
        real = build_lexicon(tables, folder, keep_uncoded=True)
        row: Row = {"step": "real tables, built", "names": real.names, "concepts": real.concepts}
        yield row | took(start, cpu)
        more = Path(scratch) / "more.tsv"
        missing = itertools.islice(variations([terms / "names.tsv"]), max(wanted - real.names, 0))
        lines = [f"{code}\t{name}" for code, name in missing]
        more.write_text("\n".join(["code\tname", *lines]) + "\n", "utf-8")
        start, cpu = time.perf_counter(), time.process_time()
        made = build_lexicon([*tables, more], folder, keep_uncoded=True, replace=True)
        size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
        row = {"step": "with variations, built", "names": made.names, "concepts": made.concepts}
        yield row | took(start, cpu) | {"MiB": round(peak()), "on disk, MB": round(size / 1e6, 1)}
        yield from opening(folder)
        yield from linking(folder)
        yield adding(folder, Path(scratch) / "own.tsv")


def took(start: float, cpu: float) -> Row:
    wall, core = time.perf_counter() - start, time.process_time() - cpu
    return {"s": round(wall, 1), "core, s": round(core, 1)}


def opening(folder: Path) -> Iterator[Row]:
    """Open it three times, each in a process of its own."""
    for _ in range(3):
        command = [sys.executable, "-c", _OPENED, str(folder)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        seen = json.loads(done.stdout)
        yield {
            "step": "opened",
            "names": seen["names"],
            "concepts": seen["concepts"],
            "s": round(seen["open"], 4),
            "core, s": round(seen["cpu"], 4),
            "a name found later, s": round(seen["found"] - seen["open"], 4),
            "MiB before": round(seen["before"]),
            "MiB": round(seen["after"]),
            "MiB with every name read": round(seen["all"]),
        }


def linking(folder: Path) -> Iterator[Row]:
    """Link with it: once to index it, with vectors that mean nothing, then as any later start."""
    for step in ("indexed", "opened again"):
        command = [sys.executable, "-c", _LINKED, str(folder)]
        done = subprocess.run(command, capture_output=True, check=True, text=True)
        seen = json.loads(done.stdout)
        yield {
            "step": f"to link, {step}",
            "s": round(seen["open"], 2),
            "core, s": round(seen["cpu"], 2),
            "MiB": round(seen["resident"]),
        }


def adding(folder: Path, own: Path) -> Row:
    """Add a thousand names."""
    own.write_text(
        "code\tname\n" + "".join(f"OWN{i}\t우리 이름 {i}\n" for i in range(1000)), "utf-8"
    )
    start, cpu = time.perf_counter(), time.process_time()
    report = add_names(folder, [own])
    opened = Lexicon.open(folder)
    parts = len(opened.segments)
    row: Row = {"step": f"{report.names:,} names added", "names": len(opened), "parts": parts}
    return row | took(start, cpu)
