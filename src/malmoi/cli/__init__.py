"""The command line: one file per command, each a thin skin over a library function.

This is the one place where malmoi's exceptions become a line on stderr and an exit code.
"""

import os
import sys
import warnings
from typing import Annotated, NoReturn, TextIO

import typer

from .. import __version__
from ..errors import CutWarning, MalmoiError
from .classify import classify
from .cluster import cluster
from .corpus import app as corpus
from .encode import encode
from .evaluate import evaluate
from .export import export
from .index import index
from .info import info
from .keywords import keywords
from .lexicon import app as lexicon
from .link import link
from .mine import mine
from .negatives import negatives
from .output import say
from .rerank import rerank
from .search import search
from .serve import key, serve
from .similarity import similarity
from .tag import tag
from .terms import terms
from .train import train
from .words import words

app = typer.Typer(
    name="malmoi",
    help="Korean, English and mixed text made comparable: vectors without torch or network.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (
    encode,
    similarity,
    words,
    terms,
    index,
    search,
    link,
    rerank,
    tag,
    train,
    evaluate,
    classify,
    keywords,
    cluster,
    mine,
    negatives,
    export,
    info,
    serve,
    key,
):
    app.command()(command)
app.add_typer(lexicon, name="lexicon")
app.add_typer(corpus, name="corpus")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"malmoi {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Take what stands before the command."""


def main() -> NoReturn:
    """Run the command line; every outcome is an exit code and at most one line of complaint."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Lone surrogates come out as \udXXX, which is what JSON would say too.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", CutWarning)
    try:
        app()
    except MalmoiError as error:
        say(str(error))
        _leave(1)
    except OSError as error:
        say(f"{error.strerror or error}: {error.filename or 'output'}. Check disk and permissions.")
        _leave(1)
    except SystemExit as leaving:
        if leaving.code == 130:  # what typer makes of Ctrl-C
            say("stopped; nothing half-written was left behind")
        _leave(leaving.code)
    _leave(0)


def _leave(code: str | int | None) -> NoReturn:
    """Exit without a second complaint from a closed pipe when the interpreter flushes."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or 1
    raise SystemExit(code)


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Show malmoi's own warnings as one line; those of libraries mean nothing to a user."""
    if issubclass(category, CutWarning):
        say(str(message).replace('on_long="windows"', "--on-long windows"))
