"""docs/server.md: its snippet runs, its table and its figures are the server's own."""

import re
from collections.abc import Iterator

import pytest

from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.serve.settings import Batching, Limits
from malmoi.serve.state import load_resources
from tests.support import ROOT
from tests.support.servers import Served, serving

GUIDE = (ROOT / "docs/server.md").read_text("utf-8")


@pytest.fixture(scope="module")
def site() -> Iterator[Served]:
    if DEFAULT not in shipped_models():
        pytest.skip(f"the model {DEFAULT} is not in this checkout")
    with serving(load_resources(reranker="none")) as served:
        yield served


def test_the_snippet_runs(site: Served) -> None:
    [block] = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)
    names: dict[str, object] = {"URL": site.url}
    exec(compile(block, "docs/server.md", "exec"), names)
    assert names["vectors"].shape == (2, 128)  # type: ignore[attr-defined]
    names["encoder"].close()  # type: ignore[attr-defined]


def test_every_path_is_in_the_table(site: Served) -> None:
    for path in site.get("/openapi.json").json["paths"]:
        assert f"{path}`" in GUIDE, path


def test_the_figures_are_the_settings() -> None:
    limits, batching, guide = Limits(), Batching(), " ".join(GUIDE.split())
    assert f"{limits.body_bytes >> 20} MiB, {limits.texts:,} texts" in guide
    assert f"{limits.characters:,} characters a text, {limits.body_seconds:g} s" in guide
    assert f"{limits.header_seconds:g} s and {limits.header_bytes >> 10} KiB" in guide
    assert f"{limits.requests:,} at once, {limits.held_bytes >> 20} MiB" in guide
    assert f"At most {limits.connections:,}, and {limits.connections_per_address:,} from" in guide
    assert f"More than {limits.answer_bytes >> 20} MiB is refused" in guide
    assert f"share {limits.memory_bytes >> 30} GiB" in guide
    assert f"of a waiting answer in {limits.write_seconds:g} s" in guide
    assert f"up to {batching.budget} tokens" in guide
    assert f"{batching.queue_tokens:,} tokens wait" in guide
    assert f"at most {batching.wait_seconds * 1e3:g} ms" in guide
