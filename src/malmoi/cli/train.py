"""`malmoi train`: a recipe in, a bundle out."""

from pathlib import Path
from typing import Annotated

import typer

from ..errors import require
from .options import Csv, Json, Strict, Table, Threads, arg, opt
from .output import Stopped, choose, print_rows


def train(
    recipe: Annotated[Path, arg("A recipe (.toml); see docs/training.md.")],
    data: Annotated[
        Path | None,
        opt("The folder that the recipe's files are under; else MALMOI_DATA, or ."),
    ] = None,
    resume: Annotated[bool, opt("Continue from the last checkpoint.", "--resume")] = False,
    changes: Annotated[
        list[str] | None,
        opt("Change a key of the recipe: --set schedule.epochs=2.", "--set"),
    ] = None,
    strict: Strict = False,
    threads: Threads = None,
    table: Table = False,
    as_csv: Csv = False,
    as_json: Json = False,
) -> None:
    """Train a model as a recipe says; prints the bundles it wrote and their scores."""
    form = choose(table=table, as_csv=as_csv, as_json=as_json)
    for change in changes or ():
        if "=" not in change:
            raise typer.BadParameter(f"--set {change}: expected key=value, as schedule.epochs=2")
    require("pydantic", extra="train", purpose="malmoi train")
    from ..training.recipe import load_recipe

    read = load_recipe(recipe, sets=changes or [])
    from ..training.run import train as train_recipe  # a mistake in the recipe need not wait for it

    try:
        done = train_recipe(read, data=data, resume=resume, strict=strict, threads=threads)
    except KeyboardInterrupt:
        folder = Path(read.output.folder)
        if not folder.is_dir():
            raise Stopped("stopped before anything was saved; nothing was left behind") from None
        raise Stopped(
            f"stopped; {folder} holds the run so far. Continue with the same command and --resume"
        ) from None
    rows = [{"bundle": str(path), "steps": done.steps, **done.scores} for path in done.bundles]
    print_rows(rows, form)
