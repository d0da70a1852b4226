"""The head, losses, poolings and baselines of the texts that build everything from scratch."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

from malmoi.errors import BundleError, DataError
from malmoi.evaluate import WordVectors, evaluate
from tests.support import ROOT


def test_word_vectors_are_a_baseline(tmp_path: Path) -> None:
    lines = ["3 2", "병원 1 0", "cat 0 1", "배 1 1", "broken x y"]
    (tmp_path / "vectors.txt").write_text("\n".join(lines) + "\n", "utf-8")
    vectors = WordVectors(tmp_path / "vectors.txt")
    found = vectors.encode(["병원에서 Cat", "모르는 말", "배"])
    np.testing.assert_allclose(found, [[0.5, 0.5], [0, 0], [1, 1]])
    rows = "a\tb\tscore\n병원\t배\t1\ncat\tCat\t5\n병원\tcat\t0\n"
    (tmp_path / "sts.tsv").write_text(rows, "utf-8")
    report = evaluate(vectors, "sts", tmp_path / "sts.tsv", against=[vectors], rounds=0)
    assert report.metrics["spearman"].value == pytest.approx(1)
    (tmp_path / "none.txt").write_text("배\n", "utf-8")
    with pytest.raises(DataError, match="no word vectors"):
        WordVectors(tmp_path / "none.txt")


def test_the_head_is_dropout_dense_gelu_dropout_projection(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from malmoi.train.objectives.cross_encoder import build_cross_encoder, cross_loss
    from tests.support import tiny

    tiny.tiny_transformer(tmp_path / "base")
    model = build_cross_encoder(tmp_path / "base", drop_first=True, dropout=0.3)
    names = [type(module).__name__ for module in model]
    assert names == ["Transformer", "Pooling", "Dropout", "Dense", "Dropout", "Dense"]
    scores, targets = torch.tensor([[2.0], [-1.0]]), torch.tensor([0.8, 0.1])
    squared = ((scores[:, 0].sigmoid() - targets) ** 2).mean()
    assert cross_loss(scores, targets, objective="mse") == pytest.approx(float(squared))
    bce = cross_loss(scores, targets, objective="bce")
    assert bce == cross_loss(scores, targets, objective="regression")
    recipe = (ROOT / "recipes/cross-encoder-scratch.toml").read_text("utf-8")
    assert 'head = "dropout-dense"' in recipe and 'objective = "mse"' in recipe


def test_the_pooler_is_berts_own(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    from transformers import AutoModel, AutoTokenizer

    import malmoi
    from malmoi.export.export import export
    from tests.support import tiny

    tiny.tiny_transformer(tmp_path / "base")
    export(tmp_path / "base", tmp_path / "out", pooling="pooler")
    text = "배가 아파서 병원에 갔다."
    model = AutoModel.from_pretrained(tmp_path / "base").eval()
    tokens = AutoTokenizer.from_pretrained(tmp_path / "base")(text, return_tensors="pt")
    with torch.no_grad():
        expected = model(**tokens).pooler_output[0].numpy()
    found = malmoi.load(tmp_path / "out").encode(text)
    np.testing.assert_allclose(found, expected / np.linalg.norm(expected), atol=1e-4)
    modules = json.loads((tmp_path / "out/modules.json").read_text("utf-8"))
    assert [one["type"].rpartition(".")[2] for one in modules][2] == "Dense"
    tiny.tiny_transformer(tmp_path / "distil", "distilbert")
    with pytest.raises(BundleError, match="have no pooler"):
        export(tmp_path / "distil", tmp_path / "none", pooling="pooler")


def test_infersent_is_a_bilstm_and_its_maximum(tmp_path: Path) -> None:
    """examples/infersent.py: NLI is learnt, and a text's vector is the maximum over its states."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
    script = runpy.run_path(str(ROOT / "examples/infersent.py"))
    words = ["비", "오", "날씨", "맑", "흐리", "고양이", "자", "않"]
    draw = np.random.default_rng(0)
    lines = [" ".join([word, *(f"{x:.3f}" for x in draw.normal(size=8))]) for word in words]
    (tmp_path / "words.txt").write_text("\n".join(lines) + "\n", "utf-8")
    rows = ["비가 온다\t날씨가 흐리다\tentailment", "비가 온다\t날씨가 맑다\tcontradiction"]
    rows += ["비가 온다\t고양이가 잔다\tneutral"]
    header = "premise\thypothesis\tlabel"
    (tmp_path / "nli.tsv").write_text("\n".join([header, *rows * 8]) + "\n", "utf-8")
    torch.manual_seed(0)
    model = script["InferSent"](tmp_path / "words.txt", width=16)
    losses = script["train"](model, tmp_path / "nli.tsv", epochs=60, batch=8)
    assert losses[0] > 0.9 and losses[-1] < 0.5 * losses[0]
    vectors = model.encode(["비가 온다", "xyzzy", "비가 온다"])
    assert vectors.shape == (3, 32) and not vectors[1].any()
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    ids = torch.tensor([[model.rows["비"], model.rows["오"]]])
    with torch.no_grad():
        states = model.lstm(model.table(ids))[0][0].numpy()
    np.testing.assert_allclose(vectors[0], states.max(axis=0), atol=1e-6)
