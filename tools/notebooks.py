"""Write the chapters of docs/learn as Jupyter notebooks: python tools/notebooks.py

Python blocks and commands become code cells, everything else text. The pages are the source; a test
compares the notebooks with them and runs their cells.
"""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

LEARN = Path(__file__).parents[1] / "docs/learn"
_FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")


def pages() -> list[Path]:
    """The chapters in both languages, without the contents."""
    return sorted(path for path in LEARN.glob("*.md") if not path.name.startswith("index"))


def notebook(page: str) -> dict[str, Any]:
    """A page as a notebook of format 4.5, without outputs."""
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
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    metadata = {"kernelspec": kernel, "language_info": {"name": "python"}}
    return {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}


def _add(cells: list[dict[str, Any]], kind: str, source: str) -> None:
    if kind == "markdown":  # notebooks are a folder below the pages
        source = _LINK.sub(r"](../\1", source.strip("\n"))
    if not source.strip():
        return
    name = hashlib.sha256(f"{len(cells)}{source}".encode()).hexdigest()[:8]
    cell = {"cell_type": kind, "id": name, "metadata": {}, "source": source.splitlines(True)}
    cells.append(cell | ({"execution_count": None, "outputs": []} if kind == "code" else {}))


def text_of(page: Path) -> str:
    """The file of a page's notebook."""
    return json.dumps(notebook(page.read_text("utf-8")), ensure_ascii=False, indent=1) + "\n"


def path_of(page: Path) -> Path:
    """Where a page's notebook is."""
    return LEARN / "notebooks" / f"{page.name.removesuffix('.md')}.ipynb"


if __name__ == "__main__":
    for one in pages():
        path_of(one).parent.mkdir(exist_ok=True)
        path_of(one).write_text(text_of(one), "utf-8")
