"""Draw docs/assets/architecture.svg, the packages in their rooms: python tools/architecture.py

A package may use those in its own room to the left of it and all rooms above.
"""

import sys
from pathlib import Path
from xml.sax.saxutils import escape

PICTURE = Path(__file__).parents[1] / "docs/assets/architecture.svg"
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


def draw() -> str:
    """Give the picture: a row for each room, a box for each package."""
    height = _ROW * len(ROOMS) + 16
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" '
        'font-family="sans-serif" role="img" aria-label="The packages of malmoi by room">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
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


def _text(x: int, y: int, words: str, *, size: float, weight: str = "normal", fill: str = "#123"
          ) -> str:  # fmt: skip
    return (
        f'<text x="{x}" y="{y}" font-size="{size:g}" font-weight="{weight}" fill="{fill}">'
        f"{escape(words)}</text>"
    )


if __name__ == "__main__":
    PICTURE.write_text(draw(), "utf-8")
    sys.stdout.write(f"{PICTURE}\n")
