"""The adapters with the real libraries: their vectors and orders are those of the direct call."""

import asyncio
import importlib
import json
import logging
import os
import re
import sys
import time
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi.integrations import sentence_transformers as drop_in
from malmoi.integrations import sentence_transformers as stand_ins
from malmoi.terms import Linker
from tests.support import ROOT, graphs

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = ["the cat sleeps", "배가 아프다", "patient has diabetes"]


def cosines(found: Any, expected: Any) -> Any:
    """The cosine of each vector with the one that was expected."""
    rows, others = (np.asarray(one, dtype=np.float64) for one in (found, expected))
    assert rows.shape == others.shape
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(others, axis=1)
    return (rows * others).sum(axis=1) / lengths


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> malmoi.TextEncoder:
    return malmoi.load(graphs.write_bundle(folder / "tiny"))


@pytest.fixture(scope="module")
def reranker(folder: Path) -> malmoi.Reranker:
    return malmoi.load(graphs.write_reranker(folder / "tiny-reranker"))


@pytest.fixture(scope="module")
def corpus(folder: Path, encoder: malmoi.TextEncoder) -> Any:
    with malmoi.Corpus.open(folder / "own.malmoi", encoder) as made:
        made.add({"id": str(i), "text": text, "n": i} for i, text in enumerate(TEXTS))
        yield made


def test_langchain(
    encoder: malmoi.TextEncoder, reranker: malmoi.Reranker, corpus: malmoi.Corpus, tmp_path: Path
) -> None:
    from malmoi.integrations.langchain import (
        CorpusVectorStore,
        Document,
        MalmoiEmbeddings,
        MalmoiReranker,
    )

    embeddings = MalmoiEmbeddings(encoder)
    np.testing.assert_allclose(embeddings.embed_documents(TEXTS), encoder.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(embeddings.embed_query("cat"), encoder.encode("cat"), atol=1e-6)
    found = CorpusVectorStore(corpus).as_retriever(search_kwargs={"k": 2}).invoke("the cat")
    assert [one.id for one in found] == [hit.id for hit in corpus.search("the cat", 2)]
    store = CorpusVectorStore.from_texts(
        TEXTS, embeddings, [{"n": i} for i in range(3)], path=tmp_path / "own.malmoi"
    )
    [best] = store.similarity_search("diabetes", 1, filter={"n": 2})
    assert best.page_content == TEXTS[2] and best.metadata == {"n": 2, "passage": 0}
    assert store.get_by_ids([str(best.id)])[0].page_content == TEXTS[2]
    assert store.delete([str(best.id)]) and len(store.corpus) == 2
    assert store.add_texts(["dog"], ids=["d"]) == ["d"]
    with pytest.raises(TypeError):
        store.similarity_search("cat", 1, fliter={})  # a misspelt option is not ignored
    store.corpus.close()
    documents = [Document(page_content=text) for text in TEXTS]
    kept = MalmoiReranker(model=reranker, top_n=2).compress_documents(documents, "cat")
    expected = reranker.rank("cat", TEXTS, k=2)
    assert [one.page_content for one in kept] == [one.text for one in expected]
    assert kept[0].metadata["relevance_score"] == expected[0].score


def test_langchain_finds_passages_by_relevance_and_by_difference(
    encoder: malmoi.TextEncoder, tmp_path: Path
) -> None:
    from malmoi.integrations.langchain import CorpusVectorStore

    text = "# The cat\n\n## Sleep\n\nthe cat sleeps\n\n## Food\n\nthe dog and the cat\n"
    (tmp_path / "pets.md").write_text(text, "utf-8")
    with malmoi.Corpus.open(tmp_path / "own.malmoi", encoder, words="bigrams") as corpus:
        corpus.sync(tmp_path / "pets.md")
        corpus.add({"id": str(i), "text": "the cat sleeps", "n": i} for i in range(3))
        store = CorpusVectorStore(corpus)
        passages = store.similarity_search("the cat", 9, filter={"type": "md"})
        assert len({one.id for one in passages}) == len(passages) == 2
        one = {one.metadata["passage"]: one for one in passages}[1]
        assert one.id == "pets.md#passage=1" and one.metadata["headings"][-1] == "Food"
        assert one.metadata["title"] == "The cat" and one.metadata["source"].endswith("pets.md")
        # As good as the threshold, and no others.
        scored = store.similarity_search_with_relevance_scores("the cat sleeps", 5)
        scores = sorted({score for _, score in scored}, reverse=True)
        assert 0 <= scores[-1] < scores[0] <= 1
        wanted = {"score_threshold": scores[0], "k": 5}
        retriever = store.as_retriever(
            search_type="similarity_score_threshold", search_kwargs=wanted
        )
        best = {document.id for document, score in scored if score == scores[0]}
        assert {one.id for one in retriever.invoke("the cat sleeps")} == best
        [(_, alone)] = store.similarity_search_with_relevance_scores("the cat", 1, mode="keyword")
        assert 0 <= alone <= 1
        # Three texts are the same: by similarity they come first, by difference only one of them.
        wanted = {"k": 2, "fetch_k": 5, "lambda_mult": 0.0}
        mixed = store.as_retriever(search_type="mmr", search_kwargs=wanted).invoke("the cat sleeps")
        assert len({one.page_content for one in mixed}) == 2
        assert store.max_marginal_relevance_search("cat", filter={"n": 9}) == []


def test_llama_index(
    encoder: malmoi.TextEncoder, reranker: malmoi.Reranker, corpus: malmoi.Corpus
) -> None:
    from llama_index.core.schema import QueryBundle

    from malmoi.integrations.llama_index import CorpusRetriever, MalmoiEmbedding, MalmoiRerank

    model = MalmoiEmbedding(encoder)
    rows = model.get_text_embedding_batch(TEXTS)
    np.testing.assert_allclose(rows, encoder.encode(TEXTS), atol=1e-6)
    np.testing.assert_allclose(model.get_query_embedding("cat"), encoder.encode("cat"), atol=1e-6)
    nodes = CorpusRetriever(corpus, k=3).retrieve("the cat")
    assert [one.text for one in nodes] == [hit.text for hit in corpus.search("the cat", 3)]
    kept = MalmoiRerank(reranker, top_n=2).postprocess_nodes(nodes, QueryBundle("cat"))
    expected = reranker.rank("cat", [one.text for one in nodes], k=2)
    assert [one.text for one in kept] == [one.text for one in expected]


def test_chroma(folder: Path, encoder: malmoi.TextEncoder, tmp_path: Path) -> None:
    import chromadb

    from malmoi.integrations.chroma import MalmoiEmbeddingFunction

    prompts = {"query": "the ", "document": "dog "}
    prompted = malmoi.load(graphs.write_bundle(folder / "prompted", prompts=prompts))
    quiet = chromadb.Settings(anonymized_telemetry=False)
    client = chromadb.PersistentClient(tmp_path / "chroma", quiet)
    for name, model in (("tiny", encoder), ("prompted", prompted)):
        function = MalmoiEmbeddingFunction(str(folder / name))
        made = client.create_collection(name, embedding_function=function)
        made.add(ids=["0", "1", "2"], documents=TEXTS)
        opened = client.get_collection(name)  # by the model that it was made with
        stored = opened.get(include=["embeddings"])["embeddings"]
        passages = model.encode(TEXTS, prompt="document" if name == "prompted" else None)
        assert cosines(stored, passages).min() >= 0.9999
        found = opened.query(query_texts=["cat"], n_results=3)
        query = model.encode("cat", prompt="query" if name == "prompted" else None)
        scores = passages @ query
        order = np.argsort(-scores)
        assert found["ids"][0] == [str(i) for i in order]
        np.testing.assert_allclose(found["distances"][0], 1 - scores[order], atol=1e-4)
    config = MalmoiEmbeddingFunction(str(folder / "tiny")).get_config()
    with pytest.raises(malmoi.errors.OptionError, match="another model"):
        MalmoiEmbeddingFunction.build_from_config(config | {"model": str(folder / "prompted")})


def test_lancedb(folder: Path, encoder: malmoi.TextEncoder, tmp_path: Path) -> None:
    import lancedb
    from lancedb.embeddings import get_registry
    from lancedb.pydantic import LanceModel, Vector

    from malmoi.integrations.lancedb import LanceDBEmbeddingFunction

    assert get_registry().get("malmoi") is LanceDBEmbeddingFunction
    function = get_registry().get("malmoi").create(name=str(folder / "tiny"))

    class Row(LanceModel):
        text: str = function.SourceField()
        vector: Vector(function.ndims()) = function.VectorField()  # type: ignore[valid-type]

    database = lancedb.connect(tmp_path / "lance")
    database.create_table("texts", schema=Row).add([{"text": text} for text in TEXTS])
    table = database.open_table("texts")  # the function is made again from what the table keeps
    stored = table.to_arrow().to_pydict()
    assert cosines(stored["vector"], encoder.encode(stored["text"])).min() >= 0.9999
    found = table.search("cat").distance_type("cosine").limit(3).to_list()
    scores = encoder.similarity("cat", TEXTS)
    assert [one["text"] for one in found] == [TEXTS[i] for i in np.argsort(-scores)]
    kept = function.safe_model_dump()
    with pytest.raises(ValueError, match="another model"):
        get_registry().get("malmoi").create(**kept | {"revision": "other"})
    with pytest.raises(ValueError):
        get_registry().get("malmoi").create(nmae="tiny")


def test_mteb(folder: Path, encoder: malmoi.TextEncoder) -> None:
    """Two tasks made here: nothing is downloaded, and the results are those of the vectors."""
    import mteb
    from datasets import Dataset, DatasetDict
    from mteb.abstasks import AbsTaskRetrieval, AbsTaskSTS
    from scipy.stats import spearmanr

    from malmoi.integrations.mteb import MalmoiEncoder

    about: dict[str, Any] = {
        "dataset": {"path": "none", "revision": "1"}, "description": "", "eval_splits": ["test"],
        "eval_langs": ["kor-Hang"], "modalities": ["text"], "date": None, "domains": None,
        "license": None, "annotations_creators": None, "dialect": None, "sample_creation": None,
        "bibtex_citation": "",
    }  # fmt: skip
    gold = [5.0, 1.0, 3.0]

    class STS(AbsTaskSTS):
        metadata = mteb.TaskMetadata(
            name="OwnSTS", type="STS", category="t2t", main_score="cosine_spearman", **about
        )

        def load_data(self, **options: Any) -> None:
            rows = {"sentence1": TEXTS, "sentence2": TEXTS[::-1], "score": gold}
            self.dataset = DatasetDict(test=Dataset.from_dict(rows))
            self.data_loaded = True

    class Retrieval(AbsTaskRetrieval):
        metadata = mteb.TaskMetadata(
            name="OwnRetrieval", type="Retrieval", category="t2t", main_score="ndcg_at_10", **about
        )

        def load_data(self, **options: Any) -> None:
            texts = Dataset.from_dict({"id": ["0", "1", "2"], "text": TEXTS, "title": [""] * 3})
            queries = Dataset.from_dict({"id": ["q"], "text": ["cat"]})
            judged = {"q": {str(i): int(i == best) for i in range(3)}}
            split = {"corpus": texts, "queries": queries, "relevant_docs": judged}
            self.dataset = {"default": {"test": {**split, "top_ranked": None}}}
            self.data_loaded = True

    prompts = {"query": "the ", "passage": "dog "}
    prompted = malmoi.load(graphs.write_bundle(folder / "for-mteb", prompts=prompts))
    passages = prompted.encode(TEXTS, prompt="passage")
    best = int(np.argmin(passages @ prompted.encode("cat", prompt="query")))
    model = MalmoiEncoder(prompted)
    options: dict[str, Any] = {"cache": None, "co2_tracker": False, "show_progress_bar": False}
    found = mteb.evaluate(model, [STS(), Retrieval()], **options)
    scores = {one.task_name: one.get_score() for one in found.task_results}
    left, right = prompted.encode(TEXTS), prompted.encode(TEXTS[::-1])
    assert scores["OwnSTS"] == pytest.approx(spearmanr(gold, (left * right).sum(axis=1))[0])
    assert scores["OwnRetrieval"] == pytest.approx(1 / np.log2(4), abs=1e-4)  # the last of three
    assert model.mteb_model_meta.name == f"malmoi/{prompted.name}"
    assert model.mteb_model_meta.revision != MalmoiEncoder(encoder).mteb_model_meta.revision


def test_haystack(
    encoder: malmoi.TextEncoder, reranker: malmoi.Reranker, corpus: malmoi.Corpus
) -> None:
    from haystack import Document, Pipeline

    from malmoi.integrations.haystack import (
        MalmoiDocumentEmbedder,
        MalmoiRanker,
        MalmoiRetriever,
        MalmoiTextEmbedder,
    )

    row = MalmoiTextEmbedder(encoder).run(text="cat")["embedding"]
    np.testing.assert_allclose(row, encoder.encode("cat"), atol=1e-6)
    documents = [Document(content=text) for text in TEXTS]
    rows = [one.embedding for one in MalmoiDocumentEmbedder(encoder).run(documents)["documents"]]
    np.testing.assert_allclose(rows, encoder.encode(TEXTS), atol=1e-6)
    pipeline = Pipeline()
    pipeline.add_component("retriever", MalmoiRetriever(corpus, top_k=3))
    pipeline.add_component("ranker", MalmoiRanker(reranker, top_k=2))
    pipeline.connect("retriever.documents", "ranker.documents")
    found = pipeline.run({"retriever": {"query": "the cat"}, "ranker": {"query": "cat"}})
    hits = [hit.text for hit in corpus.search("the cat", 3)]
    expected = [one.text for one in reranker.rank("cat", hits, k=2)]
    assert [one.content for one in found["ranker"]["documents"]] == expected


def test_scikit_learn(encoder: malmoi.TextEncoder) -> None:
    from sklearn.base import clone
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.pipeline import make_pipeline

    from malmoi.integrations.sklearn import MalmoiVectorizer

    made = make_pipeline(MalmoiVectorizer(encoder), KNeighborsClassifier(1))
    assert made.fit(TEXTS, [0, 1, 2]).predict(TEXTS).tolist() == [0, 1, 2]
    rows = MalmoiVectorizer(encoder).fit_transform(TEXTS)
    np.testing.assert_allclose(rows, encoder.encode(TEXTS), atol=1e-6)
    rows = MalmoiVectorizer(encoder, dim=4).fit_transform(TEXTS)
    np.testing.assert_allclose(rows, encoder.encode(TEXTS, dim=4), atol=1e-6)
    assert clone(MalmoiVectorizer("tiny", dim=4)).dim == 4


def test_mcp(encoder: malmoi.TextEncoder, corpus: malmoi.Corpus) -> None:
    import mcp

    from malmoi.integrations.mcp import make_server

    linker = Linker("sample", encoder)
    server = make_server(encoder, {"own": corpus}, {"sample": linker})

    async def ask() -> list[Any]:
        async with mcp.Client(server) as client:
            tools = {one.name for one in (await client.list_tools()).tools}
            assert tools == {"search", "link", "similarity"}
            wrong = await client.call_tool("search", {"query": "cat", "corpus": "other"})
            assert wrong.is_error and "no such corpus; expected one of: own" in str(wrong.content)
            wanted = {"query": "cat", "filter": ["n>=1", "n<2"]}
            [only] = (await client.call_tool("search", wanted)).structured_content["result"]
            assert only["id"] == "1" and only["passage"] == 0 and only["headings"] == []
            for given in (["cat"] * 257, [-1] * 1_000_000, ["a" * 200_001], []):
                began = time.process_time()
                refused = await client.call_tool("similarity", {"a": given, "b": ["dog"]})
                assert refused.is_error and len(str(refused.content)) < 1000
                assert time.process_time() - began < 2
            return [
                (await client.call_tool(name, given)).structured_content["result"]
                for name, given in (
                    ("search", {"query": "the cat", "k": 2}),
                    ("link", {"mention": "DM", "k": 2}),
                    ("similarity", {"a": ["cat"], "b": ["dog"]}),
                )
            ]

    hits, candidates, scores = asyncio.run(ask())
    assert [one["id"] for one in hits] == [hit.id for hit in corpus.search("the cat", 2)]
    expected = [one.code for one in linker.link("DM", k=2).candidates]
    assert [one["code"] for one in candidates] == expected
    assert scores[0][0] == pytest.approx(encoder.similarity("cat", "dog"), abs=1e-3)
    assert json.dumps(hits, ensure_ascii=False)


def test_sentence_transformer(
    folder: Path,
    encoder: malmoi.TextEncoder,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    placed: list[str | None] = []

    def load(path: Path, *, device: str | None) -> malmoi.TextEncoder:
        placed.append(device)
        return malmoi.load(path)

    monkeypatch.setattr(drop_in, "load", load)
    with caplog.at_level(logging.WARNING):
        model = stand_ins.SentenceTransformer(folder / "tiny", device="cuda")
        stand_ins.SentenceTransformer(folder / "tiny", device="cuda")
    assert caplog.text.count("device has no effect") == 1
    assert placed == [None, None]
    stand_ins.SentenceTransformer(folder / "tiny", device="cpu")
    monkeypatch.setattr(drop_in, "usable_devices", lambda: ["cuda", "cpu"])
    stand_ins.SentenceTransformer(folder / "tiny", device="cuda:0")
    assert placed[2:] == ["cpu", "cuda"]
    found = model.encode(TEXTS, batch_size=8, show_progress_bar=False, normalize_embeddings=True)
    np.testing.assert_allclose(found, encoder.encode(TEXTS), atol=1e-6)
    assert model.encode("cat").shape == (16,) and model.get_sentence_embedding_dimension() == 16
    assert model.encode(TEXTS, truncate_dim=4).shape == (3, 4)
    assert isinstance(model.encode(TEXTS, convert_to_numpy=False), list)
    prompted = model.encode(TEXTS, prompt="the ")
    np.testing.assert_allclose(prompted, encoder.encode([f"the {t}" for t in TEXTS]), atol=1e-6)
    np.testing.assert_allclose(model.encode_query("cat"), encoder.encode("cat"), atol=1e-6)
    expected = encoder.similarity(TEXTS, TEXTS)
    np.testing.assert_allclose(model.similarity(found, found), expected, atol=1e-5)
    np.testing.assert_allclose(model.similarity_pairwise(found, found), np.ones(3), atol=1e-5)
    assert model.encode(inputs=TEXTS).shape == model.encode(sentences=TEXTS).shape == (3, 16)
    bits = encoder.encode(TEXTS, precision="binary")
    np.testing.assert_array_equal(model.encode(TEXTS, precision="ubinary"), bits)
    signed = model.encode(TEXTS, precision="binary")
    np.testing.assert_array_equal(signed, (bits.astype(int) - 128).astype(np.int8), strict=True)
    codes = model.encode(TEXTS, precision="uint8").astype(int) - 128
    np.testing.assert_array_equal(codes, encoder.encode(TEXTS, precision="int8"))
    model.max_seq_length = 12  # as it is
    with pytest.raises(malmoi.errors.OptionError, match="max_seq_length"):
        model.max_seq_length = 6
    own = stand_ins.SentenceTransformer(
        folder / "tiny", prompts={"query": "the ", "x": "dog "}, default_prompt_name="x",
        similarity_fn_name="dot", trust_remote_code=False, backend="onnx",
    )  # fmt: skip
    for found, prompt in ((own.encode_query(TEXTS), "the "), (own.encode_document(TEXTS), "dog ")):
        expected = encoder.encode([f"{prompt}{text}" for text in TEXTS])
        np.testing.assert_allclose(found, expected, atol=1e-6)
    np.testing.assert_allclose(own.similarity([[2.0, 0]], [[3.0, 1]]), [[6.0]])
    for wrong in ({"revision": "1"}, {"config_kwargs": {"a": 1}}, {"similarity_fn_name": "x"}):
        with pytest.raises(malmoi.errors.OptionError):
            stand_ins.SentenceTransformer(folder / "tiny", **wrong)
    for wrong in (
        {"convert_to_tensor": True}, {"prompt_name": "x"}, {"output_value": None},
        {"precision": "x"}, {"sentences": TEXTS},
    ):  # fmt: skip
        with pytest.raises(malmoi.errors.OptionError):
            model.encode(TEXTS, **wrong)
    with pytest.raises(TypeError):
        model.encode(TEXTS, normalise=True)


def test_cross_encoder(folder: Path, reranker: malmoi.Reranker) -> None:
    model = stand_ins.CrossEncoder(folder / "tiny-reranker")
    pairs = [("cat", text) for text in TEXTS]
    np.testing.assert_allclose(model.predict(pairs), reranker.score(pairs), atol=1e-6)
    assert model.predict(pairs[0]) == pytest.approx(float(reranker.score(pairs[:1])[0]))
    np.testing.assert_array_equal(model.predict(sentences=pairs), model.predict(inputs=pairs))
    for wrong in ({"max_length": 3}, {"num_labels": 7}, {"activation_fn": abs}):
        with pytest.raises(malmoi.errors.OptionError):
            stand_ins.CrossEncoder(folder / "tiny-reranker", **wrong)
    with pytest.raises(malmoi.errors.OptionError):
        model.rank("cat", TEXTS, activation_fn=abs)
    found = model.rank("cat", TEXTS, top_k=2, return_documents=True, batch_size=8)
    assert [(one["corpus_id"], one["text"]) for one in found] == [
        (one.index, one.text) for one in reranker.rank("cat", TEXTS, k=2)
    ]


@pytest.mark.parametrize(
    ("adapter", "package", "extra"),
    [
        ("langchain", "langchain_core", "langchain"), ("llama_index", "llama_index", "llama-index"),
        ("haystack", "haystack", "haystack"), ("chroma", "chromadb", "chroma"),
        ("lancedb", "lancedb", "lancedb"), ("mteb", "mteb", "mteb"), ("mcp", "mcp", "mcp"),
        ("sklearn", "sklearn", "clusters"),
    ],
)  # fmt: skip
def test_a_missing_package_names_its_extra(
    adapter: str, package: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [one for one in sys.modules if one.split(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, package, None)
    monkeypatch.delitem(sys.modules, f"malmoi.integrations.{adapter}", raising=False)
    with pytest.raises(malmoi.errors.MissingExtra, match=re.escape(f"malmoi[{extra}]")):
        importlib.import_module(f"malmoi.integrations.{adapter}")


def test_all_has_every_extra() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    extras = project["optional-dependencies"]
    [every] = extras.pop("all")
    assert set(every.removeprefix("malmoi[").removesuffix("]").split(",")) == set(extras)


def test_names_are_listed_and_come_late() -> None:
    assert set(malmoi.__all__) <= set(dir(malmoi))
    assert stand_ins.SentenceTransformer.__module__ == "malmoi.integrations.sentence_transformers"


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/integrations.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "integrations.md", "exec"), names)
    assert names["kept"][0].page_content.startswith("환불")
    assert names["best"][0]["corpus_id"] == 0 and len(names["documents"][0].embedding) > 100
    assert names["refund"]["ids"] == [["1"]] and names["nearest"][0]["text"].startswith("환불")
    names["corpus"].close()


@pytest.mark.slow
def test_the_mcp_command(folder: Path, corpus: malmoi.Corpus) -> None:
    """Over stdin and stdout, as an assistant starts it."""
    import mcp

    given = ["-m", "malmoi", "serve", "--mcp", "--corpus", "own.malmoi", "--model", "tiny"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
    command = mcp.StdioServerParameters(
        command=sys.executable, args=given, cwd=folder, env=environment
    )

    async def ask() -> Any:
        async with mcp.Client(command) as client:
            assert {one.name for one in (await client.list_tools()).tools} == {
                "search", "similarity"
            }  # fmt: skip
            found = await client.call_tool("search", {"query": "the cat", "k": 1})
            return found.structured_content["result"]

    assert asyncio.run(ask())[0]["id"] == corpus.search("the cat", 1)[0].id
