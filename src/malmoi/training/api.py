"""`malmoi.train`: a run from Python, with data from memory, callbacks and a progress bar.

Behind it is the recipe of `malmoi train`: keywords, a dictionary and a file are checked by the same
types and give the same messages.
"""

import contextlib
import json
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..errors import DataError, OptionError, counted, require
from ..io.files import writing
from ..io.progress import progressing
from .objective import find_objective
from .run_dir import RECIPE, Hook, Hooks, TrainedRun
from .schema import unknown_key

__all__ = ["train"]

_DEFAULT = "ko-en-small"


def train(
    recipe: str | Path | Mapping[str, Any] | None = None,
    *,
    data: Any = None,
    objective: str = "",
    base: str | Path = "",
    evaluation: Any = (),
    folder: str | Path | None = None,
    root: str | Path | None = None,
    resume: bool = False,
    strict: bool = False,
    threads: int | None = None,
    progress: bool = True,
    on_step: Hook | None = None,
    on_evaluation: Hook | None = None,
    on_checkpoint: Hook | None = None,
    **options: Any,
) -> TrainedRun:
    """Train a model on your own data, and give the run with its `encoder`, `scores` and `plot()`.

        run = malmoi.train(objective="contrastive", data=[("질문", "답"), …], steps=150)
        run.encoder.encode(["…"])

    - `recipe`: a recipe's file or dictionary, to which the keywords are added; none is needed.
    - `data`: rows as tuples or dictionaries, a pandas DataFrame, a datasets.Dataset, a file,
      several files, or the [[data]] tables of a recipe. Columns of tuples are in the objective's
      order: a, b and score or label; those of dictionaries have these names, or, as in
      sentence-transformers, other names in this order (anchor, positive, negative).
    - `objective`: what is learnt: "contrastive", "cosent", "triplet", "softmax", …
    - `base`: the model to start from; ko-en-small if left out.
    - `evaluation`: what measures the model before, during and after: rows with a, b and score, or
      the [[evaluation]] tables of a recipe.
    - `folder`: where the run is kept, with checkpoints; a new temporary folder if left out. With
      `resume`, the run there is continued, and nothing else need be said.
    - `root`: the folder that files of a recipe are under.
    - `strict`, `threads`: as in `malmoi train`.
    - `progress`: show a bar, in a terminal or a notebook.
    - `on_step(step, loss)`, `on_evaluation(step, scores)`, `on_checkpoint(step, folder)`: called
      during the run; one that returns True ends it.
    - all other keywords are keys of the recipe: `steps`, `epochs`, `batch_size`, `learning_rate` …
      of [schedule], `precision`, `layers` … of [output], `kind`, `pooling`, `max_tokens` … of its
      top.
    """
    require("pydantic", extra="train", purpose="malmoi.train")
    from .recipe import load_recipe, make_recipe  # here, because they need pydantic
    from .run import train as run_recipe

    place = Path(folder) if folder is not None else Path(tempfile.mkdtemp(prefix="malmoi-")) / "run"
    hooks = Hooks(on_step, on_evaluation, on_checkpoint)
    if resume and recipe is None and data is None:
        if not (place / RECIPE).is_file():
            raise DataError(f"{place} holds no run; expected one to resume. Name its folder.")
        stored = json.loads((place / RECIPE).read_text("utf-8"))
        checked = make_recipe(_without_empty(stored), where=str(place / RECIPE))
    elif isinstance(recipe, str | Path) and data is None and not (objective or base or options):
        checked = load_recipe(recipe, sets=[f"output.folder={place}"] if folder else [])
    else:
        table = _table(recipe)
        table |= {"objective": objective} if objective else {}
        table |= {"base": str(base)} if base else {}
        table.setdefault("base", _DEFAULT)
        table.setdefault("objective", "contrastive")
        _place_options(table, options)
        output = table.setdefault("output", {})
        if folder is not None or "folder" not in output:
            output["folder"] = str(place)
        table.setdefault("name", Path(output["folder"]).name)
        inputs = Path(f"{output['folder']}-data").absolute()
        if data is not None:
            table["data"] = _data(data, str(table["objective"]), inputs)
        if evaluation:
            table["evaluation"] = _evaluation(evaluation, inputs)
        checked = make_recipe(table, where="malmoi.train")
    shown = _showing(progress, checked, hooks)
    with shown as hooks:
        return run_recipe(
            checked, data=root, resume=resume, strict=strict, threads=threads, hooks=hooks
        )


def _table(recipe: str | Path | Mapping[str, Any] | None) -> dict[str, Any]:
    if isinstance(recipe, str | Path):
        from .recipe import read_recipe

        return read_recipe(Path(recipe))
    return json.loads(json.dumps(dict(recipe or {})))  # type: ignore[no-any-return]


def _without_empty(table: dict[str, Any]) -> dict[str, Any]:
    """A stored recipe has its defaults too; None is none that TOML could say."""
    found: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, dict):
            value = _without_empty(value)
        elif isinstance(value, list):
            value = [_without_empty(one) if isinstance(one, dict) else one for one in value]
        if value is not None:
            found[name] = value
    return found


def _place_options(table: dict[str, Any], options: Mapping[str, Any]) -> None:
    """Put keywords where the recipe of the objective has them."""
    model: Any = find_objective(str(table["objective"]), where="malmoi.train").recipe
    top = model.model_fields
    inner = {
        part: top[part].annotation.model_fields for part in ("schedule", "output") if part in top
    }
    for name, value in options.items():
        if name in top:
            table[name] = value
            continue
        part = next((part for part, keys in inner.items() if name in keys), None)
        if part is None:
            known = [*top, *(key for keys in inner.values() for key in keys)]
            raise unknown_key(name, known, "malmoi.train")
        table.setdefault(part, {})[name] = value
    schedule = table.get("schedule", {})
    if "epochs" not in schedule and (schedule.get("steps") or schedule.get("minutes")):
        schedule["epochs"] = 0  # so many steps, however often they go through the data


def _data(data: Any, objective: str, inputs: Path) -> Any:
    """Give the [[data]] tables; rows from memory are written into the folder of inputs."""
    from .objectives.pairs import PairObjective

    if _is_tables(data) or (isinstance(data, Mapping) and objective):
        return data if isinstance(data, Mapping) else list(data)
    if isinstance(data, str | Path):
        data = [data]
    listed = data if isinstance(data, Sequence) else None
    if listed and all(isinstance(one, str | Path) for one in listed):
        own = _roles(objective)
        return [
            {"files": [str(Path(one).absolute()) for one in listed], "columns": {n: n for n in own}}
        ]
    found = find_objective(objective, where="malmoi.train")
    if not isinstance(found, PairObjective):
        raise OptionError(
            f"data is {type(data).__name__} for {objective}, which reads files; expected a "
            'dictionary of them. Write data={"train": ["a.tsv"], "dev": ["b.tsv"]}.'
        )
    roles = _roles(objective)
    rows = _rows(data, (*roles, *found.optional), needed=roles)
    return [{"files": [_write(rows, inputs / "train.jsonl")], "columns": {n: n for n in rows[0]}}]


def _roles(objective: str) -> tuple[str, ...]:
    """The columns that an example of an objective of pairs has."""
    from .objectives.pairs import PairObjective

    found = find_objective(objective, where="malmoi.train")
    if not isinstance(found, PairObjective):
        raise OptionError(
            f"{objective} reads files of its own form; expected them by part. Write "
            'data={"train": ["a.tsv"], "dev": ["b.tsv"]}.'
        )
    return (*found.texts, *([found.label] if found.label else []))


def _evaluation(evaluation: Any, inputs: Path) -> Any:
    if _is_tables(evaluation):
        return list(evaluation)
    rows = _rows(evaluation, ("a", "b", "score"), needed=("a", "b", "score"))
    file = _write(rows, inputs / "evaluation.jsonl")
    return [{"task": "sts", "file": file, "columns": {n: n for n in rows[0]}}]


def _is_tables(data: Any) -> bool:
    """Whether these are tables of a recipe: dictionaries that name files."""
    return (
        isinstance(data, Sequence)
        and bool(data)
        and all(isinstance(one, Mapping) and ("files" in one or "file" in one) for one in data)
    )


def _rows(data: Any, roles: Sequence[str], *, needed: Sequence[str]) -> list[dict[str, Any]]:
    """Give rows from memory as dictionaries with the columns of the objective."""
    if hasattr(data, "to_dict") and hasattr(data, "columns"):  # pandas
        data = data.to_dict("records")
    if not isinstance(data, Iterable) or isinstance(data, str | bytes):
        raise DataError(
            f"data is {type(data).__name__}; expected rows: tuples, dictionaries, a DataFrame or a "
            "datasets.Dataset."
        )
    rows: list[dict[str, Any]] = []
    for number, row in enumerate(data):
        if isinstance(row, Mapping):
            found = _by_role(row, roles)
        elif isinstance(row, Sequence) and not isinstance(row, str | bytes):
            found = dict(zip(roles, row, strict=False))
            if len(row) > len(roles):
                found = {}
        else:
            found = {}
        missing = [name for name in needed if name not in found]
        if missing:
            has = ", ".join(map(str, row)) if isinstance(row, Mapping) else type(row).__name__
            if isinstance(row, list | tuple):
                has = counted(len(row), "value")
            raise DataError(
                f"row {number} of data has no {missing[0]}; expected {', '.join(needed)}. It has "
                f"{has}. Change that row, or leave it out."
            )
        rows.append(found)
    if not rows:
        raise DataError("data is empty; expected rows. Give some.")
    return rows


def _by_role(row: Mapping[str, Any], roles: Sequence[str]) -> dict[str, Any]:
    """Give the cells by role. Where no text has a role's name, texts count in their order.

    >>> _by_role({"anchor": "질문", "positive": "답"}, ("a", "b", "negative"))
    {'a': '질문', 'b': '답'}
    """
    found = {name: row[name] for name in roles if row.get(name) is not None}
    if found.keys() <= {"score", "label"}:
        texts = [name for name in roles if name not in ("score", "label")]
        cells = [cell for name, cell in row.items() if name not in found]
        if len(cells) <= len(texts) and all(isinstance(cell, str) for cell in cells):
            found |= zip(texts, cells, strict=False)
    return found


def _write(rows: Sequence[Mapping[str, Any]], path: Path) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    with writing(path) as file:
        for row in rows:
            file.write((json.dumps(row, ensure_ascii=False, default=str) + "\n").encode())
    return str(path)


@contextlib.contextmanager
def _showing(progress: bool, recipe: Any, hooks: Hooks) -> Any:
    """Let a bar follow the steps."""
    schedule = getattr(recipe, "schedule", None)
    total = getattr(schedule, "steps", 0) or None
    with progressing("training", total=total, shown=progress) as advance:

        def step(number: int, loss: float) -> bool:
            advance(1)
            return hooks.ends("on_step", number, loss)

        yield replace(hooks, on_step=step)
