"""`malmoi encode`: texts in, vectors out."""

import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from typer import BadParameter

from ..encoders import load
from ..encoders.base import OnLong
from ..errors import DataError, by_number, counted
from ..io.arrays import writing_vectors
from ..io.tables import read_texts
from ..runtime.pooling import Precision
from ..scale import EncodedDataset, encode_dataset, encode_in_processes
from .display import clean, number, pad, shorten
from .options import Column, ModelOption, Threads, arg, more, opt
from .output import Row, prints, say, watched

Rows = Iterator[tuple[str, NDArray[Any]]]
_BLOCK = 1024


def _view(rows: list[dict[str, Any]], columns: int) -> Iterable[str]:
    """Summarize vectors: nobody reads 384 numbers."""
    size = len(rows[0]["vector"])
    for row in rows[:10]:
        start = " ".join(number(value) for value in row["vector"][:4])
        yield f"{pad(shorten(clean(row['text']), columns - 34), columns - 34)}  [{start} …]"
    if len(rows) > 10:
        yield f"… and {len(rows) - 10:,} more"
    yield f"{counted(len(rows), 'vector')} of {size} values. Keep them with: --out vectors.npy"


@prints(view=_view)
def encode(
    files: Annotated[
        list[str] | None, arg("Text files, one text a line; - is stdin. With --ray: .parquet.")
    ] = None,
    model: ModelOption = None,
    column: Column = None,
    out: Annotated[
        Path | None, opt("Write .npy, .safetensors, .parquet (a folder with --ray).", "--out", "-o")
    ] = None,
    dim: Annotated[int | None, opt("Keep the first dimensions only.")] = None,
    precision: Annotated[Precision, opt("What a value is stored as.")] = "float32",
    prompt: Annotated[
        str | None, opt("A prompt of the model's, or a prefix ending in a space.")
    ] = None,
    on_long: Annotated[OnLong, opt("What to do with text the model cannot hold.")] = "cut",
    threads: Threads = None,
    processes: Annotated[
        int, more("Processes with a model each, for machines with many cores.", min=1)
    ] = 1,
    ray: Annotated[
        str | None, more("Encode on a Ray cluster: its head's HOST:PORT, auto or local.")
    ] = None,
    part_rows: Annotated[
        int, more("Rows in a part, which is lost or done whole (--ray).", min=1)
    ] = 16384,
) -> Iterable[Row]:
    """Turn each line of text into a vector; JSON lines come out unless --out names a file."""
    options = dict[str, Any](dim=dim, precision=precision, prompt=prompt, on_long=on_long)
    if ray is not None:
        if not files or out is None:
            raise BadParameter("--ray wants .parquet files and --out FOLDER")
        done = encode_dataset(
            files,
            out,
            model=model,
            address=ray,
            column=column or "text",
            part_rows=part_rows,
            threads=threads or 1,
            progress=watched(),
            **options,
        )
        _summarize(done)
        return ()
    texts, kept = itertools.tee(_texts(files or ["-"], column))
    if processes > 1:
        vectors = encode_in_processes(model, texts, processes=processes, **options)
    else:
        encoder = load(model, threads=threads)
        vectors = encoder.encode_iter(texts, progress=watched(), **options)
    rows = zip(kept, vectors, strict=True)
    if out is None:
        return ({"text": text, "vector": _numbers(vector)} for text, vector in rows)
    _write(rows, out)
    return ()


def _summarize(done: EncodedDataset) -> None:
    if done.cut:
        were, them = by_number(done.cut, "was", "were"), by_number(done.cut, "it", "them")
        say(
            f"{counted(done.cut, 'text')} {were} too long and {were} cut; --on-long windows reads "
            f"{them} whole"
        )
    if done.empty:
        say(f"{counted(done.empty, 'text')} {_empty(done.empty)}")
    say(f"{done.folder} has {counted(done.rows, 'vector')} in {counted(done.parts, 'part')}")


def _texts(files: list[str], column: str | None) -> Iterator[str]:
    """Read every file; lines without text keep their place, so that rows match lines."""
    count = empty = 0
    for file in files:
        for text in read_texts(file, column=column):
            count += 1
            empty += not text.strip()
            yield text
    if not count:
        raise DataError(
            f"{', '.join(files)} is empty; expected one text a line. Name another file."
        )
    if empty:
        say(f"{empty:,} of {counted(count, 'text')} {_empty(empty)}")


def _empty(count: int) -> str:
    said = by_number(count, "is empty; it was", "are empty; they were")
    return f"{said} encoded too, so that rows match"


def _write(rows: Rows, out: Path) -> None:
    count = 0
    with writing_vectors(out) as write:
        while block := list(itertools.islice(rows, _BLOCK)):
            write([text for text, _ in block], np.stack([vector for _, vector in block]))
            count += len(block)
    say(f"wrote {counted(count, 'vector')} to {out}")


def _numbers(vector: NDArray[Any]) -> list[Any]:
    # Seven decimals hold all that float32 has to say of a unit vector, in half the characters.
    listed: list[Any] = (
        vector.astype(np.float64).round(7).tolist()
        if vector.dtype == np.float32
        else vector.tolist()
    )
    return listed
