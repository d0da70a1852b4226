"""A note as a page: its mentions marked, with their codes; every character escaped."""

import html
from collections.abc import Sequence

from .note import NoteMention

_STYLE = (
    "body{font:16px/1.7 sans-serif;max-width:50em;margin:2em auto;white-space:pre-wrap}"
    "mark{background:#cfe8ff;border-radius:3px;padding:0 2px}mark.negated{background:#e4e4e4;"
    "text-decoration:line-through}mark.uncertain{background:#fff0b3}mark.family,mark.history"
    "{background:#e6dcff}mark sub{font-size:.65em;color:#456;margin-left:2px}"
)


def to_html(note: str, mentions: Sequence[NoteMention], *, title: str = "note") -> str:
    """Give a whole HTML page; the text of `note` stands in it unchanged but for the marks."""
    parts = [
        f'<!doctype html><html lang="ko"><meta charset="utf-8"><title>{html.escape(title)}</title>',
        f"<style>{_STYLE}</style><body>",
    ]
    at = 0
    for mention in mentions:
        parts += [html.escape(note[at : mention.start]), _mark(mention)]
        at = mention.end
    return "".join([*parts, html.escape(note[at:]), "</body></html>\n"])


def _mark(mention: NoteMention) -> str:
    best = mention.linked.best
    code = best.code if best else ""
    shown = " / ".join(name for name in (best.ko, best.en) if name) if best else ""
    said = f" ({', '.join(mention.attributes)})" if mention.attributes else ""
    hint = html.escape(f"{code} {shown}{said}", quote=True)
    kinds = " ".join(mention.attributes)
    return (
        f'<mark class="{kinds}" title="{hint}">{html.escape(mention.text)}'
        f"<sub>{html.escape(code)}</sub></mark>"
    )
