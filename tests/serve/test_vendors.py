"""Real client packages against a real server: the vectors are those of the direct call."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import numpy as np
import pytest

import malmoi
from malmoi.serve.state import Resources
from tests.support import graphs
from tests.support.servers import Served, serving

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"
TEXTS = ["the cat sleeps", "배가 아프다", "patient has diabetes"]
# Packages of others warn of each other's old names while they are imported.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(autouse=True)
def closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Close what the packages leave open: an unclosed socket is an error at the end of the run."""
    made: list[Any] = []
    for module in (httpx, httpx2):
        begin = module.Client.__init__

        def record(self: Any, *values: Any, begin: Any = begin, **options: Any) -> None:
            begin(self, *values, **options)
            made.append(self)

        monkeypatch.setattr(module.Client, "__init__", record)
    yield
    for one in made:
        one.close()


def same(found: Any, resources: Resources, texts: list[str] = TEXTS, **options: Any) -> None:
    """Check that vectors are the encoder's own: each cosine at least 0.9999."""
    rows = np.asarray(found, dtype=np.float64)
    expected = resources.encoder.encode(texts, **options).astype(np.float64)
    assert rows.shape == expected.shape
    lengths = np.linalg.norm(rows, axis=1) * np.linalg.norm(expected, axis=1)
    assert ((rows * expected).sum(axis=1) / lengths).min() >= 0.9999


def ranked(resources: Resources) -> list[tuple[int, float]]:
    """The order and scores of TEXTS that the reranker itself gives."""
    assert resources.reranker is not None
    scores = resources.reranker.score([("cat", text) for text in TEXTS])
    return [(int(i), float(scores[i])) for i in np.argsort(-scores)]


def test_openai(server: Served, resources: Resources) -> None:
    import openai

    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key="none", max_retries=0)
    same(
        [one.embedding for one in client.embeddings.create(model="tiny", input=TEXTS).data],
        resources,
    )
    assert client.models.retrieve("tiny").id == "tiny"
    assert client.models.retrieve("tiny-reranker").model_extra["kind"] == "reranker"
    assert [model.id for model in client.models.list()] == ["tiny", "tiny-reranker"]
    shorter = client.embeddings.create(
        model="tiny", input="배", dimensions=4, encoding_format="float"
    )
    assert len(shorter.data[0].embedding) == 4
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("other")
    with pytest.raises(openai.NotFoundError, match="served is tiny"):
        client.embeddings.create(model="text-embedding-3-small", input="배")


def test_langchain_openai_never_gets_a_wrong_vector(
    server: Served, resources: Resources, monkeypatch: pytest.MonkeyPatch
) -> None:
    import langchain_openai
    import openai
    import tiktoken

    # Its tables would be downloaded: one whose tokens are bytes gives ids that are foreign too.
    ranks = {bytes([i]): i for i in range(256)}
    table = tiktoken.Encoding("bytes", pat_str=".+", mergeable_ranks=ranks, special_tokens={})
    monkeypatch.setattr(tiktoken, "encoding_for_model", lambda name: table)

    options: dict[str, Any] = {
        "model": "tiny", "base_url": f"{server.url}/v1", "api_key": "none", "max_retries": 0
    }  # fmt: skip
    plain = langchain_openai.OpenAIEmbeddings(check_embedding_ctx_length=False, **options)
    same(plain.embed_documents(TEXTS), resources)
    same([plain.embed_query(TEXTS[1])], resources, TEXTS[1:2])
    with_defaults = langchain_openai.OpenAIEmbeddings(**options)
    for text in TEXTS:
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            with_defaults.embed_query(text)
    # The last one begins and ends as this model's ids do, and spells words that it knows.
    foreign = (
        [[1820, 8415, 72490]],
        [[5, 6, 7]],
        [[2, 5, 6]],
        [[2, 3]],
        [5, 6, 7],
        [[2, 18, 20, 3]],
    )
    for ids in foreign:
        with pytest.raises(openai.BadRequestError, match="check_embedding_ctx_length=False"):
            plain.client.create(input=ids, model="tiny")


def test_ids_are_taken_when_they_are_marked(server: Served, resources: Resources) -> None:
    encoder = resources.encoder
    assert isinstance(encoder, malmoi.Encoder)
    ids = encoder.token_ids(TEXTS)
    inner = [one[1:-1] for one in ids]
    for given in (ids, inner):  # special tokens are added where they are missing
        assert server.post("/v1/embeddings", {"input": given}).status == 400
        data = server.post("/v1/embeddings", {"input": given, "tokenizer": "own"}).json["data"]
        same([one["embedding"] for one in data], resources)
    long, unknown = [[5] * 11], [[encoder.vocabulary]]
    for given in (long, unknown):
        assert server.post("/v1/embeddings", {"input": given, "tokenizer": "own"}).status == 400


@pytest.mark.parametrize("field", ["truncate", "user", "input_type", "task", "prompt"])
def test_fields_of_neighbours(server: Served, field: str) -> None:
    given = {"truncate": "END", "user": "u", "input_type": "query", "task": "retrieval.passage"}
    assert server.post("/v1/embeddings", {"input": "cat", field: given.get(field)}).status == 200
    answer = server.post("/v1/embeddings", {"input": "cat", f"{field}s": "x"})
    assert answer.status == 422
    if field == "truncate":
        assert server.post("/v1/embeddings", {"input": "cat " * 40, field: "NONE"}).status == 413
        assert server.post("/v1/embeddings", {"input": "cat", field: "START"}).status == 400


def test_optional_fields_of_neighbours(server: Served, resources: Resources) -> None:
    """What Jina and vLLM take too is honoured, or refused where it cannot be."""
    for field, taken, refused in (
        ("normalized", True, False), ("normalize", True, False), ("late_chunking", False, True),
        ("truncate_prompt_tokens", -1, 3), ("truncate_prompt_tokens", 512, 0),
        ("add_special_tokens", True, False), ("priority", 3, "x"), ("embedding_type", "float", "x"),
    ):  # fmt: skip
        data = server.post("/v1/embeddings", {"input": TEXTS, field: taken}).json["data"]
        same([one["embedding"] for one in data], resources)
        answer = server.post("/v1/embeddings", {"input": TEXTS, field: refused})
        assert answer.status in (400, 422) and answer.json["error"]["param"] in (field, "normalize")
    for path, body in (("/rerank", {"query": "cat", "documents": TEXTS}),):
        assert server.post(path, body | {"truncate_prompt_tokens": -1, "priority": 1}).status == 200
        assert server.post(path, body | {"truncate_prompt_tokens": 1}).status == 400


def test_what_texts_are_for_picks_the_prompt(tmp_path: Path) -> None:
    prompts = {"query": "the ", "passage": "dog ", "clustering": "sea "}
    encoder = malmoi.load(graphs.write_bundle(tmp_path / "prompted", prompts=prompts))
    prompted = Resources(encoder)
    named = {"search_query": "query", "passage": "passage", "retrieval.query": "query"}
    named |= {"search_document": "passage", "clustering": "clustering", "classification": ""}
    with serving(prompted) as server:
        for purpose, prompt in named.items():
            for field in ("input_type", "task"):
                data = server.post("/v1/embeddings", {"input": TEXTS, field: purpose}).json["data"]
                same([one["embedding"] for one in data], prompted, prompt=prompt)
        body = {"texts": TEXTS, "input_type": "search_document"}
        for path in ("/v1/embed", "/v2/embed"):
            found = server.post(path, body).json["embeddings"]
            same(found if path == "/v1/embed" else found["float"], prompted, prompt="passage")
        body = {"inputs": TEXTS, "prompt_name": "query"}
        same(server.post("/embed", body).json, prompted, prompt="query")
        two = {"input": TEXTS, "input_type": "query", "prompt": "passage"}
        assert server.post("/v1/embeddings", two).status == 400
        ids = {"input": [[2, 18, 20, 3]], "input_type": "query", "tokenizer": "own"}
        assert server.post("/v1/embeddings", ids).status == 400


def test_cohere(server: Served, resources: Resources) -> None:
    import cohere

    old = cohere.Client(base_url=server.url, api_key="none")
    same(old.embed(texts=TEXTS, model="tiny", input_type="search_document").embeddings, resources)
    found = old.rerank(query="cat", documents=TEXTS, model="tiny-reranker", return_documents=True)
    assert [(one.index, pytest.approx(one.relevance_score, abs=1e-5)) for one in found.results] == [
        (i, score) for i, score in ranked(resources)
    ]
    documents = [{"title": "sea", "body": text} for text in TEXTS]
    options: dict[str, Any] = {"model": "tiny-reranker", "documents": documents}
    found = old.rerank(query="cat", rank_fields=["body"], max_chunks_per_doc=2, **options)
    assert [one.index for one in found.results] == [i for i, _ in ranked(resources)]
    with pytest.raises(cohere.BadRequestError, match="rank_fields"):
        old.rerank(query="cat", **options)
    new = cohere.ClientV2(base_url=server.url, api_key="none")
    types = ["float", "int8", "uint8", "ubinary", "binary"]
    given = new.embed(texts=TEXTS, model="tiny", input_type="clustering", embedding_types=types)
    same(given.embeddings.float_, resources)
    expected = resources.encoder.encode(TEXTS, precision="binary")
    assert given.embeddings.ubinary == expected.tolist()
    assert given.embeddings.binary == (expected.astype(int) - 128).tolist()
    assert given.embeddings.uint8 == [[one + 128 for one in row] for row in given.embeddings.int8]
    assert given.embeddings.int8 == resources.encoder.encode(TEXTS, precision="int8").tolist()
    found = new.rerank(query="cat", documents=TEXTS, model="tiny-reranker", top_n=2)
    assert [(one.index, pytest.approx(one.relevance_score, abs=1e-5)) for one in found.results] == [
        (i, score) for i, score in ranked(resources)
    ][:2]


def test_langchain_cohere(server: Served, resources: Resources) -> None:
    from langchain_cohere import CohereEmbeddings, CohereRerank
    from pydantic import SecretStr

    options: dict[str, Any] = {"base_url": server.url, "cohere_api_key": SecretStr("none")}
    embeddings = CohereEmbeddings(model="tiny", **options)
    same(embeddings.embed_documents(TEXTS), resources)
    same([embeddings.embed_query(TEXTS[1])], resources, TEXTS[1:2])
    reranker = CohereRerank(model="tiny-reranker", top_n=3, **options)
    assert [(one["index"], one["relevance_score"]) for one in reranker.rerank(TEXTS, "cat")] == [
        (i, pytest.approx(score, abs=1e-5)) for i, score in ranked(resources)
    ]


def test_llama_index(server: Served, resources: Resources) -> None:
    from llama_index.embeddings.openai_like import OpenAILikeEmbedding

    model = OpenAILikeEmbedding(model_name="tiny", api_base=f"{server.url}/v1", api_key="none")
    same(model.get_text_embedding_batch(TEXTS), resources)
    same([model.get_query_embedding(TEXTS[0])], resources, TEXTS[:1])


def test_haystack(server: Served, resources: Resources) -> None:
    from haystack import Document
    from haystack.components.embedders import OpenAIDocumentEmbedder, OpenAITextEmbedder
    from haystack.utils import Secret

    options: dict[str, Any] = {
        "api_key": Secret.from_token("none"), "model": "tiny", "api_base_url": f"{server.url}/v1"
    }  # fmt: skip
    given = OpenAITextEmbedder(**options).run(text=TEXTS[0])
    same([given["embedding"]], resources, TEXTS[:1])
    embedder = OpenAIDocumentEmbedder(progress_bar=False, **options)
    documents = embedder.run(documents=[Document(content=text) for text in TEXTS])["documents"]
    same([one.embedding for one in documents], resources)


def test_huggingface_hub_reads_the_tei_routes(server: Served, resources: Resources) -> None:
    from huggingface_hub import InferenceClient, close_session

    client = InferenceClient()
    same(client.feature_extraction(TEXTS, model=f"{server.url}/embed"), resources)
    options: dict[str, Any] = {"truncate": True, "truncation_direction": "right"}
    options |= {"normalize": True, "encoding_format": "float", "model": f"{server.url}/embed"}
    same(client.feature_extraction(TEXTS, **options), resources)
    close_session()


def test_tei_by_hand(server: Served, resources: Resources) -> None:
    body = {"query": "cat", "texts": TEXTS, "return_text": True, "raw_scores": False}
    found = server.post("/rerank", body).json
    assert [(one["index"], one["score"]) for one in found] == [
        (i, pytest.approx(score, abs=1e-5)) for i, score in ranked(resources)
    ]
    assert found[0]["text"] == TEXTS[found[0]["index"]]
    long = {"inputs": "cat " * 40, "truncate": False}
    assert server.post("/embed", long).status == 413
    assert server.post("/embed", long | {"truncate": True}).headers["x-malmoi-cut"] == "1"
    assert server.post("/embed", {"inputs": "cat", "prompt_name": "other"}).status == 400
    assert server.post("/rerank", {"query": "cat"}).status == 400
    body = {"query": "cat", "texts": TEXTS, "truncate": False, "truncation_direction": "Right"}
    assert [one["index"] for one in server.post("/rerank", body).json] == [
        i for i, _ in ranked(resources)
    ]
    assert server.post("/rerank", body | {"texts": ["cat " * 40]}).status == 413
    for field in (
        {"truncation_direction": "Left"}, {"raw_scores": True}, {"max_tokens_per_doc": 1}
    ):  # fmt: skip
        assert server.post("/rerank", {"query": "cat", "texts": TEXTS, **field}).status == 400


def test_ollama(server: Served, resources: Resources) -> None:
    import ollama

    client = ollama.Client(host=server.url)
    same(client.embed(model="tiny", input=TEXTS).embeddings, resources)
    same(client.embed(model="tiny:latest", input=TEXTS[0]).embeddings, resources, TEXTS[:1])
    with pytest.raises(ollama.ResponseError):
        client.embed(model="other", input=TEXTS)


def test_litellm_by_hand(server: Served, resources: Resources) -> None:
    """What litellm sends, where it cannot be installed next to the other clients."""
    body = {"model": "tiny", "input": TEXTS, "encoding_format": "float", "user": "u"}
    data = server.post("/v1/embeddings", body).json["data"]
    same([one["embedding"] for one in data], resources)
    body = {"model": "tiny-reranker", "query": "cat", "documents": TEXTS, "top_n": 3}
    body |= {"return_documents": True, "max_chunks_per_doc": 10}
    for path in ("/v1/rerank", "/v2/rerank", "/rerank"):
        results = server.post(path, body).json["results"]
        assert [one["index"] for one in results] == [i for i, _ in ranked(resources)]
