"""What is Milvus's own: addresses, filters as its conditions, copies either way."""

import contextlib
import itertools
import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import malmoi
from malmoi.corpus import Document, StoredDocument
from malmoi.corpus.filters import Filter
from malmoi.corpus.ingest import copy_corpus
from malmoi.corpus.milvus import Address, MilvusStore, expression, facts, quoted
from malmoi.documents import Passage
from malmoi.errors import CorpusError, DataError, OptionError
from tests.support.graphs import Run

lite = pytest.importorskip("milvus_lite", reason="milvus-lite is not installed")

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("impatient_milvus")]


@pytest.fixture
def faq(tmp_path: Path, encoder: malmoi.TextEncoder) -> Path:
    with malmoi.Corpus.open(tmp_path / "faq.malmoi", encoder, words="bigrams") as corpus:
        corpus.add(
            [
                {"id": "1", "text": "배를 타고 바다", "year": 2024},
                {"id": "2", "text": "고양이 잔다", "tags": ["동물"]},
            ]
        )
    return tmp_path / "faq.malmoi"


@pytest.mark.parametrize(
    "address", ["milvus:faq", "milvus://host", "milvus://host:1/a b", "milvus:///x", "milvus://h/1"]
)
def test_addresses_that_name_nothing(address: str) -> None:
    with pytest.raises(OptionError, match="milvus://HOST:PORT/NAME"):
        Address.parse(address)


def test_https_is_kept() -> None:
    assert Address.parse("milvus+https://db.example:443/faq").uri == "https://db.example:443"


@given(st.text(max_size=30))
def test_no_text_can_leave_its_quotes(text: str) -> None:
    text = text.encode("utf-8", "ignore").decode()
    assert json.loads(quoted(text)) == text
    [condition] = [expression([Filter("field", "=", text)])]
    assert condition.startswith("json_contains(") and condition.endswith('")')


def test_facts_of_mixed_values() -> None:
    found = facts({"size": [3, "large"], "draft": True, "none": None})
    assert found["keys"] == ["groups", "size=3.0", "size=large", "draft=true"]
    assert (found["least:size"], found["first:size"]) == (3.0, "large")


def test_there_and_back(faq: Path, tmp_path: Path, encoder: malmoi.TextEncoder) -> None:
    assert copy_corpus(faq, f"milvus:{tmp_path}/m.db") == 2
    assert copy_corpus(f"milvus:{tmp_path}/m.db", tmp_path / "back.malmoi") == 2
    with (
        malmoi.Corpus.open(faq, encoder) as old,
        malmoi.Corpus.open(tmp_path / "back.malmoi", encoder) as new,
    ):
        for mine, theirs in zip(old.store.scan(), new.store.scan(), strict=True):
            assert mine.document == theirs.document
            assert mine.vector.tolist() == theirs.vector.tolist()


def test_a_corpus_in_milvus_is_searched_like_a_file(
    faq: Path, tmp_path: Path, encoder: malmoi.TextEncoder
) -> None:
    copy_corpus(faq, f"milvus:{tmp_path}/m.db")
    with malmoi.Corpus.open(f"milvus:{tmp_path}/m.db", encoder) as corpus:
        for mode in ("dense", "keyword", "hybrid"):
            assert corpus.search("고양이", k=1, mode=mode)[0].id == "2"
        assert [hit.id for hit in corpus.search("고양이", filter="year=2024")] == ["1"]
        corpus.upsert({"id": "3", "text": "강아지 잔다"})
        assert corpus.get("3") is not None


def test_a_folder_is_synced(tmp_path: Path, encoder: malmoi.TextEncoder) -> None:
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "a.md").write_text("# Sea\n\n## Cats\n\nthe cat sleeps\n\n## Boats\n\na boat\n")
    (docs / "b.txt").write_text("고양이 잔다", "utf-8")
    with malmoi.Corpus.open(f"milvus:{tmp_path}/m.db", encoder, words="bigrams") as corpus:
        assert corpus.sync(docs).written == 2
        [hit] = corpus.search("the cat sleeps", 1)
        assert (hit.id, hit.title, hit.headings, hit.number) == ("a.md", "Sea", ("Sea", "Cats"), 0)
        (docs / "a.md").write_text("# Sea\n\na boat\n")
        (docs / "b.txt").unlink()
        report = corpus.sync(docs)
        assert (report.written, report.removed) == (1, 1)
        assert [one.document.id for one in corpus.store.documents()] == ["a.md"]
        assert corpus.store.passage_count() == 1
        assert corpus.sync(docs).changed is False


def test_another_corpus_is_not_written_over(
    faq: Path, tmp_path: Path, encoder: malmoi.TextEncoder
) -> None:
    with malmoi.Corpus.open(tmp_path / "small.malmoi", encoder, dim=2, words="bigrams"):
        pass
    with pytest.raises(CorpusError, match="Name a new target"):
        copy_corpus(faq, tmp_path / "small.malmoi")
    with malmoi.Corpus.open(tmp_path / "full.malmoi", encoder, words="bigrams") as full:
        full.add([{"id": str(i), "text": f"배 {i}"} for i in range(5)])
    with pytest.raises(CorpusError, match="more than"):
        copy_corpus(faq, tmp_path / "full.malmoi")


def test_what_milvus_cannot_hold(tmp_path: Path, encoder: malmoi.TextEncoder) -> None:
    with malmoi.Corpus.open(f"milvus:{tmp_path}/m.db", encoder, words="bigrams") as corpus:
        with pytest.raises(DataError, match="bytes; Milvus takes up to"):
            corpus.add({"id": "가" * 300, "text": "배"})
        assert len(corpus) == 0


def test_a_server_that_is_not_there() -> None:
    with pytest.raises(CorpusError, match="failed \\("):
        MilvusStore("milvus://127.0.0.1:1/faq")


def test_no_corpus_there(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="there is no corpus"):
        MilvusStore(f"milvus:{tmp_path}/m.db")


def test_the_command(faq: Path, tmp_path: Path, run: Run) -> None:
    done = run("corpus", "copy", faq, f"milvus:{tmp_path}/m.db")
    assert done.returncode == 0, done.stderr
    assert done.stderr.splitlines() == [f"malmoi: copied 2 documents to milvus:{tmp_path}/m.db"]


def test_a_file_left_by_a_killed_process_is_opened(tmp_path: Path, bundle: Path) -> None:
    writes = (
        "import os, signal, sys, malmoi\n"
        "corpus = malmoi.Corpus.open(sys.argv[1], malmoi.load(sys.argv[2]), words='bigrams')\n"
        "corpus.add([{'id': '1', 'text': '배를 타고 바다'}])\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    address = f"milvus:{tmp_path / 'left.db'}"
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", writes, address, str(bundle)])
    assert done.returncode == -signal.SIGKILL
    with malmoi.Corpus.open(address, malmoi.load(bundle)) as corpus:
        assert [hit.id for hit in corpus.search("바다", 1)] == ["1"]


def test_a_document_is_replaced_whole_or_not_at_all(
    tmp_path: Path, encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stored(texts: list[str]) -> StoredDocument:
        vectors = tuple(np.stack([own, own]) for own in encoder.encode(texts))
        document = Document("1", "\n\n".join(texts))
        return StoredDocument(document, tuple(map(Passage, texts)), vectors)

    states = [stored(["배를 타고", "바다", "고양이"]), stored(["강아지"]), stored(["산", "강"])]
    with malmoi.Corpus.open(f"milvus:{tmp_path}/m.db", encoder, words="bigrams") as corpus:
        store = corpus.store
        assert isinstance(store, MilvusStore)
        store.write(states[:1])
        for old, new in itertools.pairwise(states):
            for requests in range(3):  # as many are done before the process dies
                left = iter(range(requests))
                with monkeypatch.context() as patch:
                    for name in ("upsert", "delete"):
                        patch.setattr(store._client, name, _until(left, store._client, name))
                    with contextlib.suppress(CorpusError):
                        store.write([new])
                [found] = store.scan()
                texts = [one.text for one in found.passages]
                assert texts in [[one.text for one in x.passages] for x in (old, new)]
                assert store.get(["1"])["1"].text == "\n\n".join(texts)
                assert store.passage_count() == len(texts)
                hits = store.vector_search(encoder.encode("바다"), 9)
                assert sorted(hit.number for hit in hits) == list(range(len(texts)))
            store.write([new])


def _until(left: Iterator[int], client: object, name: str) -> Callable[..., object]:
    real = getattr(client, name)

    def call(*args: object, **options: object) -> object:
        if next(left, None) is None:
            raise OSError("the process has died")
        return real(*args, **options)

    return call
