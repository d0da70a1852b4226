"""Three stories on what ships: a folder is searched, texts are compared, a note becomes codes."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import malmoi

ROOT = Path(__file__).parents[1]
PAIRS = [
    ("고양이가 창가에서 자고 있다.", "A cat is sleeping by the window."),
    ("고양이가 창가에서 자고 있다.", "주식 시장이 크게 올랐다."),
    ("당뇨병성 신증", "diabetic nephropathy"),
    ("당뇨병성 신증", "fracture of the wrist"),
]


def run(*words: str) -> None:
    """Show a command and run it, as in a terminal."""
    print("$ malmoi", *(f'"{word}"' if " " in word else word for word in words), flush=True)
    table = [] if words[0] == "index" else ["--table"]
    environment = {**os.environ, "COLUMNS": "96"}
    words = tuple(str(folder / word) if word == "docs.db" else word for word in words)
    command = [sys.executable, "-m", "malmoi", "-q", *words, *table]
    subprocess.run(command, check=True, cwd=ROOT, env=environment)
    print(flush=True)


def compare() -> None:
    """Cosines of pairs in two languages, and the rate of the model that ships."""
    encoder = malmoi.load()
    print(f"{encoder!r}")
    for a, b in PAIRS:
        print(f"  {encoder.similarity(a, b):6.3f}  {a} | {b}")
    texts = [f"{a} {b} {number}" for number in range(100) for a, b in PAIRS]
    began = time.perf_counter()
    encoder.encode(texts)
    rate = len(texts) / (time.perf_counter() - began)
    print(f"  {rate:,.0f} sentences a second on this machine, without torch\n")


with tempfile.TemporaryDirectory() as made:
    folder = Path(made)
    print("1. Search a folder: a question in one language finds the passage in the other\n")
    run("index", "docs.db", "examples/docs")
    run("search", "docs.db", "남은 휴가를 내년에 써도 되나요?", "-k", "1")
    run("search", "docs.db", "Can I use the rest of my holidays next year?", "-k", "1")
    print("2. Compare texts by the model that ships, in 8 bits\n")
    compare()
    print("3. Read a note into codes\n")
    run("notes", "read", "sample", "examples/notes.txt")
