"""Draw the pictures of the docs into docs/assets: python tools/pictures.py

`architecture.svg`: the packages in their rooms; a package may use those in its own room to the
left of it and all rooms above. `quality.svg`: quality against size and speed, of the newest record
of the bench `peers`. `terminal.svg`: the stories of README, which a test compares with what the
commands print.
"""

import json
import math
import re
import sys
import unicodedata
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[1]
ASSETS = ROOT / "docs/assets"
# Each room with its packages in the order in which they may use each other, and their work.
ROOMS: dict[str, dict[str, str]] = {
    "text": {"text": "clean-up, morphemes", "io": "files, tables, arrays"},
    "models": {
        "bundle": "the model folder",
        "runtime": "tokens → graph",
        "encoders": "texts → vectors",
        "heads": "pairs, entities, answers",
    },
    "search": {
        "index": "nearest vectors",
        "documents": "files → passages",
        "corpus": "store, fusion, hits",
    },
    "medical": {"terms": "code tables, linking", "clinical": "notes → codes"},
    "laboratory": {
        "evaluation": "reports",
        "mining": "topics, pairs, figures",
        "export": "torch → bundle",
        "training": "recipes, objectives",
    },
    "doors": {
        "scale": "processes, Ray",
        "client": "a server's models",
        "integrations": "adapters",
        "serve": "HTTP and page",
        "cli": "commands",
    },
}
_WIDTH, _ROW, _BOX, _GAP, _LEFT = 1000, 74, 160, 8, 140


def architecture() -> str:
    """A row for each room, a box for each package."""
    height = _ROW * len(ROOMS) + 16
    parts = _begin(height, "The packages of malmoi by room")
    for row, (room, packages) in enumerate(ROOMS.items()):
        top = 8 + row * _ROW
        fill = "#f3f6fa" if row % 2 == 0 else "#e9eef5"
        parts.append(
            f'<rect x="8" y="{top}" width="{_WIDTH - 16}" height="{_ROW - 4}" rx="8" '
            f'fill="{fill}"/>'
        )
        parts.append(_text(24, top + 40, room, size=17, weight="bold"))
        for column, (name, work) in enumerate(packages.items()):
            left = _LEFT + column * (_BOX + _GAP)
            parts.append(
                f'<rect x="{left}" y="{top + 9}" width="{_BOX}" height="{_ROW - 22}" rx="6" '
                'fill="#ffffff" stroke="#7a8ca5"/>'
            )
            parts.append(_text(left + 10, top + 31, f"{name}/", size=15, weight="bold"))
            parts.append(_text(left + 10, top + 50, work, size=12.5, fill="#445"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def quality() -> str:
    """Two panels: KorSTS against megabytes, and against sentences a second."""
    record = (ROOT / "bench/results/peers.jsonl").read_text("utf-8").splitlines()[-1]
    rows: list[dict[str, Any]] = json.loads(record)["figures"]
    height = 380
    parts = _begin(height, "KorSTS of Korean sentence encoders by size and by speed on a CPU")
    parts += _panel(rows, "MB", 20, "MB on disk (smaller is left)")
    parts += _panel(rows, "sentences/s", 520, "sentences a second, one core (faster is right)")
    note = (
        "KorSTS test, Spearman × 100. malmoi: 8 bits, as shipped, trained with the training part "
        "of KorSTS; others: float32, published."
    )
    parts.append(_text(24, height - 10, note, size=12, fill="#445"))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _panel(rows: list[dict[str, Any]], column: str, left: int, title: str) -> list[str]:
    """Points with names; the horizontal axis is logarithmic."""
    shown = [row for row in rows if column in row]
    ends = [math.log10(f(row[column] for row in shown)) for f in (min, max)]
    low, high = ends[0] - 0.15, ends[1] + 0.5
    bottom, top, width = 300, 30, 460
    parts = [_text(left + 4, 20, title, size=14, weight="bold")]
    for score in (65, 70, 75, 80, 85):
        y = _height(score, top, bottom)
        parts.append(
            f'<line x1="{left + 28}" x2="{left + width}" y1="{y}" y2="{y}" stroke="#d5dbe4"/>'
        )
        parts.append(_text(left + 4, y + 4, str(score), size=12, fill="#445"))
    for power in range(math.ceil(low), math.floor(high) + 1):
        x = left + 28 + round((power - low) / (high - low) * (width - 28))
        parts.append(f'<line x1="{x}" x2="{x}" y1="{top}" y2="{bottom}" stroke="#eef1f5"/>')
        parts.append(_text(x - 14, bottom + 18, f"{10**power:,}", size=12, fill="#445"))
    places = [
        (left + 28 + round((math.log10(row[column]) - low) / (high - low) * (width - 28)),
         _height(row["KorSTS test"], top, bottom)) for row in shown
    ]  # fmt: skip
    taken = [(x - 6, y + 4, 12) for x, y in places]
    for row, (x, y) in zip(shown, places, strict=True):
        own, name = row["model"].startswith("malmoi"), row["model"]
        parts.append(
            f'<circle cx="{x}" cy="{y}" r="{7 if own else 5}" '
            f'fill="{"#00796b" if own else "#7a8ca5"}"/>'
        )
        length = round(len(name) * (7.2 if own else 6.9))
        right, before = x + 11, x - 11 - length
        start, line = next(
            (at, y + down)
            for down in (4, -8, 17, 30, -22)
            for at in (right, before)
            if left + 28 <= at <= left + width + 20 - length
            and all(abs(y + down - b) > 11 or at + length < a or a + c < at for a, b, c in taken)
        )
        taken.append((start, line, length))
        look = {"weight": "bold", "fill": "#00574b"} if own else {"fill": "#334"}
        parts.append(_text(start, line, name, size=12, **look))
    return parts


def _height(score: float, top: int, bottom: int) -> int:
    return round(bottom - (score - 63) / (88 - 63) * (bottom - top))


def terminal() -> str:
    """The commands of README's stories with what they print."""
    readme = (ROOT / "README.md").read_text("utf-8")
    found = re.findall(r"^```(?:console|text)\n(.*?)^```", readme, re.MULTILINE | re.DOTALL)[:6]
    lines = "\n".join(found).splitlines()
    letter, line = 8.4, 20
    height = line * len(lines) + 40
    parts = [
        *_begin(height, "Searching a folder and reading a note in a terminal", "#15202b"),
        '<g font-family="monospace" font-size="14" xml:space="preserve">',
    ]
    for row, text in enumerate(lines):
        colour = "#7fd1c3" if text.startswith("$") else "#e6edf3"
        at = 0
        # Korean letters take two columns in a terminal, whatever the reader's font does.
        for run in re.findall(r" +|[^ \u2500-\uffef]+|[^ \u0000-\u24ff]+", text):
            columns = sum(1 + (unicodedata.east_asian_width(one) in "WF") for one in run)
            if run.strip():
                parts.append(
                    f'<text x="{16 + at * letter:.1f}" y="{30 + row * line}" fill="{colour}" '
                    f'textLength="{columns * letter:.1f}" lengthAdjust="spacingAndGlyphs">'
                    f"{escape(run)}</text>"
                )
            at += columns
    return "\n".join([*parts, "</g>", "</svg>"]) + "\n"


def _begin(height: int, label: str, ground: str = "#ffffff") -> list[str]:
    return [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        f'font-family="sans-serif" role="img" aria-label="{label}">',
        f'<rect width="{_WIDTH}" height="{height}" fill="{ground}"/>',
    ]


def _text(
    x: int, y: int, words: str, *, size: float, weight: str = "normal", fill: str = "#123"
) -> str:
    return (
        f'<text x="{x}" y="{y}" font-size="{size:g}" font-weight="{weight}" fill="{fill}">'
        f"{escape(words)}</text>"
    )


PICTURES = {"architecture": architecture, "quality": quality, "terminal": terminal}

if __name__ == "__main__":
    for one, draw in PICTURES.items():
        (ASSETS / f"{one}.svg").write_text(draw(), "utf-8")
        sys.stdout.write(f"{ASSETS / one}.svg\n")
