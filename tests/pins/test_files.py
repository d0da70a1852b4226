"""Files that an earlier malmoi wrote: they open, they answer as before, and are not made again."""

import contextlib
import hashlib
import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi import Corpus, Lexicon, Linker
from malmoi.clinical import NoteReader
from malmoi.index import open_index
from tests.pins.golden import check_entry, files_of, to_toml
from tests.pins.golden import malmoi as run
from tests.pins.make_files import DOCUMENTS, ENGINES, vectors

QUERIES = ("the cat", "당뇨 신증", "배")


def hashes(folder: Path) -> dict[str, str]:
    """Every file under a folder with its hash."""
    return {
        name: hashlib.sha256((folder / name).read_bytes()).hexdigest() for name in files_of(folder)
    }


def test_bundles(files: Path) -> None:
    encoder = malmoi.load(files / "tiny")
    scores = malmoi.load(files / "tiny-reranker").score([("the cat", "dog"), ("배", "는")])
    found = {
        "vectors": np.round(encoder.encode(QUERIES).astype(float), 4).tolist(),
        "query": np.round(encoder.encode("cat", prompt="query").astype(float), 4).tolist(),
        "scores": np.round(scores.astype(float), 4).tolist(),
        "info": run("model", "info", files / "tiny", "--table").out.splitlines()[
            1:
        ],  # the first line has the path
    }
    check_entry("files.json", "bundles", found, within=2e-4)


@pytest.mark.parametrize("mode", ["dense", "keyword", "hybrid"])
def test_a_corpus(files: Path, mode: Any) -> None:
    with Corpus.open(files / "pages.malmoi", malmoi.load(files / "tiny")) as corpus:
        assert len(corpus) == len(DOCUMENTS)
        hits = {
            query: [
                [hit.id, round(hit.score, 4), dict(hit.metadata)]
                for hit in corpus.search(query, 3, mode=mode)
            ]
            for query in QUERIES
        }
        found = [hit.id for hit in corpus.search("배", mode=mode, filter={"lang": "ko"})]
        check_entry("files.json", f"corpus {mode}", hits | {"in Korean": found}, within=2e-4)
        corpus.upsert([{"id": "new", "text": "a sweet pear"}])
        assert corpus.search("sweet pear", 1, mode=mode)[0].id == "new"


def test_a_corpus_is_upgraded_when_it_is_opened(files: Path) -> None:
    path = files / "pages.malmoi"

    def version() -> int:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])

    encoder = malmoi.load(files / "tiny")
    with Corpus.open(path, encoder) as reader, Corpus.open(path, encoder) as writer:
        before = [(hit.id, hit.score) for hit in reader.search("the cat", 3)]
        stored = {one.document.id: one.vector.tolist() for one in reader.store.scan()}
        assert version() == 3 and reader.store.check() == []
        writer.add([{"id": "long", "text": "the sea. " * 300}])
        assert len(reader) == len(DOCUMENTS) + 1
        after = {one.document.id: one for one in reader.store.scan()}
        assert len(after.pop("long").passages) > 1
        assert {id: one.vector.tolist() for id, one in after.items()} == stored
        writer.delete("long")
        assert [(hit.id, hit.score) for hit in reader.search("the cat", 3)] == before
        assert reader.store.check() == [] and writer.get("new") is None


def test_a_corpus_by_the_command_line(files: Path) -> None:
    done = run("search", files / "pages.malmoi", "the cat", "--model", files / "tiny", "-k", 2)
    assert done.code == 0, done.err
    check_entry("files.json", "malmoi search", done.rows, within=2e-4)


def test_a_lexicon_and_what_was_derived_from_it(files: Path) -> None:
    folder = files / "codes.lexicon"
    before = hashes(folder)
    lexicon = Lexicon.open(folder)
    lexicon.verify()
    encoder = malmoi.load(files / "tiny")
    linker = Linker(folder, encoder)
    linked = linker.link(["DM", "diabetes nephropathy", "sweet pears", "배가아프다"], k=2)
    notes = NoteReader(linker).read("환자 는 DM nephropathy, 배가 아프다. no diabetes", k=1)
    found = {
        "names": [[lexicon.concept_of(i), text] for i, text in enumerate(lexicon.texts())],
        "ambiguous": list(lexicon.ambiguous()),
        "linked": [one.to_json() for one in linked],
        "note": [one.to_json() for one in notes],
    }
    check_entry("files.json", "lexicon", found, within=2e-3)
    after = hashes(folder)
    # Names too general to stand alone are new since 0.1, and found while words are read again.
    new = ("companion", "linking/vocabulary/")
    changed = {name for name in after if after[name] != before.get(name)}
    made = {name for name in changed if not any(part in name for part in new)}
    assert made == set(), "the linker derived again what the folder holds"


@pytest.mark.parametrize("engine", ENGINES)
def test_an_index(files: Path, engine: str) -> None:
    if engine == "hnsw":
        pytest.importorskip("usearch")
    index = open_index(files / f"{engine}.index")
    assert (index.engine, len(index), index.dimension) == (engine, 75, 24)
    result = index.search(vectors(4, seed=1), 5)
    found = {
        "rows": result.rows.tolist(),
        "scores": np.round(result.scores.astype(float), 4).tolist(),
    }
    check_entry("files.json", f"{engine} index", found, within=2e-4)
    near, given = vectors(80, seed=0)[70], index.add(vectors(1, seed=9))
    assert index.search(near, 1).rows.tolist() == [[70]] and given.tolist() == [80]


@pytest.mark.slow
@pytest.mark.train
@pytest.mark.parametrize("name", ["finished", "stopped"])
def test_a_run_is_resumed(files: Path, name: str) -> None:
    """What was trained to its end stays as it is; what was stopped ends with the same weights."""
    pytest.importorskip("torch")
    folder = files / "training"
    with contextlib.chdir(folder):
        done = run("train", f"{name}.toml", "--data", ".", "--threads", 1, "--resume")
        assert done.code == 0, done.err
        [row] = done.rows
        encoder = malmoi.load(f"{name}/bundle")
        vector = np.round(encoder.encode("배가 아파서").astype(float), 4).tolist()
    row = {key: round(value, 3) for key, value in row.items() if key != "bundle"}
    check_entry("files.json", "run", row | {"vector": vector}, within=3e-4)


def test_another_recipe_is_not_resumed(files: Path) -> None:
    folder = files / "training"
    with contextlib.chdir(folder):
        text = Path("stopped.toml").read_text("utf-8") + to_toml({"seed": 2})
        Path("stopped.toml").write_text(text, "utf-8")
        assert run("train", "stopped.toml", "--data", ".", "--resume").code == 1
