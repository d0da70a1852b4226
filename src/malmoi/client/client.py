"""The methods of the local objects, answered by a server."""

import base64
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import NDArray

from ..clinical.context import Assertion
from ..clinical.reader import NoteMention
from ..clinical.rules import Reason
from ..corpus import DocumentHits, Match
from ..corpus import Hit as CorpusHit
from ..encoders.base import BaseEncoder, OnLong, as_list, warn_of_cut
from ..encoders.words import Layers, Merge, PieceVector, Word
from ..errors import CutWarning
from ..heads.reranker import RankedText
from ..runtime.pooling import Precision, check_precision, normalize, to_precision
from ..terms import Candidate, Linked
from ..text.cleanup import as_text
from ..types import Floats
from .transport import Transport

if TYPE_CHECKING:
    from ..mining.keywords import Keyword

# One request brings at most this many texts and characters: well inside a server's limits, and
# enough to fill its batches.
_TEXTS, _CHARACTERS = 256, 400_000
_WORD_TEXTS, _WORD_CHARACTERS = 16, 1_500  # each of their tokens comes back with a vector


class Client(BaseEncoder):
    """A malmoi server, used like the objects it serves. Safe to share among threads.

    `timeout` is the seconds that one try may take, `retries` how often a try is repeated. `encode`
    and `encode_iter` take `progress` so that calls need no change; nothing is shown.
    """

    def __init__(
        self, url: str, *, api_key: str | None = None, timeout: float = 60.0, retries: int = 5
    ) -> None:
        self._transport = Transport(url, api_key=api_key, timeout=timeout, retries=retries)
        self._info: dict[str, Any] | None = None

    def __repr__(self) -> str:
        return f"<Client {self._transport.address}>"

    @property
    def info(self) -> dict[str, Any]:
        """What the server serves, and its limits; asked for once."""
        if self._info is None:
            self._info = self._transport.get("/v1/info")
        return self._info

    @property
    def name(self) -> str:
        """The served encoder's name."""
        return str(self.info["encoder"]["id"])

    @property
    def dimension(self) -> int:
        """The length of the served encoder's vectors."""
        return int(self.info["encoder"]["dimension"])

    @property
    def max_tokens(self) -> int:
        """The most tokens that the served encoder reads of a text."""
        return int(self.info["encoder"]["max_tokens"])

    def rank(self, query: str, texts: Sequence[str], *, k: int | None = None) -> list[RankedText]:
        """Sort texts by the reranker's score next to the query, as `Reranker.rank` does."""
        listed = as_list(texts)
        if not listed:
            return []
        body = {"query": as_text(query, where="query"), "documents": listed, "top_n": k}
        found = self.post("/v1/rerank", body)["results"]
        ranked = [(one["index"], one["relevance_score"]) for one in found]
        return [RankedText(index, listed[index], score) for index, score in ranked]

    def search(
        self,
        query: str,
        k: int = 10,
        *,
        mode: str = "hybrid",
        filter: Mapping[str, Any] | None = None,
        rerank: bool = False,
        depth: int = 50,
        corpus: str | None = None,
        offset: int = 0,
        late: bool = True,
        min_relevance: float = 0.0,
    ) -> list[CorpusHit]:
        """Find passages, as `Corpus.search` does; the server's first corpus when none is named.

        `offset` leaves out this many that fit better.
        """
        body: dict[str, Any] = {"query": as_text(query, where="query"), "k": k, "mode": mode}
        body |= {"filter": dict(filter or {}), "rerank": rerank, "depth": depth, "corpus": corpus}
        body |= {"late": late, "min_relevance": min_relevance}
        return [_hit(hit) for hit in self.post("/v1/search", body | {"offset": offset})["hits"]]

    def search_documents(
        self,
        query: str,
        k: int = 10,
        *,
        passages: int = 3,
        mode: str = "hybrid",
        filter: Mapping[str, Any] | None = None,
        rerank: bool = False,
        depth: int = 50,
        corpus: str | None = None,
        offset: int = 0,
        late: bool = True,
        min_relevance: float = 0.0,
    ) -> list[DocumentHits]:
        """Find documents with their best passages, as `Corpus.search_documents` does."""
        body: dict[str, Any] = {"query": as_text(query, where="query"), "k": k, "mode": mode}
        body |= {"filter": dict(filter or {}), "rerank": rerank, "depth": depth, "corpus": corpus}
        body |= {"late": late, "min_relevance": min_relevance}
        body |= {"group": True, "passages": passages, "offset": offset}
        groups = self.post("/v1/search", body)["groups"]
        return [DocumentHits(tuple(map(_hit, group["hits"]))) for group in groups]

    @overload
    def link(  # type: ignore[overload-overlap]
        self, mentions: str, *, k: int = ..., lexicon: str | None = ...
    ) -> Linked: ...
    @overload
    def link(
        self, mentions: Sequence[str], *, k: int = ..., lexicon: str | None = ...
    ) -> list[Linked]: ...
    def link(
        self, mentions: str | Sequence[str], *, k: int = 5, lexicon: str | None = None
    ) -> Linked | list[Linked]:
        """Rank concepts for a mention, or for each of a list, as `Linker.link` does."""
        found: list[Linked] = []
        for portion in _portions(as_list(mentions)):
            body = {"mentions": portion, "k": k, "lexicon": lexicon}
            found += [_linked(one) for one in self.post("/v1/link", body)["results"]]
        return found[0] if isinstance(mentions, str) else found

    def read(self, note: str, *, k: int = 5, lexicon: str | None = None) -> list[NoteMention]:
        """Give the linked mentions of a note in order, as `NoteReader.read` does.

        A note that the server had no time to read whole gives a CutWarning.
        """
        body = {"text": as_text(note, where="note"), "k": k, "lexicon": lexicon}
        found = self.post("/v1/link/note", body)
        if found.get("cut") is not None:
            warnings.warn(
                f"the note was read up to character {found['cut']:,} of {len(note):,}: the server "
                "had no time for more. Send parts.",
                CutWarning,
                stacklevel=2,
            )
        return [_mention(one) for one in found["mentions"]]

    def words(
        self,
        text: str,
        *,
        layers: Layers = "last",
        merge: Merge = "mean",
        by: Literal["spaces", "morphemes"] = "spaces",
        special: bool = False,
    ) -> list[Word]:
        """Give the words of a text with their vectors, as `Encoder.words` does."""
        [found] = self.words_of([text], layers=layers, merge=merge, by=by, special=special)
        return found

    def words_of(
        self,
        texts: str | Iterable[str],
        *,
        layers: Layers = "last",
        merge: Merge = "mean",
        by: Literal["spaces", "morphemes"] = "spaces",
        special: bool = False,
    ) -> Iterator[list[Word]]:
        """Yield the words of each text, of one string once; options are those of `words`."""
        texts = [texts] if isinstance(texts, str) else texts
        chosen = layers if isinstance(layers, str | int) else list(layers)
        options = {"layer": chosen, "merge": merge, "by": by, "special": special}
        options |= {"vectors": True, "encoding_format": "base64"}
        for portion in _portions(texts, most=_WORD_TEXTS, characters=_WORD_CHARACTERS):
            found = self.post("/v1/words", {"texts": portion} | options)
            yield from ([_word(one) for one in own] for own in found["texts"])

    def keywords(self, document: str, *, top: int = 10, diversity: float = 0.3) -> "list[Keyword]":
        """Give the phrases that say what a text is about, as `mining.keywords` does."""
        from ..mining.keywords import Keyword

        body = {"text": as_text(document, where="document"), "top": top, "diversity": diversity}
        return [Keyword(**one) for one in self.post("/v1/keywords", body)["keywords"]]

    def post(self, path: str, body: object) -> Any:
        """Send JSON to a path and give the JSON that comes back."""
        return self._transport.post(path, body)[0]

    def close(self) -> None:
        """Close the connections that no thread is using."""
        self._transport.close()

    def _width(self) -> int:
        return self.dimension

    def _options(
        self, dim: int | None, precision: Precision, prompt: str | None, on_long: OnLong
    ) -> tuple[Precision, dict[str, Any]]:
        check_precision(precision)  # the server checks the others
        return precision, {"dimensions": dim, "prompt": prompt, "on_long": on_long}

    def _blocks(
        self,
        texts: Iterable[str],
        options: tuple[Precision, dict[str, Any]],
        *,
        total: int | None,
        progress: bool,
    ) -> Iterator[NDArray[Any]]:
        precision, fields = options
        cut = count = 0
        for chunk in _portions(texts):
            body = {"input": chunk, "encoding_format": "base64", **fields}
            answer, headers = self._transport.post("/v1/embeddings", body)
            vectors = np.stack([_floats(row["embedding"]) for row in answer["data"]])
            cut, count = cut + int(headers.get("x-malmoi-cut", 0)), count + len(vectors)
            yield vectors if precision == "float32" else to_precision(normalize(vectors), precision)
        warn_of_cut(cut, count, "the model reads")


def _hit(one: Mapping[str, Any]) -> CorpusHit:
    names = ("id", "text", "score", "metadata", "scores", "title", "page", "type", "modified")
    fields = {name: one[name] for name in (*names, "number", "snippet", "relevance")}
    met = ((tuple(m["query"]), tuple(m["passage"]), m["cosine"]) for m in one["met"])
    matches = tuple(Match(*m) for m in met)
    return CorpusHit(**fields, headings=tuple(one["headings"]), matches=matches)


def _word(one: Mapping[str, Any]) -> Word:
    tokens = (
        PieceVector(t["text"], t["start"], t["end"], _floats(t["vector"]), t["special"])
        for t in one["tokens"]
    )
    vector = _floats(one["vector"])
    return Word(one["word"], one["start"], one["end"], vector, tuple(tokens))


def _floats(coded: str) -> Floats:
    return np.frombuffer(base64.b64decode(coded), dtype="<f4").astype(np.float32)


def _linked(one: Mapping[str, Any]) -> Linked:
    candidates = (
        Candidate(**(candidate | {"names": tuple(candidate["names"])}))
        for candidate in one["candidates"]
    )
    return Linked(one["mention"], tuple(candidates))


def _mention(one: Mapping[str, Any]) -> NoteMention:
    place, attributes = (one["start"], one["end"], one["mention"]), tuple(one["attributes"])
    why = (Reason(**{f.name: row[f.name] for f in fields(Reason)}) for row in one.get("why", ()))
    known = {f.name: one[f.name] for f in fields(Assertion) if f.name != "why"}
    said = Assertion(**known, why=tuple(why))
    linked, uncertain = _linked(one), one["uncertain"]
    return NoteMention(*place, attributes, one["by"], linked, said, uncertain=uncertain)


def _portions(
    texts: Iterable[str], *, most: int = _TEXTS, characters: int = _CHARACTERS
) -> Iterator[list[str]]:
    """Cut a stream of texts into what one request brings.

    >>> [len(portion) for portion in _portions(["배"] * 300)]
    [256, 44]
    """
    portion: list[str] = []
    held = 0
    for i, text in enumerate(texts):
        size = len(as_text(text, where=f"texts[{i}]"))
        if portion and (len(portion) == most or held + size > characters):
            yield portion
            portion, held = [], 0
        portion.append(text)
        held += size
    if portion:
        yield portion
