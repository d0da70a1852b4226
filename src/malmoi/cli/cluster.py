"""`malmoi cluster`: what a pile of texts is about, in topics."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from ..encoder import TextEncoder, load
from ..errors import counted
from ..io.files import writing
from ..mining.clusters import Clusters, Labels, merge_to, number_by_size
from ..mining.clusters import cluster as group
from ..mining.texts import Lines, read, vectors_of
from ..mining.topics import Topics, make_topics
from ..plots.maps import save_map
from ..types import Floats
from .output import Csv, Format, ModelOption, Table, Threads, choose, print_rows, say, watched


def cluster(
    file: Annotated[str, typer.Argument(help="Texts, one a line, or a table; - is stdin.")],
    column: Annotated[str | None, typer.Option(help="The column of a table to read.")] = None,
    method: Annotated[
        Literal["agglomerative", "community", "kmeans"] | None,
        typer.Option(help="How to group; by the number of texts when left out."),
    ] = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="How many topics; found out when left out.")
    ] = None,
    least: Annotated[
        float | None,
        typer.Option(help="The cosine that holds a topic together; found out when left out."),
    ] = None,
    smallest: Annotated[int, typer.Option(min=1, help="Fewer texts make no topic.")] = 2,
    merge: Annotated[
        int | None, typer.Option(min=1, help="Join the topics most alike until so many are left.")
    ] = None,
    assign: Annotated[
        Path | None, typer.Option(help="Sort the texts into these saved topics instead.")
    ] = None,
    save: Annotated[Path | None, typer.Option(help="Keep the topics for later texts.")] = None,
    html: Annotated[Path | None, typer.Option("--map", help="Write a map, an HTML page.")] = None,
    labels: Annotated[
        Path | None, typer.Option(help="Write every text with its topic, as .tsv.")
    ] = None,
    model: ModelOption = None,
    seed: Annotated[int, typer.Option(min=0, help="Seed of k-means.")] = 0,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
) -> None:
    """Group texts into topics, name them, and print one row a topic."""
    form = choose(table=table, as_csv=as_csv)
    if assign is not None and (save is not None or merge is not None or count is not None):
        raise typer.BadParameter("--assign takes topics as they are: no --save, --merge, --count")
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
    print_rows(_rows(known, numbers, form), form)
    _write(known, lines, vectors, numbers, encoder, save=save, html=html, labels=labels)


def _merged(clusters: Clusters, merge: int | None) -> Labels:
    if merge is None:
        return clusters.labels
    labels, steps = merge_to(clusters, merge)
    for step in steps:
        say(f"joined topic {step.gone} to topic {step.kept} ({step.score:.2f})")
    return labels


def _rows(known: Topics, numbers: Labels, form: Format) -> "list[dict[str, object]]":
    rows: list[dict[str, object]] = []
    for topic in known.topics:
        size = int((numbers == topic.number).sum())
        row: dict[str, object] = {"topic": topic.number, "size": size, "name": topic.name}
        if form is Format.JSON:
            row |= {"terms": list(topic.terms), "sentences": list(topic.sentences)}
        else:
            row["nearest"] = topic.sentences[0] if topic.sentences else ""
        rows.append(row)
    alone = int((numbers < 0).sum())
    if alone:
        say(f"{counted(alone, 'text is', 'texts are')} in no topic")
    return rows


def _write(
    known: Topics,
    lines: Lines,
    vectors: Floats,
    numbers: Labels,
    encoder: TextEncoder,
    *,
    save: Path | None,
    html: Path | None,
    labels: Path | None,
) -> None:
    if save is not None:
        known.save(save)
        say(f"wrote {save}")
    if labels is not None:
        with writing(labels) as file:
            file.write(b"line\ttopic\ttext\n")
            for line, number in zip(lines.lines, numbers.tolist(), strict=True):
                text = " ".join(line.text.split())
                file.write(f"{line.number}\t{number}\t{text}\n".encode("utf-8", "replace"))
        say(f"wrote {labels}")
    if html is not None:
        topics = [
            {
                "number": topic.number,
                "name": topic.name,
                "size": int((numbers == topic.number).sum()),
                "sentences": list(topic.sentences),
            }
            for topic in known.topics
        ]
        title = f"{counted(len(lines.texts), 'text')} · {encoder.name}"
        shown = save_map(html, lines.texts, vectors, numbers, topics, title=title)
        say(f"wrote {html}" + (f" with a sample of {shown:,}" if shown < len(lines.texts) else ""))
