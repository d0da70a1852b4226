"""`malmoi text`: keywords of documents, topics of many texts, words in their sentence."""

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer
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
from ..io.files import read_lines, writing
from ..io.tables import read_texts
from ..mining.clusters import (
    OTHERS,
    Clusters,
    Labels,
    Method,
    Topic,
    Topics,
    make_topics,
    merge_to,
    number_by_size,
)
from ..mining.clusters import cluster as group
from ..mining.figures import (
    MANY,
    check_figure,
    plot_layers,
    plot_occurrences,
    plot_tokens,
    plot_values,
    short,
)
from ..mining.keywords import keywords as find
from ..mining.keywords import read_stopwords
from ..mining.maps import Project, save_map
from ..mining.texts import read, vectors_of
from ..text import morphemes
from .options import ModelOption, TableColumn, Threads, arg, more, opt
from .output import Format, Row, print_rows, prints_rows, say, watched

app = typer.Typer()


@app.command()
@prints_rows
def keywords(
    file: Annotated[str, arg("A document; - is stdin.")],
    lines: Annotated[bool, opt("Each line, or row of a table, is a document.", "--lines")] = False,
    column: TableColumn = None,
    top: Annotated[int, opt("How many keywords a document.", min=1)] = 10,
    diversity: Annotated[
        float, opt("How much they may not resemble each other.", min=0, max=1)
    ] = 0.3,
    max_sum: Annotated[
        int,
        more("Instead: of this many nearest phrases those that resemble each other least.", min=0),
    ] = 0,
    stopwords: Annotated[
        Path | None, opt("Words to leave out, one per line; -word takes one back.")
    ] = None,
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the phrases that tell best what each document is about."""
    stop = read_stopwords(stopwords)
    texts = list(read_texts(file, column=column))
    documents = texts if lines or column is not None else ["\n".join(texts)]
    if not any(document.strip() for document in documents):
        raise DataError(f"{file} has no text; expected a document. Check the file.")
    encoder = load(model, threads=threads)
    for number, document in enumerate(documents, start=1):
        if not document.strip():
            continue
        own = {"document": number} if len(documents) > 1 else {}
        for word in find(
            encoder, document, top=top, diversity=diversity, max_sum=max_sum, stopwords=stop
        ):
            yield {**own, "keyword": word.text, "score": round(word.score, 4), "count": word.count}


@app.command()
@prints_rows
def topics(
    file: Annotated[str, arg("Texts, one per line, or a table; - is stdin.")],
    column: TableColumn = None,
    method: Annotated[
        Method | None, opt("How to group; by the number of texts when left out.")
    ] = None,
    count: Annotated[int | None, opt("How many topics; found out when left out.", min=1)] = None,
    least: Annotated[
        float | None, opt("Similarity threshold of a topic. Default: estimated.")
    ] = None,
    smallest: Annotated[int, more("Fewer texts make no topic.", min=1)] = 2,
    merge: Annotated[
        int | None, opt("Join the most similar topics until this many are left.", min=1)
    ] = None,
    assign: Annotated[Path | None, opt("Sort the texts into these saved topics instead.")] = None,
    save: Annotated[Path | None, opt("Keep the topics for later texts.")] = None,
    html: Annotated[Path | None, opt("Write a map, an HTML page.", "--map")] = None,
    labels: Annotated[Path | None, opt("Write every text with its topic, as .tsv.")] = None,
    model: ModelOption = None,
    seed: Annotated[int, more("Seed of k-means.", min=0)] = 0,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Group texts into topics, name them, and print one row a topic."""
    # long because every option has a line of its own
    if assign is not None and (save is not None or merge is not None or count is not None):
        raise BadParameter("--assign takes topics as they are: no --save, --merge, --count")
    known = Topics.load(assign) if assign is not None else None
    lines = read(file, column=column)
    encoder = load(model or (known.model if known else None), threads=threads)
    vectors = vectors_of(encoder, lines.texts, progress=watched())
    if known is None:
        clusters = group(
            vectors, method=method, count=count, least=least, smallest=smallest, seed=seed
        )
        own = _merged(clusters, merge)
        known = make_topics(encoder.name, lines.texts, vectors, own, least=clusters.least)
        numbers = number_by_size(own)
        found = f"{clusters.method}, least {clusters.least:.2f}"
        say(f"{counted(len(lines.texts), 'text')}, {counted(len(known.topics), 'topic')} ({found})")
    else:
        numbers, _ = known.assign(encoder, lines.texts)
    sizes = {topic.number: int((numbers == topic.number).sum()) for topic in known.topics}
    shown = list(known.topics)
    if alone := int((numbers < 0).sum()):
        say(f"{counted(alone, 'text is', 'texts are')} in no topic")
        sizes[-1] = alone
        strays = [text for text, number in zip(lines.texts, numbers, strict=True) if number < 0]
        shown.append(Topic(-1, alone, (OTHERS,), tuple(strays[:3])))
    print_rows((_topic_row(topic, sizes, form) for topic in shown), form)
    if save is not None:
        known.save(save)
        say(f"wrote {save}")
    if labels is not None:
        with writing(labels) as out:
            out.write(b"line\ttopic\ttext\n")
            for line, number in zip(lines.lines, numbers.tolist(), strict=True):
                text = " ".join(line.text.split())
                out.write(f"{line.number}\t{number}\t{text}\n".encode("utf-8", "replace"))
        say(f"wrote {labels}")
    if html is not None:
        topics = [
            {
                "number": topic.number,
                "name": topic.name,
                "size": sizes[topic.number],
                "sentences": list(topic.sentences),
            }
            for topic in shown
        ]
        title = f"{counted(len(lines.texts), 'text')} · {encoder.name}"
        drawn = save_map(html, lines.texts, vectors, numbers, topics, title=title)
        say(f"wrote {html}" + (f" with a sample of {drawn:,}" if drawn < len(lines.texts) else ""))


def _merged(clusters: Clusters, merge: int | None) -> Labels:
    if merge is None:
        return clusters.labels
    labels, steps = merge_to(clusters, merge)
    for step in steps:
        say(f"joined topic {step.gone} to topic {step.kept} ({step.score:.2f})")
    return labels


def _topic_row(topic: Topic, sizes: dict[int, int], form: Format) -> Row:
    row = {"topic": topic.number, "size": sizes[topic.number], "name": topic.name}
    if form is Format.JSON:
        return row | {"terms": list(topic.terms), "sentences": list(topic.sentences)}
    return row | {"nearest": topic.sentences[0] if topic.sentences else ""}


@app.command()
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
    special: Annotated[bool, more("Show special tokens too.", "--special")] = False,
    centred: Annotated[
        bool, opt("With --word: compare what is not common to all of them.", "--centred")
    ] = False,
    ids: Annotated[bool, opt("Print tokens with their ids and segments instead.", "--ids")] = False,
    pair: Annotated[
        bool, more("With --ids: two texts joined as one input, as [CLS] A [SEP] B [SEP].", "--pair")
    ] = False,
    plot: Annotated[Path | None, opt("Draw the occurrences as a map.")] = None,
    project: Annotated[Project, more("How the map is made flat.")] = "pca",
    layers_plot: Annotated[Path | None, opt("Draw similarity by layer.")] = None,
    hist: Annotated[Path | None, more("Draw the histogram of values.")] = None,
    heat: Annotated[Path | None, more("Draw two texts' words against each other.")] = None,
    model: ModelOption = None,
    threads: Threads = None,
    *,
    form: Format,
) -> None:
    """Print words with their vectors, or how similar the occurrences of one word are."""
    # long because every option has a line of its own
    wanted = [path for path in (plot, layers_plot, hist) if path is not None]
    if wanted and word is None:
        raise BadParameter("--plot, --layers-plot and --hist need --word")
    for path in [*wanted, *([heat] if heat else [])]:
        check_figure(path)  # before the work, not after it
    given = _sentences(texts)
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


def _sentences(texts: list[str]) -> list[str]:
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
            yield row | {"pieces": list(one.word.pieces), "similarity": values}
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
