"""Help for people: groups, examples that hold, Korean, and suggestions for what is misspelt."""

import os
import shlex
import subprocess
import sys
from typing import Any

import pytest
import typer
from click.testing import CliRunner

from malmoi.cli import COMMANDS, GROUPS, app
from malmoi.cli.help import EXAMPLES, PANELS, language, read_korean, translate
from tests.support.graphs import Run


@pytest.fixture(scope="module")
def command() -> Any:
    return typer.main.get_command(app)


def test_every_command_has_a_group_and_an_example() -> None:
    assert set(PANELS) == {*COMMANDS, *GROUPS}
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_examples_have_options_that_exist(command: Any, name: str) -> None:
    words = shlex.split(EXAMPLES[name])
    assert words[:2] == ["malmoi", name]
    command.commands[name].make_context(name, words[2:])  # read, not run


def test_help_is_korean_where_the_reader_is(command: Any) -> None:
    assert language({"LC_ALL": "ko_KR.UTF-8"}) == "ko" and language({"LANG": "C.UTF-8"}) == "en"
    korean = read_korean()

    def walk(one: Any) -> None:
        said = [" ".join(part.split()) for part in (one.help or "").split("\n\n")]
        said += [option.help for option in one.params if getattr(option, "help", None)]
        for text in said:
            assert korean.get(text), f"{one.name}: add to korean.tsv what it says: {text}"
            assert any("가" <= letter <= "힣" for letter in korean[text]), korean[text]
        for below in getattr(one, "commands", {}).values():
            walk(below)

    walk(command)
    made = translate(typer.main.get_command(app))
    assert "코사인" in made.commands["similarity"].help
    assert made.commands["similarity"].epilog.startswith("예:")
    assert made.commands["similarity"].rich_help_panel == "벡터와 유사도"


def test_the_language_comes_from_the_environment() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "malmoi", "similarity", "--help"],
        env=os.environ | {"MALMOI_LANG": "ko", "COLUMNS": "120"},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=True,
    )
    assert "코사인" in done.stdout and "이 도움말을 보여 주고" in done.stdout
    assert "옵션" in done.stdout and "Options" not in done.stdout


@pytest.mark.parametrize("columns", [79, 80, 81, 84, 100])
def test_no_word_of_korean_help_is_cut(monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """rich cut the last letters of lines of Hangul that just fit."""
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", columns)
    made = translate(typer.main.get_command(app))
    shown = CliRunner().invoke(made, ["keywords", "--help"]).output
    words = "".join(shown.replace("│", " ").split())
    for option in made.commands["keywords"].params:
        assert "".join(option.help.split()) in words, option.name


def test_what_is_misspelt_is_suggested(run_here: Run) -> None:
    done = run_here("similarity", "배", "배", "--calibratd")
    assert done.returncode == 2 and "--calibrated" in done.stderr
    done = run_here("similarty", "배", "배")
    assert done.returncode == 2 and "similarity" in done.stderr
