"""`malmoi key`: keys for the server."""

from pathlib import Path
from typing import Annotated

import typer

from .options import arg, opt
from .output import say

app = typer.Typer()


@app.callback()
def keys() -> None:
    """Make keys for the server."""


@app.command()
def add(
    name: Annotated[str, arg("Who the key is for: letters, digits, dot, dash.")],
    file: Annotated[Path, opt("The file that keeps its hash.", "--file", "-f")],
    rate: Annotated[int, opt("Requests a minute.", min=1)] = 600,
) -> None:
    """Make an API key: it is printed once, and the file keeps its hash alone."""
    from ..serve.api_keys import make_key

    typer.echo(make_key(name, file, rate=rate))
    say(f"{file} keeps the hash of the key for {name}; the key itself cannot be shown again")
