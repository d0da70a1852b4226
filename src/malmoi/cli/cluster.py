"""`malmoi cluster`: what a pile of texts is about, in topics."""

from pathlib import Path
from typing import Annotated

from typer import BadParameter

from ..encoders import load
from ..errors import counted
from ..io.files import writing
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
from ..mining.maps import save_map
from ..mining.texts import read, vectors_of
from .options import ModelOption, TableColumn, Threads, arg, opt
from .output import Format, Row, print_rows, prints_rows, say, watched


@prints_rows
def cluster(
    file: Annotated[str, arg("Texts, one per line, or a table; - is stdin.")],
    column: TableColumn = None,
    method: Annotated[
        Method | None, opt("How to group; by the number of texts when left out.")
    ] = None,
    count: Annotated[int | None, opt("How many topics; found out when left out.", min=1)] = None,
    least: Annotated[
        float | None, opt("Similarity threshold of a topic. Default: estimated.")
    ] = None,
    smallest: Annotated[int, opt("Fewer texts make no topic.", min=1)] = 2,
    merge: Annotated[
        int | None, opt("Join the most similar topics until this many are left.", min=1)
    ] = None,
    assign: Annotated[Path | None, opt("Sort the texts into these saved topics instead.")] = None,
    save: Annotated[Path | None, opt("Keep the topics for later texts.")] = None,
    html: Annotated[Path | None, opt("Write a map, an HTML page.", "--map")] = None,
    labels: Annotated[Path | None, opt("Write every text with its topic, as .tsv.")] = None,
    model: ModelOption = None,
    seed: Annotated[int, opt("Seed of k-means.", min=0)] = 0,
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
    print_rows((_row(topic, sizes, form) for topic in shown), form)
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


def _row(topic: Topic, sizes: dict[int, int], form: Format) -> Row:
    row = {"topic": topic.number, "size": sizes[topic.number], "name": topic.name}
    if form is Format.JSON:
        return row | {"terms": list(topic.terms), "sentences": list(topic.sentences)}
    return row | {"nearest": topic.sentences[0] if topic.sentences else ""}
