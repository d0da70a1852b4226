"""The JSON that goes in and out, with examples: this is what /openapi.json shows."""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

Text = Annotated[str, Field(description="A text, in Korean, English or both.")]
Texts = Annotated[list[str], Field(min_length=1)]
Ids = Annotated[list[Annotated[int, Field(ge=0, le=2**31)]], Field(min_length=1)]
Model = Annotated[
    str | None, Field(description="The served model's name, as /v1/models has it.", max_length=200)
]
OnLong = Annotated[
    Literal["cut", "windows"],
    Field(description="What is done with texts longer than the model reads."),
]


class Shape(BaseModel):
    """A body whose fields are all known: a misspelt one is told, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


def example(**fields: Any) -> ConfigDict:
    """Set a shape's example for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"example": fields})


class Error(Shape):
    """What went wrong, where, and what to do."""

    message: str
    type: str
    param: str | None
    code: str


class Errors(Shape):
    """An error, in OpenAI's shape."""

    error: Error


class EmbeddingsAsked(Shape):
    """Texts to turn into vectors, in OpenAI's shape; `prompt` and `on_long` are malmoi's own."""

    model_config = example(
        model="ko-en-small", input=["배가 아파요", "My stomach hurts"], dimensions=128
    )

    input: Annotated[
        str | Texts | Ids | Annotated[list[Ids], Field(min_length=1)],
        Field(union_mode="left_to_right", description="A text, texts, or token ids of the model."),
    ]
    model: Model = None
    dimensions: Annotated[int | None, Field(ge=1, le=65536)] = None
    encoding_format: Literal["float", "base64"] = "float"
    user: Annotated[str | None, Field(description="Taken and not used.")] = None
    prompt: Annotated[str | None, Field(description="One of the model's prompts, by name.")] = None
    on_long: OnLong = "cut"


class Embedding(Shape):
    """One vector: numbers, or the base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(Shape):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsGiven(Shape):
    """Vectors, in the order of the texts."""

    object: Literal["list"]
    model: str
    data: list[Embedding]
    usage: Usage


class SimilarityAsked(Shape):
    """Two texts or lists of texts to compare; one list alone is compared with itself."""

    model_config = example(a=["배가 아파요"], b=["My stomach hurts", "The ship sails"])

    a: Annotated[str | Texts, Field(union_mode="left_to_right")]
    b: Annotated[str | Texts | None, Field(union_mode="left_to_right")] = None
    model: Model = None


class SimilarityGiven(Shape):
    """Cosines: a row for each text of `a`, a column for each of `b`."""

    model: str
    scores: list[list[float]]


class Document(Shape):
    """A text in an object, as some clients send it."""

    text: str


class RerankAsked(Shape):
    """A query and texts to put in order, in the shape that Cohere and Jina share."""

    model_config = example(
        query="환불은 언제 되나요?",
        documents=["배송은 사흘 걸립니다", "환불은 5일 안에 됩니다"],
        top_n=2,
    )

    query: str
    documents: Annotated[
        Annotated[list[str | Document], Field(min_length=1)],
        Field(description="Texts, or objects with a field `text`."),
    ]
    model: Model = None
    top_n: Annotated[int | None, Field(ge=1, le=2**31)] = None
    return_documents: bool = False


class Ranked(Shape):
    """One text of a ranking: its place in the list that was sent, and its score."""

    index: int
    relevance_score: float
    document: Document | None = None


class RerankGiven(Shape):
    """The texts that answer best, the best first."""

    model: str
    results: list[Ranked]


class ModelCard(Shape):
    """One model that is served."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    kind: str
    dimension: int
    max_tokens: int
    languages: list[str]
    licence: str


class Models(Shape):
    """All models that are served."""

    object: Literal["list"]
    data: list[ModelCard]


class Health(Shape):
    """Whether the process lives, or takes requests."""

    status: Literal["ok", "stopping"]


class Limits(Shape):
    """What one request may bring."""

    texts: int
    characters: int
    body_bytes: int


class CorpusCard(Shape):
    """One corpus that is served."""

    name: str
    documents: int
    fields: list[str]


class LexiconCard(Shape):
    """One lexicon that is served."""

    name: str
    names: int


class Info(Shape):
    """What is served, and within which limits."""

    version: str
    encoder: ModelCard
    reranker: ModelCard | None
    layers: int
    corpora: list[CorpusCard]
    lexicons: list[LexiconCard]
    limits: Limits
