"""A static twin: made from any encoder without torch, and nearer to it for having read texts."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.encoders.static import WordPieces
from malmoi.errors import BundleError
from malmoi.export.export import export
from malmoi.export.static import export_static, principal_axes
from malmoi.io.arrays import write_safetensors
from tests.support import graphs, tiny

LINES = [
    "배를 타고 바다",
    "the cat sleeps",
    "a dog has diabetes",
    "환자 는 당뇨 신증",
    "the patient has diabetes nephropathy",
    "고양이 잔다",
    "the boat sea",
    "배 달다",
    "pear sweet",
]


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    path = tmp_path / "texts.txt"
    path.write_text("\n".join([*LINES, "", " ", *LINES, "cat " * 50]), "utf-8")
    return path


def nearness(encoder: malmoi.TextEncoder, twin: malmoi.TextEncoder) -> float:
    """How well the twin's similarities of all pairs of lines follow the encoder's."""
    pairs = np.triu_indices(len(LINES), 1)
    a, b = (model.similarity(LINES, LINES)[pairs] for model in (encoder, twin))
    return float(np.corrcoef(a, b)[0, 1])


def test_the_twin_of_a_sum_is_that_sum(bundle: Path, tmp_path: Path, texts: Path) -> None:
    # The tiny encoder sums rows itself, special tokens among them, so a table can follow it.
    encoder = malmoi.load(bundle)
    plain = export_static(bundle, tmp_path / "plain", dim=16)
    learned = export_static(bundle, tmp_path / "learned", dim=16, texts=[texts], epochs=40)
    assert plain.kind == learned.kind == "static"
    assert learned.licence == "Apache-2.0" and learned.languages == ("ko", "en")
    assert learned.training["texts"] == len(LINES)  # distinct, with a piece, and not too long
    twin = malmoi.load(tmp_path / "learned")
    assert nearness(encoder, twin) > 0.97
    assert nearness(encoder, twin) > nearness(encoder, malmoi.load(tmp_path / "plain"))
    assert learned.training["cosine"] > 0.97
    assert list(learned.training["data"]) == [f"{tmp_path.name}/texts.txt"]
    card = (tmp_path / "learned/README.md").read_text("utf-8")
    assert "static twin of tiny" in card and "9 texts" in card and "Apache-2.0" in card


def test_a_disk_that_fills_while_the_tokenizer_is_written(bundle: Path, tmp_path: Path) -> None:
    export_static(bundle, tmp_path / "whole", dim=16)
    sizes = {file.name: file.stat().st_size for file in (tmp_path / "whole").iterdir()}
    assert sizes["tokenizer.json"] > sizes["static.safetensors"] + 100
    code = (
        "import resource, sys; from malmoi.export.static import export_static\n"
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({sizes['static.safetensors'] + 50},) * 2)\n"
        "from malmoi.errors import OutputError\n"
        "try: export_static(sys.argv[1], sys.argv[2], dim=16)\n"
        "except OutputError as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(bundle), str(tmp_path / "out")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "out" in done.stdout, done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["tiny", "whole"]


def test_reduced_and_the_same_each_time(bundle: Path, tmp_path: Path, texts: Path) -> None:
    for name in ("a", "b"):
        export_static(bundle, tmp_path / name, dim=6, texts=[texts], name="twin")
    assert (tmp_path / "a/static.safetensors").read_bytes() == (
        tmp_path / "b/static.safetensors"
    ).read_bytes()
    twin = malmoi.load(tmp_path / "a")
    assert twin.dimension == 6 and twin.name == "twin"
    vectors = twin.encode([*LINES, "", "🙂"])
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_prompts_and_cleaning_stay(tmp_path: Path) -> None:
    source = graphs.write_bundle(tmp_path / "s", prompts={"query": "the "}, clean=("narrow",))
    made = export_static(source, tmp_path / "twin", dim=4)
    assert made.prompts == {"query": "the "} and made.clean == ("narrow",)


def test_a_folder_without_a_manifest_will_do(tmp_path: Path) -> None:
    source = graphs.write_foreign(tmp_path / "s", steps=("pool", "normalize"))
    export_static(source, tmp_path / "twin", dim=8)
    assert malmoi.load(tmp_path / "twin").encode("배").shape == (8,)


def test_tables_are_read_by_column(bundle: Path, tmp_path: Path) -> None:
    path = tmp_path / "pairs.tsv"
    path.write_text("en\tko\n" + "".join(f"cat {i}\t고양이 {i}\n" for i in range(5)), "utf-8")
    one = export_static(bundle, tmp_path / "one", dim=4, texts=[path], columns=["ko"])
    two = export_static(bundle, tmp_path / "two", dim=4, texts=[path], columns=["en", "ko"])
    assert one.training["texts"] == 5 and two.training["texts"] == 10
    with pytest.raises(malmoi.errors.DataError, match="several columns and none was named"):
        export_static(bundle, tmp_path / "none", dim=4, texts=[path])
    with pytest.raises(malmoi.errors.DataError, match="has the columns en, ko; expected de or fr"):
        export_static(bundle, tmp_path / "none", dim=4, texts=[path], columns=["de", "fr"])
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize("options", [{"dim": 0}, {"dim": 17}, {"epochs": 0}, {"rate": 0.0}])
def test_options_out_of_range(bundle: Path, tmp_path: Path, options: dict[str, float]) -> None:
    with pytest.raises(malmoi.errors.OptionError, match="expected|Choose"):
        export_static(bundle, tmp_path / "x", **({"dim": 8} | options))  # type: ignore[arg-type]
    assert not (tmp_path / "x").exists()


def test_what_has_no_twin(bundle: Path, tmp_path: Path) -> None:
    export_static(bundle, tmp_path / "twin", dim=4)
    with pytest.raises(malmoi.errors.BundleError, match="of kind 'static'; expected encoder"):
        export_static(tmp_path / "twin", tmp_path / "again")
    with pytest.raises(malmoi.errors.OutputError, match="exists already"):
        export_static(bundle, tmp_path / "twin", dim=4)
    empty = tmp_path / "empty.txt"
    empty.write_text("\n \n")
    with pytest.raises(malmoi.errors.DataError, match="no line with a known piece"):
        export_static(bundle, tmp_path / "x", dim=4, texts=[empty])


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_words_alone_are_spelt_as_in_a_sentence(architecture: str) -> None:
    tokenizer = tiny.tiny_tokenizer(architecture).backend_tokenizer
    texts = [text.replace(".", " .") for text in tiny.TEXTS]
    expected = [tokenizer.encode(" " + text, add_special_tokens=False).ids for text in texts]
    bags = WordPieces(tokenizer).bags(texts)
    assert bags.ids.tolist() == [piece for ids in expected for piece in ids]
    assert bags.counts.tolist() == [len(ids) for ids in expected]


def test_axes_keep_what_matters_first() -> None:
    random = np.random.default_rng(0)
    values = random.standard_normal((500, 6)) * [1, 9, 3, 0.1, 5, 0.01]
    axes = principal_axes(values.T @ values, 3)
    assert np.abs(axes).argmax(axis=0).tolist() == [1, 4, 2]
    np.testing.assert_allclose(axes.T @ axes, np.eye(3), atol=1e-6)


def test_the_command(
    run: graphs.Run, run_here: graphs.Run, bundle: Path, tmp_path: Path, texts: Path
) -> None:
    done = run("model", "export", "--static", bundle, "twin", "--dim", 8, "--texts", texts)
    assert done.returncode == 0, done.stderr
    assert "learning from 9 texts" in done.stderr
    assert malmoi.load(tmp_path / "twin").dimension == 8
    done = run_here("model", "export", bundle, "x", "--dim", 8)
    assert done.returncode == 2 and "are for --static" in done.stderr
    done = run_here("model", "export", "--static", bundle, "x", "--layers", "all")
    assert done.returncode == 2 and "not for --static" in done.stderr


def test_no_torch_is_loaded(bundle: Path, tmp_path: Path) -> None:
    code = (
        "import sys; from malmoi.export.static import export_static\n"
        f"export_static({str(bundle)!r}, {str(tmp_path / 'twin')!r}, dim=4)\n"
        "assert not {'torch', 'transformers', 'safetensors', 'scipy'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("kind", ["model2vec", "sentence-transformers"])
def test_static_models_of_others_become_bundles(kind: str, tmp_path: Path) -> None:
    """Directions are theirs but for 8 bits; model2vec weighs rows and leaves unknown words out."""
    rows = graphs.embedding_table()
    folder = root = tmp_path / "static"
    folder.mkdir()
    arrays = {"embeddings": rows, "weights": np.linspace(0.5, 2, len(rows), dtype=np.float32)}
    if kind == "model2vec":
        (folder / "config.json").write_text(json.dumps({"model_type": "model2vec"}))
        rows = rows * arrays["weights"][:, None]
        rows[graphs.WORDS.index("[UNK]")] = 0
    else:
        root = folder / "0_StaticEmbedding"
        root.mkdir()
        home = "sentence_transformers.models.StaticEmbedding"
        modules = [{"idx": 0, "name": "0", "path": root.name, "type": home}]
        (folder / "modules.json").write_text(json.dumps(modules))
        arrays = {"embedding.weight": rows}
    write_safetensors(root / "model.safetensors", arrays)
    tokenizer = graphs.tiny_tokenizer()
    tokenizer.save(str(root / "tokenizer.json"))
    manifest = export(folder, tmp_path / "out", licence="MIT")
    assert (manifest.kind, manifest.dimension, manifest.licence) == ("static", graphs.DIM, "MIT")
    texts = ["배를 타고 바다", "the cat sleeps 모르는말", "당뇨"]
    ids = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    sums = np.stack([rows[one].sum(axis=0) for one in ids])
    expected = sums / np.linalg.norm(sums, axis=1, keepdims=True)
    np.testing.assert_allclose(malmoi.load(tmp_path / "out").encode(texts), expected, atol=0.02)
    (root / "model.safetensors").unlink()
    write_safetensors(root / "model.safetensors", {"table": rows})
    with pytest.raises(BundleError, match="has table; expected embeddings"):
        export(folder, tmp_path / "again")
