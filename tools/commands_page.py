"""Write docs/commands.md and docs/commands.ko.md from --help: python tools/commands_page.py

A test compares the pages with what is made here.
"""

import os
from pathlib import Path
from typing import Any
from unittest.mock import patch

from typer.main import get_command

from malmoi.cli import build
from malmoi.cli.commands import COMMANDS
from malmoi.cli.help import prepare, said

DOCS = Path(__file__).parents[1] / "docs"
_HEADS = {
    "en": "# Commands\n\nEvery command with its options, as `--help` prints it. Before every "
    "command may stand\n`-v` (more messages), `-q` (warnings and errors only) and `--device`.",
    "ko": "# 명령\n\n모든 명령과 옵션을 `--help`가 출력하는 대로 적었습니다. 명령 앞에는 "
    "`-v`(더 많은 메시지),\n`-q`(경고와 오류만), `--device`를 쓸 수 있습니다.",
}


def page(language: str) -> str:
    """Give the page of a language: a heading for each panel, then the help of its commands."""
    with patch.dict(os.environ, {"MALMOI_LANG": language, "COLUMNS": "100"}):
        parts, panel = [_HEADS[language]], ""
        shown: Any = prepare(get_command(build()))
        for name, entry in COMMANDS.items():
            if entry.panel != panel:
                panel = entry.panel
                parts.append(f"## {said(panel)}")
            parts.append(f"### malmoi {name}\n\n{said(entry.summary)}")
            command = shown.commands[name]
            below = getattr(command, "commands", {})
            for path, one in [(f"{name} {n}", c) for n, c in below.items()] or [(name, command)]:
                with one.make_context(
                    path, [], resilient_parsing=True, help_option_names=["-h", "--help"]
                ) as context:
                    parts.append(f"```text\n{one.get_help(context).strip()}\n```")
    return "\n\n".join(parts) + "\n"


def path_of(language: str) -> Path:
    """Where the page of a language is."""
    return DOCS / ("commands.md" if language == "en" else f"commands.{language}.md")


if __name__ == "__main__":
    for one in _HEADS:
        path_of(one).write_text(page(one), "utf-8")
