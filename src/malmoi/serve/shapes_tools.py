"""The JSON of search, linking, words, keywords and the map; the rest is in shapes.py."""

from typing import Annotated, Any, Literal

from pydantic import Field

from .shapes import Shape, Texts, example

Name = Annotated[str | None, Field(max_length=200, description="As /v1/info has it.")]
Count = Annotated[int, Field(ge=1, le=100)]
Atom = str | int | float | bool
Layer = Annotated[int, Field(ge=0, le=1000)]
Layers = Annotated[list[Layer], Field(min_length=1, max_length=32)]


class SearchAsked(Shape):
    """A question to a corpus; the first one that is served when none is named."""

    model_config = example(query="환불은 언제 되나요?", k=5, mode="hybrid", filter={"lang": "ko"})

    query: str
    corpus: Name = None
    k: Count = 10
    mode: Literal["hybrid", "dense", "keyword"] = "hybrid"
    rerank: Annotated[bool, Field(description="Let the reranker order what was found.")] = False
    depth: Annotated[int, Field(ge=1, le=200, description="How many a reranker reads.")] = 50
    filter: Annotated[dict[str, Atom], Field(max_length=16, default_factory=dict)]


class Found(Shape):
    """A document that was found; `rank_before` is its place before it was reranked."""

    id: str
    text: str
    score: float
    scores: dict[str, float]
    metadata: dict[str, Any]
    matches: list[tuple[int, int]]
    rank_before: int | None


class PlaceBefore(Shape):
    """A document among the first before reranking: its score then, and its place now."""

    id: str
    text: str
    score: float
    rank_after: int


class SearchGiven(Shape):
    """The documents that fit best, the best first; `before` is the order before reranking."""

    corpus: str
    mode: str
    reranked: bool
    documents: int
    hits: list[Found]
    before: list[PlaceBefore]


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
    """The mentions of a note, in order; offsets count code points.

    `cut` is where reading stopped for want of time, null for a note that was read whole.
    """

    lexicon: str
    mentions: list[FoundMention]
    cut: int | None


class WordsAsked(Shape):
    """Texts to cut into words, and a word whose occurrences are compared."""

    model_config = example(
        texts=["배를 타고 바다에 나간다", "배가 달고 맛있다"], word="배", layer=6
    )

    texts: Annotated[list[str], Field(min_length=1, max_length=64)]
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
    encoding_format: Literal["float", "base64"] = "float"


class TokenShown(Shape):
    """One piece of a word, with its vector."""

    text: str
    start: int
    end: int
    special: bool
    vector: list[float] | str


class WordShown(Shape):
    """A word, where it stands in its text, and its pieces; vectors when they were asked for."""

    word: str
    start: int
    end: int
    pieces: list[str]
    vector: list[float] | str | None = None
    tokens: list[TokenShown] | None = None


class WordPlace(WordShown):
    """A word, and which of the texts it stands in."""

    text: int


class WordsGiven(Shape):
    """The words of each text; for the word asked about, cosines and a flat picture."""

    model: str
    layer: int | str | list[int]
    layers: int
    texts: list[list[WordShown]]
    occurrences: list[WordPlace]
    scores: list[list[float]]
    points: list[tuple[float, float]]


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


class KeywordsAsked(Shape):
    """A text whose telling phrases are wanted."""

    model_config = example(
        text="당뇨병 환자의 혈당을 검사했다. Diabetic nephropathy was ruled out.", top=5
    )

    text: str
    top: Count = 10
    diversity: Annotated[
        float, Field(ge=0, le=1, description="How much a phrase loses by likeness to others.")
    ] = 0.3


class Keyword(Shape):
    """A phrase, how near it is to its text, and how often it stands there."""

    text: str
    score: float
    count: int


class KeywordsGiven(Shape):
    """The phrases, the best first."""

    keywords: list[Keyword]
