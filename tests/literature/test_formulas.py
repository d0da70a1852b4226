"""The losses that the chapters work out in numpy are those that recipes train with."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support import ROOT

torch = pytest.importorskip("torch")


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Cells write files into the folder they run in."""
    monkeypatch.chdir(tmp_path)


def run_cells(name: str) -> dict[str, Any]:
    """Run a chapter's first cells of Python, up to its first command."""
    book = json.loads((ROOT / f"docs/learn/notebooks/{name}.ipynb").read_text("utf-8"))
    names: dict[str, Any] = {}
    for cell in book["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] == "code":
            if text.startswith("!"):
                break
            exec(compile(text, name, "exec"), names)
    return names


def loss_of(objective: str, *columns: Any, dimension: int, **options: Any) -> float:
    from malmoi.train.losses import build_loss
    from malmoi.train.objectives.pairs import find_pairs

    found = find_pairs(objective)
    settled = found.settle(options, where="the test")
    loss = build_loss(found.build(), dimension=dimension, classes=3, options=settled, matryoshka=())
    return float(loss([torch.from_numpy(np.array(one)) for one in columns], None))


def test_triplet_and_in_batch(capsys: pytest.CaptureFixture[str]) -> None:
    """Sentence-BERT's triplet loss, and MultipleNegativesRanking."""
    shown = run_cells("siamese")
    a, p, n = (shown[name] for name in "apn")
    own = loss_of("triplet", a, p, n, dimension=a.shape[1], margin=1.0)
    assert shown["triplet"](a, p, n) == pytest.approx(own, abs=1e-5)
    assert shown["triplet"](a, n, p) > 1 > own  # a trained encoder, and its pairs exchanged
    scale = loss_of("in-batch", a, p, dimension=a.shape[1], scale=20.0, symmetric=False)
    assert f"in-batch {scale:.3f}" in capsys.readouterr().out


def test_multi_similarity(capsys: pytest.CaptureFixture[str]) -> None:
    """SapBERT's loss over all pairs of two concepts' names, with the published settings."""
    from malmoi.train.losses import Mined, multi_similarity

    shown = run_cells("sapbert")
    concepts = torch.from_numpy(shown["concepts"])
    same = concepts[:, None] == concepts
    pairs = Mined(same & ~torch.eye(len(concepts), dtype=torch.bool), ~same)
    cosines = torch.from_numpy(np.array(shown["cosines"]))
    own = float(multi_similarity(cosines, pairs, alpha=1.0, beta=60.0, base=0.8))
    assert shown["multi_similarity"](shown["cosines"], shown["concepts"]) == pytest.approx(
        own, abs=1e-4
    )
    assert f"loss {own:.3f}" in capsys.readouterr().out
