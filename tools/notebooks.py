"""Write the chapters of docs/learn as Jupyter notebooks with results: python tools/notebooks.py

Python blocks and commands become code cells, everything else text; the picture that a chapter makes
stands at its beginning too. The pages are the source; a test compares the notebooks with them, runs
their cells and compares what they print.
"""

import base64
import contextlib
import hashlib
import io
import json
import os
import re
import shlex
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from malmoi.cli import app

LEARN = Path(__file__).parents[1] / "docs/learn"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def pages() -> list[Path]:
    """The chapters in both languages, without the contents."""
    return sorted(path for path in LEARN.glob("*.md") if not path.name.startswith("index"))


def notebook(page: str, results: Sequence[list[dict[str, Any]]] = ()) -> dict[str, Any]:
    """A page as a notebook of format 4.5, with the outputs of its code cells if they are given."""
    cells: list[dict[str, Any]] = []
    text = ""
    at = 0
    for block in _FENCE.finditer(page):
        kind, code = block[1], block[2].rstrip("\n")
        text += page[at : block.start()]
        at = block.end()
        if kind not in ("python", "console"):
            text += block[0]
            continue
        if kind == "console":  # "$ malmoi …" is "!malmoi …" in a notebook
            code = re.sub(r"^\$ ", "!", code, flags=re.MULTILINE)
        _add(cells, "markdown", text)
        _add(cells, "code", code)
        text = ""
    _add(cells, "markdown", text + page[at:])
    code_cells = [cell for cell in cells if cell["cell_type"] == "code"]
    for number, (cell, outputs) in enumerate(zip(code_cells, results, strict=False), start=1):
        cell |= {"execution_count": number, "outputs": outputs}
    if pictures := [one["data"]["image/png"] for each in results for one in each if "data" in one]:
        title, rest = cells[0]["source"][0], cells[0]["source"][1:]
        cells[0]["source"] = [title, "\n", "![](attachment:picture.png)\n", *rest]
        cells[0]["attachments"] = {"picture.png": {"image/png": pictures[-1]}}
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def sources(book: dict[str, Any]) -> list[str]:
    """The code cells of a notebook."""
    return ["".join(cell["source"]) for cell in book["cells"] if cell["cell_type"] == "code"]


def run(cells: Sequence[str]) -> list[list[dict[str, Any]]]:
    """Run code cells in the folder at hand; give what each prints, and the pictures it writes."""
    names: dict[str, Any] = {}
    found = []
    for cell in cells:
        before = set(Path().rglob("*.png"))
        printed = io.StringIO()
        if cell.startswith("!malmoi "):
            for line in cell.splitlines():
                done = CliRunner().invoke(app, shlex.split(line.removeprefix("!malmoi ")))
                assert done.exit_code == 0, f"{line}\n{done.output}"
                printed.write(done.stdout)
        else:
            with contextlib.redirect_stdout(printed):
                exec(compile(cell, "cell", "exec"), names)
        outputs: list[dict[str, Any]] = []
        if text := printed.getvalue():
            stream = {"name": "stdout", "output_type": "stream"}
            outputs.append(stream | {"text": text.splitlines(True)})
        for path in sorted(set(Path().rglob("*.png")) - before):
            data = {"image/png": base64.b64encode(path.read_bytes()).decode()}
            outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
        found.append(outputs)
    return found


def _add(cells: list[dict[str, Any]], kind: str, source: str) -> None:
    if kind == "markdown":  # notebooks are a folder below the pages
        source = _LINK.sub(r"](../\1", source.strip("\n"))
    if not source.strip():
        return
    name = hashlib.sha256(f"{len(cells)}{source}".encode()).hexdigest()[:8]
    cell = {"cell_type": kind, "id": name, "metadata": {}, "source": source.splitlines(True)}
    cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))


def path_of(page: Path) -> Path:
    """Where a page's notebook is."""
    return LEARN / "notebooks" / f"{page.name.removesuffix('.md')}.ipynb"


def main() -> None:
    """Run every chapter once, and write its notebooks in both languages."""
    os.environ["COLUMNS"] = "100"
    for page in pages():
        if page.name.endswith(".ko.md"):
            continue
        twins = [page, page.with_name(page.name.replace(".md", ".ko.md"))]
        with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
            results = run(sources(notebook(page.read_text("utf-8"))))
        for twin in twins:
            made = notebook(twin.read_text("utf-8"), results)
            path_of(twin).parent.mkdir(exist_ok=True)
            text = json.dumps(made, ensure_ascii=False, indent=1) + "\n"
            path_of(twin).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
