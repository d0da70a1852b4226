"""Help for people: plain text at the terminal's width, in Korean where the reader's language is.

English is what the commands say themselves. `korean.tsv` holds the sentences in Korean: a test
fails where one is missing. MALMOI_LANG (ko or en) decides, or else the locale.
"""

import difflib
import os
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from .commands import COMMANDS, EXAMPLES, FIRST_STEPS, RENAMED
from .display import pad, terminal_width, width, wrap

_LEFT = 26  # columns for names


def language(environment: Mapping[str, str] = os.environ) -> str:
    """The language of help, "ko" or "en".

    >>> language({"LANG": "ko_KR.UTF-8"}), language({"LANG": "ko_KR.UTF-8", "MALMOI_LANG": "en"})
    ('ko', 'en')
    """
    for name in ("MALMOI_LANG", "LC_ALL", "LC_MESSAGES", "LANG"):
        if value := environment.get(name, ""):
            return "ko" if value.lower().startswith("ko") else "en"
    return "en"


@cache
def read_korean() -> dict[str, str]:
    """The sentences of help in Korean, by their English ones."""
    lines = (Path(__file__).parent / "korean.tsv").read_text("utf-8").splitlines()[1:]
    pairs = (line.partition("	") for line in lines)
    return {english: korean for english, _, korean in pairs}


def said(text: str) -> str:
    """A sentence of help in the reader's language."""
    text = " ".join(text.split())
    return read_korean().get(text, text) if language() == "ko" else text


def _columns(rows: Iterable[tuple[str, str]], columns: int) -> list[str]:
    """Lay out names and what they mean, side by side, or below each other if a name is long."""
    lines = []
    for name, text in rows:
        first, *rest = wrap(text, columns - _LEFT) or [""]
        if width(name) > _LEFT - 4:
            lines.append(f"  {name}")
            rest = [first, *rest]
        else:
            lines.append(f"  {pad(name, _LEFT - 2)}{first}".rstrip())
        lines += [" " * _LEFT + line for line in rest if line]
    return lines


def overview(version: str) -> str:
    """What `malmoi --help` prints: every command with a line, by panel."""
    columns = terminal_width()
    lines = [
        *wrap(
            f"malmoi {version}: {said('Korean, English and mixed text made comparable.')}", columns
        ),
        f"{said('Usage')}: malmoi [-v | -q] [--device …] COMMAND …",
    ]
    panel = ""
    rows: list[tuple[str, str]] = []
    for name, entry in COMMANDS.items():
        if entry.panel != panel:
            lines += [*_columns(rows, columns), "", said(entry.panel)]
            panel, rows = entry.panel, []
        rows.append((name + " …" * entry.group, said(entry.summary)))
    lines += [*_columns(rows, columns), ""]
    lines += wrap(
        said(
            "Results are for people on a terminal and JSON lines in a pipe; --json, --csv and "
            "--table choose. All options of a command: malmoi COMMAND --help"
        ),
        columns,
    )
    return "\n".join(lines) + "\n"


def first_steps() -> str:
    """What `malmoi` alone prints: a few things to try, each a line that can be copied."""
    lines = [said("Six things to try:"), ""]
    for title, command in FIRST_STEPS:
        lines += [f"  {said(title)}", f"    {command}"]
    return "\n".join([*lines, "", f"{said('All commands')}: malmoi --help"]) + "\n"


def show_help(path: str, command: Any, context: Any, formatter: Any) -> None:
    """Write the help of a command or group: usage, what it does, options, those used rarely."""
    columns = terminal_width()
    below = getattr(command, "commands", {})
    given = [_option(one)[0] for one in command.params if one.param_type_name == "argument"]
    pieces = ["malmoi", path, *given, *["COMMAND …"] * bool(below), "[OPTIONS]"]
    lines = [f"{said('Usage')}: {' '.join(pieces)}", ""]
    for part in (command.help or "").split("\n\n"):
        lines += [*wrap(said(part), columns), ""]
    if below:
        rows = [(name, said((one.help or "").split("\n\n")[0])) for name, one in below.items()]
        lines += [said("Commands"), *_columns(rows, columns), ""]
    panels: dict[str, list[tuple[str, str]]] = {}
    for option in [*command.params, command.get_help_option(context)]:
        if option is None or getattr(option, "hidden", False):
            continue
        title = getattr(option, "rich_help_panel", None) or f"{option.param_type_name}s"
        panels.setdefault(title.capitalize(), []).append(_option(option))
    for title in sorted(panels, key=lambda one: ("Arguments", "Options", "More").index(one)):
        lines += [said(title), *_columns(panels[title], columns), ""]
    if path in EXAMPLES:
        lines.append(f"{said('Example:')} {EXAMPLES[path]}")
    formatter.write("\n".join(lines).rstrip() + "\n")


def _option(option: Any) -> tuple[str, str]:
    """Give an option's names with what they take, and what it does with its default."""
    text = said(getattr(option, "help", None) or "")
    if option.param_type_name == "argument":
        name = option.name.upper() + "…" * (option.nargs != 1)
        return name if option.required else f"[{name}]", text
    given = sorted(option.opts, key=len) if option.name == "help" else option.opts  # of a set
    names = ", ".join([*given, *option.secondary_opts])
    kind, choices = _kind(option)
    if len(choices) > 3:
        text += f" [{', '.join(choices)}]"
    if not (option.is_flag or option.count):
        names += f" {'|'.join(choices)}" if 0 < len(choices) <= 3 else f" {kind}"
    if isinstance(option.default, str | int | float) and type(option.default) is not bool:
        text += f" [{said('default')}: {option.default}]" if option.default != "" else ""
    return names, text


def _kind(option: Any) -> tuple[str, tuple[str, ...]]:
    """Say what an option takes: N, X, FILE or TEXT, and its choices if it has some."""
    described = getattr(option, "type_descriptor", None)
    if described is None:  # typer before 0.29, or a plain option
        name, choices = str(option.type.name), tuple(getattr(option.type, "choices", ()))
        name = name.split()[0]
    else:
        kind = described.annotation
        kind = next((one for one in get_args(kind) if get_origin(one) is Literal), kind)
        choices = tuple(map(str, get_args(kind))) if get_origin(kind) is Literal else ()
        name = getattr(kind, "__name__", str(kind))
    known = {"int": "N", "integer": "N", "float": "X", "Path": "FILE", "path": "FILE"}
    return known.get(name, "TEXT"), choices


def prepare(command: Any, path: str = "") -> Any:
    """Give a command, and all below it, our help."""
    command.format_help = partial(show_help, path, command)
    for name, below in getattr(command, "commands", {}).items():
        prepare(below, f"{path} {name}".strip())
    return command


def correct(words: Sequence[str], names: Sequence[str]) -> str | None:
    """What an unknown command should have been: its name now, or the nearest."""
    for count in (2, 1):
        if (old := " ".join(words[:count])) in RENAMED:
            return f"malmoi {old} is now: malmoi {RENAMED[old]}"
    near = difflib.get_close_matches(words[0], names, 1, 0.5) if words else []
    if not near:
        return None
    return f"no command {words[0]}; did you mean {RENAMED.get(near[0], near[0])}?"
