"""`malmoi link`: terms to the codes of a lexicon."""

import contextlib
import queue
import sys
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

from ..encoders import load
from ..io.files import read_lines
from ..terms import Lexicon, Linker
from ..terms.linker import UNCALIBRATED, load_threshold
from ..terms.name_index import identity
from .display import style, table
from .options import ModelOption, Threads, arg, more, opt
from .output import Format, Row, prints, say, watched

_BLOCK = 1024

LexiconName = Annotated[str, arg("A lexicon's folder, or sample.")]
Spelling = Annotated[bool, opt("Match by spelling alone, without a model.", "--spelling")]
Add = Annotated[list[Path] | None, more("A table of names of your own; may be repeated.")]
Abbreviations = Annotated[Path | None, more("A table of abbreviations beside the shipped one.")]
Variants = Annotated[Path | None, more("A table of wordings instead of the shipped one.")]
Synonyms = Annotated[Path | None, more("A table of lay names instead of the shipped one.")]


def _view(rows: list[dict[str, Any]], columns: int) -> Iterable[str]:
    """Lay candidates out by mention: code, score, names, and why."""
    by: dict[str, list[dict[str, object]]] = {}
    for row in rows:
        names = " / ".join(str(row[name]) for name in ("ko", "en") if row.get(name))
        shown = {"code": row["code"], "score": row["score"], "name": names, "why": row["why"]}
        by.setdefault(row["mention"] + (" (NIL)" if row.get("nil") else ""), []).append(shown)
    for mention, found in by.items():
        yield style(mention, "bold")
        yield from (f"  {line}" for line in table(found, columns - 2))


@prints(view=_view)
def link(
    lexicon: LexiconName,
    mentions: Annotated[list[str], arg("Terms; - reads one per line from stdin.")],
    k: Annotated[int, opt("How many codes per term.", "--k", "-k", min=1)] = 5,
    nil: Annotated[bool, opt("Say which terms have no concept in the lexicon.", "--nil")] = False,
    spelling: Spelling = False,
    add: Add = None,
    abbreviations: Abbreviations = None,
    variants: Variants = None,
    synonyms: Synonyms = None,
    rebuild: Annotated[
        bool, more("Index the lexicon again, for another model.", "--rebuild")
    ] = False,
    model: ModelOption = None,
    threads: Threads = None,
    *,
    form: Format,
) -> Iterable[Row]:
    """Print the likeliest codes for each term, with the names that speak for them and why."""
    linker = Linker(
        Lexicon.open(lexicon, additions=add or ()),
        None if spelling else load(model, threads=threads),
        abbreviations=abbreviations,
        variants=variants,
        synonyms=synonyms,
        rebuild=rebuild,
        progress=watched(),
    )
    threshold = _threshold(linker) if nil else None
    for block in _blocks(_texts(mentions)):
        for linked in linker.link(block, k=k):
            known = {} if threshold is None else {"nil": linked.is_nil(threshold)}
            if form is Format.JSON:
                yield linked.to_json() | known
                continue
            for rank, candidate in enumerate(linked.candidates, start=1):
                row: dict[str, Any] = {"mention": linked.mention, "rank": rank}
                names = " / ".join(candidate.names)
                yield {**row, **candidate.to_json(), "names": names, **known}
        sys.stdout.flush()


def _texts(mentions: list[str]) -> Iterator[str]:
    for mention in mentions:
        if mention == "-":
            yield from read_lines("-")
        else:
            yield mention


def _blocks(texts: Iterator[str]) -> Iterator[list[str]]:
    """Yield the lines that are there, up to a block: a single line is answered at once."""
    waiting: queue.Queue[str | BaseException | None] = queue.Queue(4 * _BLOCK)
    threading.Thread(target=_fill, args=(waiting, texts), daemon=True).start()
    while True:
        found = [waiting.get()]
        with contextlib.suppress(queue.Empty):
            while len(found) < _BLOCK and isinstance(found[-1], str):
                found.append(waiting.get_nowait())
        if block := [text for text in found if isinstance(text, str)]:
            yield block
        if isinstance(found[-1], BaseException):
            raise found[-1]
        if found[-1] is None:
            return


def _fill(waiting: "queue.Queue[str | BaseException | None]", texts: Iterator[str]) -> None:
    try:
        for text in texts:
            waiting.put(text)
    except BaseException as error:  # raised again in the main thread
        waiting.put(error)
    else:
        waiting.put(None)


def model_of(linker: Linker) -> str:
    """Name the model that a linker's thresholds belong to."""
    return identity(linker.encoder) if linker.encoder is not None else "spelling"


def _threshold(linker: Linker) -> float:
    found = load_threshold(linker.lexicon.folder, model=model_of(linker))
    if found is None:
        say(
            f"the lexicon is not calibrated for this model; NIL is a score below {UNCALIBRATED}. "
            "Calibrate with: malmoi lexicon calibrate LEXICON DEV"
        )
        return UNCALIBRATED
    return found.score
