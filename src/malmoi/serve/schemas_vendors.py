"""The JSON of other vendors' servers: Cohere, Jina, vLLM, Text Embeddings Inference (TEI), Ollama.

Fields that these have and that mean something here are honoured. Some say what is the case here
anyway, or mean nothing; they are taken and not used, and their description says so. All others
are refused as everywhere.
"""

from typing import Annotated, Any, Literal

from pydantic import Field, RootModel

from .schemas import (
    UNUSED,
    Documents,
    InputType,
    ModelName,
    ModelSize,
    PromptTokens,
    RerankRequest,
    RerankResponse,
    Schema,
    TextOrTexts,
    Texts,
    Tokens,
    Usage,
    example,
)
from .settings import MOST_TEXTS

Truncate = Annotated[
    Literal["NONE", "START", "END"] | None,
    Field(description="What is done with texts that are too long: NONE refuses them."),
]
EmbeddingType = Literal["float", "base64", "int8", "uint8", "binary", "ubinary"]
EmbeddingTypes = Annotated[list[EmbeddingType], Field(min_length=1, max_length=6, fail_fast=True)]
Dimensions = Annotated[int | None, Field(ge=1, le=65536)]


class CohereContent(Schema):
    """A part of an input: a text."""

    type: Literal["text"]
    text: str


class CohereInput(Schema):
    """An input of one text."""

    content: Annotated[list[CohereContent], Field(min_length=1, max_length=1, fail_fast=True)]


class CohereEmbedRequest(Schema):
    """Texts to turn into vectors, in Cohere's shape (v1)."""

    model_config = example(texts=["배가 아파요"], model="ko-en-small", input_type="search_query")

    texts: Texts
    model: ModelName = None
    input_type: InputType = None
    embedding_types: EmbeddingTypes | None = None
    truncate: Truncate = None

    def answer_bytes(self, model: ModelSize) -> int:
        return super().answer_bytes(model) * len(self.embedding_types or [1])


class CohereEmbedRequestV2(Schema):
    """Texts to turn into vectors, in Cohere's shape (v2)."""

    model_config = example(
        texts=["배가 아파요"],
        model="ko-en-small",
        input_type="search_query",
        embedding_types=["float"],
    )

    texts: Texts | None = None
    inputs: Annotated[
        list[CohereInput] | None, Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)
    ] = None
    model: ModelName = None
    input_type: InputType = None
    embedding_types: EmbeddingTypes | None = None
    output_dimension: Dimensions = None
    max_tokens: Tokens = None
    truncate: Truncate = None
    priority: Annotated[int, Field(ge=0, le=999, description=UNUSED)] = 0

    def answer_bytes(self, model: ModelSize) -> int:
        return super().answer_bytes(model) * len(self.embedding_types or [1])


class CohereEmbedResponse(Schema):
    """The vectors; by their types where types were asked for."""

    id: str
    response_type: Literal["embeddings_floats", "embeddings_by_type"]
    embeddings: list[list[float]] | dict[str, list[Any]]
    texts: list[str]
    meta: dict[str, Any]


class VendorRerankRequest(RerankRequest):
    """A query and `documents` to put in order, as vLLM and Jina say it, or TEI's `texts`."""

    documents: Documents | None = None  # type: ignore[assignment]
    texts: Texts | None = None
    raw_scores: Annotated[bool | None, Field(description="TEI's: true is refused.")] = None
    return_text: Annotated[bool, Field(description="TEI's: give the texts too.")] = False
    truncate: Annotated[
        bool | None, Field(description="TEI's: false refuses pairs that are too long.")
    ] = None
    truncation_direction: Annotated[
        Literal["left", "right", "Left", "Right"] | None,
        Field(description="TEI's: left is refused."),
    ] = None
    truncate_prompt_tokens: PromptTokens = None


class VendorRank(Schema):
    """One text of a ranking, in TEI's shape."""

    index: int
    score: float
    text: str | None = None


class VendorRerankResponse(RootModel[RerankResponse | list[VendorRank]]):
    """The best first: vLLM's shape for `documents`, TEI's for `texts`."""


class TEIEmbedRequest(Schema):
    """Texts to turn into vectors, in TEI's shape."""

    model_config = example(inputs=["배가 아파요", "My stomach hurts"])

    inputs: TextOrTexts
    normalize: bool | None = None
    truncate: Annotated[
        bool | None, Field(description="false refuses texts that are too long.")
    ] = None
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = None
    prompt_name: Annotated[str | None, Field(max_length=200)] = None
    dimensions: Dimensions = None
    encoding_format: Annotated[
        Literal["float"] | None, Field(description="What huggingface_hub may add.")
    ] = None


class TEIEmbedResponse(RootModel[list[list[float]]]):
    """A vector for each text."""


class TEISentences(Schema):
    """A text, and those it is compared with."""

    source_sentence: str
    sentences: Texts


class TEIParameters(Schema):
    """How texts are read."""

    truncate: bool | None = None
    truncation_direction: Literal["left", "right", "Left", "Right"] | None = None
    prompt_name: Annotated[str | None, Field(max_length=200)] = None


class TEISimilarityRequest(Schema):
    """A text and those it is compared with, in TEI's shape."""

    model_config = example(
        inputs={"source_sentence": "배가 아파요", "sentences": ["My stomach hurts", "The ship"]}
    )

    inputs: TEISentences
    parameters: TEIParameters | None = None


class TEISimilarityResponse(RootModel[list[float]]):
    """A cosine for each sentence."""


class TEIInfoResponse(Schema):
    """The encoder and the limits, in TEI's shape."""

    model_id: str
    model_sha: str | None
    model_dtype: str
    model_type: dict[str, Any]
    max_concurrent_requests: int
    max_input_length: int
    max_batch_tokens: int
    max_batch_requests: int | None
    max_client_batch_size: int
    auto_truncate: bool
    tokenization_workers: int
    version: str


class OllamaEmbedRequest(Schema):
    """Texts to turn into vectors, in Ollama's shape."""

    model_config = example(model="ko-en-small", input=["배가 아파요"])

    input: TextOrTexts
    model: ModelName = None
    truncate: bool | None = None
    dimensions: Dimensions = None
    options: Annotated[
        dict[str, str | int | float | bool] | None, Field(max_length=64, description=UNUSED)
    ] = None
    keep_alive: Annotated[str | int | float | None, Field(description=UNUSED)] = None


class OllamaEmbedResponse(Schema):
    """The vectors; times in nanoseconds."""

    model: str
    embeddings: list[list[float]]
    total_duration: int
    load_duration: int
    prompt_eval_count: int


class OllamaModel(Schema):
    """One model, in Ollama's shape."""

    name: str
    model: str
    modified_at: str
    size: int
    digest: str
    details: dict[str, Any]


class OllamaTagsResponse(Schema):
    """The models that are served."""

    models: list[OllamaModel]


class ScoreRequest(Schema):
    """Pairs of texts to score, in vLLM's shape: one text with others, or two equal lists."""

    model_config = example(text_1="환불은 언제 되나요?", text_2=["환불은 5일 안에 됩니다"])

    text_1: TextOrTexts
    text_2: TextOrTexts
    model: ModelName = None
    truncate_prompt_tokens: PromptTokens = None
    priority: Annotated[int, Field(ge=-(2**31), le=2**31, description=UNUSED)] = 0
    user: Annotated[str | None, Field(max_length=1000, description=UNUSED)] = None

    def answer_bytes(self, model: ModelSize) -> int:
        texts, characters = self.measure_texts()
        return 65_536 + texts * (500 + model.dimension * 16) + characters * 16


class ScoreItem(Schema):
    """The score of one pair."""

    index: int
    object: Literal["score"]
    score: float


class ScoreResponse(Schema):
    """A score for each pair, by the model that is named."""

    id: str
    object: Literal["list"]
    created: int
    model: str
    data: list[ScoreItem]
    usage: Usage
