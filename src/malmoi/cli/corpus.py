"""`malmoi corpus`: what concerns a corpus as a whole."""

from typing import Annotated

import typer

from ..corpus.ingest import copy_corpus
from ..errors import counted
from .options import arg
from .output import say, watched

app = typer.Typer(help="Copy a corpus between a file and Milvus.", no_args_is_help=True)


@app.callback()
def corpus() -> None:
    """A group, although it has only one command so far."""


@app.command()
def copy(
    source: Annotated[str, arg("A corpus file, or an address in Milvus.")],
    target: Annotated[str, arg("A new file, milvus://HOST:PORT/NAME, or milvus:FILE.db.")],
) -> None:
    """Copy every document with its vector into another store; nothing is encoded again."""
    count = copy_corpus(source, target, progress=watched())
    say(f"copied {counted(count, 'document')} to {target}")
