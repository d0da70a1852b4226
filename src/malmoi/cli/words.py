"""`malmoi words`: what the layers make of a word in its sentence."""

import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

from typer import BadParameter

from ..encoders import Encoder, TextEncoder, load
from ..encoders.segment import By
from ..encoders.transformer import LayerAccess, layers_of
from ..encoders.words import (
    Layers,
    Merge,
    Occurrence,
    Word,
    by_layer,
    no_layers,
    occurrences,
    similarity,
)
from ..errors import DataError, counted
from ..io.files import read_lines
from ..mining.figures import (
    MANY,
    check_figure,
    plot_layers,
    plot_occurrences,
    plot_tokens,
    plot_values,
    short,
)
from ..mining.maps import Project
from ..text import morphemes
from .options import ModelOption, Threads, arg, opt
from .output import Format, Row, print_rows, prints_rows, say


@prints_rows
def words(
    texts: Annotated[list[str], arg("Sentences; - reads them from stdin.")],
    word: Annotated[
        str | None, opt("Compare the occurrences of this word, 배 for example.")
    ] = None,
    layers: Annotated[
        str, opt("last, second-to-last, sum-last-4, mean-all …, or numbers, as 1,2.")
    ] = "last",
    merge: Annotated[Merge, opt("How a word's pieces become one vector.")] = "mean",
    by: Annotated[
        Literal["spaces", "morphemes"] | None,
        opt("Where words end; morphemes when kiwipiepy is installed."),
    ] = None,
    special: Annotated[bool, opt("Show special tokens too.", "--special")] = False,
    centred: Annotated[
        bool, opt("With --word: compare what is not common to all of them.", "--centred")
    ] = False,
    ids: Annotated[bool, opt("Print tokens with their ids and segments instead.", "--ids")] = False,
    pair: Annotated[
        bool, opt("With --ids: two texts joined as one input, as [CLS] A [SEP] B [SEP].", "--pair")
    ] = False,
    plot: Annotated[Path | None, opt("Draw the occurrences as a map.")] = None,
    project: Annotated[Project, opt("How the map is made flat.")] = "pca",
    layers_plot: Annotated[Path | None, opt("Draw similarity by layer.")] = None,
    hist: Annotated[Path | None, opt("Draw the histogram of values.")] = None,
    heat: Annotated[Path | None, opt("Draw two texts' words against each other.")] = None,
    model: ModelOption = None,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Print words with their vectors, or how alike the occurrences of one word are."""
    # long because every option has a line of its own
    wanted = [path for path in (plot, layers_plot, hist) if path is not None]
    if wanted and word is None:
        raise BadParameter("--plot, --layers-plot and --hist need --word")
    for path in [*wanted, *([heat] if heat else [])]:
        check_figure(path)  # before the work, not after it
    given = _texts(texts)
    if pair and (not ids or len(given) != 2):
        raise BadParameter("--pair needs --ids and two texts")
    if ids:
        print_rows(_tokens(given, pair, load(model, threads=threads)), form)
        return
    if heat is not None and len(given) != 2:
        raise BadParameter(f"--heat compares two texts; {counted(len(given), 'was', 'were')} given")
    encoder = layers_of(load(model, threads=threads))
    cut: By = by or ("morphemes" if morphemes.available() else "spaces")
    chosen = _parse_layers(layers)
    special = special and word is None
    found = list(encoder.words_of(given, layers=chosen, merge=merge, by=cut, special=special))
    if word is None:
        print_rows(_listed(found, form), form)
    else:
        here = occurrences(given, found, word)
        print_rows(_compared(here, form, centred), form)
        if plot is not None:
            plot_occurrences(here, plot, method=project)
        if hist is not None:
            plot_values(here, hist)
        if layers_plot is not None:
            _draw_layers(encoder, given, word, merge, cut, layers_plot)
    if heat is not None:
        plot_tokens(found[0], found[1], heat)


def _texts(texts: list[str]) -> list[str]:
    given = list(read_lines("-")) if texts == ["-"] else texts
    kept = [text for text in given if text.strip()]
    if len(kept) < len(given):
        say(f"{counted(len(given) - len(kept), 'empty text was', 'empty texts were')} left out")
    if not kept:
        raise DataError("there is no text; expected a sentence or more. Give some.")
    return kept


def _parse_layers(layers: str) -> Layers:
    try:
        numbers = [int(part) for part in layers.split(",")]
    except ValueError:
        return layers
    return numbers[0] if len(numbers) == 1 else numbers


def _listed(found: Sequence[Sequence[Word]], form: Format) -> Iterator[Row]:
    for number, own in enumerate(found, start=1):
        for word in own:
            yield {
                "text": number,
                "word": word.text,
                "start": word.start,
                "end": word.end,
                "pieces": list(word.pieces) if form is Format.JSON else " ".join(word.pieces),
                "vector": [round(float(value), 6) for value in word.vector],
            }


def _tokens(given: Sequence[str], pair: bool, encoder: TextEncoder) -> Iterator[Row]:
    if not isinstance(encoder, Encoder):
        raise no_layers(encoder.name)
    inputs = [tuple(given)] if pair else [(text,) for text in given]
    for number, texts in enumerate(inputs, start=1):
        for token in encoder.tokens(*texts):
            yield {"text": number, "token": token.text, "id": token.id, "segment": token.segment}


def _compared(here: Sequence[Occurrence], form: Format, centred: bool) -> Iterator[Row]:
    """One row an occurrence, with its similarity to all of them."""
    scores = similarity([one.word for one in here], centred=centred)
    for number, (one, own) in enumerate(zip(here, scores, strict=True), start=1):
        values = [round(float(score), 4) for score in own]
        row: dict[str, object] = {"number": number, "text": one.text, "word": one.word.text}
        if form is Format.JSON:
            row |= {"start": one.word.start, "end": one.word.end}
            yield row | {"pieces": list(one.word.pieces), "likeness": values}
        else:
            row["pieces"] = " ".join(one.word.pieces)
            yield row | {str(i): value for i, value in enumerate(values, start=1)}


def _draw_layers(
    encoder: LayerAccess, texts: Sequence[str], word: str, merge: Merge, by: By, path: Path
) -> None:
    found = list(encoder.words_of(texts, layers="concat-all", merge=merge, by=by))
    here = occurrences(texts, found, word)
    if len(here) < 2:
        raise DataError(
            f"{word} occurs once; similarity by layer expects two or more. Give more texts."
        )
    scores = by_layer([one.word for one in here], encoder.reader.layers)
    both = list(itertools.combinations(range(len(here)), 2))
    if len(both) > MANY:  # too many lines to read; keep those of the first occurrence
        both = [pair for pair in both if pair[0] == 0]
    pairs = [
        (f"{short(here[a].text, 24)} ↔ {short(here[b].text, 24)}", scores[:, a, b].tolist())
        for a, b in both
    ]
    plot_layers(pairs, path, word=word)
