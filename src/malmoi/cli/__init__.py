"""The command line: one file per command, each a thin layer over a library function.

This is the one place where malmoi's exceptions become a line on stderr and an exit code.
"""

import logging
import os
import sys
import time
import warnings
from importlib import import_module
from typing import Annotated, Literal, NoReturn, TextIO

import typer

from .. import __version__
from ..bundle.bundle import GRAPH, POOLING
from ..errors import CutWarning, MalmoiError
from ..runtime.session import DEVICE
from .help import PANELS, example_of, language, translate
from .options import opt
from .output import complain, install_handler

_NAMES = """
encode similarity words vocabulary terms index search link redact rerank compare tag answer
train evaluate classify keywords cluster mine negatives export info serve key mcp
"""
# Every command with its module: a command starts sooner if the others are not imported.
COMMANDS = {name: "serve" if name == "key" else name for name in _NAMES.split()}
GROUPS = ("lexicon", "corpus")
_PATIENCE = 10.0  # seconds


def build(only: str | None = None) -> typer.Typer:
    """Build the command line; with only one command if it is named."""
    made = typer.Typer(
        name="malmoi",
        help="Korean, English and mixed text made comparable: vectors without torch or network.",
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, module in COMMANDS.items():
        if only in (None, name):
            command = getattr(import_module(f".{module}", __name__), name)
            made.command(epilog=example_of(name), rich_help_panel=PANELS.get(name))(command)
    for name in GROUPS:
        if only in (None, name):
            app = import_module(f".{name}", __name__).app
            made.add_typer(app, name=name, rich_help_panel=PANELS.get(name))
    made.callback()(options)
    return made


def __getattr__(name: str) -> typer.Typer:
    if name == "app":  # with all commands, for use from Python
        return build()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"malmoi {__version__}")
        raise typer.Exit


def options(
    version: Annotated[
        bool, opt("Show the version.", "--version", callback=_version, is_eager=True)
    ] = False,
    verbose: Annotated[bool, opt("Log more: every step and file.", "--verbose", "-v")] = False,
    quiet: Annotated[bool, opt("Log only warnings and errors.", "--quiet", "-q")] = False,
    device: Annotated[
        Literal["auto", "cpu", "cuda", "directml", "coreml", "openvino"] | None,
        opt("Where graphs run, if the installed onnxruntime can; the processor if left out."),
    ] = None,
    graph: Annotated[
        str | None, opt("The ONNX graph to use of a model folder with several, by its name.")
    ] = None,
    pooling: Annotated[
        str | None, opt("How an encoder's folder with a graph makes a vector, if it does not say.")
    ] = None,
) -> None:
    """Apply the options before the command."""
    for name, value in ((DEVICE, device), (GRAPH, graph), (POOLING, pooling)):
        if value is not None:
            os.environ[name] = value  # read when a model is opened, by workers too
    install_handler(logging.DEBUG if verbose else logging.WARNING if quiet else logging.INFO)


def main() -> NoReturn:
    """Run the command line; every outcome is an exit code and at most one line on stderr."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # Lone surrogates come out as \udXXX, as they do in JSON.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    warnings.showwarning = _show_warning
    warnings.simplefilter("always", CutWarning)
    asked = next((word for word in sys.argv[1:] if not word.startswith("-")), "")
    try:
        built = build(asked if asked in COMMANDS or asked in GROUPS else None)
        command = typer.main.get_command(built)
        (translate(command) if language() == "ko" else command)()
    except MalmoiError as error:
        _wait_for_the_first()
        complain(str(error))
        _leave(1)
    except OSError as error:
        complain(
            f"{error.strerror or error}: {error.filename or 'output'}. Check disk and permissions."
        )
        _leave(1)
    # Typer turns Ctrl-C into 130; it does not see one while a command is imported.
    except (SystemExit, KeyboardInterrupt) as leaving:
        code = leaving.code if isinstance(leaving, SystemExit) else 130
        if code == 130 and _is_first():
            complain(getattr(leaving, "message", "stopped; nothing half-written was left behind"))
        _leave(code)
    _leave(0)


def _is_first() -> bool:
    """Whether this is the process of its machine that speaks; torchrun starts several."""
    return os.environ.get("LOCAL_RANK", "0") == "0"


def _wait_for_the_first() -> None:
    """Let the first process report what all have found; torchrun then ends the others.

    A process that is still there afterwards is the only one with an error, and reports it.
    """
    if not _is_first():
        time.sleep(_PATIENCE)


def _leave(code: str | int | None) -> NoReturn:
    """Exit without a second error from a closed pipe when the interpreter flushes."""
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
    """Show malmoi's own warnings as one line; those of libraries do not concern a user."""
    if issubclass(category, CutWarning):
        complain(str(message).replace('on_long="windows"', "--on-long windows"))
