"""Annotations and signatures as text without module names, so that a move does not change them."""

import inspect
import re
import types
from collections.abc import Callable
from typing import Annotated, Any, ForwardRef, Literal, TypeVar, Union, get_args, get_origin

import numpy as np

# Parameters that may come and go: messages are about to go through logging.
IGNORED = ("tell",)


def annotation(hint: Any) -> str:
    """Write a type as a reader would: names without modules, arrays by their element."""
    if hint is inspect.Parameter.empty:
        return ""
    if hint is None or hint is type(None):
        return "None"
    if isinstance(hint, str):
        return re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", hint.replace('"', "'").strip("'"))
    if isinstance(hint, ForwardRef):
        return annotation(hint.__forward_arg__)
    if isinstance(hint, TypeVar):
        return hint.__name__
    origin, inner = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return annotation(inner[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, inner))}]"
    if origin in (Union, types.UnionType):
        return " | ".join(map(annotation, inner))
    if origin is np.ndarray:
        return f"NDArray[{annotation(get_args(inner[-1])[0])}]"
    if isinstance(hint, list):  # a Callable's parameters
        return f"[{', '.join(map(annotation, hint))}]"
    if hint is ...:
        return "..."
    if origin is not None:
        parts = ", ".join(map(annotation, inner))
        return f"{annotation(origin)}[{parts}]" if parts else annotation(origin)
    return getattr(hint, "__name__", str(hint)).rpartition(".")[2]


def signature(function: Callable[..., Any]) -> str:
    """Write a function's signature without the parameters that may come and go."""
    try:
        found = inspect.signature(function)
    except ValueError:  # a builtin's
        return "(...)"
    shown = []
    star = False
    for parameter in found.parameters.values():
        if parameter.name in IGNORED:
            continue
        if parameter.kind is parameter.VAR_POSITIONAL:
            star = True
        if parameter.kind is parameter.KEYWORD_ONLY and not star:
            shown.append("*")
            star = True
        shown.append(_parameter(parameter))
    result = annotation(found.return_annotation)
    return f"({', '.join(shown)})" + (f" -> {result}" if result else "")


def _parameter(parameter: inspect.Parameter) -> str:
    sign = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
    kind = annotation(parameter.annotation)
    text = f"{sign}{parameter.name}" + (f": {kind}" if kind else "")
    if parameter.default is not parameter.empty:
        value = parameter.default
        plain = isinstance(value, str | int | float | tuple | None | type(...))
        text += f" = {value!r}" if plain else " = <made>"
    return text
