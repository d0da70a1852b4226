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


Name = Annotated[str | None, Field(max_length=200, description="As /v1/info has it.")]
Count = Annotated[int, Field(ge=1, le=100)]
Atom = str | int | float | bool


class SearchAsked(Shape):
    """A question to a corpus; the first one that is served when none is named."""

    model_config = example(query="환불은 언제 되나요?", k=5, mode="hybrid", filter={"lang": "ko"})

    query: str
    corpus: Name = None
    k: Count = 10
    mode: Literal["hybrid", "dense", "keyword"] = "hybrid"
    rerank: Annotated[bool, Field(description="Let the reranker order what was found.")] = False
    depth: Annotated[int, Field(ge=1, le=200, description="How many a reranker reads.")] = 50
    filter: Annotated[dict[str, Atom], Field(max_length=16)] = {}


class Found(Shape):
    """A document that was found; `rank_before` is its place before it was reranked."""

    id: str
    text: str
    score: float
    scores: dict[str, float]
    metadata: dict[str, Any]
    matches: list[tuple[int, int]]
    rank_before: int | None


class SearchGiven(Shape):
    """The documents that fit best, the best first."""

    corpus: str
    mode: str
    reranked: bool
    documents: int
    hits: list[Found]


class LinkAsked(Shape):
    """Mentions to link to the codes of a lexicon."""

    model_config = example(mentions=["DM nephropathy", "간경화"], k=3)

    mentions: Annotated[str | Texts, Field(union_mode="left_to_right")]
    lexicon: Name = None
    k: Count = 5


class Candidate(Shape):
    """A concept that a mention may mean, with the names that speak for it and why."""

    code: str
    score: float
    ko: str | None
    en: str | None
    names: list[str]
    why: str


class LinkedMention(Shape):
    """A mention and its candidates, the best first."""

    mention: str
    candidates: list[Candidate]


class LinkGiven(Shape):
    """The mentions, in the order in which they were sent."""

    lexicon: str
    results: list[LinkedMention]


class NoteAsked(Shape):
    """A note whose mentions are to be found and linked."""

    model_config = example(text="pt는 HTN, DM 있으며 CXR상 pneumonia 의심", k=3)

    text: str
    lexicon: Name = None
    k: Count = 5


class FoundMention(LinkedMention):
    """A mention of a note: where it stands, what is said of it, what found it."""

    start: int
    end: int
    attributes: list[str]
    by: str


class NoteGiven(Shape):
    """The mentions of a note, in order; offsets count code points."""

    lexicon: str
    mentions: list[FoundMention]


class WordsAsked(Shape):
    """Texts to cut into words, and a word whose occurrences are compared in one layer."""

    model_config = example(
        texts=["배를 타고 바다에 나간다", "배가 달고 맛있다"], word="배", layer=6
    )

    texts: Annotated[list[str], Field(min_length=1, max_length=64)]
    word: Annotated[str | None, Field(max_length=100)] = None
    layer: Annotated[
        int | None, Field(ge=0, le=1000, description="0 is the embeddings; the last by default.")
    ] = None
    by: Annotated[
        Literal["spaces", "morphemes"], Field(description="morphemes needs malmoi[korean].")
    ] = "spaces"


class WordShown(Shape):
    """A word, where it stands in its text, and its pieces."""

    word: str
    start: int
    end: int
    pieces: list[str]


class WordPlace(WordShown):
    """A word, and which of the texts it stands in."""

    text: int


class WordsGiven(Shape):
    """The words of each text; for the word asked about, cosines and a flat picture."""

    model: str
    layer: int
    layers: int
    texts: list[list[WordShown]]
    occurrences: list[WordPlace]
    scores: list[list[float]]
    points: list[tuple[float, float]]


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


class MapAsked(Shape):
    """A corpus to lay out flat."""

    model_config = example(corpus="faq", groups=6)

    corpus: Name = None
    groups: Annotated[int | None, Field(ge=2, le=24)] = None


class MapGroup(Shape):
    """Documents near each other, with the words that tell them from the others."""

    size: int
    words: list[str]


class MapPoint(Shape):
    """A document's place."""

    id: str
    text: str
    x: float
    y: float
    group: int


class MapGiven(Shape):
    """A corpus laid out flat."""

    corpus: str
    documents: int
    shown: int
    groups: list[MapGroup]
    points: list[MapPoint]
