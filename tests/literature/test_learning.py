"""What the literature trains: losses, tasks, encoders from scratch, terms."""

import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi.errors import BundleError, DataError, OptionError
from malmoi.evaluation import TASKS, WordVectors, evaluate
from tests.support import ROOT
from tests.support.graphs import Run

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
    from malmoi.training.losses import build_loss
    from malmoi.training.objectives.pairs import find_pairs

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
    scale = loss_of("contrastive", a, p, dimension=a.shape[1], scale=20.0, symmetric=False)
    assert f"in-batch {scale:.3f}" in capsys.readouterr().out


def test_multi_similarity(capsys: pytest.CaptureFixture[str]) -> None:
    """SapBERT's loss over all pairs of two concepts' names, with the published settings."""
    from malmoi.training.losses import Mined, multi_similarity

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
    from malmoi.training.objectives.cross_encoder import build_cross_encoder, cross_loss
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
    from transformers import AutoModel, AutoTokenizer

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


KOSTOM = [
    ("1", "10", "Liver cirrhosis", "간경변", "C0023890"),
    ("2", "10", "Cirrhosis of liver", "간경화", "C0023890"),
    ("3", "11", "Diabetes mellitus", "당뇨병", "C0011849"),
    ("4", "12", "Nephropathy", "신병증", ""),
]


def write_kostom(path: Path) -> Path:
    path.write_bytes("".join("\t".join(row) + "\n" for row in KOSTOM).encode("cp949"))
    return path


def mrconso(cui: str, language: str, name: str) -> str:
    cells = [cui, language, "P", "L1", "PF", "S1", "Y", "A1", "", "", "", "KSM", "PT", "1", name]
    return "|".join([*cells, "0", "N", "", ""])


def entry(file: Path, **options: Any) -> Any:
    from malmoi.training.objectives.pairs import Data

    return Data(files=(file.name,), objective="term-alignment", options=options)


def pairs_of(file: Path, **options: Any) -> set[frozenset[str]]:
    from malmoi.training.terms import read_synonyms

    found = read_synonyms(entry(file, **options), file.parent, seed=1, strict=True)
    return {frozenset(found.texts[i] for i in row) for row in found.columns.tolist()}


def test_kostom_and_mrconso_are_learnt_from_as_they_are(tmp_path: Path) -> None:
    found = pairs_of(write_kostom(tmp_path / "KOSTOM.txt"))
    assert frozenset({"간경변", "간경화"}) in found  # two rows of one CUI
    assert frozenset({"당뇨병", "Diabetes mellitus"}) in found
    assert frozenset({"신병증", "Nephropathy"}) in found  # a row without a CUI is a pair
    assert len(found) == 6 + 1 + 1
    with pytest.raises(OptionError, match="which where cannot choose"):
        from malmoi.training.terms import read_synonyms

        chosen = entry(tmp_path / "KOSTOM.txt").model_copy(update={"where": {"source": "x"}})
        read_synonyms(chosen, tmp_path, seed=1, strict=True)
    assert len(pairs_of(tmp_path / "KOSTOM.txt", pairs=2)) == 2 + 1 + 1  # the most of a code
    names = TASKS["concepts"].read(tmp_path / "KOSTOM.txt").rows
    assert {term.name for term in names.asked} >= {"간경변", "Cirrhosis of liver", "신병증"}
    lines = [mrconso("C1", "KOR", "당뇨병"), mrconso("C1", "ENG", "Diabetes mellitus")]
    (tmp_path / "MRCONSO.RRF").write_text("\n".join(lines) + "\n", "utf-8")
    assert pairs_of(tmp_path / "MRCONSO.RRF") == {frozenset({"당뇨병", "Diabetes mellitus"})}


def test_a_lexicon_is_exported_and_learnt_from(tmp_path: Path, run_here: Run) -> None:
    write_kostom(tmp_path / "KOSTOM.txt")
    run_here("lexicon", "build", "KOSTOM.txt", "-o", "k.lexicon", "--no-encode")
    direct = pairs_of(tmp_path / "k.lexicon")
    assert frozenset({"간경변", "간경화"}) in direct
    done = run_here("lexicon", "export", "k.lexicon", "--pairs", "-o", "pairs.tsv")
    assert "wrote 8 pairs to pairs.tsv" in done.stderr
    assert pairs_of(tmp_path / "pairs.tsv") == direct
    done = run_here("lexicon", "export", "k.lexicon", "--names")
    header, *names = done.stdout.splitlines()
    assert header.split("\t") == ["code", "name", "language", "kind", "source"]
    assert len(names) == 8 and any(line.startswith("C0023890\t간경변\tko\t") for line in names)
    assert run_here("lexicon", "export", "KOSTOM.txt", "--pairs", "--most", "1").stdout.count(
        "C0023890"
    ) == 1  # fmt: skip
    assert run_here("lexicon", "export", "gone.lexicon").returncode == 1


def test_the_label_of_pairs_joins_rows(tmp_path: Path) -> None:
    from malmoi.training.terms import read_synonyms

    rows = [
        "sent0\tsent1\tlabel",
        "간경변\tcirrhosis\t7",
        "간경화\tliver cirrhosis\t7",
        "당뇨\tDM\t8",
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    found = read_synonyms(entry(tmp_path / "pairs.tsv"), tmp_path, seed=1, strict=True)
    assert found.labels is not None
    assert found.labels[0] == found.labels[1] != found.labels[2]
    write_kostom(tmp_path / "KOSTOM.txt")
    both = entry(tmp_path / "pairs.tsv").model_copy(update={"files": ("pairs.tsv", "KOSTOM.txt")})
    with pytest.raises(DataError, match="different forms"):
        read_synonyms(both, tmp_path, seed=1, strict=True)


@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta"])
def test_the_published_recipe_learns_words_first(tmp_path: Path, architecture: str) -> None:
    import tomllib

    from malmoi.training.recipe import make_recipe
    from malmoi.training.run import train
    from tests.support import ROOT, tiny
    from tests.support.logs import record_messages

    table = tomllib.loads((ROOT / "recipes/sapbert-ko-en.toml").read_text("utf-8"))
    options = table["data"][0]["options"]
    assert (options["threshold"], options["alpha"], options["beta"]) == (0.8, 1.0, 60.0)
    assert (table["pooling"], table["max_tokens"], table["dropout"]) == ("cls", 64, 0.1)
    assert table["schedule"]["batch_size"] == 64 and table["schedule"]["evaluate_steps"] == 100
    tiny.tiny_transformer(tmp_path / "base", architecture)
    write_kostom(tmp_path / "KOSTOM.txt")
    table["base"] = str(tmp_path / "base")
    table["output"] = {"folder": str(tmp_path / "run")}
    table["data"][0]["hold_out"] = table["evaluation"][0]["hold_out"] = 0.0
    told = record_messages()
    run = train(make_recipe(table), data=tmp_path, threads=1)
    [said] = [line for line in told if "tokens a term before" in line]
    before, after = (float(part.split()[0]) for part in said.split(": ")[1].split(","))
    assert after < before
    encoder = malmoi.load(run.bundles[0])
    assert encoder.encode(["간경변", "Liver cirrhosis"]).shape == (2, 32)
    config = json.loads((run.bundles[0] / "config.json").read_text("utf-8"))
    assert config["vocab_size"] == encoder.manifest.vocabulary


def test_the_old_name_of_the_threshold_is_read() -> None:
    from malmoi.training.objectives.pairs import find_pairs

    settled = find_pairs("term-alignment").settle({"base": 0.7}, where="the recipe")
    assert settled["threshold"] == 0.7 and "base" not in settled
