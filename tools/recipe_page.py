"""Writes docs/recipes.md, the reference of every recipe key, from the models that check them.

python tools/recipe_page.py > docs/recipes.md
"""

import json
import sys
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from malmoi.train.distil.recipe import LESSONS
from malmoi.train.objective import objectives
from malmoi.train.objectives.pairs import PairObjective, Recipe, pair_objectives
from malmoi.train.schema import RecipeTable, range_words, table_in

_HEAD = """# Recipe reference

Every key of every recipe: type, default, range and meaning. This page is generated from the \
models that check recipes: `python tools/recipe_page.py > docs/recipes.md`. How recipes are \
used is explained in [training.md](training.md), [entities.md](entities.md), [notes.md](notes.md), \
[pretraining.md](pretraining.md) and [distillation.md](distillation.md).

한국어 요약: 모든 레시피 키의 자료형, 기본값, 범위, 뜻을 모은 표입니다. 표는 레시피를 \
검사하는 모델에서 자동으로 만들어지므로 프로그램과 어긋나지 않습니다. 굵은 글씨의 \
키는 반드시 적어야 하고, 나머지는 적지 않으면 기본값을 씁니다.

Keys in bold are needed; the others have a default. A key that is not listed here is refused, with \
the nearest one named."""
_TYPES: dict[Any, str] = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def write_reference() -> str:
    """Give the page as Markdown."""
    written: set[str] = set()
    parts = [_HEAD]
    others = (one for one in objectives().values() if not isinstance(one, PairObjective))
    recipes: dict[str, type[RecipeTable]] = {"encoder and reranker": Recipe}
    recipes |= {one.name: one.recipe for one in others}
    for name, model in recipes.items():
        title = name if model is Recipe else f'objective = "{name}"'
        parts += [f"## {title}", *_section(model, written, heading=False)]
        if model is Recipe:
            parts += ["### Objectives of [[data]]", _objectives()]
        if name == "distil":
            parts += ["### Kinds of [[task]]", _lessons()]
    return "\n\n".join(parts) + "\n"


def _section(model: type[RecipeTable], written: set[str], *, heading: bool = True) -> list[str]:
    """Write a table of the recipe, then the tables inside it that were not written before."""
    summary = (model.__doc__ or "").strip()
    title, _, rest = summary.partition(": ")
    text = rest[:1].upper() + rest[1:] if heading else summary
    rows = ["| key | type | default | range | meaning |", "|---|---|---|---|---|"]
    rows += [_row(name, info) for name, info in model.model_fields.items()]
    parts = [f"### {title}"] if heading else []
    parts += [text, "\n".join(rows)]
    for info in model.model_fields.values():
        inner = table_in(info.annotation)
        if inner and (inner.__doc__ or "") not in written:
            written.add(inner.__doc__ or "")
            parts += _section(inner, written)
    return parts


def _row(name: str, info: FieldInfo) -> str:
    needed = info.is_required()
    shown = f"**`{name}`**" if needed else f"`{name}`"
    default = "" if needed else _default(info.get_default(call_default_factory=True))
    meaning = info.description or ""
    cells = (shown, _type(info.annotation), default, range_words(info), meaning)
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _type(annotation: Any) -> str:
    inner = table_in(annotation)
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return ", ".join(map(str, args))
    if origin is dict:
        return f"table of {_type(args[1])}" if args[1] is not Any else "table"
    if origin is tuple:
        return "tables" if inner else f"list of {_type(args[0])}"
    if inner:
        return "table"
    if len(args) > 1 and origin is not None and type(None) in args:
        return _type(next(one for one in args if one is not type(None)))
    if args:  # Annotated
        return _type(args[0])
    return _TYPES.get(annotation, "")


def _default(value: Any) -> str:
    if value in (None, "", (), {}, PydanticUndefined) or isinstance(value, RecipeTable):
        return ""
    return f"`{json.dumps(value, ensure_ascii=False)}`"


def _objectives() -> str:
    rows = ["| objective | kind | columns | options |", "|---|---|---|---|"]
    for one in pair_objectives().values():
        label = [one.label] if one.label else []
        columns = ", ".join([*one.texts, *label, *(f"({name})" for name in one.optional)])
        options = ", ".join(f"{key} = {json.dumps(value)}" for key, value in one.options.items())
        rows.append(f"| `{one.name}` | {', '.join(one.kinds)} | {columns} | {options} |")
    return "\n".join(rows)


def _lessons() -> str:
    rows = ["| kind | columns | usual size |", "|---|---|---|"]
    for name, kind in LESSONS.items():
        columns = ", ".join([*kind.needed, *(f"({column})" for column in kind.optional)])
        rows.append(f"| `{name}` | {columns} | {kind.size} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.stdout.write(write_reference())
