"""What the search benchmarks share: real texts of the parallel files, and their vectors."""

import random
from pathlib import Path

import numpy as np
from common import BUILD, data_root
from numpy.typing import NDArray

import malmoi
from malmoi.io.tables import read_rows

QUERIES = 1000  # the last texts, which no index holds


def texts(count: int) -> list[str]:
    """Distinct real texts in both languages, always in the same mixed order."""
    found: dict[str, None] = {}
    for path in sorted((data_root() / "parallel").glob("*.tsv")):
        for row in read_rows(path):
            for side in ("ko", "en"):
                if row[side].strip():
                    found[row[side]] = None
    listed = list(found)
    random.Random(0).shuffle(listed)
    return listed[:count]


def vectors(model: str, count: int) -> NDArray[np.float32]:
    """Their unit vectors by a model, (count, dim), made once and memory-mapped."""
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
    """Where indexes and corpora of a benchmark stand."""
    folder = BUILD / "search"
    folder.mkdir(parents=True, exist_ok=True)
    return folder
