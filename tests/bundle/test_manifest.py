"""The manifest: written with every hash, refused when anything is off."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from malmoi.bundle.manifest import MANIFEST, Manifest
from malmoi.errors import BundleCorrupt, BundleError


def edit(bundle: Path, **changes: Any) -> None:
    path = bundle / MANIFEST
    data = json.loads(path.read_text("utf-8"))
    data.pop("checksum", None)  # as whoever changes a manifest is told to
    path.write_text(json.dumps(data | changes), "utf-8")


def test_it_reads_what_it_wrote(tmp_path: Path) -> None:
    (tmp_path / "onnx").mkdir()
    (tmp_path / "onnx/model.onnx").write_bytes(b"graph")
    manifest = Manifest(
        name="작은 모델",
        dimension=4,
        prompts={"query": "질문: "},
        matryoshka=(2,),
        scores={"sts": 80.5},
        training={"recipe": {"seed": 1}},
    ).write(tmp_path)
    assert Manifest.read(tmp_path) == manifest
    assert list(manifest.files) == ["onnx/model.onnx"]
    manifest.verify(tmp_path)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "avg"}, 'says pooling "avg"; known are cls, mean, max'),
        ({"kind": "oracle"}, 'says kind "oracle"; known are encoder'),
        ({"precision": "int3"}, 'says precision "int3"'),
        ({"clean": ["polish"]}, 'says clean "polish"'),
        ({"dimension": 0}, "says dimension 0; expected 1 or more"),
        ({"dimension": "many"}, 'has "many" in "dimension"; expected int'),
        ({"dimension": True}, 'has true in "dimension"; expected int'),
        ({"normalize": 1}, 'has 1 in "normalize"; expected bool'),
        ({"format": 99}, "is of format 99; this malmoi reads up to 1. Install a newer"),
        ({"format": None}, 'has no field "format"'),
        ({"graph": "../../etc/passwd"}, "expected one inside the bundle"),
        ({"files": {"/etc/passwd": "0"}}, "expected one inside the bundle"),
    ],
)
def test_a_field_out_of_range_is_named(bundle: Path, changes: dict[str, Any], message: str) -> None:
    edit(bundle, **changes)
    with pytest.raises(BundleError) as caught:
        Manifest.read(bundle)
    assert message in str(caught.value)


def test_fields_of_the_future_are_passed_over(bundle: Path) -> None:
    edit(bundle, colour="blue")
    assert Manifest.read(bundle).name == "tiny"


def test_no_json_is_corrupt(bundle: Path) -> None:
    for text in ("{", "[" * 100_000, '{"a":' * 100_000, '{"format": ' + "9" * 5000 + "}"):
        (bundle / MANIFEST).write_text(text)
        with pytest.raises(BundleCorrupt, match="cannot be read as JSON"):
            Manifest.read(bundle)


def test_every_changed_or_missing_file_is_found(bundle: Path) -> None:
    manifest = Manifest.read(bundle)
    assert set(manifest.files) == {"tokenizer.json", "onnx/model.onnx"}
    for name in manifest.files:
        whole = (bundle / name).read_bytes()
        (bundle / name).write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
        with pytest.raises(BundleCorrupt, match="its sha256 differs"):
            manifest.verify(bundle)
        (bundle / name).unlink()
        with pytest.raises(BundleCorrupt, match=f"lacks {name}"):
            manifest.verify(bundle)
        (bundle / name).write_bytes(whole)
    manifest.verify(bundle)


def test_empty_fields_are_left_out(bundle: Path) -> None:
    data = Manifest.read(bundle).to_json()
    assert "labels" not in data and "default_prompt" not in data
    assert data["format"] == 1
    assert dataclasses.replace(Manifest.read(bundle), labels=("a",)).to_json()["labels"] == ["a"]
