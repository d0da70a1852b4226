"""A server of the Model Context Protocol: search, link and similarity for assistants."""

from collections.abc import Mapping
from typing import Annotated, Any, TypeVar

from .. import __version__
from ..corpus import Corpus
from ..encoders import TextEncoder
from ..errors import OptionError, require
from ..terms import Linker

require("mcp", extra="mcp", purpose="malmoi mcp")

from mcp.server import MCPServer  # noqa: E402
from pydantic import Field  # noqa: E402

T = TypeVar("T")
_MOST = 50  # hits or candidates of one answer
# What one call may send; the first text that is wrong ends the check.
Text = Annotated[str, Field(max_length=200_000)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=256, fail_fast=True)]


def make_server(
    encoder: TextEncoder, corpora: Mapping[str, Corpus], lexicons: Mapping[str, Linker]
) -> Any:
    """Make the server; what is not given has no tool. No path in a request is ever opened."""
    server = MCPServer("malmoi", version=__version__, log_level="WARNING")

    def similarity(a: Texts, b: Texts) -> list[list[float]]:
        """Cosines of texts in Korean or English: a row for each of a, a column for each of b."""
        rows: list[list[float]] = encoder.similarity(a, b).astype(float).round(4).tolist()
        return rows

    def search(query: Text, corpus: str | None = None, k: int = 5) -> list[dict[str, Any]]:
        """Find the passages of a corpus that fit a query best, by meaning and words."""
        hits = _named(corpora, corpus, "corpus").search(query, _checked(k))
        return [
            {"id": hit.id, "text": hit.text, "score": round(hit.score, 4), "title": hit.title}
            | {"source": hit.source, "page": hit.page, "metadata": dict(hit.metadata)}
            for hit in hits
        ]

    def link(mention: Text, lexicon: str | None = None, k: int = 5) -> list[dict[str, Any]]:
        """Link a clinical term, in Korean or English, to the codes of a lexicon."""
        found = _named(lexicons, lexicon, "lexicon").link(mention, k=_checked(k))
        return [one.to_json() for one in found.candidates]

    server.tool()(similarity)
    if corpora:
        server.tool(description=f"{search.__doc__} Corpora: {', '.join(corpora)}.")(search)
    if lexicons:
        server.tool(description=f"{link.__doc__} Lexicons: {', '.join(lexicons)}.")(link)
    return server


def _named(served: Mapping[str, T], name: str | None, kind: str) -> T:
    if name is None:
        return next(iter(served.values()))
    if name not in served:
        raise OptionError(f"there is no such {kind}; expected one of: {', '.join(served)}.")
    return served[name]


def _checked(k: int) -> int:
    if not 1 <= k <= _MOST:
        raise OptionError(f"k is {k}; expected 1 to {_MOST}.")
    return k
