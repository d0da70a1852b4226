"""Where only the light core is installed, everything of inference works and torch is not there.

`make test` makes that environment (.venv) before it runs the suite.
"""

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.support import ROOT

PYTHON = ROOT / ".venv/bin/python"

pytestmark = pytest.mark.skipif(
    not PYTHON.exists(), reason="the light environment .venv is not here; `make test` makes it"
)


def light(*args: object, stdin: str = "") -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [str(PYTHON), *map(str, args)],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        # The tests' own paths must not lend it packages.
        env={k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")},
        cwd=ROOT,
    )


def test_no_training_library_is_installed() -> None:
    code = (
        "import importlib.util as u;"
        "assert not [m for m in ('torch', 'transformers', 'onnx', 'pyarrow') if u.find_spec(m)]"
    )
    done = light("-c", code)
    assert done.returncode == 0, done.stderr


def test_the_core_encodes(bundle: Path) -> None:
    done = light("-m", "malmoi", "encode", "-", "-m", bundle, stdin="배를 타고\nthe cat\n")
    assert done.returncode == 0, done.stderr
    assert len([json.loads(line) for line in done.stdout.splitlines()]) == 2
    done = light("-m", "malmoi", "model", "info", bundle)
    assert done.returncode == 0, done.stderr


def test_the_core_searches_plain_files(tmp_path: Path) -> None:
    """Text, Markdown, web pages and tables need no extra."""
    files = {
        "a.txt": "연차는 15일이다.\n",
        "b.md": "# 환불\n\n환불은 7일 안에 된다.\n",
        "c.html": "<html><body><h1>배송</h1><p>배송은 이틀 걸린다.</p></body></html>",
        "d.csv": "질문,답변\n비밀번호를 잊었어요,로그인 화면에서 바꾼다\n",
    }
    for name, text in files.items():
        (tmp_path / "docs" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "docs" / name).write_text(text, "utf-8")
    done = light("-m", "malmoi", "index", tmp_path / "x.db", tmp_path / "docs")
    assert done.returncode == 0 and "4 documents written" in done.stderr, done.stderr
    done = light("-m", "malmoi", "search", tmp_path / "x.db", "배송 기간", "-k", "1")
    assert "c.html" in done.stdout


@pytest.mark.parametrize(
    ("args", "extra"),
    [
        (["model", "export", "MODEL", "OUT"], "train"),
        (["encode", "-m", "MODEL", "--out", "x.parquet"], "parquet"),
    ],
)
def test_a_missing_extra_is_one_clear_line(bundle: Path, args: list[str], extra: str) -> None:
    done = light("-m", "malmoi", *(str(bundle) if arg == "MODEL" else arg for arg in args))
    assert done.returncode == 1
    assert f"pip install 'malmoi[{extra}]'" in done.stderr
    assert done.stderr.count("\n") == 1


def test_the_demo_runs() -> None:
    done = light(ROOT / "examples/demo.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("쓰지 않은 연차는 다음 해 3월까지") == 2
    assert "E14.2" in done.stdout and "sentences a second" in done.stdout
