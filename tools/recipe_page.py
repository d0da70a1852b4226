"""The reference of every recipe key, generated from the models that check them.

`docs/pages.py` makes it a page of the site. To read it without the site:

python tools/recipe_page.py
python tools/recipe_page.py --korean

The Korean page is the same one with the sentences of tools/recipes.ko.tsv.
"""

import json
import re
import sys
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from malmoi.training.objective import objectives
from malmoi.training.objectives.pairs import PairObjective, Recipe, pair_objectives
from malmoi.training.schema import RecipeTable, range_words, table_in

_HEAD = """# Recipe reference

Every key of every recipe: type, default, range and meaning. This page is generated from the \
models that check recipes (`python tools/recipe_page.py` prints it). How recipes are used is \
explained in [training.md](training.md), [entities.md](entities.md), [notes.md](notes.md), \
[pretraining.md](pretraining.md) and [distillation.md](distillation.md).

Keys in bold are needed; the others have a default. A key that is not listed here is refused, with \
the nearest one named."""
_KOREAN_HEAD = """# 레시피 참고 표

모든 레시피 키의 자료형, 기본값, 범위, 뜻입니다. 이 쪽은 레시피를 검사하는 모델에서 \
만들어집니다(`python tools/recipe_page.py --korean`이 출력합니다). 쓰는 법은 \
[training.ko.md](training.ko.md), [entities.ko.md](entities.ko.md), \
[notes.ko.md](notes.ko.md), [pretraining.ko.md](pretraining.ko.md), \
[distillation.ko.md](distillation.ko.md)에 있습니다.

굵은 글씨의 키는 반드시 적어야 하고, 나머지는 기본값이 있습니다. 여기 없는 키는 가장 \
가까운 키를 알려 주며 거절합니다."""
_SENTENCES = Path(__file__).with_name("recipes.ko.tsv")
_WORDS = {
    "key": "키",
    "type": "자료형",
    "default": "기본값",
    "range": "범위",
    "meaning": "뜻",
    "objective": "목적 함수",
    "kind": "종류",
    "columns": "열",
    "options": "옵션",
    "text": "글",
    "whole number": "정수",
    "number": "수",
    "true or false": "참 또는 거짓",
    "table": "표",
    "tables": "표들",
    "encoder and reranker": "인코더와 재순위 모델",
    "Objectives of [[data]]": "[[data]]의 목적 함수",
    "held_out of an entry": "자료의 held_out",
}
_PHRASES = (
    (r"(list|table) of (.+)", lambda found: f"{_korean(found[2])}의 {_LISTS[found[1]]}"),
    (r"(\S+) to (\S+)", r"\1부터 \2까지"),
    (r"(\S+) or more and less than (\S+)", r"\1 이상 \2 미만"),
    (r"more than (\S+) and less than (\S+)", r"\1 초과 \2 미만"),
    (r"more than (\S+) and (\S+) or less", r"\1 초과 \2 이하"),
    (r"(\S+) or more", r"\1 이상"),
    (r"(\S+) or less", r"\1 이하"),
    (r"more than (\S+)", r"\1 초과"),
    (r"less than (\S+)", r"\1 미만"),
)
_LISTS = {"list": "목록", "table": "표"}
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


def write_korean(page: str) -> str:
    """Put the page into Korean, its keys, types and figures as they are."""
    lines = page.removeprefix(_HEAD).splitlines()
    return _KOREAN_HEAD + "\n".join(map(_korean_line, lines)) + "\n"


def read_sentences() -> dict[str, str]:
    """Read the Korean of every description; of a table's also without its name in front."""
    rows = (line.split("\t") for line in _SENTENCES.read_text("utf-8").splitlines()[1:])
    found: dict[str, str] = dict(rows)
    for english, korean in list(found.items()):
        rest = english.partition(": ")[2]
        if rest:
            found.setdefault(rest[:1].upper() + rest[1:], korean.partition(": ")[2])
    return found


_KNOWN = read_sentences()


def _korean_line(line: str) -> str:
    if line.startswith("| "):
        cells = (cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1])
        return "| " + " | ".join(map(_korean, cells)) + " |"
    marks, _, title = line.partition(" ") if line.startswith("#") else ("", "", line)
    return f"{marks} {_korean(title)}" if marks else _korean(line)


def _korean(cell: str) -> str:
    if cell in _KNOWN or cell in _WORDS:
        return _KNOWN.get(cell) or _WORDS[cell]
    for pattern, said in _PHRASES:
        found = re.fullmatch(pattern, cell)
        if found:
            return said(found) if callable(said) else found.expand(said)
    return cell


if __name__ == "__main__":
    text = write_reference()
    sys.stdout.write(write_korean(text) if "--korean" in sys.argv[1:] else text)
