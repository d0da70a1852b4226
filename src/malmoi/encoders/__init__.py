"""Encoders: texts → vectors."""

from pathlib import Path

from ..bundle.bundle import Bundle, find_model, open_bundle, runner_of
from ..encoders.base import TextEncoder
from ..encoders.scale import ScoreScale, score_scale
from ..encoders.transformer import Encoder
from ..runtime.pooling import from_int8
from ..runtime.session import choose_device

__all__ = ["Encoder", "ScoreScale", "TextEncoder", "from_int8", "load", "score_scale"]


def load(
    name_or_path: str | Path | Bundle | None = None,
    *,
    threads: int | None = None,
    graph: str | None = None,
    pooling: str | None = None,
    device: str | None = None,
) -> TextEncoder:
    """Open a sentence encoder: the shipped one, a folder, a hub id, or an opened bundle.

    - `threads`: how many cores to use; all that this process may use when left out.
    - `graph`: which ONNX graph to use of a folder with several: its path there, or its name.
    - `pooling`: how a vector is made of token states, for a folder that does not say.
    - `device`: where the graph runs: "cpu", "cuda", "directml", "coreml", "openvino" or "auto",
      with the package of onnxruntime that has it. If left out, what MALMOI_DEVICE says, or "cpu".
    """
    if isinstance(name_or_path, Bundle):
        bundle = name_or_path
    else:
        bundle = open_bundle(find_model(name_or_path, graph=graph), graph=graph, pooling=pooling)
    runner = runner_of(bundle.manifest.kind)
    if bundle.manifest.kind == "static":  # has no graph
        choose_device(device)
        static: TextEncoder = runner(bundle, threads=threads)
        return static
    encoder: TextEncoder = runner(bundle, threads=threads, device=device)
    return encoder
