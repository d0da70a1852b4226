"""Search, linking, words and the map over HTTP, with the samples that ship."""

import asyncio
import contextlib
import itertools
import re
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.client import Client
from malmoi.clinical import mentions as deadline
from malmoi.clinical.reader import NoteMention
from malmoi.corpus import Corpus
from malmoi.corpus.samples import SampleCorpus
from malmoi.corpus.sqlite import SqliteStore
from malmoi.encoders import Encoder
from malmoi.errors import CutWarning, DataError
from malmoi.mining.keywords import keywords
from malmoi.serve.engine import BatchedEncoder
from malmoi.serve.routes import vendors
from malmoi.serve.settings import Limits, ServerSettings
from malmoi.serve.state import AppState, Resources, load_resources
from malmoi.terms import Linked
from malmoi.text import morphemes
from tests.support import graphs
from tests.support.servers import Served, serving, wait_for

pytestmark = pytest.mark.skipif(
    DEFAULT not in shipped_models(), reason=f"the model {DEFAULT} is not in this checkout"
)


@pytest.fixture(scope="module")
def whole() -> Iterator[Resources]:
    opened = load_resources(reranker="none")
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def site(whole: Resources) -> Iterator[Served]:
    with serving(whole) as served:
        yield served


def test_the_questions_of_the_sample_find_their_entries(site: Served, whole: Resources) -> None:
    [corpus] = whole.corpora.values()
    assert isinstance(corpus, SampleCorpus) and len(corpus.questions) >= 5
    assert site.post("/v1/corpus", {}).json["questions"] == list(corpus.questions)
    for lang, korean in (("ko", True), ("en", False)):
        answer = site.post("/v1/corpus", {"lang": lang}).json
        assert answer["sample"] and len(answer["questions"]) == 5
        assert all(bool(re.search("[가-힣]", one)) is korean for one in answer["questions"])
    for question, id in corpus.questions.items():
        [group] = site.post("/v1/search", {"query": question, "group": True, "k": 1}).json["groups"]
        assert group["id"] == id, question


def test_search_finds_across_languages(site: Served) -> None:
    for query in ("제 상품 언제 도착해요?", "When is my product getting delivered"):
        hits = site.post("/v1/search", {"query": query, "k": 5, "mode": "dense"}).json["hits"]
        assert len(hits) == 5 and {"1", "7"} & {hit["id"] for hit in hits[:2]}
        assert [hit["score"] for hit in hits] == sorted((h["score"] for h in hits), reverse=True)
    found = site.post("/v1/search", {"query": "환불 기간", "filter": {"lang": "ko"}}).json
    assert found["documents"] == 75 and found["corpus"] == "faq"
    assert {hit["metadata"]["lang"] for hit in found["hits"]} == {"ko"}
    start, end = found["hits"][0]["matches"][0]
    assert found["hits"][0]["text"][start:end] == "환불"


def test_what_is_not_served_is_said_with_its_remedy(site: Served, whole: Resources) -> None:
    answer = site.post("/v1/search", {"query": "배", "rerank": True})
    assert answer.status == 404 and "--reranker" in answer.json["error"]["message"]
    answer = site.post("/v1/search", {"query": "배", "corpus": "../../etc/passwd"})
    assert answer.status == 404 and "served are: faq" in answer.json["error"]["message"]
    answer = site.post("/v1/search", {"query": "배", "filter": {"year": 3}})
    assert answer.status == 400 and "answer, lang, topic" in answer.json["error"]["message"]
    answer = site.post("/v1/words", {"texts": ["배"], "layer": 99})
    assert answer.status == 400 and "0 to 6" in answer.json["error"]["message"]
    with serving(Resources(whole.encoder)) as bare:
        for path, body in (("/v1/search", {"query": "배"}), ("/v1/link", {"mentions": "배"})):
            answer = bare.post(path, body)
            assert answer.status == 404 and "malmoi serve --" in answer.json["error"]["message"]


def test_linking(site: Served) -> None:
    found = site.post("/v1/link", {"mentions": ["간경화", "DM nephropathy"], "k": 2}).json
    assert [one["mention"] for one in found["results"]] == ["간경화", "DM nephropathy"]
    assert found["results"][0]["candidates"][0]["code"].startswith("K74")
    note = "pt는 HTN, DM 있으며 CXR상 pneumonia 의심"
    mentions = site.post("/v1/link/note", {"text": note}).json["mentions"]
    assert [note[one["start"] : one["end"]] for one in mentions][:2] == ["HTN", "DM"]
    assert mentions[-1]["attributes"] == ["uncertain"]


def test_a_note_is_cut_at_the_deadline_and_says_so(
    site: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count(step=5)
    monkeypatch.setattr(deadline, "now", lambda: float(next(ticks)))
    note = "가a나b다c라d" * 6_250
    answer = site.post("/v1/link/note", {"text": note})
    assert answer.status == 200 and answer.headers["x-malmoi-cut"] == "1"
    assert 0 < answer.json["cut"] < len(note)
    client = Client(site.url)
    with pytest.warns(CutWarning, match="of 50,000"):
        client.read(note)
    client.close()
    monkeypatch.undo()
    answer = site.post("/v1/link/note", {"text": "폐렴 없음"})
    assert answer.json["cut"] is None and "x-malmoi-cut" not in answer.headers


def test_words(site: Served) -> None:
    texts = ["배를 타고 바다에 나간다", "배가 항구에 들어왔다", "배가 달고 맛있다"]
    found = site.post("/v1/words", {"texts": texts, "word": "배", "layer": 4}).json
    assert [one["word"] for one in found["occurrences"]] == ["배를", "배가", "배가"]
    scores = np.array(found["scores"])
    assert scores.shape == (3, 3) and len(found["points"]) == 3 and found["layers"] == 7
    assert [one["word"] for one in found["texts"][2]] == ["배가", "달고", "맛있다"]


def test_the_map(site: Served) -> None:
    found = site.post("/v1/map", {"groups": 6}).json
    assert found["shown"] == 75 and sum(one["size"] for one in found["groups"]) == 75
    assert {point["group"] for point in found["points"]} <= set(range(6))
    assert all(abs(point["x"]) <= 1 and abs(point["y"]) <= 1 for point in found["points"])


def test_a_corpus_must_be_there_already(tmp_path: Path, whole: Resources) -> None:
    with pytest.raises(DataError, match="there is no corpus"):
        load_resources(corpora=[tmp_path / "none.malmoi"], samples=False)
    with Corpus.open(tmp_path / "notes.malmoi", whole.encoder) as corpus:
        corpus.add([{"id": "a", "text": "배가 아파요"}])
    resources = load_resources(corpora=[tmp_path / "notes.malmoi"], reranker="none", samples=False)
    assert list(resources.corpora) == ["notes"] and not resources.lexicons
    resources.close()


def test_a_note_is_redacted(site: Served) -> None:
    note = "환자명: 홍길동, 010-1234-5678. 2024-03-05 HTN"
    found = site.post("/v1/redact", {"text": note}).json
    assert found["text"] == "환자명: ***, *************. ********** HTN"
    assert [one["kind"] for one in found["spans"]] == ["name", "phone", "date"]
    assert "2024-03-05" in site.post("/v1/redact", {"text": note, "dates": "keep"}).json["text"]


def test_the_client_gives_what_the_local_objects_give(site: Served, whole: Resources) -> None:
    client = Client(site.url)
    _, corpus = whole.corpus(None)
    _, terms = whole.lexicon(None)
    here, there = corpus.search("환불 기간", 3), client.search("환불 기간", 3)
    assert [hit.id for hit in there] == [hit.id for hit in here]
    assert there[0].text == here[0].text and there[0].metadata == here[0].metadata
    assert there[0].scores == pytest.approx(here[0].scores, abs=1e-4)
    mentions = ["간경화", "DM nephropathy"]
    linked = zip(client.link(mentions, k=2), terms.linker.link(mentions, k=2), strict=True)
    for far, near in linked:
        assert far.mention == near.mention
        assert [one.code for one in far.candidates] == [one.code for one in near.candidates]
        assert far.best is not None and far.best.names == near.best.names  # type: ignore[union-attr]
    note = "pt는 HTN, DM 있으며 CXR상 pneumonia 의심"
    assert [one.text for one in client.read(note)] == [one.text for one in terms.read(note)]
    client.close()


def test_queries_are_encoded_in_the_batches(
    site: Served, whole: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder, threads = whole.encoder, set[str]()
    assert isinstance(encoder, Encoder)
    for name in ("encode_ids", "_start", "words_of"):
        whole_method = getattr(encoder, name)

        def watched(*args: Any, method: Any = whole_method, **options: Any) -> Any:
            threads.add(threading.current_thread().name)
            return method(*args, **options)

        monkeypatch.setattr(encoder, name, watched, raising=False)
    before = batched_texts(site)
    bodies = {
        "/v1/search": {"query": "환불은 며칠 걸려요", "mode": "dense"},
        "/v1/link": {"mentions": ["간이 굳는 병"]},
        "/v1/words": {"texts": ["배가 달다"], "word": "배"},
        "/v1/keywords": {"text": "Diabetic nephropathy was found."},
    }
    for path, body in bodies.items():
        assert site.post(path, body).status == 200
        after = batched_texts(site)
        assert after > before, path
        before = after
    assert site.post("/v1/link/note", {"text": "pt는 HTN 있음"}).status == 200
    assert threads and all(name.startswith("malmoi-batch") for name in threads)


def test_a_query_is_cleaned_and_encoded_once(
    site: Served, whole: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoder = whole.encoder
    assert isinstance(encoder, Encoder)
    seen: list[list[str]] = []
    token_ids = encoder.token_ids

    def counted(texts: list[str], **options: Any) -> Any:
        seen.append(list(texts))
        return token_ids(texts, **options)

    monkeypatch.setattr(encoder, "token_ids", counted)
    for mode, times in (("hybrid", 1), ("dense", 1), ("keyword", 0)):
        seen.clear()
        assert site.post("/v1/search", {"query": "환불은 언제", "mode": mode}).json["hits"]
        assert seen == [["환불은 언제"]] * times


def batched_texts(site: Served) -> float:
    text = site.get("/metrics").body.decode()
    found = re.search(r'^malmoi_texts_total\{kind="encode"\} (\S+)', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


@pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning")  # the tiny model reads little
def test_the_order_before_reranking_is_given(whole: Resources, tmp_path: Path) -> None:
    batched = BatchedEncoder(whole.encoder)
    reranker = malmoi.load(graphs.write_reranker(tmp_path / "tiny-reranker"))
    corpus = SampleCorpus.make(batched)
    with serving(Resources(whole.encoder, reranker, {"faq": corpus}, batched=batched)) as server:
        body = {"query": "환불 기간", "k": 5, "depth": 20, "mode": "dense"}
        plain = server.post("/v1/search", body).json
        found = server.post("/v1/search", body | {"rerank": True}).json
    assert plain["before"] == [] and {hit["rank_before"] for hit in plain["hits"]} == {None}
    assert [one["id"] for one in found["before"]] == [hit["id"] for hit in plain["hits"]]
    assert [one["score"] for one in found["before"]] == [hit["score"] for hit in plain["hits"]]
    pairs = [("환불 기간", hit["text"]) for hit in found["hits"]]
    scores = [hit["scores"]["rerank"] for hit in found["hits"]]
    np.testing.assert_allclose(scores, reranker.score(pairs), atol=1e-5)
    assert scores == sorted(scores, reverse=True)
    now = {hit["id"]: (hit["rank_before"], i) for i, hit in enumerate(found["hits"], start=1)}
    for rank, one in enumerate(found["before"], start=1):
        assert now.get(one["id"], (rank, one["rank_after"])) == (rank, one["rank_after"])


def batches(site: Served) -> float:
    text = site.get("/metrics").body.decode()
    found = re.search(r'^malmoi_batch_texts_count\{kind="encode"\} (\S+)', text, re.MULTILINE)
    return float(found[1]) if found else 0.0


def test_words_with_their_vectors(site: Served, whole: Resources) -> None:
    local = whole.encoder.words("배를 타고 바다에", layers=4)
    body = {"texts": ["배를 타고 바다에"], "layer": 4}
    plain = site.post("/v1/words", body).json["texts"][0]
    assert "vector" not in plain[0] and "tokens" not in plain[0]
    [shown] = site.post("/v1/words", body | {"vectors": True}).json["texts"]
    for far, near in zip(shown, local, strict=True):
        np.testing.assert_allclose(far["vector"], near.vector, atol=1e-5)
        assert [one["text"] for one in far["tokens"]] == list(near.pieces)
    answer = site.post("/v1/words", {"texts": ["배"], "layer": "sum-last-99"})
    assert answer.status == 400 and "0 to 6" in answer.json["error"]["message"]


def test_the_client_reads_words_and_keywords_as_the_local_objects_do(
    site: Served, whole: Resources
) -> None:
    client = Client(site.url)
    texts = ["배를 타고 바다에 나간다", "", "The pear is sweet"]
    options: list[dict[str, Any]] = [
        {},
        {"layers": "sum-last-4", "merge": "first"},
        {"layers": [1, 2], "special": True},
    ]
    for chosen in options:
        here, there = whole.encoder.words_of(texts, **chosen), client.words_of(texts, **chosen)
        for near, far in zip(here, there, strict=True):
            assert [word.text for word in far] == [word.text for word in near]
            for a, b in zip(near, far, strict=True):
                assert (a.start, a.end, a.pieces) == (b.start, b.end, b.pieces)
                assert [one.special for one in a.tokens] == [one.special for one in b.tokens]
                np.testing.assert_allclose(b.vector, a.vector, atol=1e-5)
    assert client.words("배가 달다")[0].text == "배가"
    text = "Diabetic nephropathy was found. Nephropathy needs dialysis."
    near_words, far_words = keywords(whole.encoder, text, top=2), client.keywords(text, top=2)
    assert [one.text for one in far_words] == [one.text for one in near_words]
    assert far_words[0].score == pytest.approx(near_words[0].score, abs=1e-4)
    client.close()


def test_keywords(site: Served) -> None:
    body = {"text": "Diabetic nephropathy was found. Nephropathy needs dialysis.", "top": 2}
    found = site.post("/v1/keywords", body).json["keywords"]
    assert len(found) == 2 and "nephropathy" in found[0]["text"].lower()
    assert site.post("/v1/keywords", {"text": " "}).json == {"keywords": []}


def test_long_notes_are_not_in_the_way_of_searches(
    site: Served, whole: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    gate = threading.Event()
    [reader] = whole.lexicons.values()
    scan = reader.scan
    monkeypatch.setattr(reader, "scan", lambda *a, **o: gate.wait(20) and scan(*a, **o))
    with ThreadPoolExecutor(12) as pool:
        notes = [pool.submit(site.post, "/v1/link/note", {"text": "DM"}) for _ in range(12)]
        wait_for(lambda: site.state.running == 12)
        for path, body in (("search", {"query": "환불"}), ("link", {"mentions": "DM"})):
            assert site.post(f"/v1/{path}", body).status == 200
        assert site.post("/v1/keywords", {"text": "a diabetic nephropathy"}).status == 200
        assert not any(note.done() for note in notes)
        gate.set()
        assert [note.result().status for note in notes] == [200] * 12


def test_work_ends_when_nobody_waits_for_it(
    whole: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By its deadline, and by clients that leave: between two mentions, and before vectors."""
    working = set[str]()
    [reader] = whole.lexicons.values()

    def endless(mentions: list[str], **options: object) -> Iterator[object]:
        working.add(mentions[0])
        try:
            while True:
                time.sleep(0.01)
                if mentions[0].strip() == "vectors":
                    site.state.batched.encode([f"{time.monotonic()}"])
                else:
                    yield None
        finally:
            working.discard(mentions[0])

    monkeypatch.setattr(reader.linker, "link_iter", endless)
    settings = ServerSettings(limits=Limits(seconds=0.5))
    with serving(whole, settings) as site:
        for mention in ("mentions", "vectors"):
            late = site.post("/v1/link", {"mentions": mention})
            assert late.status == 429 and late.json["error"]["code"] == "deadline"
            wait_for(lambda: not working, 2)
    with serving(whole) as site:
        for mention in ("mentions", "vectors"):
            with socket.create_connection(("127.0.0.1", site.port)) as link:
                link.sendall(
                    b"POST /v1/link HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json"
                    b'\r\ncontent-length: 23\r\n\r\n{"mentions":"%-8s"}' % mention.encode()
                )
                wait_for(lambda: working)
            wait_for(lambda: not working, 2)


def test_the_event_loop_reads_no_file_and_writes_no_large_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    on_loop = list[str]()

    def watch(owner: object, name: str) -> None:
        real = getattr(owner, name, lambda _: None)  # few classes have a __del__

        def watched(self: object, *args: object, **options: object) -> object:
            with contextlib.suppress(RuntimeError):
                asyncio.get_running_loop()
                on_loop.append(name)
            return real(self, *args, **options)

        monkeypatch.setattr(owner, name, watched, raising=False)

    watch(SqliteStore, "__len__")
    watch(SqliteStore, "fields")
    watch(NoteMention, "to_json")
    watch(vendors, "to_precision")
    watch(Encoder, "with_special_ids")
    for many in (NoteMention, Linked):  # to free a hundred thousand objects takes long too
        watch(many, "__del__")
    with serving(load_resources(reranker="none")) as site:
        assert site.get("/v1/info").status == site.post("/v1/corpus", {}).status == 200
        assert site.post("/v1/search", {"query": "환불", "filter": {"lang": "ko"}}).json["hits"]
        note = "pt has DM nephropathy, HTN. " * 200
        assert site.post("/v1/link/note", {"text": note, "k": 5}).json["mentions"]
        assert len(site.post("/v1/link", {"mentions": ["DM"] * 50}).json["results"]) == 50
        texts = {"texts": ["배"] * 60, "embedding_types": ["int8", "binary"]}
        assert len(site.post("/v2/embed", texts).json["embeddings"]["int8"]) == 60
        ids = {"input": [[5] * 250] * 100 + [[10**6]], "tokenizer": "own"}
        assert site.post("/v1/embeddings", ids).json["error"]["code"] == "unknown_token"
    assert on_loop == []


def test_the_analyser_is_loaded_before_the_first_request(
    resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    analysed = list[str]()
    monkeypatch.setattr(morphemes, "available", lambda: True)
    monkeypatch.setattr(morphemes, "forms_of", lambda texts: analysed.extend(texts) or [])
    AppState(resources, ServerSettings()).warm()  # it has no corpus
    assert len(analysed) == 1
