"""A run's whole state on disk: weights and heads, optimizer, and its position.

Safetensors and JSON, nothing pickled. A checkpoint is written under another name, synced to
the disk and renamed, so the one before it always stays whole. There is no random state to keep:
every step seeds its own (see loop.py).
"""

import contextlib
import dataclasses
import errno
import json
import logging
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ..errors import DataError, counted
from ..io.files import parse_json, writing_folder
from ..io.fingerprint import find_changed, hash_folder, write_json

logger = logging.getLogger(__name__)

_PREFIX = "step-"
_HASHES = "hashes.json"  # of the other files of a checkpoint


@dataclass
class State:
    """The position of a run: `position` steps into `epoch`, `step` steps in all."""

    step: int = 0
    epoch: int = 0
    position: int = 0
    seconds: float = 0.0
    best: float | None = None
    best_step: int = 0
    best_scores: dict[str, float] = field(default_factory=dict)
    waited: int = 0
    ended: bool = False


def save(
    folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer, state: State, *, keep: int
) -> Path:
    """Write a checkpoint into `folder`, then remove all but the newest `keep`."""
    path = folder / f"{_PREFIX}{state.step:08d}"
    with writing_folder(path, replace=True) as partial:
        write_tensors(module.state_dict(), partial / "model.safetensors")
        write_tensors(_moments(module, optimizer), partial / "optimizer.safetensors")
        text = json.dumps(dataclasses.asdict(state), indent=2)
        (partial / "state.json").write_text(text + "\n", "utf-8")
        write_json(partial / _HASHES, hash_folder(partial))
    for old in found(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)
    return path


def found(folder: Path) -> list[Path]:
    """List the checkpoints of a run, oldest first."""
    return sorted(path for path in folder.glob(f"{_PREFIX}*") if (path / "state.json").is_file())


def clear_partial(folder: Path) -> None:
    """Remove what a killed process was in the middle of writing.

    Killed between the two renames of a replacement, the old folder gets its name back.
    """
    for old in folder.glob(".*.old"):
        path = folder / old.name[1:].rsplit(".", 2)[0]
        if not path.exists():
            old.rename(path)
    for partial in (*folder.glob(".*.part"), *folder.glob(".*.old")):
        shutil.rmtree(partial, ignore_errors=True)


def load_newest(folder: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> State | None:
    """Bring back the newest checkpoint that can be read; None when there is none at all."""
    checkpoints = found(folder)
    for path in reversed(checkpoints):
        try:
            return _load(path, module, optimizer)
        except (OSError, ValueError, KeyError, RuntimeError, TypeError, SafetensorError) as error:
            logger.warning(
                f"{path} cannot be read ({type(error).__name__}); trying the one before it"
            )
    if checkpoints:
        raise DataError(
            f"none of the {counted(len(checkpoints), 'checkpoint')} in {folder} can be read; "
            f"expected one. Remove {folder}; with --resume the run then starts from its beginning."
        )
    return None


def _load(path: Path, module: nn.Module, optimizer: torch.optim.Optimizer) -> State:
    # Everything is read before anything is changed: a damaged checkpoint leaves no trace. Those of
    # earlier versions have no hashes.
    hashes = parse_json((path / _HASHES).read_text("utf-8")) if (path / _HASHES).exists() else {}
    if not isinstance(hashes, dict) or find_changed(path, hashes) is not None:
        raise ValueError("a file is not as it was written")
    state = State(**parse_json((path / "state.json").read_text("utf-8")))
    weights = load_file(path / "model.safetensors")
    moments = load_file(path / "optimizer.safetensors")
    module.load_state_dict(weights)
    _restore(module, optimizer, moments)
    return state


def write_tensors(tensors: dict[str, Tensor], path: Path) -> None:
    """Write tensors by name."""
    plain: dict[str, Tensor] = {}
    seen: set[int] = set()
    for name, tensor in tensors.items():
        flat = tensor.detach().cpu().contiguous()
        # Tied weights are one tensor under two names, which safetensors will not write.
        plain[name] = flat.clone() if flat.data_ptr() in seen else flat
        seen.add(flat.data_ptr())
    with tensor_errors():
        save_file(plain, path)
    path.chmod(0o644)  # safetensors writes 0600


@contextlib.contextmanager
def tensor_errors() -> Iterator[None]:
    """Make a full disk an OSError, as for any other file; safetensors has an error of its own."""
    try:
        yield
    except SafetensorError as error:
        number = re.search(r"os error (\d+)", str(error))  # all that is left of the cause
        raise OSError(int(number[1]) if number else errno.EIO, "cannot be written") from error


def _moments(module: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Name the optimizer's moments after the parameters they belong to."""
    named: dict[str, Tensor] = {}
    for name, parameter in module.named_parameters():
        for key, value in optimizer.state.get(parameter, {}).items():
            named[f"{key}/{name}"] = value
    return named


def _restore(
    module: nn.Module, optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]
) -> None:
    parameters: dict[str, Any] = dict(module.named_parameters())
    optimizer.state.clear()
    for name, value in tensors.items():
        key, _, parameter = name.partition("/")
        owner = parameters[parameter]
        # The step counter stays where the optimizer wants it; moments go to their weights.
        value = value if key == "step" and owner.device.type == "cpu" else value.to(owner.device)
        optimizer.state[owner][key] = value
