"""A tiny encoder and a tiny reranker behind a real socket, shared by the tests of a file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import malmoi
from malmoi.serve.state import Resources
from tests.support import graphs
from tests.support.servers import Served, serving


@pytest.fixture(scope="module")
def resources(tmp_path_factory: pytest.TempPathFactory) -> Resources:
    """What the tiny server serves."""
    folder: Path = tmp_path_factory.mktemp("models")
    encoder = malmoi.load(graphs.write_bundle(folder / "tiny"))
    reranker = malmoi.load(graphs.write_reranker(folder / "tiny-reranker"))
    return Resources(encoder, reranker)


@pytest.fixture(scope="module")
def server(resources: Resources) -> Iterator[Served]:
    """A server with the default settings."""
    with serving(resources) as served:
        yield served
