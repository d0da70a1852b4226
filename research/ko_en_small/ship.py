"""The best weights of the joint run → a bundle: mixed with the base, a token head, 8 bits.

    python -m research.ko_en_small.ship RUN OUT --share 0.8

The share is chosen on dev; `--try 0.4,0.6,0.8,1 --data DATA` prints the development table of each.
"""

import argparse
import json
import tempfile
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from malmoi.export.export import export
from malmoi.export.module import TOKEN_HEAD
from malmoi.export.source import ModelSource, read_source
from malmoi.training.data import find_trainable
from malmoi.training.distil.student import Student, open_model

from .matches import TokenStudent
from .measure import Development

_HEAD = "token_head.weight"


def mixed(source: ModelSource, weights: Path, share: float, *, layer: int) -> TokenStudent:
    """Open the base, with so much of the run's weights mixed in, and the token head."""
    student = TokenStudent(*open_model(source.root), precision="float32", longest=384)
    trained = load_file(weights)
    head = trained.pop(_HEAD)
    own = student.model.state_dict()
    for name, value in trained.items():
        own[name] = (own[name].float() + share * (value - own[name].float())).to(own[name].dtype)
    student.model.load_state_dict(own)
    student.layer = layer
    student.head = torch.nn.Linear(head.shape[1], head.shape[0], bias=False)
    student.head.weight.data = head
    student.model.eval()
    return student


def write(student: TokenStudent, source: ModelSource, out: Path, *, layer: int, name: str) -> None:
    """Write a torch folder with the head, and export it."""
    with tempfile.TemporaryDirectory(prefix="malmoi-ship-") as scratch:
        folder = Path(scratch) / name
        folder.mkdir()
        Student.save(student, source, folder)
        tensors = {
            "weight": student.head.weight.detach().contiguous(),
            "layer": torch.tensor(layer),
        }
        (folder / TOKEN_HEAD).parent.mkdir()
        save_file(tensors, folder / TOKEN_HEAD)
        export(
            folder,
            out,
            precision="int8",
            layers="all",
            weights=False,
            name=name,
            licence="CC-BY-SA-4.0",
            clean=source.manifest.clean,
            matryoshka=source.manifest.matryoshka,
        )


def main() -> None:
    """Read the command line, and try shares or write a bundle."""
    parser = argparse.ArgumentParser(prog="python -m research.ko_en_small.ship")
    parser.add_argument("run", type=Path)
    parser.add_argument("out", type=Path)
    parser.add_argument("--base", default="ko-en-small")
    parser.add_argument("--share", type=float, default=1.0)
    parser.add_argument("--try", dest="tried", default="")
    parser.add_argument("--data", type=Path)
    parser.add_argument("--layer", type=int, default=4)
    given = parser.parse_args()
    source = read_source(find_trainable(given.base), max_tokens=512)
    weights = given.run / "joint/best/weights.safetensors"
    for share in map(float, filter(None, given.tried.split(","))):
        student = mixed(source, weights, share, layer=given.layer)
        scores = Development(given.data).scores(student) | graded(given.data, student)
        print(json.dumps({"share": share} | scores), flush=True)  # noqa: T201
    if not given.tried:
        student = mixed(source, weights, given.share, layer=given.layer)
        write(student, source, given.out, layer=given.layer, name="ko-en-small")


def graded(root: Path, student: TokenStudent) -> dict[str, float]:
    """Measure graded pairs and translations, as the recipe's evaluations do."""
    import tomllib

    from malmoi.training.data import read_measure
    from malmoi.training.schema import Evaluation

    recipe = tomllib.loads((Path(__file__).parent / "recipe.toml").read_text("utf-8"))
    found = {}
    for table in recipe["evaluation"]:
        measure = read_measure(Evaluation.model_validate(table), root)
        found[measure.title] = round(measure(student), 4)
    return found


if __name__ == "__main__":
    main()
