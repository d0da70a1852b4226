"""The JSON that goes in and out, with examples: this is what /openapi.json shows.

Every list of a request has a `max_length`, and its first error ends the check (`fail_fast`):
pydantic would otherwise collect an error for each element of a hostile body.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticKnownError

from ..mining.keywords import Keyword
from ..terms import Candidate, Linked
from .settings import MOST_FILES, MOST_TEXTS

Texts = Annotated[list[str], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
TextOrTexts = Annotated[str | Texts, Field(union_mode="left_to_right")]
Ids = Annotated[
    list[Annotated[int, Field(ge=0, le=2**31)]],
    Field(min_length=1, max_length=65_536, fail_fast=True),
]
IdLists = Annotated[list[Ids], Field(min_length=1, max_length=MOST_TEXTS, fail_fast=True)]
ModelName = Annotated[
    str | None, Field(description="The served model's name, as /v1/models has it.", max_length=200)
]
Name = Annotated[str | None, Field(max_length=200, description="As /v1/info has it.")]
Count = Annotated[int, Field(ge=1, le=100)]
Layer = Annotated[int, Field(ge=0, le=1000)]
Layers = Annotated[list[Layer], Field(min_length=1, max_length=32, fail_fast=True)]
Format = Literal["float", "base64"]
# What texts are for, in the words of Cohere, Jina, Voyage and NVIDIA: see `state.prompt_for`.
InputType = Annotated[
    Literal[
        "query",
        "search_query",
        "retrieval.query",
        "document",
        "passage",
        "search_document",
        "retrieval.passage",
        "classification",
        "clustering",
        "text-matching",
        "separation",
    ]
    | None,
    Field(description="What the texts are for: picks the model's prompt, if it has one."),
]
Tokens = Annotated[int | None, Field(ge=1, le=2**31)]
PromptTokens = Annotated[
    int | None,
    Field(ge=-1, le=2**31, description="vLLM's: -1, or at least what the model reads."),
]
UNUSED = "Taken and not used."


def few(most: int) -> BeforeValidator:
    """Refuse a mapping with more fields before any is looked at: each would be an error."""

    def check(given: Any) -> Any:
        if isinstance(given, dict) and len(given) > most:
            sizes = {"field_type": "Dictionary", "max_length": most, "actual_length": len(given)}
            raise PydanticKnownError("too_long", sizes)
        return given

    return BeforeValidator(check)


class Schema(BaseModel):
    """A body whose fields are all known: a misspelt one is an error, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)


def example(**fields: Any) -> ConfigDict:
    """Set a schema's example for the OpenAPI document."""
    return ConfigDict(json_schema_extra={"example": fields})


class ErrorDetail(Schema):
    """What went wrong, where, and what to do."""

    message: str
    type: str
    param: str | None
    code: str


class ErrorResponse(Schema):
    """An error, in OpenAI's shape."""

    error: ErrorDetail


class EmbeddingsRequest(Schema):
    """Texts to turn into vectors, in OpenAI's shape; `prompt` and `on_long` are malmoi's own."""

    model_config = example(
        model="ko-en-small", input=["배가 아파요", "My stomach hurts"], dimensions=128
    )

    input: Annotated[
        str | Texts | Ids | IdLists,
        Field(union_mode="left_to_right", description="A text, texts, or token ids of the model."),
    ]
    model: ModelName = None
    dimensions: Annotated[int | None, Field(ge=1, le=65536)] = None
    encoding_format: Format = "float"
    user: Annotated[str | None, Field(description=UNUSED)] = None
    prompt: Annotated[str | None, Field(description="One of the model's prompts, by name.")] = None
    input_type: InputType = None
    task: Annotated[InputType, Field(description="Jina's name of `input_type`.")] = None
    truncate: Annotated[
        bool | Literal["NONE", "START", "END"] | None,
        Field(description="false or NONE refuses texts that are longer than the model reads."),
    ] = None
    normalize: Annotated[
        bool | None, Field(description="false is refused where vectors have length one.")
    ] = None
    normalized: Annotated[bool | None, Field(description="Jina's name of `normalize`.")] = None
    embedding_type: Annotated[
        Format | None, Field(description="Jina's name of `encoding_format`.")
    ] = None
    late_chunking: Annotated[Literal[False] | None, Field(description="Jina's: not offered.")] = (
        None
    )
    truncate_prompt_tokens: PromptTokens = None
    add_special_tokens: Annotated[
        Literal[True] | None, Field(description="vLLM's: special tokens are always added.")
    ] = None
    priority: Annotated[int, Field(ge=-(2**31), le=2**31, description=UNUSED)] = 0
    tokenizer: Annotated[
        Literal["own"] | None,
        Field(description='"own" says that token ids were made by this model\'s tokenizer.'),
    ] = None
    on_long: Annotated[
        Literal["cut", "windows"],
        Field(description="What is done with texts longer than the model reads."),
    ] = "cut"


class EmbeddingItem(Schema):
    """One vector: numbers, or the base64 of little-endian float32."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class Usage(Schema):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingsResponse(Schema):
    """Vectors, in the order of the texts."""

    object: Literal["list"]
    model: str
    data: list[EmbeddingItem]
    usage: Usage


class SimilarityRequest(Schema):
    """Two texts or lists of texts to compare; one list alone is compared with itself."""

    model_config = example(a=["배가 아파요"], b=["My stomach hurts", "The ship sails"])

    a: TextOrTexts
    b: Annotated[str | Texts | None, Field(union_mode="left_to_right")] = None
    model: ModelName = None


class SimilarityResponse(Schema):
    """Cosines: a row for each text of `a`, a column for each of `b`."""

    model: str
    scores: list[list[float]]


class RerankDocument(Schema):
    """A text in an object, as some clients send it."""

    text: str


Fields = Annotated[dict[str, str], Field(min_length=1, max_length=32), few(32)]
Documents = Annotated[
    list[str | Fields],
    Field(
        min_length=1,
        max_length=MOST_TEXTS,
        fail_fast=True,
        description="Texts, or objects with a field `text`, or those of `rank_fields`.",
    ),
]


class RerankRequest(Schema):
    """A query and texts to put in order, in the shape that Cohere and Jina share."""

    model_config = example(
        query="환불은 언제 되나요?",
        documents=["배송은 사흘 걸립니다", "환불은 5일 안에 됩니다"],
        top_n=2,
    )

    query: str
    documents: Documents
    model: ModelName = None
    top_n: Annotated[int | None, Field(ge=1, le=2**31)] = None
    return_documents: bool = False
    max_tokens_per_doc: Annotated[
        Tokens, Field(description="At least what the model reads, which is all it is cut to.")
    ] = None
    rank_fields: Annotated[
        list[Annotated[str, Field(max_length=200)]] | None,
        Field(
            min_length=1,
            max_length=32,
            fail_fast=True,
            description="The fields of objects that are read, each on a line; `text` by default.",
        ),
    ] = None
    max_chunks_per_doc: Annotated[Tokens, Field(description=UNUSED)] = None
    priority: Annotated[int, Field(ge=0, le=999, description=UNUSED)] = 0
    user: Annotated[str | None, Field(max_length=1000, description=UNUSED)] = None


class RerankResult(Schema):
    """One text of a ranking: its place in the list that was sent, and its score."""

    index: int
    relevance_score: float
    document: RerankDocument | None = None


class RerankResponse(Schema):
    """The texts that answer best, the best first."""

    model: str
    results: list[RerankResult]


class SearchRequest(Schema):
    """A question to a corpus; the first one that is served when none is named."""

    model_config = example(query="환불은 언제 되나요?", k=5, mode="hybrid", filter={"lang": "ko"})

    query: str
    corpus: Name = None
    k: Annotated[Count, Field(description="Passages, or with group documents, of one page.")] = 10
    offset: Annotated[int, Field(ge=0, le=1000, description="How many to leave out before.")] = 0
    group: Annotated[bool, Field(description="Give documents with their best passages.")] = False
    passages: Annotated[int, Field(ge=1, le=10, description="Of a document, with group.")] = 3
    mode: Literal["hybrid", "dense", "keyword"] = "hybrid"
    rerank: Annotated[
        bool, Field(description="Let the cross-encoder that is served order what was found.")
    ] = False
    depth: Annotated[int, Field(ge=1, le=200, description="How many a reranker reads.")] = 50
    filter: Annotated[
        dict[str, str | int | float | bool], Field(max_length=16, default_factory=dict), few(16)
    ]
    folder: Annotated[
        str | None, Field(max_length=4096, description="Only files in this folder, or below it.")
    ] = None
    type: Annotated[str | None, Field(max_length=40, description="Only files like pdf.")] = None
    late: Annotated[bool, Field(description="Compare word by word, where the corpus can.")] = True
    min_relevance: Annotated[
        float, Field(ge=0, le=1, description="Leave out what is less relevant.")
    ] = 0.0


class PassageItem(Schema):
    """A passage: its place in its document, and the words that it shares with the query."""

    number: int
    text: str
    headings: list[str]
    page: int | None
    matches: list[tuple[int, int]]


class MetWords(Schema):
    """A word of the query, the word of the passage that it met, and how alike they are."""

    query: tuple[int, int]
    passage: tuple[int, int]
    cosine: float


class SearchHit(PassageItem):
    """A passage that was found, with its document; `rank_before` is its place before reranking.

    With `group` that is the document's place. `snippet` is the part of the text that fits best.
    `relevance` is how likely it is right, from 0 to 1; `met` are the words by which it was found.
    """

    id: str
    score: float
    scores: dict[str, float]
    metadata: dict[str, Any]
    rank_before: int | None
    title: str
    type: str
    modified: float | None
    snippet: str
    snippet_matches: list[tuple[int, int]]
    relevance: float
    met: list[MetWords]


class HitGroup(Schema):
    """A document with its passages that were found, the best first."""

    id: str
    title: str
    type: str
    score: float
    rank_before: int | None
    hits: list[SearchHit]


class RankBefore(Schema):
    """A passage or document among the first before reranking: its score then, its place now."""

    id: str
    number: int
    title: str
    text: str
    score: float
    rank_after: int


class SearchResponse(Schema):
    """What fits best, the best first: `hits`, or with `group` documents in `groups`.

    `before` is the order before reranking, and `next_offset` that of the next page, if any.
    """

    corpus: str
    mode: str
    reranked: bool
    documents: int
    hits: list[SearchHit]
    groups: list[HitGroup]
    before: list[RankBefore]
    next_offset: int | None


class PassagesRequest(Schema):
    """A passage to be shown between those before and after it."""

    model_config = example(id="rules/leave.md", number=3, count=2, query="연차 며칠")

    id: Annotated[str, Field(max_length=8192, description="Of the document.")]
    number: Annotated[int, Field(ge=0, le=2**31)] = 0
    count: Annotated[int, Field(ge=0, le=20, description="On either side.")] = 2
    query: Annotated[str, Field(max_length=2000, description="Whose words are marked.")] = ""
    corpus: Name = None


class PassagesResponse(Schema):
    """Neighbouring passages of a document, in their order, and whether there are more."""

    corpus: str
    id: str
    title: str
    type: str
    passages: list[PassageItem]
    more_before: bool
    more_after: bool


class CorpusRequest(Schema):
    """A corpus to be described."""

    model_config = example(corpus="faq", lang="ko")

    corpus: Name = None
    lang: Annotated[
        Literal["ko", "en"] | None, Field(description="The language of the questions.")
    ] = None


class Facet(Schema):
    """A type of file or a folder, and how many documents it has."""

    name: str
    documents: int


class CorpusResponse(Schema):
    """What a corpus holds, and questions that it answers; `sample` is one that ships."""

    corpus: str
    sample: bool
    documents: int
    passages: int
    types: list[Facet]
    folders: list[Facet]
    questions: list[str]


class UploadFile(Schema):
    """A file: its name, without a folder, and its bytes in base64."""

    name: Annotated[str, Field(min_length=1, max_length=1000)]
    content: str


class UploadRequest(Schema):
    """Files to add to a corpus; those that were uploaded under the same names are replaced."""

    model_config = example(corpus="docs", files=[{"name": "leave.md", "content": "IyDsl7DssKg="}])

    corpus: Annotated[str, Field(max_length=200, description="As /v1/info has it.")]
    files: Annotated[list[UploadFile], Field(min_length=1, max_length=MOST_FILES, fail_fast=True)]


class UploadedFile(Schema):
    """What became of a file; `error` says why it was not indexed."""

    name: str
    id: str
    documents: int
    passages: int
    error: str | None


class UploadResponse(Schema):
    """The files in the order in which they were sent, and how many documents there are now."""

    corpus: str
    documents: int
    files: list[UploadedFile]


class MapRequest(Schema):
    """A corpus to lay out flat."""

    model_config = example(corpus="faq", groups=6)

    corpus: Name = None
    groups: Annotated[int | None, Field(ge=2, le=24)] = None


class MapGroup(Schema):
    """Documents near each other, with the words that tell them from the others."""

    size: int
    words: list[str]


class MapPoint(Schema):
    """A document's place."""

    id: str
    text: str
    x: float
    y: float
    group: int


class MapResponse(Schema):
    """A corpus laid out flat."""

    corpus: str
    documents: int
    shown: int
    groups: list[MapGroup]
    points: list[MapPoint]


class LinkRequest(Schema):
    """Mentions to link to the codes of a lexicon."""

    model_config = example(mentions=["DM nephropathy", "간경화"], k=3)

    mentions: TextOrTexts
    lexicon: Name = None
    k: Count = 5


class LinkResponse(Schema):
    """The mentions, in the order in which they were sent."""

    lexicon: str
    results: list[Linked]


class NoteRequest(Schema):
    """A note whose mentions are to be found and linked."""

    model_config = example(text="pt는 HTN, DM 있으며 CXR상 pneumonia 의심", k=3)

    text: str
    lexicon: Name = None
    k: Count = 5


class ReasonInNote(Schema):
    """Why a mention is said to be something: the note's words, the row of a table, the rule."""

    says: str
    cue: str
    start: int
    end: int
    source: str
    rule: str
    text: str


class MentionInNote(Schema):
    """A mention of a note: where it stands, what is said of it, what found it."""

    mention: str
    candidates: list[Candidate]
    start: int
    end: int
    attributes: list[str]
    status: str
    experiencer: str
    certainty: str
    otherwise: str
    section: str
    laterality: str
    severity: str
    stage: str
    date: str
    why: list[ReasonInNote]
    score: float
    uncertain: bool
    by: str


class NoteResponse(Schema):
    """The mentions of a note, in order; offsets count code points.

    `cut` is where reading stopped when the time was over, null for a note that was read whole.
    """

    lexicon: str
    mentions: list[MentionInNote]
    cut: int | None


class RedactRequest(Schema):
    """A note in which names, numbers, addresses and dates are to be hidden."""

    model_config = example(text="환자명: 홍길동, 010-1234-5678. HTN f/u 중")

    text: str
    dates: Annotated[Literal["mask", "keep"], Field(description="What becomes of dates.")] = "mask"


class HiddenSpan(Schema):
    """A stretch of a note that is hidden, and what it is; offsets count code points."""

    start: int
    end: int
    kind: str


class RedactResponse(Schema):
    """The note with stars for what was hidden, as long as before."""

    text: str
    spans: list[HiddenSpan]


class WordsRequest(Schema):
    """Texts to cut into words, and a word whose occurrences are compared."""

    model_config = example(
        texts=["배를 타고 바다에 나간다", "배가 달고 맛있다"], word="배", layer=6
    )

    texts: Annotated[list[str], Field(min_length=1, max_length=64, fail_fast=True)]
    word: Annotated[str | None, Field(max_length=100)] = None
    layer: Annotated[
        Layer | Annotated[str, Field(max_length=40)] | Layers | None,
        Field(
            union_mode="left_to_right",
            description="A layer's number, 0 being the embeddings; several numbers, whose vectors "
            "stand side by side; or a name such as sum-last-4. The last layer by default.",
        ),
    ] = None
    merge: Annotated[
        Literal["mean", "first", "last", "max", "sum"],
        Field(description="What makes one vector of a word's pieces."),
    ] = "mean"
    by: Annotated[
        Literal["spaces", "morphemes"], Field(description="morphemes needs malmoi[korean].")
    ] = "spaces"
    special: Annotated[bool, Field(description="Give the model's special tokens too.")] = False
    vectors: Annotated[bool, Field(description="Give each word's vector, and its tokens'.")] = False
    encoding_format: Format = "float"


class WordToken(Schema):
    """One piece of a word, with its vector."""

    text: str
    start: int
    end: int
    special: bool
    vector: list[float] | str


class WordItem(Schema):
    """A word, where it stands in its text, and its pieces; vectors when they were asked for."""

    word: str
    start: int
    end: int
    pieces: list[str]
    vector: list[float] | str | None = None
    tokens: list[WordToken] | None = None


class WordOccurrence(WordItem):
    """A word, and which of the texts it stands in."""

    text: int


class WordsResponse(Schema):
    """The words of each text; for the word asked about, cosines and a flat picture."""

    model: str
    layer: int | str | list[int]
    layers: int
    texts: list[list[WordItem]]
    occurrences: list[WordOccurrence]
    scores: list[list[float]]
    points: list[tuple[float, float]]


class KeywordsRequest(Schema):
    """A text whose keywords are wanted."""

    model_config = example(
        text="당뇨병 환자의 혈당을 검사했다. Diabetic nephropathy was ruled out.", top=5
    )

    text: str
    top: Count = 10
    diversity: Annotated[
        float, Field(ge=0, le=1, description="How much a phrase loses by similarity to others.")
    ] = 0.3


class KeywordsResponse(Schema):
    """The phrases, the best first."""

    keywords: list[Keyword]


class ModelInfo(Schema):
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


class ModelsResponse(Schema):
    """All models that are served."""

    object: Literal["list"]
    data: list[ModelInfo]


class HealthResponse(Schema):
    """Whether the process lives, or takes requests."""

    status: Literal["ok", "stopping"]


class LimitsInfo(Schema):
    """What one request may bring."""

    texts: int
    characters: int
    body_bytes: int


class CorpusInfo(Schema):
    """One corpus that is served."""

    name: str
    documents: int
    fields: list[str]


class LexiconInfo(Schema):
    """One lexicon that is served."""

    name: str
    names: int


class UploadsInfo(Schema):
    """How much one request may upload."""

    files: int
    bytes: int


class InfoResponse(Schema):
    """What is served, and within which limits; `uploads` is null where none are taken."""

    version: str
    encoder: ModelInfo
    reranker: ModelInfo | None
    layers: int
    corpora: list[CorpusInfo]
    lexicons: list[LexiconInfo]
    limits: LimitsInfo
    uploads: UploadsInfo | None
