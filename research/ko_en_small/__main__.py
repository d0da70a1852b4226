"""The joint run of ko-en-small: prepare, train (resumes by itself), and the table of its scores.

    python -m research.ko_en_small research/ko_en_small/recipe.toml --data DATA --folder RUN

Preparation is done once: teachers' vectors are cached, goals are written. The run then goes on
from its newest checkpoint until it is stopped or its steps are done.
"""

import argparse
import hashlib
import json
import logging
import tomllib
from pathlib import Path

from malmoi.bundle.bundle import find_model
from malmoi.errors import BundleError
from malmoi.training.schema import parse_table

from .joint import run
from .recipe import JointRecipe


def main() -> None:
    """Read the command line and the recipe, and run."""
    parser = argparse.ArgumentParser(prog="python -m research.ko_en_small")
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--data", type=Path, required=True, help="the root of the data files")
    parser.add_argument("--folder", type=Path, required=True, help="where the run is kept")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--prepare", action="store_true", help="stop after the preparation")
    parser.add_argument("--steps", type=int, help="end after this many steps (for trials)")
    given = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    logging.getLogger("httpx").setLevel(logging.WARNING)
    table = tomllib.loads(given.recipe.read_text("utf-8"))
    table["output"]["folder"] = str(given.folder)
    recipe = parse_table(JointRecipe, table, where=str(given.recipe))
    check_base(recipe.base, recipe.joint.base_sha256)
    if given.steps:
        recipe = recipe.model_copy(update={"joint": recipe.joint.shortened(given.steps)})
    scores = run(recipe, given.data, given.folder, threads=given.threads, prepare=given.prepare)
    if scores:
        print(json.dumps(scores, ensure_ascii=False, indent=2))  # noqa: T201


def check_base(name: str, expected: str) -> None:
    """Raise unless the base's graph is the one that the recipe was written for."""
    graph = find_model(name) / "onnx/model.onnx"
    found = hashlib.sha256(graph.read_bytes()).hexdigest()
    if found != expected:
        raise BundleError(
            f"the graph of {name} has sha256 {found[:12]}…; this recipe starts from "
            f"{expected[:12]}…. Check out the commit whose bundle that is, or change base_sha256."
        )


if __name__ == "__main__":
    main()
