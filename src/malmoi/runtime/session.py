"""The only file that imports onnxruntime: a graph on disk → arrays."""

import contextlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BundleCorrupt, BundleError, counted
from ..types import Floats
from .tokenizer import Batch

_INPUTS = ("input_ids", "attention_mask", "token_type_ids")
_SILENT = 4  # onnxruntime's severity "fatal": what goes wrong is raised, not printed
# Fusions that cost more than they save: the fused kernels take two to four times as long as the
# plain ones, which onnxruntime would put back into a graph that was written without the former.
_SLOWER = ["SkipLayerNormFusion", "BiasGeluFusion"]


class Session:
    """An ONNX graph that takes token ids; safe to run from several threads at once."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        # A plan of memory for every shape keeps tensors in fixed places. Without one they take
        # what was freed last, which the cache still holds, and batches have many shapes.
        options.enable_mem_pattern = False
        # Threads that spin while they wait take the cores from everything else in the process.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        try:
            self._session: Any = ort.InferenceSession(
                str(path),
                options,
                providers=["CPUExecutionProvider"],
                disabled_optimizers=_SLOWER,
            )
        except Exception as error:  # onnxruntime's own exceptions share no base class
            raise BundleCorrupt(
                f"{path} cannot be opened as an ONNX graph; expected a whole one made for this "
                "onnxruntime. Copy the folder again, or export the model again with: malmoi export"
            ) from error
        self.path = path
        self.inputs = tuple(str(value.name) for value in self._session.get_inputs())
        self.outputs = tuple(str(value.name) for value in self._session.get_outputs())
        unknown = [name for name in self.inputs if name not in _INPUTS]
        if unknown:
            raise BundleError(
                f"{path} asks for the inputs {', '.join(unknown)}; known are {', '.join(_INPUTS)}. "
                "Export the model again with: malmoi export"
            )
        self._run_options = ort.RunOptions()
        self._run_options.log_severity_level = _SILENT

    def run(self, batch: Batch, outputs: Sequence[str]) -> list[Floats]:
        """Run a batch and give the named outputs, each (n, …) float32."""
        arrays = dict(zip(_INPUTS, (batch.ids, batch.mask, batch.types), strict=True))
        feed = {name: arrays[name] for name in self.inputs}
        try:
            found: list[Floats] = self._session.run(list(outputs), feed, self._run_options)
        except Exception as error:
            raise BundleError(
                f"{self.path} failed on a batch of {counted(batch.ids.shape[0], 'text')} with ids "
                f"up to {batch.ids.max()}; expected a graph that fits its tokenizer. "
                "Export the model again with: malmoi export"
            ) from error
        return found


class StringSession:
    """An ONNX graph that takes texts as they are and gives a vector for each."""

    def __init__(self, path: Path, *, threads: int = 1) -> None:
        import onnxruntime as ort

        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = _SILENT
        with contextlib.suppress(ImportError):  # a graph of plain operators needs none of it
            import onnxruntime_extensions

            options.register_custom_ops_library(onnxruntime_extensions.get_library_path())
        try:
            self._session: Any = ort.InferenceSession(
                str(path), options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # onnxruntime's own exceptions share no base class
            raise BundleError(
                f"{path} cannot be opened as an ONNX graph; expected one that takes strings. "
                "Tokenizers inside a graph need: pip install 'malmoi[teachers]'"
            ) from error
        inputs, outputs = self._session.get_inputs(), self._session.get_outputs()
        if len(inputs) != 1 or inputs[0].type != "tensor(string)":
            found = ", ".join(f"{one.name} {one.type}" for one in inputs)
            raise BundleError(
                f"{path} takes {found}; expected one list of strings. Name a folder with the "
                "graph's tokenizer instead."
            )
        self._input, self._output = inputs[0].name, outputs[0].name
        self.dimension = int(np.prod(self.run(["가"]).shape[1:]))

    def run(self, texts: Sequence[str]) -> Floats:
        """Give the vectors of a batch of texts: (n, dim)."""
        feed = {self._input: np.array(list(texts), dtype=object)}
        [found] = self._session.run([self._output], feed)
        vectors: Floats = np.asarray(found, dtype=np.float32).reshape(len(texts), -1)
        return vectors


def usable_cores() -> int:
    """Count the cores that this process may use: its affinity, and a container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        limit = math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return cores or 1
    return max(1, min(cores or 1, limit))
