"""`malmoi tag`: the entities of texts."""

import sys
from collections.abc import Iterable, Iterator
from typing import Annotated

from ..heads.tagger import load_tagger
from ..io.tables import read_texts
from .options import Threads, arg, opt
from .output import Row, prints_rows


@prints_rows
def tag(
    model: Annotated[str, arg("A tagger's bundle, shipped name or hub id.")],
    texts: Annotated[list[str], arg("Texts; - reads stdin, one text a line.")],
    whole: Annotated[bool, opt("Read stdin as one text, lines and all.", "--whole")] = False,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the entities of texts of any length; start and end are letters, from 0."""
    tagger = load_tagger(model, threads=threads)
    for index, text in enumerate(_read(texts, whole)):
        for found in tagger.tag(text):
            yield {
                "index": index,
                "text": found.text,
                "type": found.type,
                "start": found.start,
                "end": found.end,
                "score": round(found.score, 4),
            }


def _read(texts: list[str], whole: bool) -> Iterator[str]:
    for text in texts:
        if text != "-":
            yield text
        elif whole:
            yield sys.stdin.buffer.read().decode("utf-8", "replace")
        else:
            yield from read_texts("-")
