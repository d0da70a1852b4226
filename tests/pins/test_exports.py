"""Tiny exports of every kind: the bundle's files, manifest and layout, and what it answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
import transformers

from malmoi import load, load_reranker
from tests.pins.bundles import TEXTS, describe
from tests.pins.golden import check_entry, malmoi, one_thread
from tests.support.tiny import tiny_transformer, with_dense

pytestmark = [
    pytest.mark.slow,
    pytest.mark.train,
    pytest.mark.filterwarnings("ignore::malmoi.CutWarning"),
]

# How each bundle is made: the source, and the options of `malmoi export`.
EXPORTS: dict[str, tuple[str, list[str]]] = {
    "bert": ("bert", ["--licence", "MIT", "--name", "pinned"]),
    "bert-int8": ("bert", ["--precision", "int8"]),
    "bert-layers": ("bert", ["--layers", "all", "--pooling", "cls", "--max-tokens", "20"]),
    "xlm-roberta": ("xlm-roberta", ["--pooling", "max"]),
    "dense": ("dense", []),
}
RERANKERS = {"reranker": [], "reranker-int8": ["--precision", "int8"]}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Tiny models to export."""
    root = tmp_path_factory.mktemp("sources")
    for architecture in ("bert", "xlm-roberta"):
        tiny_transformer(root / architecture, architecture)
    with_dense(root / "dense", root / "bert")
    write_cross_encoder(root / "bert", root / "cross-encoder")
    (root / "texts.txt").write_text("\n".join(TEXTS) + "\n", "utf-8")
    with one_thread():
        yield root


def write_cross_encoder(base: Path, folder: Path) -> None:
    """A random sequence classifier of transformers' own with one score."""
    config = transformers.AutoConfig.from_pretrained(base, num_labels=1)
    model = transformers.AutoModelForSequenceClassification.from_config(config)
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(base).save_pretrained(folder)


def export(source: Path, out: Path, *options: object) -> Path:
    done = malmoi("export", source, out, *options)
    assert done.code == 0, done.err
    return out


def rounded(array: Any) -> Any:
    return np.round(np.asarray(array, dtype=float), 4).tolist()


def check(name: str, out: Path, answers: Any) -> None:
    # Sums in another order differ in the last digits; int8 kernels differ between processors.
    within = 5e-3 if "int8" in name else 3e-4
    check_entry("exports.json", name, describe(out) | {"answers": answers}, within=within)


@pytest.mark.parametrize("name", EXPORTS)
def test_an_encoder(name: str, sources: Path, tmp_path: Path) -> None:
    source, options = EXPORTS[name]
    out = export(sources / source, tmp_path / "out", *options)
    check(name, out, rounded(load(out).encode(TEXTS)))


@pytest.mark.parametrize("name", RERANKERS)
def test_a_reranker(name: str, sources: Path, tmp_path: Path) -> None:
    out = export(sources / "cross-encoder", tmp_path / "out", *RERANKERS[name])
    pairs = [(a, b) for a in TEXTS[:2] for b in TEXTS]
    check(name, out, rounded(load_reranker(out).score(pairs)))


def test_a_static_twin(sources: Path, tmp_path: Path) -> None:
    bundle = export(sources / "bert", tmp_path / "bundle", "--name", "source")
    options = ["--static", "--dim", "8", "--texts", sources / "texts.txt"]
    out = export(bundle, tmp_path / "out", *options)
    check("static", out, rounded(load(out).encode(TEXTS)))


def test_words_of_layers(sources: Path, tmp_path: Path) -> None:
    out = export(sources / "bert", tmp_path / "out", "--layers", "all")
    rows = malmoi("words", TEXTS[3], "--model", out, "--layers", "1").rows
    assert rows
    shown = [{key: value for key, value in row.items() if key != "vector"} for row in rows]
    vectors = [rounded(row["vector"][:6]) for row in rows if "vector" in row]
    check_entry("exports.json", "words", {"rows": shown, "vectors": vectors}, within=3e-4)
