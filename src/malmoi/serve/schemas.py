"""The JSON that goes in and out, with examples: this is what /openapi.json shows.

Every list of a request has a `max_length`, and its first error ends the check (`fail_fast`):
pydantic would otherwise collect an error for each element of a hostile body. `answer_bytes`
estimates what an answer takes while it is made; a request without one of its own is taken to give
a vector for each of its texts. `bounds.py` uses both.
"""

import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from ..corpus.ranking import RERANK
from ..mining.keywords import Keyword
from ..terms import Candidate, Linked
from .settings import MOST_FACETS, MOST_FILES, MOST_TEXTS, ON_MAP

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
# What a number of an answer takes: as float32, and as text or base64 in pieces and as a whole.
_NUMBER = {"float": 32, "base64": 16}
_CHARACTER = 16  # a character of a text: in the body, as Python's, in the answer and on its way
_CANDIDATE = 1500  # a concept with its names, as objects and as JSON
_DOCUMENT = 65_536  # a document that was found, more than nearly all have
_PASSAGE = 4096  # a passage that was looked at while documents were grouped
_LOOKED_AT = 8  # passages for each document
_OWN = 65_536  # whatever the request


@dataclass(frozen=True)
class ModelSize:
    """What the size of an answer depends on besides its request."""

    dimension: int
    max_tokens: int
    layers: int = 0


class Schema(BaseModel):
    """A body whose fields are all known: a misspelt one is an error, not ignored."""

    model_config = ConfigDict(extra="forbid", strict=True)

    def answer_bytes(self, model: ModelSize) -> int:
        """Estimate the memory that the answer to this takes: here a vector for each text."""
        texts, characters = self.measure_texts()
        return _OWN + texts * model.dimension * _NUMBER["float"] + characters * _CHARACTER

    def measure_texts(self) -> tuple[int, int]:
        """Count the texts (or lists of ids) of a request, and their characters."""
        lengths = [size for value in self.__dict__.values() for size in _lengths(value)]
        return len(lengths), sum(lengths)


def _lengths(value: Any) -> list[int]:
    if isinstance(value, str):
        return [len(value)]
    if isinstance(value, Schema):
        return [size for own in value.__dict__.values() for size in _lengths(own)]
    if isinstance(value, dict):
        return [size for own in value.values() for size in _lengths(own)]
    if not isinstance(value, list) or not value:
        return []
    if isinstance(value[0], int):
        return [len(value)]
    return [size for own in value for size in _lengths(own)]


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

    def answer_bytes(self, model: ModelSize) -> int:
        texts, characters = self.measure_texts()
        number = _NUMBER[self.embedding_type or self.encoding_format]
        width = min(self.dimensions or model.dimension, model.dimension)
        vectors = texts * (width * number + model.dimension * 8)
        return _OWN + vectors + characters * _CHARACTER


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

    def answer_bytes(self, model: ModelSize) -> int:
        left, right = (len(side) if isinstance(side, list) else 1 for side in (self.a, self.b))
        right = left if self.b is None else right
        _, characters = self.measure_texts()
        vectors = (left + right) * model.dimension * 12
        return _OWN + left * right * _NUMBER["float"] + vectors + characters * _CHARACTER


class SimilarityResponse(Schema):
    """Cosines: a row for each text of `a`, a column for each of `b`."""

    model: str
    scores: list[list[float]]


class RerankDocument(Schema):
    """A text in an object, as some clients send it."""

    text: str


Fields = Annotated[dict[str, str], Field(min_length=1, max_length=32)]
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

    def answer_bytes(self, model: ModelSize) -> int:
        texts, characters = self.measure_texts()
        return _OWN + texts * 500 + characters * _CHARACTER


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
    rerank: Annotated[bool, Field(description="Let the reranker order what was found.")] = RERANK
    depth: Annotated[int, Field(ge=1, le=200, description="How many a reranker reads.")] = 50
    filter: Annotated[
        dict[str, str | int | float | bool], Field(max_length=16, default_factory=dict)
    ]
    folder: Annotated[
        str | None, Field(max_length=4096, description="Only files in this folder, or below it.")
    ] = None
    type: Annotated[str | None, Field(max_length=40, description="Only files like pdf.")] = None

    def answer_bytes(self, model: ModelSize) -> int:
        hits = self.k * (self.passages if self.group else 1)
        hits += max(self.depth, self.k) if self.rerank else 0
        looked_at = (self.offset + self.k) * (_LOOKED_AT if self.group else 1)
        return _OWN + hits * _DOCUMENT + looked_at * _PASSAGE + len(self.query) * _CHARACTER


class PassageItem(Schema):
    """A passage: its place in its document, and the words that it shares with the query."""

    number: int
    text: str
    headings: list[str]
    page: int | None
    matches: list[tuple[int, int]]


class SearchHit(PassageItem):
    """A passage that was found, with its document; `rank_before` is its place before reranking.

    With `group` that is the document's place. `snippet` is the part of the text that fits best.
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

    def answer_bytes(self, model: ModelSize) -> int:
        return _OWN + (2 * self.count + 2) * _DOCUMENT


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

    model_config = example(corpus="faq")

    corpus: Name = None

    def answer_bytes(self, model: ModelSize) -> int:
        return _OWN + 2 * MOST_FACETS * 1000


class Facet(Schema):
    """A type of file or a folder, and how many documents it has."""

    name: str
    documents: int


class CorpusResponse(Schema):
    """What a corpus holds, and questions that it answers."""

    corpus: str
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

    def answer_bytes(self, model: ModelSize) -> int:
        size = sum(len(file.content) for file in self.files)
        return _OWN + 3 * size + len(self.files) * 2000


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

    def answer_bytes(self, model: ModelSize) -> int:
        return _OWN + ON_MAP * (model.dimension * 24 + 8_000)


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

    def answer_bytes(self, model: ModelSize) -> int:
        texts, characters = self.measure_texts()
        return _OWN + texts * self.k * _CANDIDATE + characters * _CHARACTER


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

    def answer_bytes(self, model: ModelSize) -> int:
        mentions = len(self.text) // 16 + 1  # of a dense note
        return _OWN + mentions * self.k * _CANDIDATE + len(self.text) * 2 * _CHARACTER


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
    section: str
    laterality: str
    severity: str
    stage: str
    date: str
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

    def answer_bytes(self, model: ModelSize) -> int:
        tokens = sum(min(len(text), model.max_tokens) + 2 for text in self.texts)
        read, joined = self._layers(model)
        # Each token and each word has a vector, and one batch has all layers that are joined.
        numbers = 2 * tokens * joined * model.dimension
        batch = 2 * read * model.max_tokens * model.dimension * 8
        written = _NUMBER[self.encoding_format] if self.vectors else 0
        pairs = 0
        if self.word:
            pairs = min(tokens, sum(text.count(self.word) for text in self.texts)) ** 2
        return _OWN + numbers * (4 + written) + batch + pairs * _NUMBER["float"] + tokens * 1000

    def _layers(self, model: ModelSize) -> tuple[int, int]:
        """How many layers are read, and how many are side by side in a vector."""
        if isinstance(self.layer, list):
            return len(self.layer), len(self.layer)
        if not isinstance(self.layer, str):
            return 1, 1
        found = re.search(r"last-(\d{1,4})$", self.layer)
        count = min(int(found[1]), model.layers) if found else model.layers
        return count, count if self.layer.startswith("concat") else 1


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

    def answer_bytes(self, model: ModelSize) -> int:
        return _OWN + 1024 * model.dimension * 12 + len(self.text) * 10 * _CHARACTER


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
