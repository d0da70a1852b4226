"""The only file that imports onnxruntime: a graph on disk → arrays."""

import contextlib
import logging
import math
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import BundleCorrupt, BundleError, OptionError, counted
from ..types import Floats, Ints
from .tokenizer import Batch

logger = logging.getLogger(__name__)

_INPUTS = ("input_ids", "attention_mask", "token_type_ids", "pooling_mask", "position_ids")
# What a decoder has read before: nothing here.
_PAST = "past_key_values."
# Architectures whose first position is that of padding, plus one.
_SHIFTED = ("roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "mpnet")
_SILENT = 4  # onnxruntime's severity "fatal": what goes wrong is raised, not printed
# Fusions that cost more than they save: the fused kernels take two to four times as long as the
# plain ones, which onnxruntime would put back into a graph that was written without the former.
_SLOWER = ["SkipLayerNormFusion", "BiasGeluFusion"]


# Where a graph may run: onnxruntime's name for it, and the package that brings it.
DEVICES = {
    "cpu": ("CPUExecutionProvider", "onnxruntime"),
    "cuda": ("CUDAExecutionProvider", "onnxruntime-gpu"),
    "directml": ("DmlExecutionProvider", "onnxruntime-directml"),
    "coreml": ("CoreMLExecutionProvider", "onnxruntime on macOS"),
    "openvino": ("OpenVINOExecutionProvider", "onnxruntime-openvino"),
}
DEVICE = "MALMOI_DEVICE"  # the environment variable with the device for all models of a process


def usable_devices() -> list[str]:
    """Name the devices that the installed onnxruntime knows, "cpu" last."""
    import onnxruntime as ort

    known = ort.get_available_providers()
    found = [name for name, (provider, _) in DEVICES.items() if provider in known]
    return [*(name for name in found if name != "cpu"), "cpu"]


def asked_device(device: str | None = None) -> str:
    """Give the device asked for, by name or by MALMOI_DEVICE, whether or not it can be used here.

    "auto" is the first usable one. Raises an OptionError for a name that is not known.
    """
    asked = device or os.environ.get(DEVICE) or "cpu"
    if asked == "auto":
        return usable_devices()[0]
    if asked not in DEVICES:
        raise OptionError(
            f"device is {asked!r}; known are {', '.join(DEVICES)} and auto. Choose one of them."
        )
    return asked


def choose_device(device: str | None = None) -> str:
    """Give the device to use: the one asked for, or "cpu"; "auto" takes the first usable one.

    Raises an OptionError for one that the installed onnxruntime does not know.
    """
    asked, usable = asked_device(device), usable_devices()
    if asked not in usable:
        raise OptionError(
            f"device is {asked!r}, and the installed onnxruntime has {', '.join(usable)}; it needs "
            f"the package {DEVICES[asked][1]} in place of onnxruntime. Install it, or use auto."
        )
    return asked


class Session:
    """An ONNX graph that takes token ids; safe to run from several threads at once.

    `device` is where it runs, one of DEVICES; what it does not do there runs on the processor.
    """

    def __init__(
        self,
        path: Path,
        *,
        threads: int = 1,
        device: str | None = None,
        architecture: str = "",
        pad_id: int = 0,
    ) -> None:
        # long because what a graph needs is checked in one place, before anything runs
        import onnxruntime as ort

        self.device = choose_device(device)
        providers = [DEVICES[name][0] for name in dict.fromkeys((self.device, "cpu"))]
        self._first = pad_id + 1 if architecture in _SHIFTED else 0  # position
        options = ort.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.log_severity_level = _SILENT
        # A plan of memory for every shape keeps tensors in fixed places. Without one they take
        # what was freed last, which the cache still holds, and batches have many shapes.
        options.enable_mem_pattern = False
        # Threads that spin while they wait take the cores from everything else in the process.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        remedy = ""
        start = partial(ort.InferenceSession, str(path), options, disabled_optimizers=_SLOWER)
        try:
            try:
                self._session: Any = start(providers=providers)
            except Exception:
                if len(providers) == 1:
                    raise
                # OpenVINO fails on a graph with operators that it cannot compile: 8-bit products,
                # and attention as processors run it fastest.
                remedy = f"; a float32 graph for it: malmoi --device {self.device} export"
                self._session = start(providers=providers[-1:])
        except Exception as error:  # onnxruntime's own exceptions share no base class
            raise BundleCorrupt(
                f"{path} cannot be opened as an ONNX graph; expected a whole one made for this "
                "onnxruntime. Copy the folder again, or export the model: malmoi model export"
            ) from error
        if providers[0] not in self._session.get_providers():
            # onnxruntime falls back by itself where a driver or a library is missing.
            logger.warning(
                "%s cannot be used here; %s runs on the cpu%s", self.device, path.name, remedy
            )
            self.device = "cpu"
        self.path = path
        given = self._session.get_inputs()
        self._past = {str(one.name): one for one in given if one.name.startswith(_PAST)}
        self.inputs = tuple(str(one.name) for one in given if one.name not in self._past)
        self._short = {str(one.name) for one in given if one.type == "tensor(int32)"}
        found = self._session.get_outputs()
        self.outputs = tuple(str(one.name) for one in found)
        self.ranks = {str(one.name): len(one.shape or ()) for one in found}
        unknown = [name for name in self.inputs if name not in _INPUTS]
        if unknown:
            raise BundleError(
                f"{path} asks for the inputs {', '.join(unknown)}; known are {', '.join(_INPUTS)}. "
                "Export the model again with: malmoi model export"
            )
        self._run_options = ort.RunOptions()
        self._run_options.log_severity_level = _SILENT

    def run(self, batch: Batch, outputs: Sequence[str]) -> list[Floats]:
        """Run a batch and give the named outputs, each (n, …) float32."""
        try:
            found = self._session.run(list(outputs), self._feed(batch), self._run_options)
        except Exception as error:
            raise BundleError(
                f"{self.path} failed on a batch of {counted(batch.ids.shape[0], 'text')} with ids "
                f"up to {batch.ids.max()}; expected a graph that fits its tokenizer. "
                "Export the model again with: malmoi model export"
            ) from error
        return [one.astype(np.float32, copy=False) for one in found]

    def _feed(self, batch: Batch) -> dict[str, NDArray[Any]]:
        feed = {}
        for name in self.inputs:
            if name == "position_ids":
                row = np.arange(self._first, self._first + batch.ids.shape[1], dtype=np.int64)
                array = np.broadcast_to(row, batch.ids.shape)
            else:
                array = arrays_of(batch)[name]
            feed[name] = array.astype(np.int32) if name in self._short else array
        for name, one in self._past.items():
            kind = np.float16 if one.type == "tensor(float16)" else np.float32
            feed[name] = np.zeros((len(batch.ids), one.shape[1], 0, one.shape[3]), kind)
        return feed


def arrays_of(batch: Batch) -> dict[str, Ints]:
    """Give a batch's arrays by the names that graphs have for them."""
    pooled = batch.mask if batch.pooled is None else batch.pooled
    return dict(zip(_INPUTS, (batch.ids, batch.mask, batch.types, pooled), strict=False))


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


def free_memory() -> int | None:
    """Give the bytes that this process may still take: the machine's, and a container's limit.

    None where the system does not say.
    """
    found = []
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        [available] = [line.split()[1] for line in lines if line.startswith("MemAvailable:")]
        found.append(int(available) * 1024)
        limits = Path("/sys/fs/cgroup")
        most = int((limits / "memory.max").read_text())
        held = int((limits / "memory.current").read_text())
        stat = dict(line.split() for line in (limits / "memory.stat").read_text().splitlines())
        # Pages of files that were read are counted as held, and are given back when asked for.
        files = sum(int(stat.get(f"{kind}_file", 0)) for kind in ("active", "inactive"))
        found.append(most - held + files)
    except (OSError, ValueError):  # no such file, or "max"
        pass
    return min(found, default=None)


def usable_cores() -> int:
    """Count the cores that this process may use: its affinity, and a container's limit."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        limit = math.ceil(int(quota) / int(period))
    except (OSError, ValueError):  # no such file, or "max"
        return cores or 1
    return max(1, min(cores or 1, limit))
