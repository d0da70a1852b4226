"""What `malmoi model export` will not do, each with the line it says."""

import json
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer

import malmoi
from malmoi.errors import (
    BundleError,
    BundleNotFound,
    MalmoiError,
    MissingExtra,
    OptionError,
    OutputError,
)
from malmoi.export.export import export
from tests.support.tiny import with_dense

Write = Callable[[str], Path]


def test_without_torch_the_extra_is_named(
    tiny: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tiny("bert")
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(MissingExtra, match=r"malmoi\[train\]"):
        export(source, tmp_path / "out")


def spoilt_copy(source: Path, folder: Path, **config: object) -> Path:
    """Copy a model folder with changes to its config.json."""
    shutil.copytree(source, folder)
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | config))
    return folder


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(BundleNotFound, match="no folder"):
        export(tmp_path / "nowhere", tmp_path / "out")
    (tmp_path / "file").write_text("")
    with pytest.raises(BundleError, match="is a file"):
        export(tmp_path / "file", tmp_path / "out")


def test_a_folder_that_is_no_model(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(BundleError, match=r"neither modules\.json nor config\.json"):
        export(tmp_path / "empty", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_an_unknown_architecture(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source", model_type="newest")
    with pytest.raises(BundleError, match=r'"newest", of which transformers has no class;'):
        export(source, tmp_path / "out")
    code = {"AutoModel": "modeling.NewModel"}
    coded = spoilt_copy(source, tmp_path / "coded", auto_map=code)
    with pytest.raises(BundleError, match=r"auto_map.*never run.*ONNX graph"):
        export(coded, tmp_path / "out")


def test_code_in_a_folder_is_not_run_and_that_is_said(
    tiny: Write, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    code = {"AutoModel": "modeling.BertModel"}
    source = spoilt_copy(tiny("bert"), tmp_path / "source", auto_map=code)
    (source / "modeling.py").write_text("raise SystemExit")
    export(source, tmp_path / "out")
    said = "code of its own (auto_map), which is never run: the model is transformers' BertModel"
    assert said in caplog.text
    other = spoilt_copy(source, tmp_path / "other", model_type="distilbert")
    with pytest.raises(BundleError, match=r"lack .*\(auto_map\) may know them, and is never run"):
        export(other, tmp_path / "other-out")


def test_pickled_weights_are_not_opened(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source")
    (source / "model.safetensors").rename(source / "pytorch_model.bin")
    with pytest.raises(BundleError, match=r"pytorch_model\.bin.*save_pretrained"):
        export(source, tmp_path / "out")
    (source / "pytorch_model.bin").unlink()
    with pytest.raises(BundleError, match="no weights"):
        export(source, tmp_path / "out")


def test_a_pickled_dense_module_is_not_opened(tiny: Write, tmp_path: Path) -> None:
    with_dense(tmp_path / "model", tiny("bert"))
    dense = tmp_path / "model" / "2_Dense"
    (dense / "model.safetensors").rename(dense / "pytorch_model.bin")
    with pytest.raises(BundleError, match=r"2_Dense.*pytorch_model\.bin"):
        export(tmp_path / "model", tmp_path / "out")


def test_weights_that_do_not_fit_the_configuration(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source", num_hidden_layers=3)
    with pytest.raises(BundleError, match=r"layer\.2.*whole encoder"):
        export(source, tmp_path / "out")


def test_broken_weights(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source")
    whole = (source / "model.safetensors").read_bytes()
    (source / "model.safetensors").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(BundleError, match="cannot be read"):
        export(source, tmp_path / "out")


def test_a_tokenizer_too_large_for_the_model(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source")
    tokenizer = Tokenizer.from_file(str(source / "tokenizer.json"))
    tokenizer.add_tokens(["신생어"])
    tokenizer.save(str(source / "tokenizer.json"))
    with pytest.raises(BundleError, match="ids up to"):
        export(source, tmp_path / "out")


def test_no_tokenizer(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source")
    for path in source.glob("tokenizer*"):
        path.unlink()
    with pytest.raises(BundleError, match="no tokenizer"):
        export(source, tmp_path / "out")


def test_out_is_taken(tiny: Write, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").write_text("precious")
    with pytest.raises(OutputError, match="not empty"):
        export(tiny("bert"), tmp_path / "out")
    assert (tmp_path / "out" / "mine").read_text() == "precious"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("pooling", "avg"),
        ("precision", "float8"),
        ("layers", "some"),
        ("max_tokens", 67),
        ("max_tokens", 2),
        ("clean", ("polish",)),
        ("matryoshka", (33,)),
    ],
)
def test_options_outside_their_range(
    option: str, value: object, tiny: Write, tmp_path: Path
) -> None:
    with pytest.raises(OptionError):
        export(tiny("bert"), tmp_path / "out", **{option: value})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_modules_before_the_pooling(tiny: Write, tmp_path: Path) -> None:
    with_dense(tmp_path / "model", tiny("bert"))
    path = tmp_path / "model" / "modules.json"
    modules = json.loads(path.read_text())
    modules[1]["idx"], modules[2]["idx"] = 2, 1
    path.write_text(json.dumps(modules))
    with pytest.raises(MalmoiError, match="before its pooling"):
        export(tmp_path / "model", tmp_path / "out")


@pytest.mark.parametrize(
    ("module", "said"),
    [
        ("sentence_transformers.sparse_encoder.modules.SpladePooling", "sparse, or a vector a"),
        ("sentence_transformers.multi_vector_encoder.modules.MultiVectorMask", "vector a token"),
        ("sentence_transformers.models.Normalize", r"no Pooling module.*ColBERT"),
    ],
)
def test_models_without_a_vector_a_text(
    module: str, said: str, tiny: Write, tmp_path: Path
) -> None:
    """Opening such a folder says so too, and not that it should be exported."""
    source = spoilt_copy(tiny("bert"), tmp_path / "source")
    (source / "1").mkdir()
    names = ["sentence_transformers.models.Transformer", module]
    modules = [{"idx": i, "path": str(i) * i, "type": name} for i, name in enumerate(names)]
    (source / "modules.json").write_text(json.dumps(modules))
    for attempt in (lambda: export(source, tmp_path / "out"), lambda: malmoi.load(source)):
        with pytest.raises(BundleError, match=said) as caught:
            attempt()
        assert "malmoi model export" not in str(caught.value)


def test_a_colbert_of_its_own_class(tiny: Write, tmp_path: Path) -> None:
    """What the refusal advises works."""
    source = spoilt_copy(tiny("bert"), tmp_path / "source", architectures=["HF_ColBERT"])
    with pytest.raises(BundleError, match="class HF_ColBERT.*OUT --kind encoder"):
        export(source, tmp_path / "out")
    assert export(source, tmp_path / "out", kind="encoder").kind == "encoder"


def test_modules_of_other_widths(tiny: Write, tmp_path: Path) -> None:
    with_dense(tmp_path / "model", tiny("bert"))
    both = {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    (tmp_path / "model/1_Pooling/config.json").write_text(json.dumps(both))
    with pytest.raises(BundleError, match="modules of .* do not run one after another"):
        export(tmp_path / "model", tmp_path / "out")


def test_a_configuration_that_is_no_object(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source")
    (source / "config.json").write_text("[1]")
    for attempt in (lambda: export(source, tmp_path / "out"), lambda: malmoi.load(source)):
        with pytest.raises(BundleError, match=r"config\.json .* expected a JSON object"):
            attempt()


def test_a_folder_that_needs_no_export(tiny: Write, tmp_path: Path) -> None:
    source = spoilt_copy(tiny("bert"), tmp_path / "source")
    (source / "model.safetensors").unlink()
    (source / "model.onnx").write_bytes(b"")
    with pytest.raises(BundleError, match=r"has an ONNX graph.*needs no export"):
        export(source, tmp_path / "out")
