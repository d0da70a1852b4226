"""A server of the Model Context Protocol: search, link and similarity for assistants."""

import functools
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ParamSpec, TypeVar

from .. import __version__
from ..corpus import Corpus, Hit
from ..encoders import TextEncoder
from ..errors import MalmoiError, OptionError, require
from ..terms import Linker

require("mcp", extra="mcp", purpose="malmoi serve --mcp")

from mcp.server import MCPServer  # noqa: E402
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402
from pydantic import Field  # noqa: E402

T = TypeVar("T")
P = ParamSpec("P")
_MOST = 50  # hits or candidates of one answer
# What one call may send; the first text that is wrong ends the check.
Text = Annotated[str, Field(max_length=200_000)]
Share = Annotated[float, Field(ge=0, le=1)]
Texts = Annotated[list[Text], Field(min_length=1, max_length=256, fail_fast=True)]
Condition = Annotated[str, Field(max_length=1000)]
Conditions = Annotated[
    Annotated[list[Condition], Field(max_length=16, fail_fast=True)] | None,
    Field(description='Of fields of documents, all to be met: ["year>=2020", "type=pdf"].'),
]


def make_server(
    encoder: TextEncoder, corpora: Mapping[str, Corpus], lexicons: Mapping[str, Linker]
) -> Any:
    """Make the server; what is not given has no tool. No path in a request is ever opened."""
    server = MCPServer("malmoi", version=__version__, log_level="WARNING")

    def similarity(a: Texts, b: Texts) -> list[list[float]]:
        """Cosines of texts in Korean or English: a row for each of a, a column for each of b."""
        rows: list[list[float]] = encoder.similarity(a, b).astype(float).round(4).tolist()
        return rows

    def search(
        query: Text,
        corpus: str | None = None,
        k: int = 5,
        filter: Conditions = None,
        min_relevance: Share = 0.0,
    ) -> list[dict[str, Any]]:
        """Find the passages of a corpus that fit a query best, by meaning and words.

        Relevance is how likely a passage is right, from 0 to 1; below 0.15 hardly any is.
        """
        asked = _named(corpora, corpus, "corpus")
        hits = asked.search(query, _checked(k), filter=filter or None, min_relevance=min_relevance)
        return [_hit(hit) for hit in hits]

    def link(mention: Text, lexicon: str | None = None, k: int = 5) -> list[dict[str, Any]]:
        """Link a clinical term, in Korean or English, to the codes of a lexicon."""
        found = _named(lexicons, lexicon, "lexicon").link(mention, k=_checked(k))
        return [one.to_json() for one in found.candidates]

    server.tool()(_saying_errors(similarity))
    if corpora:
        server.tool(description=f"{search.__doc__} Corpora: {', '.join(corpora)}.")(
            _saying_errors(search)
        )
    if lexicons:
        server.tool(description=f"{link.__doc__} Lexicons: {', '.join(lexicons)}.")(
            _saying_errors(link)
        )
    return server


def _hit(hit: Hit) -> dict[str, Any]:
    found = {"id": hit.id, "passage": hit.number, "text": hit.text, "score": round(hit.score, 4)}
    found["relevance"] = round(hit.relevance, 4)
    about = {"title": hit.title, "headings": list(hit.headings), "source": hit.source}
    return found | about | {"page": hit.page, "metadata": dict(hit.metadata)}


def _saying_errors(tool: Callable[P, T]) -> Callable[P, T]:
    """Let a tool's errors reach the assistant: of others it hears only that there was one."""

    @functools.wraps(tool)
    def run(*args: P.args, **options: P.kwargs) -> T:
        try:
            return tool(*args, **options)
        except MalmoiError as error:
            raise ToolError(str(error)) from error

    return run


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
