"""The command line: every command's help as text, and its options as data."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer

import malmoi.cli
from tests.pins.annotations import annotation
from tests.pins.golden import GOLDEN, UPDATE, check_json, check_text
from tests.pins.golden import malmoi as run

_WIDTH = 100
_DRAWN_BY = f"typer {'.'.join(version('typer').split('.')[:2])}"


def commands() -> Iterator[tuple[str, Any, Any]]:
    """Every command and group: how it is called, its context, itself."""

    def walk(command: Any, name: str, parent: Any) -> Iterator[tuple[str, Any, Any]]:
        command.rich_markup_mode = None  # plain text, whatever draws the boxes of a terminal
        context = command.make_context(
            name,
            [],
            parent=parent,
            resilient_parsing=True,
            terminal_width=_WIDTH,
            max_content_width=_WIDTH,
        )
        yield context.command_path, context, command
        for child in getattr(command, "commands", {}):
            yield from walk(command.commands[child], child, context)

    yield from walk(typer.main.get_command(malmoi.cli.app), "malmoi", None)


def test_help_texts() -> None:
    path = GOLDEN / "help.txt"
    if not UPDATE and (drawn := path.read_text("utf-8").partition("\n")[0]) != _DRAWN_BY:
        pytest.skip(f"the golden text was drawn by {drawn}, here is {_DRAWN_BY}")
    parts = [_DRAWN_BY]
    for called, context, command in commands():
        lines = [line.rstrip() for line in command.get_help(context).splitlines()]
        parts.append(f"$ {called} --help\n" + "\n".join(lines))
    assert len(parts) > 20
    check_text("help.txt", "\n\n".join(parts) + "\n")


def option(parameter: Any, hint: Any) -> dict[str, Any]:
    """What an option or argument takes, without its wording."""
    extra = get_args(hint)[1] if get_origin(hint) is Annotated else None
    found = {
        "names": [*parameter.opts, *parameter.secondary_opts],
        "type": annotation(hint),
        "range": [getattr(extra, "min", None), getattr(extra, "max", None)],
        "required": parameter.required,
        "default": parameter.default,
    }
    empty = (None, False, [None, None])
    return {key: value for key, value in found.items() if value not in empty}


def test_commands_and_their_options() -> None:
    found = {}
    for path, _, command in commands():
        callback = command.callback
        # typer wraps the command's function; what that one declares is what users can give.
        declared = getattr(callback, "__wrapped__", callback)
        hints = get_type_hints(declared, include_extras=True) if declared else {}
        found[path] = {p.name: option(p, hints[p.name]) for p in command.params if p.name in hints}
    check_json("commands.json", found)


def test_help_is_printed_and_bad_usage_exits_with_2() -> None:
    for path, _, _ in commands():
        done = run(*path.split()[1:], "--help")
        assert done.code == 0 and done.out.strip(), path
    assert run("encode", "--no-such-option").code == 2
    assert run("no-such-command").code == 2
    assert run("train", "missing.toml").code == 1
