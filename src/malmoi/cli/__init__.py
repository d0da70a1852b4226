"""The command line: one file per command, each a thin layer over a library function.

This is the one place where malmoi's exceptions become a line on stderr and an exit code.
"""

import logging
import os
import re
import sys
import time
import warnings
from importlib import import_module
from typing import Annotated, Any, Literal, NoReturn, TextIO

import typer
from typer import BadParameter

from .. import __version__
from ..bundle.bundle import GRAPH, POOLING
from ..errors import CutWarning, MalmoiError
from ..runtime.session import DEVICE
from .commands import COMMANDS, RENAMED
from .help import correct, first_steps, overview, prepare
from .options import more, opt
from .output import Stopped, complain, install_handler

_PATIENCE = 10.0  # seconds
_INTERRUPTED = 130
_UsageError: Any = BadParameter.__mro__[1]  # typer brings its own click, or uses the installed one


def build(only: str | None = None) -> typer.Typer:
    """Build the command line; with only one command if it is named."""
    made = typer.Typer(
        name="malmoi",
        help="Korean, English and mixed text made comparable.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    for name, entry in COMMANDS.items():
        if only in (None, name):
            module = import_module(f".{entry.module}", __name__)
            if entry.group:
                made.add_typer(module.app, name=name, help=entry.summary)
            else:
                made.command(name)(getattr(module, name.replace("-", "_")))
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
        more("Where graphs run, if the installed onnxruntime can; the processor if left out."),
    ] = None,
    graph: Annotated[
        str | None, more("The ONNX graph to use of a model folder with several, by its name.")
    ] = None,
    pooling: Annotated[
        str | None, more("How an encoder's folder with a graph makes a vector, if it does not say.")
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
    try:
        code = _run(sys.argv[1:])
        if code == _INTERRUPTED:  # typer catches Ctrl-C while a command runs
            raise KeyboardInterrupt
        _leave(code)
    except MalmoiError as error:
        _wait_for_the_first()
        complain(str(error))
        _leave(1)
    except OSError as error:
        complain(
            f"{error.strerror or error}: {error.filename or 'output'}. Check disk and permissions."
        )
        _leave(1)
    except (typer.Abort, KeyboardInterrupt):
        if _is_first():
            complain("stopped; nothing half-written was left behind")
        _leave(130)
    except Stopped as leaving:
        if _is_first():
            complain(leaving.message)
        _leave(130)
    except SystemExit as leaving:
        _leave(leaving.code)


def _run(words: list[str]) -> int:
    """Run what was asked for, importing one command only; give the exit code."""
    asked = _command_of(words)
    if not words:
        sys.stdout.write(first_steps())
        return 0
    if not asked and words[-1] in ("-h", "--help"):
        sys.stdout.write(overview(__version__))
        return 0
    if asked == words[-1] and asked in COMMANDS and COMMANDS[asked].group:
        words = [*words, "--help"]
    command = prepare(typer.main.get_command(build(asked if asked in COMMANDS else "")))
    try:
        if asked and asked not in COMMANDS:
            near = correct(words[words.index(asked) :], [*COMMANDS, *RENAMED])
            raise _UsageError(near or f"no command {asked}")
        return int(command.main(words, prog_name="malmoi", standalone_mode=False) or 0)
    except _UsageError as error:
        complain(_usage(error, asked, words))
        return 2


def _command_of(words: list[str]) -> str:
    """Give the first word that is neither an option nor an option's value."""
    rest = iter(words)
    for word in rest:
        if word in ("--device", "--graph", "--pooling"):
            next(rest, None)
        elif not word.startswith("-"):
            return word
    return ""


def _usage(error: Any, asked: str, words: list[str]) -> str:
    """One line for bad usage, with the nearest right word and where help is."""
    context = getattr(error, "ctx", None)
    path = context.command_path if context is not None else "malmoi"
    for option in ("--note", "--notes", "--calibrate", "learn"):
        if option in words and f"{asked} {option}" in RENAMED:
            return str(correct([asked, option], []))
    text = " ".join(error.format_message().split()).rstrip(".")
    if (unknown := re.match(r"No such command '([^']+)'", text)) and context is not None:
        near = correct([unknown[1]], list(context.command.commands))
        text = near or f"no command {unknown[1]}"
    text = re.sub(r" \(Possible options: ([^)]*)\)", r"; did you mean \1?", text)
    end = "" if text.endswith("?") else "."
    return f"{text[:1].lower()}{text[1:]}{end} See: {path} --help"


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
