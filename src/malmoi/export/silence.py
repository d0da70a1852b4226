"""Keeps the libraries' own chatter off the user's terminal while a model is loaded or written."""

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import torch
from transformers.utils import logging as transformers_logging

# What tracing a model says about itself, checked one by one: none concerns the result, which is
# compared with torch's afterwards.
_IGNORED = (
    "You are using the legacy TorchScript-based ONNX export",
    "The feature will be removed",
    "Exporting aten::index operator of advanced indexing",
    "`torch.jit.script` is deprecated",
)


@contextlib.contextmanager
def silenced_libraries() -> Iterator[None]:
    """Silence progress bars, tracer warnings and library logs; errors are raised as ever."""
    root = logging.getLogger()
    handlers, level = list(root.handlers), transformers_logging.get_verbosity()
    bars = transformers_logging.is_progress_bar_enabled()
    transformers_logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    transformers_logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    ours = logging.getLogger("malmoi")
    levels = root.level, ours.level
    ours.setLevel(ours.getEffectiveLevel())  # malmoi's own messages are not chatter
    root.setLevel(logging.ERROR)
    try:
        # onnxruntime's fuser prints; what it prints is of use to its authors only.
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            # All the tracer says is about Python values that become constants, as they should.
            warnings.filterwarnings("ignore", category=torch.jit.TracerWarning)  # type: ignore[attr-defined]
            for message in _IGNORED:
                warnings.filterwarnings("ignore", message=message)
            yield
    finally:
        root.setLevel(levels[0])
        ours.setLevel(levels[1])
        # logging.warning(), which onnxruntime calls, gives the root logger a handler for good.
        root.handlers[:] = handlers
        transformers_logging.set_verbosity(level)
        if bars:
            transformers_logging.enable_progress_bar()  # type: ignore[no-untyped-call]
