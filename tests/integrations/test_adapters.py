"""The adapters with the real libraries: their vectors and orders are those of the direct call."""

import asyncio
import json
import logging
import os
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi.linking import Linker
from tests.support import ROOT, graphs

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
pytestmark = pytest.mark.filterwarnings("ignore")
TEXTS = ["the cat sleeps", "배가 아프다", "patient has diabetes"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("models")


@pytest.fixture(scope="module")
def encoder(folder: Path) -> malmoi.TextEncoder:
    return malmoi.load(graphs.write_bundle(folder / "tiny"))


@pytest.fixture(scope="module")
def reranker(folder: Path) -> malmoi.Reranker:
    return malmoi.load_reranker(graphs.write_reranker(folder / "tiny-reranker"))


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
    assert best.page_content == TEXTS[2] and best.metadata == {"n": 2}
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
    assert MalmoiVectorizer(encoder, dim=4).fit_transform(TEXTS).shape == (3, 4)
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
            assert wrong.is_error
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
    folder: Path, encoder: malmoi.TextEncoder, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        model = malmoi.SentenceTransformer(folder / "tiny", device="cuda")
        malmoi.SentenceTransformer(folder / "tiny", device="cuda")
    assert caplog.text.count("device has no effect") == 1
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
    for wrong in ({"convert_to_tensor": True}, {"prompt_name": "x"}, {"output_value": None}):
        with pytest.raises(malmoi.OptionError):
            model.encode(TEXTS, **wrong)
    with pytest.raises(TypeError):
        model.encode(TEXTS, normalise=True)


def test_cross_encoder(folder: Path, reranker: malmoi.Reranker) -> None:
    model = malmoi.CrossEncoder(folder / "tiny-reranker")
    pairs = [("cat", text) for text in TEXTS]
    np.testing.assert_allclose(model.predict(pairs), reranker.score(pairs), atol=1e-6)
    assert model.predict(pairs[0]) == pytest.approx(float(reranker.score(pairs[:1])[0]))
    found = model.rank("cat", TEXTS, top_k=2, return_documents=True)
    assert [(one["corpus_id"], one["text"]) for one in found] == [
        (one.index, one.text) for one in reranker.rank("cat", TEXTS, k=2)
    ]


def test_names_are_listed_and_come_late() -> None:
    assert set(malmoi.__all__) <= set(dir(malmoi))
    assert malmoi.SentenceTransformer.__module__ == "malmoi.integrations.drop_in"


@pytest.mark.slow
def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs/integrations.md").read_text("utf-8")
    names: dict[str, Any] = {}
    for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
        exec(compile(block, "integrations.md", "exec"), names)
    assert names["kept"][0].page_content.startswith("환불")
    assert names["best"][0]["corpus_id"] == 0 and len(names["documents"][0].embedding) > 100
    names["corpus"].close()


@pytest.mark.slow
def test_the_mcp_command(folder: Path, corpus: malmoi.Corpus) -> None:
    """Over stdin and stdout, as an assistant starts it."""
    import mcp

    given = ["-m", "malmoi", "mcp", "--corpus", "own.malmoi", "--model", "tiny"]
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
