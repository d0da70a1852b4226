"""How the folder `files` was written, once, before the code was moved: `python -m pins.make_files`.

Its files stand for those that users have on their disks, so they are not written again with the
golden files; add new ones under new names instead. All of their text is made up.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import graphs
import malmoi
from malmoi import Corpus
from malmoi.index import FlatIndex, make_index, save_index
from malmoi.lexicon import build_lexicon
from malmoi.linking import Linker

FILES = Path(__file__).parent / "files"
ENGINES = ("exact", "flat", "hnsw")
DOCUMENTS = [
    {"id": "a", "text": "배를 타고 바다", "lang": "ko", "year": 2020},
    {"id": "b", "text": "고양이 는 잔다", "lang": "ko", "year": 2021},
    {"id": "c", "text": "the cat sleeps", "lang": "en", "year": 2022},
    {"id": "d", "text": "patient has diabetes nephropathy", "lang": "en", "year": 2023},
    {"id": "e", "text": "환자 는 당뇨 신증", "lang": "ko", "year": 2024},
]
TABLE = """code\tkind\tko\ten\tabbreviations
D10\theadword\t당뇨\tdiabetes\tDM
D10.2\theadword\t당뇨 신증\tdiabetes nephropathy\t
B20\theadword\t배 아프다\tsweet pear\t
B20\tinclusion\t배가 아프다\t\t
"""


def vectors(count: int, *, seed: int) -> NDArray[np.float32]:
    """Random unit vectors with 24 dimensions."""
    drawn = np.random.default_rng(seed).standard_normal((count, 24)).astype(np.float32)
    made: NDArray[np.float32] = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    return made


def write(folder: Path) -> None:
    """Write every kind of file that must still open later."""
    folder.mkdir()
    encoder = malmoi.load(graphs.write_bundle(folder / "tiny", prompts={"query": "the "}))
    graphs.write_reranker(folder / "tiny-reranker")
    with Corpus.open(folder / "pages.malmoi", encoder, words="bigrams") as corpus:
        corpus.add([*DOCUMENTS, {"id": "gone", "text": "the dog"}])
        corpus.delete("gone")
        corpus.update([DOCUMENTS[0] | {"year": 2019}])
    (folder / "codes.tsv").write_text(TABLE, "utf-8")
    build_lexicon([folder / "codes.tsv"], folder / "codes.lexicon")
    Linker(folder / "codes.lexicon", encoder)
    for engine in ENGINES:
        index = make_index(24, engine=engine, precision="int8" if engine == "flat" else "float32")
        index.add(vectors(80, seed=0))
        index.remove(np.arange(5))
        if isinstance(index, FlatIndex):
            index.planes()  # the codes of its first pass, else written for large ones only
        save_index(index, folder / f"{engine}.index", stamp="pinned")


if __name__ == "__main__":
    shutil.rmtree(FILES, ignore_errors=True)
    write(FILES)
    sys.stdout.write(f"wrote {FILES}\n")
