"""Corpus: documents in, hits out, by meaning and by words; and everything that can go wrong."""

import json
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import malmoi
import malmoi.corpus.schema
import malmoi.corpus.vector_index
from malmoi import Corpus, Document
from malmoi.corpus.corpus import Mode
from malmoi.corpus.sqlite import SqliteStore
from malmoi.errors import CorpusBusy, CorpusError, DataError, OptionError, OutputError, TextError
from malmoi.index import HnswIndex
from malmoi.text import morphemes
from tests.support import ROOT, graphs

TEXTS = ["배를 타고 바다", "고양이 잔다", "the cat sleeps", "diabetes nephropathy", "당뇨 신증"]


@pytest.fixture
def corpus(tmp_path: Path, encoder: malmoi.TextEncoder) -> Corpus:
    opened = Corpus.open(tmp_path / "x.malmoi", encoder, words="bigrams")
    opened.add({"id": str(i), "text": text, "n": i} for i, text in enumerate(TEXTS))
    return opened


class Longest:
    """A reranker that likes long texts, and counts what it reads."""

    def __init__(self, seconds: float = 0.0) -> None:
        self.seconds, self.read = seconds, 0

    def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
        time.sleep(self.seconds * len(pairs))
        self.read += len(pairs)
        return np.array([len(text) for _, text in pairs], dtype=np.float32)


def test_finds_by_meaning_by_words_and_by_both(corpus: Corpus) -> None:
    assert len(corpus) == 5
    assert corpus.search("the cat sleeps", 1, mode="dense")[0].id == "2"
    assert [hit.id for hit in corpus.search("cats", mode="keyword")] == ["2"]
    hit = corpus.search("cat", 3)[0]
    assert (hit.id, hit.text, hit.metadata) == ("2", "the cat sleeps", {"n": 2})
    assert set(hit.scores) == {"dense", "keyword", "fused"}
    assert hit.score == hit.scores["fused"]
    scores = [hit.score for hit in corpus.search("고양이")]
    assert scores == sorted(scores, reverse=True)
    assert [hit.id for hit in corpus.search("cat", filter={"n": 4})] == ["4"]
    assert {hit.id for hit in corpus.search("cat", filter=["n>=2", "n!=3"])} == {"2", "4"}
    assert len(corpus.search("cat", 99, exact=True)) == 5


def test_weights_decide(corpus: Corpus) -> None:
    words = corpus.search("cat 당뇨", weights={"dense": 0, "keyword": 1})
    assert {words[0].id, words[1].id} == {"2", "4"}
    with pytest.raises(OptionError, match="weights"):
        corpus.search("cat", weights={"dense": -1, "keyword": 1})


def test_a_vector_that_is_there_is_not_made_again(
    tmp_path: Path, encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes: tuple[Mode, ...] = ("hybrid", "dense", "keyword")
    with Corpus.open(tmp_path / "x.malmoi", encoder, dim=8) as corpus:
        corpus.add([{"id": str(i), "text": f"{word} 배"} for i, word in enumerate(("cat", "sea"))])
        expected = [corpus.search("cat", mode=mode) for mode in modes]
        whole, short = encoder.encode("cat"), encoder.encode("cat", dim=8)
        monkeypatch.setattr(encoder, "encode", None)
        for vector in (whole, 3 * whole, short):
            found = [corpus.search("cat", mode=mode, vector=vector) for mode in modes]
            for near, far in zip(found, expected, strict=True):
                assert [hit.id for hit in near] == [hit.id for hit in far]
                assert near[0].scores == pytest.approx(far[0].scores)
        for bad in (whole[:5], whole[None], np.full(8, np.nan, dtype=np.float32)):
            with pytest.raises(OptionError, match=r"expected \(8,\) or \(16,\)"):
                corpus.search("cat", vector=bad)


def test_update_put_and_get(corpus: Corpus) -> None:
    corpus.update([Document("2", "a dog", {"n": 9})])
    assert corpus.get("2") == Document("2", "a dog", {"n": 9})
    corpus.upsert([{"id": "7", "text": "sea"}, {"id": 8, "text": "pear"}])
    assert corpus.get("8") == Document("8", "pear")
    assert corpus.delete("2") == 1
    assert corpus.get("2") is None
    assert corpus.delete(["0", "1", "9"]) == 2
    with pytest.raises(DataError):
        corpus.update([{"id": "99", "text": "sea"}])
    with pytest.raises(DataError):
        corpus.add([{"id": "new", "text": "sea"}, {"id": "7", "text": "sea"}])
    assert corpus.get("new") is None  # all or none
    assert "Corpus of 4 documents" in repr(corpus)


def test_the_same_text_is_not_encoded_twice(
    corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*args: object, **options: object) -> None:
        raise AssertionError("encoded again")

    monkeypatch.setattr(corpus.encoder, "encode", refuse)
    corpus.add([{"id": "copy", "text": TEXTS[0]}])
    assert len(corpus) == 6


def test_dimensions_and_precisions(tmp_path: Path, encoder: malmoi.TextEncoder) -> None:
    for precision in ("float32", "int8", "binary"):
        path = tmp_path / f"{precision}.malmoi"
        with Corpus.open(path, encoder, precision=precision, dim=8, words="bigrams") as made:  # type: ignore[arg-type]
            made.add({"id": str(i), "text": text} for i, text in enumerate(TEXTS))
        with Corpus.open(path, encoder) as again:
            assert (again.store.about.dimension, again.store.about.precision) == (8, precision)
            assert again.search(TEXTS[3], 1, mode="dense")[0].id == "3"
    with pytest.raises(OptionError, match="dim is 99"):
        Corpus.open(tmp_path / "y.malmoi", encoder, dim=99)


def test_reranked_and_both_scores_kept(corpus: Corpus) -> None:
    hits = corpus.search("cat", 3, reranker=Longest())
    assert [hit.id for hit in hits] == ["3", "2", "0"]
    assert hits[0].score == hits[0].scores["rerank"] == 20
    assert "dense" in hits[0].scores
    shallow = corpus.search("cat", 5, reranker=Longest(), depth=2)
    assert ["rerank" in hit.scores for hit in shallow] == [True, True, False, False, False]


def test_as_many_are_reranked_as_fit(tmp_path: Path, encoder: malmoi.TextEncoder) -> None:
    with Corpus.open(tmp_path / "x.malmoi", encoder, words="bigrams") as corpus:
        corpus.add({"id": str(i), "text": f"cat {i}"} for i in range(60))
        corpus.search("cat", 5)
        slow = Longest(0.005)
        started = time.perf_counter()
        hits = corpus.search("cat", 50, reranker=slow, within=0.15)
        assert time.perf_counter() - started < 0.6
        assert 4 <= slow.read < 50
        read = [hit for hit in hits if "rerank" in hit.scores]
        assert hits[: len(read)] == read
        assert len(hits) == 50
        quick = Longest()
        assert len(corpus.search("cat", 10, reranker=quick, within=60)) == 10
        assert quick.read == 50


def test_readers_go_on_while_one_writes(corpus: Corpus) -> None:
    found: list[int] = []

    def read() -> None:
        for _ in range(20):
            found.append(len(corpus.search("cat", 3)))

    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(20):
        corpus.add([{"id": f"w{i}", "text": f"dog {i}"}])
    for thread in threads:
        thread.join()
    assert found == [3] * 60


@pytest.mark.skipif(not morphemes.available(), reason="kiwipiepy is not installed")
def test_a_file_goes_on_with_the_words_it_was_made_with(
    tmp_path: Path, encoder: malmoi.TextEncoder
) -> None:
    path = tmp_path / "old.malmoi"
    with Corpus.open(path, encoder, words="morphemes") as old:
        old.upsert([{"id": "a", "text": "갑자기 눈물 나"}])
    with Corpus.open(path, encoder) as old:
        assert old.store.about.words == "morphemes"
        old.upsert([{"id": "b", "text": "자꾸 눈물 나"}, {"id": "c", "text": "배송"}])
        # 나 is a verb here only where whole sentences are read, on both sides.
        hits = old.search("갑자기 화 나", mode="keyword")
        assert [hit.id for hit in hits] == ["a", "b"]
    with Corpus.open(tmp_path / "new.malmoi", encoder) as new:
        assert new.store.about.words == "word-morphemes"
        new.upsert([{"id": "a", "text": "갑자기 눈물 나"}, {"id": "b", "text": "자꾸 눈물 나"}])
        hits = new.search("갑자기 화 나", mode="keyword")
        assert [hit.id for hit in hits] == ["a"]


@pytest.mark.slow
def test_a_writer_killed_again_and_again_loses_nothing(tmp_path: Path) -> None:
    shm = Path("/dev/shm")
    file = (shm if shm.is_dir() else tmp_path) / f"malmoi-test-{tmp_path.name}.malmoi"
    try:
        bench = [sys.executable, str(ROOT / "bench/run.py"), "--no-record", "corpus_kill"]
        done = subprocess.run(
            [*bench, "--kills", "12", "--file", str(file)],
            capture_output=True,
            text=True,
            timeout=120,
            env={"PYTHONPATH": str(ROOT / "src"), "OPENBLAS_NUM_THREADS": "1"},
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["lost"] == 0
    finally:
        for left in file.parent.glob(f"*{file.name}*"):
            left.unlink()


def test_the_graph_is_built_when_the_corpus_is_flushed(
    tmp_path: Path, encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(malmoi.corpus.vector_index, "GRAPH_FROM", 20)
    with Corpus.open(tmp_path / "x.malmoi", encoder, words="bigrams") as corpus:
        corpus.add({"id": str(i), "text": f"{TEXTS[i % 5]} {i}"} for i in range(19))
        corpus.search("cat", 3)
        assert isinstance(corpus.store, SqliteStore)
        assert not isinstance(corpus.store._vector_index.index, HnswIndex)
        corpus.add([{"id": "more", "text": "the cat has a boat"}])
        corpus.store.flush()
        assert isinstance(corpus.store._vector_index.index, HnswIndex)
        corpus.add([{"id": "later", "text": "sweet pear"}])
        assert corpus.search("sweet pear", 1, mode="dense")[0].id == "later"
    assert (tmp_path / "x.malmoi.index.graph").exists()
    with Corpus.open(tmp_path / "x.malmoi", encoder) as again:
        assert again.search("sweet pear", 1, mode="dense")[0].id == "later"


def test_the_index_file_may_be_lost_or_broken_or_anothers(
    tmp_path: Path, encoder: malmoi.TextEncoder, corpus: Corpus
) -> None:
    corpus.store.flush()
    corpus.close()
    index = tmp_path / "x.malmoi.index"
    assert index.exists()
    with Corpus.open(tmp_path / "other.malmoi", encoder, words="bigrams") as other:
        other.add([{"id": "z", "text": "dog"}])
        other.store.flush()
    strange = (tmp_path / "other.malmoi.index").read_bytes()
    for content in (None, b"", b"broken" * 99, index.read_bytes()[:-9], strange):
        index.unlink(missing_ok=True)
        if content is not None:
            index.write_bytes(content)
        with Corpus.open(tmp_path / "x.malmoi", encoder) as again:
            assert again.search("the cat sleeps", 1, mode="dense")[0].id == "2"


# What users do wrong, one by one.


def test_a_file_that_is_not_a_corpus(tmp_path: Path, encoder: malmoi.TextEncoder) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("고양이가 잔다\n" * 200, "utf-8")
    with pytest.raises(CorpusError, match="is not a corpus; expected a file that malmoi index"):
        Corpus.open(text, encoder)
    database = tmp_path / "other.db"
    with sqlite3.connect(database) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    with pytest.raises(CorpusError, match="is a database, but not a corpus"):
        Corpus.open(database, encoder)
    with pytest.raises(CorpusError, match="is a folder"):
        Corpus.open(tmp_path, encoder)
    with pytest.raises(CorpusError, match="there is no corpus"):
        Corpus.open(tmp_path / "none.malmoi")
    with pytest.raises(CorpusError, match="there is no folder"):
        Corpus.open(tmp_path / "no/none.malmoi", encoder)
    assert text.read_text("utf-8").startswith("고양이")


def test_a_damaged_file(tmp_path: Path, corpus: Corpus) -> None:
    corpus.close()
    path = tmp_path / "x.malmoi"
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + b"\xff" * (len(whole) - 4096))
    with pytest.raises(CorpusError, match="damaged"):
        Corpus.open(path, corpus.encoder).search("cat")


def test_another_model(tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.close()
    table = np.random.default_rng(1).standard_normal((len(graphs.WORDS), 16)).astype(np.float32)
    monkeypatch.setattr(graphs, "embedding_table", lambda *args: table)
    other = malmoi.load(graphs.write_bundle(tmp_path / "other", name="other"))
    with pytest.raises(CorpusError, match="made with the model tiny, whose vectors are not"):
        Corpus.open(tmp_path / "x.malmoi", other)
    same_name = malmoi.load(graphs.write_bundle(tmp_path / "tiny2"))
    with pytest.raises(CorpusError, match="made with the model tiny, whose vectors are not"):
        Corpus.open(tmp_path / "x.malmoi", same_name)


def test_a_corpus_outlives_a_step_of_clean_up(tmp_path: Path) -> None:
    """A model is known by texts without signs, so one that learns to spell them is the same."""
    steps = ("surrogates", "symbols")
    before = malmoi.load(graphs.write_bundle(tmp_path / "before"))
    after = malmoi.load(graphs.write_bundle(tmp_path / "after", clean=steps))
    with Corpus.open(tmp_path / "x.malmoi", before, words="bigrams") as made:
        made.add([Document("a", "cat▲"), Document("b", "배")])
    with Corpus.open(tmp_path / "x.malmoi", after) as opened:
        assert {hit.id for hit in opened.search("배ㆍcat", k=2)} == {"a", "b"}


def test_the_same_model_under_another_name(tmp_path: Path, corpus: Corpus) -> None:
    corpus.close()
    renamed = malmoi.load(graphs.write_bundle(tmp_path / "renamed", name="renamed"))
    assert len(Corpus.open(tmp_path / "x.malmoi", renamed)) == 5


def test_a_newer_version(tmp_path: Path, corpus: Corpus) -> None:
    corpus.close()
    connection = sqlite3.connect(tmp_path / "x.malmoi")
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(CorpusError, match="version 99; this malmoi reads up to 4"):
        Corpus.open(tmp_path / "x.malmoi", corpus.encoder)


@pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning")
def test_a_disk_that_fills(corpus: Corpus) -> None:
    assert isinstance(corpus.store, SqliteStore)
    connection = corpus.store._connection
    [[pages]] = connection.execute("PRAGMA page_count")
    connection.execute(f"PRAGMA max_page_count = {pages + 8}")  # SQLite's own way to have no room
    many = [{"id": f"m{i}", "text": f"boat {i} " * 200} for i in range(80)]
    with pytest.raises(OutputError, match="the disk is full; the documents of this batch were"):
        corpus.add(many)
    assert len(corpus) == 5
    assert corpus.search("the cat sleeps", 1)[0].id == "2"
    connection.execute("PRAGMA max_page_count = 1000000")
    assert corpus.add(many) == 80


def test_two_writers(tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malmoi.corpus.schema, "_WAIT", 0.2)
    second = Corpus.open(tmp_path / "x.malmoi", corpus.encoder)
    second.add([{"id": "two", "text": "dog"}])
    corpus.add([{"id": "one", "text": "dog"}])  # in turn they do not disturb each other
    assert len(corpus) == len(second) == 7
    assert isinstance(corpus.store, SqliteStore)
    corpus.store._connection.execute("BEGIN IMMEDIATE")  # the first is in the middle of writing
    with pytest.raises(CorpusBusy, match="another process has been writing"):
        second.add([{"id": "three", "text": "dog"}])
    assert second.search("dog", 1)  # reading still works
    corpus.store._connection.execute("ROLLBACK")
    second.add([{"id": "three", "text": "dog"}])
    second.close()


@pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning")
def test_a_query_of_a_megabyte(corpus: Corpus) -> None:
    started = time.perf_counter()
    hits = corpus.search("the cat sleeps 고양이 " * 50_000, 3)
    assert len(hits) == 3
    assert time.perf_counter() - started < 20
    for empty in ("", " \n"):
        with pytest.raises(TextError, match="the query is empty"):
            corpus.search(empty, 3)
    assert len(corpus.search('"*^ AND (', 3)) == 3
    assert corpus.search('"*^ (', 3, mode="keyword") == []


def test_bad_options(corpus: Corpus) -> None:
    for options, message in [
        ({"k": 0}, "k is 0"),
        ({"k": -3}, "k is -3"),
        ({"mode": "fuzzy"}, "mode is 'fuzzy'; known are dense"),
        ({"filter": {"year": 2024}}, "the field 'year'; the documents have n"),
        ({"filter": "2024"}, "a filter has no comparison"),
        ({"filter": {"n": [1]}}, "the filter on 'n' is list"),
        ({"within": 0.0}, "within is 0.0"),
        ({"depth": 0}, "depth is 0"),
    ]:
        with pytest.raises(OptionError, match=message):
            corpus.search("cat", **options)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="engine is 'fast'"):
        Corpus.open(corpus.store.path, corpus.encoder, engine="fast")  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ("just text", "without an id and a text"),
        ({"text": "no id"}, "without an id and a text"),
        ({"id": "", "text": "x"}, "empty id"),
        ({"id": "x", "text": None}, "expected str"),
        ({"id": "x", "text": "y", "when": object()}, "cannot be written as JSON"),
        ({"id": "x", "text": "y", "score": float("nan")}, "cannot be written as JSON"),
    ],
)
def test_bad_documents(corpus: Corpus, document: object, message: str) -> None:
    with pytest.raises(malmoi.MalmoiError, match=message):
        corpus.add([{"id": "good", "text": "sea"}, document])  # type: ignore[list-item]
    assert len(corpus) == 5


def test_text_of_any_kind_comes_back(corpus: Corpus) -> None:
    strange = [
        "",
        "\x00",
        "😀" * 300,
        "\ud800 half",
        "ﾊﾝｸﾞﾙ",
        "a\nb\tc",
        "ㅋㅋㅋ",
        "'; DROP TABLE x",
    ]
    corpus.add({"id": f"s{i}", "text": text} for i, text in enumerate(strange))
    for i, text in enumerate(strange):
        found = corpus.get(f"s{i}")
        assert found is not None
        assert found.text == text.replace("\ud800", "\ufffd")
    assert len({hit.id for hit in corpus.search("ㅋㅋㅋ", 20)}) == 13


def test_prompts_of_the_model_are_used(tmp_path: Path) -> None:
    """The names that sentence-transformers looks for, in a corpus that remembers them."""
    prompts = {"query": "the ", "passage": "dog ", "other": "sea "}
    prompted = malmoi.load(graphs.write_bundle(tmp_path / "prompted", prompts=prompts))
    with Corpus.open(tmp_path / "x.malmoi", prompted, words="bigrams") as corpus:
        corpus.add([{"id": "a", "text": "cat"}])
        [stored] = corpus.store.scan()
        assert np.allclose(stored.vector, prompted.encode("cat", prompt="passage"), atol=1e-6)
        [hit] = corpus.search("boat", 1, mode="dense")
        expected = prompted.encode("cat", prompt="passage") @ prompted.encode("the boat")
        assert hit.score == pytest.approx(float(expected), abs=1e-5)
        assert corpus.query_prompt == "query"
    with Corpus.open(tmp_path / "x.malmoi", prompted) as again:
        assert again.store.about.prompts == ("query", "passage")
    only_query = malmoi.load(graphs.write_bundle(tmp_path / "bge", prompts={"query": "the "}))
    with Corpus.open(tmp_path / "y.malmoi", only_query, words="bigrams") as corpus:
        corpus.add([{"id": "a", "text": "cat"}])
        assert np.allclose(next(corpus.store.scan()).vector, only_query.encode("cat"), atol=1e-6)
    plain = malmoi.load(graphs.write_bundle(tmp_path / "plain", prompts={"other": "sea "}))
    with Corpus.open(tmp_path / "z.malmoi", plain, words="bigrams") as corpus:
        assert corpus.store.about.prompts is None and corpus.query_prompt is None


def test_opening_the_model_is_not_part_of_the_time(
    tmp_path: Path, corpus: Corpus, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = corpus.encoder
    corpus.close()

    def slowly(name: str) -> malmoi.TextEncoder:
        time.sleep(0.3)
        return encoder

    monkeypatch.setattr("malmoi.corpus.writer.load", slowly)
    with Corpus.open(tmp_path / "x.malmoi") as again:
        hits = again.search("cat", 3, reranker=Longest(), within=0.25)
        assert "rerank" in hits[0].scores


def test_a_reranker_reads_the_title_too(corpus: Corpus) -> None:
    read: list[str] = []

    class Reader(Longest):
        def score(self, pairs: Sequence[tuple[str, str]]) -> NDArray[np.float32]:
            read.extend(text for _, text in pairs)
            return super().score(pairs)

    corpus.upsert([Document("t", "it sleeps", title="Cats")])
    corpus.search("cat", 6, reranker=Reader())
    assert "Cats\nit sleeps" in read
