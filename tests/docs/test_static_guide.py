"""docs/static.md does what it says: its command and its snippet run."""

import re
import shlex
from pathlib import Path

import pytest

from tests.support import ROOT, graphs

PAGE = (ROOT / "docs/static.md").read_text("utf-8")


def test_the_page_runs(
    run: object,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    graphs.write_bundle(tmp_path / "my-encoder")
    (tmp_path / "texts.txt").write_text("배를 타고 바다\nthe cat sleeps\n", "utf-8")
    commands = re.findall(r"^\$ malmoi (.+)$", PAGE, re.MULTILINE)
    # The tests' encoder has sixteen dimensions.
    for command in [one.replace("192", "16") for one in commands]:
        done = run(*shlex.split(command))  # type: ignore[operator]
        assert done.returncode == 0, done.stderr
    monkeypatch.chdir(tmp_path)
    [snippet] = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(snippet, {})
    assert capsys.readouterr().out == "(2, 16)\n"
