"""What flows through a float32 graph while it reads real sentences."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from ..session import Session
from ..tokens import Batch

_ROWS = 1024  # of a tensor are kept; more say nothing new of its columns


@dataclass(frozen=True)
class Flow:
    """The extremes of a tensor, and a sample of its rows (one a token)."""

    low: float
    high: float
    rows: np.ndarray


def watch(graph: Path, names: Sequence[str], batches: Sequence[Batch]) -> dict[str, Flow]:
    """Run the graph over the batches and say what the named tensors held, padding left out."""
    seen: dict[str, list[np.ndarray]] = {name: [] for name in names}
    lows = dict.fromkeys(names, 0.0)  # a range must hold 0, which padding is
    highs = dict.fromkeys(names, 0.0)
    share = _ROWS / max(sum(int(batch.mask.sum()) for batch in batches), 1)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory(prefix="malmoi-ranges-") as scratch:
        session = Session(_opened(graph, names, Path(scratch)))
        for batch in batches:
            real = batch.mask.astype(bool)
            for name, values in zip(names, session.run(batch, names), strict=True):
                rows = values[real] if values.shape[:2] == real.shape else values
                rows = rows.reshape(-1, rows.shape[-1])
                lows[name] = min(lows[name], float(rows.min()))
                highs[name] = max(highs[name], float(rows.max()))
                seen[name].append(rows[random.random(len(rows)) < share])
    return {name: Flow(lows[name], highs[name], np.concatenate(seen[name])) for name in names}


def _opened(graph: Path, names: Sequence[str], folder: Path) -> Path:
    """Write the graph with the named tensors among its outputs."""
    model = onnx.load(graph)
    for name in names:
        model.graph.output.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, None))
    path = folder / "open.onnx"
    onnx.save(model, path)
    return path
