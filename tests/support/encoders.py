"""Everything that promises to be an encoder, opened over one tiny model."""

import contextlib
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import malmoi
from tests.support import graphs

PROMPTS = {"query": "the ", "document": "a "}


@dataclass(frozen=True)
class Opened:
    """An encoder to be tested, and the same model opened plainly, whose vectors it must give."""

    encoder: Any
    plain: malmoi.TextEncoder
    reads_whole: bool = False  # texts of any length, so that none is ever cut


@contextlib.contextmanager
def transformer(folder: Path) -> Iterator[Opened]:
    """An encoder that runs a graph."""
    bundle = graphs.write_bundle(folder / "tiny", prompts=PROMPTS)
    yield Opened(malmoi.load(bundle), malmoi.load(bundle, threads=1))


@contextlib.contextmanager
def static(folder: Path) -> Iterator[Opened]:
    """An encoder that adds up rows of a table."""
    bundle = graphs.write_static(folder / "tiny", name="tiny", prompts=PROMPTS)
    yield Opened(malmoi.load(bundle), malmoi.load(bundle, threads=1), reads_whole=True)


@contextlib.contextmanager
def client(folder: Path) -> Iterator[Opened]:
    """A client of a real server."""
    from malmoi.client import Client
    from malmoi.serve.state import Resources
    from tests.support.servers import serving

    encoder = malmoi.load(graphs.write_bundle(folder / "tiny", prompts=PROMPTS))
    with serving(Resources(encoder)) as server:
        made = Client(server.url)
        yield Opened(made, encoder)
        made.close()


@contextlib.contextmanager
def batched(folder: Path) -> Iterator[Opened]:
    """The encoder that corpora and linkers have inside a server: its texts join the batches."""
    from malmoi.serve.engine import BatchedEncoder
    from malmoi.serve.state import Resources
    from tests.support.servers import serving

    encoder = malmoi.load(graphs.write_bundle(folder / "tiny", prompts=PROMPTS))
    made = BatchedEncoder(encoder)
    with serving(Resources(encoder, batched=made)):
        yield Opened(made, encoder)


Open = Callable[[Path], AbstractContextManager[Opened]]
LOCAL: dict[str, Open] = {"transformer": transformer, "static": static}
SERVED: dict[str, Open] = {"client": client, "batched": batched}
