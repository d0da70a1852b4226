"""`malmoi key`: keys for the server."""

import datetime
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer
from typer import BadParameter

from .options import arg, opt
from .output import Row, prints_rows, say

app = typer.Typer()
_File = Annotated[Path, opt("The file that keeps the hashes.", "--file", "-f")]


@app.callback()
def keys() -> None:
    """Make keys for the server."""


@app.command()
def add(
    name: Annotated[str, arg("Who the key is for: letters, digits, dot, dash.")],
    file: _File,
    rate: Annotated[str, opt("Requests a minute, as 60 or 60/m.")] = "600",
    corpus: Annotated[
        list[str] | None, opt("A corpus that it sees; may be repeated. All without.")
    ] = None,
    lexicon: Annotated[
        list[str] | None, opt("A lexicon that it sees; may be repeated. All without.")
    ] = None,
    allow: Annotated[
        str | None, opt("What it may call: search,upload,notes,embeddings. All without.")
    ] = None,
    groups: Annotated[
        str | None, opt("Groups whose documents it sees, as hr,board; those of none without.")
    ] = None,
    until: Annotated[str | None, opt("The last day on which it is good, as 2027-01-01.")] = None,
) -> None:
    """Make an API key: it is printed once, and the file keeps its hash alone.

    A key without any right may do and see everything.
    """
    from ..serve.api_keys import Rights, make_key

    number = rate.removesuffix("/m")
    if not number.isdecimal():
        raise BadParameter(f"--rate is {rate}; expected requests a minute, as 60 or 60/m")
    try:
        day = datetime.date.fromisoformat(until) if until else None
    except ValueError:
        raise BadParameter(f"--until is {until}; expected a day, as 2027-01-01") from None
    rights = None
    if corpus or lexicon or allow is not None or groups is not None or day:
        rights = Rights(
            corpora=tuple(corpus) if corpus else None,
            lexicons=tuple(lexicon) if lexicon else None,
            allow=None if allow is None else _names(allow),
            groups=None if groups == "all" else _names(groups or ""),
            until=day,
        )
    typer.echo(make_key(name, file, rate=int(number), rights=rights))
    say(f"{file} keeps the hash of the key for {name}; the key itself cannot be shown again")


def _names(text: str) -> tuple[str, ...]:
    return tuple(one.strip() for one in text.split(",") if one.strip())


@app.command("list")
@prints_rows
def list_keys(file: _File) -> Iterable[Row]:
    """List the keys of a file with their rights; the keys themselves are not in it."""
    from ..serve.api_keys import read_keys

    for key in read_keys(file):
        yield {"name": key.name, "rate": key.rate, "rights": str(key.rights) or "all"}


@app.command()
def revoke(name: Annotated[str, arg("The name of the key.")], file: _File) -> None:
    """Delete a key; a running server follows within a second."""
    from ..serve.api_keys import revoke_key

    revoke_key(name, file)
    say(f"{file} has no key named {name} any more")
