"""A new objective is one object: with a recipe, data, a task and a bundle, it runs as all others.

`Rating` below is the whole of such an objective, as CONTRIBUTING.md describes it.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

import malmoi
from malmoi.errors import OptionError
from malmoi.export.build import write_layout
from malmoi.export.export import export
from malmoi.export.source import ModelSource
from malmoi.export.tokenizer import write_tokenizer
from malmoi.training import objective as registry
from malmoi.training.batching import Step, pad
from malmoi.training.data import file_rows, hash_named, is_number
from malmoi.training.distributed import Processes
from malmoi.training.objective import FinishedRun, Objective, PreparedData, WrittenBundle, register
from malmoi.training.objectives.pairs_task import make_encoder
from malmoi.training.objectives.task import ModelTask
from malmoi.training.recipe import make_recipe
from malmoi.training.run import train
from malmoi.training.run_dir import bundle_options, provenance, write_card
from malmoi.training.schema import ModelRecipe, Names, key, needed
from tests.support import runs


class RatingRecipe(ModelRecipe):
    """A text in, a number out."""

    files: Names = needed("Tables of texts and numbers.", min_length=1)
    objective: Literal["rating"] = key("rating", "Chooses this kind of recipe.")


@dataclass(frozen=True)
class Ratings:
    texts: list[str]
    values: np.ndarray
    hashes: dict[str, str]


class RatingTask(ModelTask):
    def __init__(self, recipe: Any, source: ModelSource, data: Ratings, processes: Any) -> None:
        super().__init__(recipe, source, processes)
        self.ids = [piece.ids for piece in self.tokens.encode(data.texts)[0]]
        self.values = torch.from_numpy(data.values)
        torch.manual_seed(recipe.seed)
        self.encoder = make_encoder(source, dropout=0.0)
        self.head = nn.Linear(self.encoder.transformer.config.hidden_size, 1)
        self.module = nn.ModuleDict({"encoder": self.encoder, "head": self.head})

    def _plan(self, epoch: int) -> list[Step]:
        return self.batches([np.array([len(ids) for ids in self.ids])], epoch)

    def rate(self, rows: Any) -> Tensor:
        ids, mask = pad([self.ids[row] for row in rows])
        inputs = (ids, mask, torch.zeros_like(ids))[: len(self.encoder.inputs)]
        found: Tensor = self.head(self.encoder(*inputs)[0])
        return found

    def loss(self, step: Step) -> Tensor:
        shares = self.shares(step.rows)
        own = self.rate(shares[self.processes.rank])
        found = self.processes.gather(own, [len(share) for share in shares])
        return nn.functional.mse_loss(found[:, 0], self.values[np.concatenate(shares)])

    def evaluate(self) -> dict[str, float]:
        with torch.no_grad():
            error = nn.functional.mse_loss(self.rate(range(len(self.ids)))[:, 0], self.values)
        return {"train:error": -float(error)}

    def save(self, folder: Path) -> None:
        write_tokenizer(self.source, folder)
        write_layout(self.source, folder, self.encoder.transformer.config.hidden_size)
        self.encoder.transformer.save_pretrained(folder)


class Rating(Objective[RatingRecipe, PreparedData]):
    name = "rating"
    recipe = RatingRecipe

    def read(self, recipe: RatingRecipe, root: Path, *, strict: bool) -> Ratings:
        columns, checks = {"text": "a", "value": "score"}, {"value": is_number}
        rows = [
            row
            for file in recipe.files
            for *_, row in file_rows(root / file, columns, {}, checks, strict)
        ]
        values = np.array([float(row["score"]) for row in rows], dtype=np.float32)
        return Ratings([row["a"] for row in rows], values, hash_named(recipe.files, root))

    def task(self, recipe: RatingRecipe, prepared: PreparedData, processes: Processes) -> ModelTask:
        return RatingTask(recipe, prepared.source, prepared.data, processes)

    def write_bundle(self, run: FinishedRun[Any, Any], folder: Path, how: str) -> WrittenBundle:
        training = provenance(run.recipe, run.prepared.learnt, run.state)
        options = bundle_options(run.recipe, run.prepared.source, training, how)
        manifest = export(run.paths.best, folder, layers="none", **options)
        return WrittenBundle(manifest, write_card(manifest, "An encoder of ratings.", []))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setattr(registry, "_registered", {})
    register(Rating())
    yield runs.prepare(tmp_path)


def rating(folder: Path, **changes: Any) -> dict[str, Any]:
    made = runs.table(folder, objective="cosent", **changes) | {"objective": "rating"}
    del made["data"]
    return made | {"files": ["pairs.tsv"]}


def test_a_new_objective_trains_logs_exports_and_resumes(folder: Path) -> None:
    whole = train(make_recipe(rating(folder)), data=folder, threads=1)
    assert malmoi.load(whole.bundles[0]).encode("배가 아파서").shape == (32,)
    card = (whole.bundles[0] / "README.md").read_text("utf-8")
    assert "An encoder of ratings." in card and "Seed 1, 12 steps." in card
    assert json.loads((whole.folder / "data.json").read_text())["pairs.tsv"]
    assert len((whole.folder / "log.csv").read_text().splitlines()) > 12
    output = {"folder": str(folder / "stopped"), "checkpoint_steps": 2}
    made = make_recipe(rating(folder, output=output))
    with runs.stopping_at(5):
        train(made, data=folder, threads=1)
    again = train(made, data=folder, threads=1, resume=True)
    left, right = (load_file(run.bundles[0] / "model.safetensors") for run in (whole, again))
    assert all(torch.equal(left[name], right[name]) for name in left)


def test_a_new_objective_stops_early(folder: Path) -> None:
    schedule = {"epochs": 9, "evaluate_steps": 1, "learning_rate": 1e-12}
    output = {"folder": str(folder / "run"), "early_stopping": 2}
    done = train(make_recipe(rating(folder, schedule=schedule, output=output)), data=folder)
    assert done.steps < 54


def test_its_recipe_is_checked_as_all_are(folder: Path) -> None:
    with pytest.raises(OptionError, match=r"file is not a key; known are .* Did you mean files\?"):
        make_recipe(rating(folder) | {"file": "x"})
    with pytest.raises(OptionError, match=r'objective is "ratings"; known .* mean rating\?'):
        make_recipe(rating(folder) | {"objective": "ratings"})
