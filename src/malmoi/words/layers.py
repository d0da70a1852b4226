"""Which layers, and how they become one vector: a name or numbers → a function of states."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..errors import BundleError, OptionError
from ..pooling import Floats

Layers = str | int | Sequence[int]

_NAME = re.compile(r"(sum|mean|concat)-(?:last-(\d+)|all)")
_NAMES = (
    '"last", "second-to-last", "sum-last-4", "concat-last-4", "mean-all" (or any of sum-, mean- '
    "and concat- with last-N or all), a layer's number, or a list of numbers"
)
_STATES = ("token_embeddings", "last_hidden_state")


@dataclass(frozen=True)
class Choice:
    """The graph outputs to ask for, and how to join them: "sum", "mean" or "concat"."""

    outputs: tuple[str, ...]
    join: str

    def __call__(self, states: Sequence[Floats]) -> Floats:
        """Join states (n, length, hidden), one a layer, into (n, length, width)."""
        return _JOINS[self.join](states)


_JOINS: dict[str, Callable[[Sequence[Floats]], Floats]] = {
    "sum": lambda states: np.sum(states, axis=0, dtype=np.float32),
    "mean": lambda states: np.mean(states, axis=0, dtype=np.float32),
    "concat": lambda states: states[0] if len(states) == 1 else np.concatenate(states, axis=-1),
}


def choose(layers: Layers, *, outputs: Sequence[str], name: str) -> Choice:
    """Turn a choice of layers into graph outputs; `name` names the model in messages.

    Layer 0 is the embeddings, before any attention; a list of numbers puts those layers side by
    side.

    >>> choose("sum-last-2", outputs=["layer_0", "layer_1", "layer_2"], name="tiny")
    Choice(outputs=('layer_1', 'layer_2'), join='sum')
    """
    count = sum(output.startswith("layer_") for output in outputs)
    if not count:
        return _only_last(layers, outputs, name)
    numbers, join = _numbers(layers, count)
    if not numbers or not all(-count <= number < count for number in numbers):
        raise OptionError(
            f"layers is {layers!r}; {name} has the layers 0 to {count - 1}. Choose among these."
        )
    return Choice(tuple(f"layer_{number % count}" for number in numbers), join)


def layer_names(count: int) -> tuple[Layers, ...]:
    """The choices that a table of layers shows for a model with so many of them.

    >>> layer_names(3)
    (0, 1, 2, 'sum-last-2', 'concat-last-2', 'mean-all')
    """
    few = min(4, count - 1)
    joined = (f"sum-last-{few}", f"concat-last-{few}", "mean-all") if few > 1 else ()
    return (*range(count), *joined)


def _numbers(layers: Layers, count: int) -> tuple[list[int], str]:
    if isinstance(layers, int):
        return [layers], "concat"
    if not isinstance(layers, str):
        return list(layers), "concat"
    if layers in ("last", "second-to-last"):
        return [-1 if layers == "last" else -2], "concat"
    found = _NAME.fullmatch(layers)
    if not found:
        raise OptionError(f"layers is {layers!r}; known are {_NAMES}. Choose one of these.")
    last = int(found[2]) if found[2] else count
    return list(range(-last, 0)), found[1]


def _only_last(layers: Layers, outputs: Sequence[str], name: str) -> Choice:
    """A foreign graph may give its last states under another name, and no other layer."""
    states = [output for output in _STATES if output in outputs]
    if states and layers in ("last", -1):
        return Choice((states[0],), "concat")
    raise no_layers(name)


def no_layers(name: str) -> BundleError:
    """The complaint about a model whose hidden layers cannot be read."""
    return BundleError(
        f"{name} gives no hidden layers; word vectors expect a graph that does. Export the model "
        "again with: malmoi export MODEL FOLDER --layers all"
    )
