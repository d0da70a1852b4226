"""What is pinned of a bundle: its files, its manifest, and the shape of its graph."""

import json
from pathlib import Path
from typing import Any

import onnx

from tests.pins.golden import files_of

TEXTS = [
    "배가 아파서 병원에 갔다.",
    "The ship left the harbour at dawn.",
    "pt는 DM nephropathy로 f/u 중",
    "병원에서 배를 보았다. The ship was in the harbour.",
    "배",
]


def describe(bundle: Path, *, layout: bool = True) -> dict[str, Any]:
    """List a bundle's files and manifest; with `layout` its small JSON files and graph too."""
    manifest = json.loads((bundle / "malmoi.json").read_text("utf-8"))
    files = files_of(bundle)
    assert sorted(manifest.pop("files")) == [name for name in files if name != "malmoi.json"]
    assert len(manifest.pop("checksum")) == 64  # of weights, which differ between processors
    found = {
        "files": " ".join(files),
        "manifest": manifest | {"training": _training(manifest.get("training", {}))},
    }
    for name in ("modules.json", "1_Pooling/config.json", "sentence_bert_config.json"):
        if layout and name in files:
            found[name] = json.loads((bundle / name).read_text("utf-8"))
    if layout and "onnx/model.onnx" in files:
        found["graph"] = graph(bundle / "onnx/model.onnx")
    return found


def _training(training: dict[str, Any]) -> dict[str, Any]:
    """The keys of what a manifest says of its training; values hold versions, times and paths."""
    return {
        key: " ".join(sorted(value)) if isinstance(value, dict) else type(value).__name__
        for key, value in sorted(training.items())
    }


def graph(path: Path) -> dict[str, Any]:
    """The inputs and outputs of a graph; how it computes may change."""
    model = onnx.load(path).graph
    return {
        "inputs": [_value(one) for one in model.input],
        "outputs": [_value(one) for one in model.output],
    }


def _value(value: Any) -> str:
    kind = value.type.tensor_type
    sizes = [one.dim_value if one.HasField("dim_value") else "?" for one in kind.shape.dim]
    name = onnx.TensorProto.DataType.Name(kind.elem_type).lower()
    return f"{value.name}: {name}[{', '.join(map(str, sizes))}]"
