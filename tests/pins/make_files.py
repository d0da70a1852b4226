"""How `files.tar.xz` was written, once, before code was moved (`python -m pins.make_files`).

Its files stand for those that users have on their disks, so they are not written again with the
golden files; add new ones in an archive of their own instead. All of their text is made up.
"""

import contextlib
import shutil
import tarfile
import tempfile
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import malmoi
from malmoi import Corpus
from malmoi.index import FlatIndex, make_index, save_index
from malmoi.terms import Linker, build_lexicon
from tests.pins.golden import malmoi as run
from tests.pins.golden import to_toml
from tests.support import graphs

ARCHIVE = Path(__file__).parent / "files.tar.xz"
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


def write_run(folder: Path) -> None:
    """Write a run that was trained to its end, and one that was stopped after its second step."""
    import transformers

    from tests.support.tiny import tiny_tokenizer

    folder.mkdir()
    tokenizer = tiny_tokenizer("bert")
    transformers.set_seed(0)
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2}
    config = transformers.BertConfig(
        vocab_size=len(tokenizer), num_hidden_layers=1, max_position_embeddings=34, **sizes
    )
    transformers.BertModel(config).save_pretrained(folder / "base")
    tokenizer.save_pretrained(folder / "base")
    words = ["배가", "병원에", "갔다", "ship", "harbour", "dawn", "the"]
    rows = [
        f"{words[i % 7]} {words[i * 3 % 7]}\t{words[i * 5 % 6]} {words[i % 4]}\t{i * 5 % 6}"
        for i in range(12)
    ]
    (folder / "pairs.tsv").write_text("\n".join(["a\tb\tscore", *rows]) + "\n", "utf-8")
    entry = {"files": ["pairs.tsv"], "columns": {"a": "a", "b": "b", "score": "score"}}
    for name in ("finished", "stopped"):
        table = {
            "name": "pinned",
            "base": "base",
            "objective": "cosent",
            "max_tokens": 32,
            "data": [entry | {"range": [0, 5]}],
            "schedule": {"epochs": 2, "batch_size": 4, "learning_rate": 1e-2},
            "evaluation": [{"task": "sts", "file": "pairs.tsv", "name": "dev"}],
            "output": {"folder": name, "checkpoint_steps": 2, "keep": 3, "weights": False},
        }
        (folder / f"{name}.toml").write_text(to_toml(table), "utf-8")
        with contextlib.chdir(folder):
            done = run("train", f"{name}.toml", "--data", ".", "--threads", 1)
        assert done.code == 0, done.err
        (folder / name / "training.png").unlink(missing_ok=True)
    for path in ("checkpoints/step-00000004", "checkpoints/step-00000006", "best", "bundle"):
        shutil.rmtree(folder / "stopped" / path)


def main() -> None:
    """Write the archive."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary) / "files"
        write(folder)
        write_run(folder / "training")
        with tarfile.open(ARCHIVE, "w:xz") as archive:
            for path in sorted(folder.rglob("*")):
                info = archive.gettarinfo(path, path.relative_to(folder).as_posix())
                info.uid = info.gid = info.mtime = 0
                info.uname = info.gname = ""
                with path.open("rb") if path.is_file() else contextlib.nullcontext() as file:
                    archive.addfile(info, file)


if __name__ == "__main__":
    main()
