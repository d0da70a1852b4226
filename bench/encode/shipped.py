"""How well the shipped encoders grade similarity: KorSTS and STS-B, in and across both languages.

    python bench/run.py shipped [--test] [--models ko-en-small,ko-en-static]
                                [--dims 256,128,64] [--rows N]

Spearman × 100 with 95 % intervals, dev; --test adds the test parts, which are for reporting and
not for choosing. --dims also measures the first model with its vectors cut to fewer dimensions.
"""

import argparse
import tempfile
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import malmoi
from bench.common import Row, data_root
from malmoi.bundle.bundle import find_model
from malmoi.evaluation import Settings, evaluate

SIDES = {
    "ko": "KorSTS",
    "en": "STS-B",
    "ko-en": "Korean–English",
    "en-ko": "English–Korean",
}


class Cut:
    """An encoder whose vectors end after some dimensions."""

    def __init__(self, encoder: malmoi.TextEncoder, dim: int) -> None:
        self.encoder, self.dim = encoder, dim

    def encode(self, texts: list[str]) -> Any:
        return self.encoder.encode(texts, dim=self.dim)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--test", action="store_true")
    parser.add_argument("--models", default="ko-en-small,ko-en-static")
    parser.add_argument("--dims", default="256,128,64")
    parser.add_argument("--rows", type=int, help="only the first so many rows")


def run(options: argparse.Namespace) -> Iterator[Row]:
    with tempfile.TemporaryDirectory() as scratch:
        parts = {
            part: shortened(data_root() / f"sts/korsts-{part}.tsv", options.rows, Path(scratch))
            for part in (["dev", "test"] if options.test else ["dev"])
        }
        for place, name in enumerate(options.models.split(",")):
            encoder = malmoi.load(name)
            size = sum(
                path.stat().st_size for path in find_model(name).rglob("*") if path.is_file()
            )
            yield {"model": name, "MB": round(size / 1e6, 1)} | scores(encoder, parts)
            for dim in map(int, options.dims.split(",") if options.dims and not place else []):
                yield {"model": f"{name}, {dim} dimensions"} | scores(Cut(encoder, dim), parts)


def shortened(path: Path, rows: int | None, scratch: Path) -> Path:
    """The file, or its header with its first rows."""
    if rows is None:
        return path
    short = scratch / path.name
    with path.open(encoding="utf-8") as file:
        short.write_text("".join(islice(file, rows + 1)), "utf-8")
    return short


def scores(model: object, parts: dict[str, Path]) -> Row:
    """Spearman × 100 by part and language, with its interval."""
    found: Row = {}
    for part, file in parts.items():
        for sides, heading in SIDES.items():
            report = evaluate(model, "sts", file, settings=Settings(sides=sides))
            metric = report.metrics["spearman"]
            figures = (metric.value, metric.low, metric.high)
            found[f"{heading} {part}"] = [round(100 * value, 2) for value in figures]
    return found
