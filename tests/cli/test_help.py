"""Help for people: one page, examples that hold, Korean, and suggestions for what is misspelt."""

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer

from malmoi.cli import app
from malmoi.cli.commands import COMMANDS, EXAMPLES, FIRST_STEPS, RENAMED
from malmoi.cli.display import width
from malmoi.cli.help import language, overview, read_korean
from tests.support.graphs import Run


@pytest.fixture(scope="module")
def command() -> Any:
    return typer.main.get_command(app)


def find(command: Any, path: str) -> Any:
    for name in path.split():
        command = command.commands[name]
    return command


def leaves(command: Any) -> dict[str, Any]:
    """Every command by its path."""
    found = {}
    for name, entry in COMMANDS.items():
        own = command.commands[name]
        below = getattr(own, "commands", {}) if entry.group else {"": own}
        found |= {f"{name} {one}".strip(): leaf for one, leaf in below.items()}
    return found


def test_commands_are_few_and_each_has_an_example(command: Any) -> None:
    assert set(command.commands) == set(COMMANDS) and len(COMMANDS) <= 20
    assert set(EXAMPLES) == set(leaves(command))
    for path, leaf in leaves(command).items():
        own = [one for one in leaf.params if not getattr(one, "rich_help_panel", None)]
        options = [one for one in own if one.param_type_name == "option"]
        assert len(options) <= 12, path


@pytest.mark.parametrize("path", EXAMPLES)
def test_examples_have_options_that_exist(command: Any, path: str) -> None:
    words = shlex.split(EXAMPLES[path])
    depth = len(path.split())
    assert words[: depth + 1] == ["malmoi", *path.split()]
    find(command, path).make_context(path, words[depth + 1 :])  # read, not run


def test_help_fits_a_screen_and_first_steps_run(run_here: Run) -> None:
    done = run_here("--help")
    assert done.returncode == 0 and len(done.stdout.splitlines()) <= 45
    assert all(name in done.stdout for name in COMMANDS)
    first = run_here().stdout
    for title, line in FIRST_STEPS:
        assert title in first and line in first
        if "FOLDER" not in line:
            stdin = shlex.split(line)[1] if line.startswith("echo") else ""
            words = shlex.split(line.partition("| ")[2] or line)
            done = run_here(*words[1:], "--table", stdin=stdin)
            assert done.returncode == 0 and done.stdout, done.stderr


def test_help_is_korean_where_the_reader_is(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert language({"LC_ALL": "ko_KR.UTF-8"}) == "ko" and language({"LANG": "C.UTF-8"}) == "en"
    korean = read_korean()
    needed = [text for entry in COMMANDS.values() for text in (entry.panel, entry.summary)]
    needed += [title for title, _ in FIRST_STEPS]

    def walk(one: Any) -> None:
        needed.extend(" ".join(part.split()) for part in (one.help or "").split("\n\n"))
        needed.extend(option.help for option in one.params if getattr(option, "help", None))
        for below in getattr(one, "commands", {}).values():
            walk(below)

    walk(command)
    for text in filter(None, needed):
        assert korean.get(text), f"add to korean.tsv: {text}"
        assert any("가" <= letter <= "힣" for letter in korean[text]), korean[text]
    monkeypatch.setenv("MALMOI_LANG", "ko")
    assert "벡터와 유사도" in overview("0")


@pytest.mark.parametrize("columns", [40, 79, 80, 100])
def test_korean_help_keeps_to_the_terminal(columns: int) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "malmoi", "text", "keywords", "--help"],
        env=os.environ | {"MALMOI_LANG": "ko", "COLUMNS": str(columns)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert "옵션" in done.stdout and "이 도움말을" in done.stdout and "Options" not in done.stdout
    assert all(width(line) <= columns for line in lines if "malmoi" not in line)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("similarity 배 배 --calibratd", "no such option: --calibratd; did you mean --calibrated?"),
        ("similarty 배 배", "no command similarty; did you mean similarity?"),
        ("corpus lst x", "no command lst; did you mean list?"),
        ("link sample --note x.txt", "malmoi link --note is now: malmoi notes read"),
        *((f"{old} x", f"is now: malmoi {new}") for old, new in RENAMED.items() if "-" not in old),
    ],
)
def test_a_wrong_name_says_the_right_one(run_here: Run, words: str, said: str) -> None:
    done = run_here(*words.split())
    assert done.returncode == 2 and said in done.stderr
    assert done.stderr.count("\n") == 1


def test_a_terminal_gets_text_and_a_pipe_gets_json(run_here: Run) -> None:
    asked = ("similarity", "고양이", "cat", "강아지", "-m", "ko-en-static")
    assert run_here(*asked).stdout.startswith('{"a": "고양이"')
    table = run_here(*asked, "--table").stdout.splitlines()
    assert len(table) == 4 and table[1].split()[:3] == ["1", "고양이", "–"]
    assert "\x1b" not in "".join(table)
