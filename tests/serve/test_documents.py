"""Documents over a socket: passages, groups, filters, context, questions to try, and uploads."""

import base64
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest

from malmoi.client import Client
from malmoi.corpus import Corpus, keywords
from malmoi.errors import OptionError
from malmoi.serve.api_keys import make_key
from malmoi.serve.routes.corpora import safe_name
from malmoi.serve.settings import Limits, ServerSettings, Uploads
from malmoi.serve.state import AppState, Resources, load_resources
from malmoi.text import morphemes
from tests.support.company import FILES
from tests.support.servers import Answer, Served, serving, wait_for

POLICY = "# 보안 규정\n\n## 비밀번호\n\n비밀번호는 90일마다 바꾼다. PX-77을 쓴다.\n"


@pytest.fixture(scope="module")
def filed(resources: Resources, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Resources]:
    """The tiny models, and the documents of a company."""
    folder = tmp_path_factory.mktemp("company")
    for name, text in FILES.items():
        (folder / "docs" / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / "docs" / name).write_text(text, encoding="utf-8")
    corpus = Corpus.open(folder / "company.malmoi", resources.encoder, words="bigrams")
    corpus.sync(folder / "docs")
    yield Resources(resources.encoder, resources.reranker, {"company": corpus})


@pytest.fixture(scope="module")
def site(filed: Resources) -> Iterator[Served]:
    """A server that takes files."""
    with serving(filed, ServerSettings(uploads=Uploads(files=3, bytes=200_000))) as served:
        yield served


def search(site: Served, query: str, **options: Any) -> Any:
    answer = site.post("/v1/search", {"query": query, "mode": "keyword"} | options)
    assert answer.status == 200, answer.body
    return answer.json


def upload(
    site: Served, files: dict[str, str | bytes], corpus: str = "company", **headers: str
) -> Answer:
    coded = {
        name: base64.b64encode(text if isinstance(text, bytes) else text.encode()).decode()
        for name, text in files.items()
    }
    listed = [{"name": name, "content": content} for name, content in coded.items()]
    return site.post("/v1/documents", {"corpus": corpus, "files": listed}, **headers)


def test_a_hit_is_a_passage_of_a_document(site: Served) -> None:
    [first, *_] = search(site, "진단서 병가")["hits"]
    assert first["id"] == "인사/휴가 규정.md" and first["title"] == "휴가 규정"
    assert first["headings"][-1] == "병가" and first["type"] == "md" and first["page"] is None
    assert "진단서" in first["text"] and "진단서" in first["snippet"]
    start, end = first["snippet_matches"][0]
    assert first["snippet"][start:end] in ("진단서", "병가")
    assert first["modified"] > 0 and "keyword" in first["scores"]
    assert str(Path.cwd().anchor + "tmp") not in json.dumps(first)  # no path of the server's


def test_documents_with_their_passages_and_pages_of_them(site: Served) -> None:
    whole = search(site, "회사에서 쓴다", mode="hybrid", group=True, k=100)
    assert whole["hits"] == [] and whole["next_offset"] is None
    ids = [one["id"] for one in whole["groups"]]
    assert len(set(ids)) == len(ids) > 6
    assert all(1 <= len(one["hits"]) <= 3 for one in whole["groups"])
    assert all(hit["id"] == one["id"] for one in whole["groups"] for hit in one["hits"])
    scores = [one["score"] for one in whole["groups"]]
    assert scores == sorted(scores, reverse=True)
    pages, offset = [], 0
    while offset is not None:
        found = search(site, "회사에서 쓴다", mode="hybrid", group=True, k=4, offset=offset)
        pages += [one["id"] for one in found["groups"]]
        offset = found["next_offset"]
    assert pages == ids
    [group] = search(site, "회사에서 쓴다", mode="hybrid", group=True, k=1, passages=1)["groups"]
    assert group["id"] == ids[0] and len(group["hits"]) == 1
    hits = search(site, "회사에서 쓴다", mode="hybrid", k=5)["hits"]
    later = search(site, "회사에서 쓴다", mode="hybrid", k=3, offset=2)["hits"]
    assert [hit["text"] for hit in later] == [hit["text"] for hit in hits[2:]]


@pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning")  # the tiny model reads little
def test_reranked_documents_know_their_place_before(site: Served) -> None:
    found = search(site, "휴가 신청", mode="hybrid", group=True, rerank=True, k=4)
    assert sorted(one["rank_after"] for one in found["before"])[0] >= 1
    ranks = {one["id"]: i for i, one in enumerate(found["before"], start=1)}
    for one in found["groups"]:
        assert one["rank_before"] == ranks.get(one["id"], one["rank_before"])
        assert "rerank" in one["hits"][0]["scores"]


def test_folders_and_types_are_filtered(site: Served) -> None:
    folders = {name.partition("/")[0] for name in FILES if "/" in name}
    folder = sorted(folders)[0]
    for given in (folder, f"{folder}/"):
        hits = search(site, "회사", mode="dense", folder=given, k=50)["hits"]
        assert hits and all(hit["id"].startswith(f"{folder}/") for hit in hits)
    hits = search(site, "회사", mode="dense", type="md", k=50)["hits"]
    assert {hit["type"] for hit in hits} == {"md"}
    assert search(site, "회사", mode="dense", type="pdf")["hits"] == []
    refused = site.post("/v1/search", {"query": "   "})
    assert refused.status == 400 and refused.json["error"]["code"] == "empty_query"


def test_a_passage_in_its_context(site: Served) -> None:
    body = {"id": "인사/휴가 규정.md", "number": 1, "count": 1, "query": "결혼"}
    found = site.post("/v1/passages", body).json
    assert [one["number"] for one in found["passages"]] == [0, 1, 2]
    middle = found["passages"][1]
    start, end = middle["matches"][0]
    assert middle["text"][start:end] == "결혼" and found["title"] == "휴가 규정"
    assert not found["more_before"] and not found["more_after"]
    assert site.post("/v1/passages", body | {"count": 0}).json["more_before"]
    gone = site.post("/v1/passages", body | {"id": "인사/없다.md"})
    assert gone.status == 404 and gone.json["error"]["code"] == "passage_not_found"


def test_a_corpus_is_described_with_questions_that_find_their_document(site: Served) -> None:
    found = site.post("/v1/corpus", {"corpus": "company"}).json
    assert found["documents"] >= len(FILES) and found["passages"] > found["documents"]
    counts = {one["name"]: one["documents"] for one in found["folders"]}
    assert counts["인사"] == sum(name.startswith("인사/") for name in FILES)
    assert sum(one["documents"] for one in found["types"]) == found["documents"]
    assert found["questions"]
    for question in found["questions"]:
        [first] = search(site, question, mode="hybrid", k=1)["hits"]
        words = set(question.replace("?", "").split())
        shown = f"{first['title']} {' '.join(first['headings'])} {first['text']}"
        assert words & set(shown.split())


def test_questions_are_asked_in_the_language_of_the_page(site: Served) -> None:
    for lang, words in (("ko", "에 대해 어떻게 나와 있나요?"), ("en", "What does it say about")):
        questions = site.post("/v1/corpus", {"corpus": "company", "lang": lang}).json["questions"]
        assert questions and all(words in one for one in questions)


def test_a_client_reads_hits_and_documents(site: Served, filed: Resources) -> None:
    client = Client(site.url)
    here = filed.corpora["company"].search("진단서 병가", 3, mode="keyword")
    there = client.search("진단서 병가", 3, mode="keyword")
    assert [hit.key for hit in there] == [hit.key for hit in here]
    assert there[0].headings == here[0].headings and there[0].snippet == here[0].snippet
    documents = client.search_documents("진단서 병가", 2, mode="keyword")
    assert documents[0].id == here[0].id and documents[0].title == "휴가 규정"
    client.close()


def test_files_are_uploaded_replaced_and_found(site: Served, filed: Resources) -> None:
    before = len(filed.corpora["company"])
    rows = "질문,답변\n주차는 어디에 하나요,지하 2층에 한다\n식당은 언제 여나요,열한 시에 연다\n"
    answer = upload(site, {"C:\\Users\\kim\\보안 규정.md": POLICY, "faq.csv": rows})
    assert answer.status == 200 and "kim" not in answer.body.decode()
    policy, table = answer.json["files"]
    assert policy == {"name": "보안 규정.md", "id": "uploads/보안 규정.md", "documents": 1} | {
        "passages": 1,
        "error": None,
    }
    assert table["documents"] == 2 and answer.json["documents"] == before + 3
    [hit, *_] = search(site, "PX-77")["hits"]
    assert hit["id"] == "uploads/보안 규정.md" and hit["title"] == "보안 규정"
    stored = filed.corpora["company"].get("uploads/보안 규정.md")
    assert stored is not None and stored.source == "uploads/보안 규정.md"
    assert search(site, "비밀번호", folder="uploads")["hits"]
    # The same name again replaces it, and takes away rows that are gone.
    shorter = rows.rsplit("\n", 2)[0] + "\n"
    answer = upload(site, {"보안 규정.md": POLICY.replace("PX-77", "QZ-88"), "faq.csv": shorter})
    assert answer.json["documents"] == before + 2
    assert search(site, "QZ-88")["hits"]
    assert all("PX-77" not in hit["text"] for hit in search(site, "PX-77")["hits"])


def test_a_sync_leaves_uploads_alone(site: Served, filed: Resources, tmp_path: Path) -> None:
    upload(site, {"kept.txt": "연구소 소식지를 올린다."})
    (tmp_path / "uploads").mkdir()
    (tmp_path / "uploads/kept.txt").write_text("같은 이름의 다른 글이다.", encoding="utf-8")
    corpus = filed.corpora["company"]
    corpus.sync(tmp_path)
    own = corpus.get("uploads/kept.txt")
    assert own is not None and "소식지" in own.text
    assert any("다른 글" in hit.text for hit in corpus.search("같은 이름의 다른 글", 3))


def test_what_cannot_be_read_is_named_and_the_rest_is_taken(site: Served) -> None:
    broken = {"bad.pdf": b"%PDF-1.4 nothing", "empty.txt": "", "good.txt": "좋은 글이다."}
    found = upload(site, broken).json["files"]
    assert [bool(one["error"]) for one in found] == [True, True, False]
    for one in found[:2]:
        assert one["name"] in one["error"] and "/" not in one["error"].replace("http://", "")
    listed = [{"name": "a.txt", "content": "no base64!"}]
    [one] = site.post("/v1/documents", {"corpus": "company", "files": listed}).json["files"]
    assert "damaged" in one["error"]


def empty(resources: Resources, folder: Path, name: str = "company") -> Resources:
    """The tiny model with a new corpus, which its server closes."""
    corpus = Corpus.open(folder / f"{name}.malmoi", resources.encoder, words="bigrams")
    return Resources(resources.encoder, None, {name: corpus})


def test_uploads_are_refused_beyond_their_limits(
    site: Served, resources: Resources, tmp_path: Path
) -> None:
    many = upload(site, {f"{i}.txt": "글" for i in range(4)})
    assert many.status == 413 and many.json["error"]["code"] == "too_many_files"
    large = upload(site, {"a.txt": "a" * 210_000})
    assert large.status == 413 and large.json["error"]["code"] == "upload_too_large"
    assert upload(site, {"a.txt": "글"}, corpus="other").status == 404
    small = ServerSettings(uploads=Uploads(characters=10, documents=1_000))
    with serving(empty(resources, tmp_path), small) as strict:
        [one] = upload(strict, {"a.txt": "열 글자보다 훨씬 더 긴 글이다."}).json["files"]
        assert "10 characters" in one["error"] and "malmoi index" in one["error"]
    with serving(empty(resources, tmp_path), ServerSettings(uploads=Uploads(documents=1))) as full:
        upload(full, {"first.txt": "글이다."})
        [one] = upload(full, {"a.txt": "글이다."}).json["files"]
        assert "take uploads" in one["error"]


def test_an_upload_that_takes_too_long_leaves_nothing(resources: Resources, tmp_path: Path) -> None:
    limits = Limits(seconds=0.3)
    rows = "\n\n".join(f"{i}번째 글이다. 서로 다른 글 {i}을 쓴다." for i in range(20_000))
    new = empty(resources, tmp_path)
    settings = ServerSettings(uploads=Uploads(), limits=limits)
    with serving(new, settings) as site:
        late = upload(site, {"long.txt": rows})
        assert late.status == 413 and late.json["error"]["code"] == "upload_too_slow"
        wait_for(lambda: not site.state.engine._pooled["upload"])
        assert len(new.corpora["company"]) == 0


def test_uploads_are_off_by_default_and_ask_for_the_key(
    resources: Resources, tmp_path: Path
) -> None:
    with serving(empty(resources, tmp_path)) as closed:
        refused = upload(closed, {"a.txt": "글이다."})
        assert refused.status == 403 and "--allow-upload" in refused.json["error"]["message"]
        assert closed.get("/v1/info").json["uploads"] is None
    key = make_key("reader", tmp_path / "keys")
    settings = ServerSettings(keys=tmp_path / "keys", uploads=Uploads())
    with serving(empty(resources, tmp_path), settings) as locked:
        assert upload(locked, {"a.txt": "글이다."}).status == 401
        taken = upload(locked, {"a.txt": "글이다."}, authorization=f"Bearer {key}")
        assert taken.json["files"][0]["error"] is None
    with pytest.raises(OptionError, match="without keys"):
        ServerSettings(host="0.0.0.0", uploads=Uploads())


def test_names_of_uploads_are_made_safe() -> None:
    assert safe_name("../../etc/passwd") == "passwd"
    assert safe_name("..") == safe_name("/") == safe_name("\x00") == "file"
    assert safe_name(".bashrc") == "bashrc"
    assert safe_name("a\u202efdp.exe\n.txt") == "afdp.exe .txt"
    assert (
        len(safe_name("가" * 500 + ".docx")) == 120
        and safe_name("가" * 500 + ".docx")[-5:] == ".docx"
    )


def test_a_corpus_to_upload_into_is_made(
    bundle: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("malmoi.corpus.writer.default_words", lambda: "bigrams")  # quick to load
    path = tmp_path / "new.malmoi"
    resources = load_resources(bundle, reranker="none", corpora=[path], samples=False, create=True)
    with serving(resources, ServerSettings(uploads=Uploads())) as site:
        assert site.post("/v1/corpus", {}).json["questions"] == []
        assert upload(site, {"a.txt": "the cat sleeps."}, corpus="new").json["documents"] == 1
        assert search(site, "cat")["hits"][0]["id"] == "uploads/a.txt"


def test_a_server_is_warm_before_it_is_ready(
    resources: Resources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The analyser is asked although the empty corpus could be searched without it."""
    asked: list[bool] = []

    class Analyser:
        def tokenize(self, texts: Iterable[str]) -> list[list[object]]:
            asked.append(True)
            return [[] for _ in texts]

    monkeypatch.setattr(morphemes, "_kiwi", Analyser)
    monkeypatch.setattr(keywords.word_cache, "_known", {})
    with Corpus.open(tmp_path / "a.malmoi", resources.encoder, words="word-morphemes") as corpus:
        AppState(Resources(resources.encoder, None, {"a": corpus}), ServerSettings()).warm()
    assert asked
