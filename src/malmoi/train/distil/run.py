"""A distillation recipe in, a bundle out: the stages in their order.

The order is that of patience: the recipe is checked, then the files, then the models are loaded.
"""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ...bundle.manifest import Manifest
from ...errors import OptionError
from ...export.source import ModelSource, read_source
from ..base_model import find_trainable
from ..run_dir import TrainedRun, opening_run
from .data import DistillationData, named_files, read_distillation_data
from .recipe import Distillation, StageSchedule, Tune
from .stages import Stages, bundle_folders

if TYPE_CHECKING:
    from .training import Context


def prepare(
    recipe: Distillation, root: Path, *, strict: bool
) -> tuple[ModelSource, DistillationData]:
    """Read and check everything but the weights."""
    source = read_source(find_trainable(recipe.base), max_tokens=recipe.max_tokens)
    if source.steps not in (("pool",), ("pool", "normalize")):
        raise OptionError(
            f"base {recipe.base} has a Dense module; expected a transformer and its pooling. "
            "Name another base."
        )
    return source, read_distillation_data(recipe, root, strict=strict)


def run(
    recipe: Distillation, source: ModelSource, material: DistillationData, *, threads: int | None
) -> TrainedRun:
    """Do every stage that is not done yet."""
    folder = Path(recipe.output.folder)
    with opening_run(recipe, material.hashes, folder):
        return _Run(recipe, source, material, folder, threads).stages()


@dataclass
class _Run:
    recipe: Distillation
    source: ModelSource
    material: DistillationData
    folder: Path
    threads: int | None

    def stages(self) -> TrainedRun:
        import torch  # here, because everything before is checked without it

        if self.threads:
            torch.set_num_threads(self.threads)
        recipe, stages = self.recipe, Stages(self.folder)
        stages.run("vocabulary", self._settings("vocabulary"), self._vocabulary)
        stages.run("align", self._settings("align"), self._align)
        keys: dict[str, str] = {}
        for title, stage in self._trainings():
            work = self._distil if title == "distil" else self._tuning(title, stage, dict(keys))
            stages.run(title, [stage, *self._settings(title)], work)
            keys[title] = stages.key
        stages.run("model", [recipe.mix, recipe.max_tokens], lambda _: self._model(keys))
        stages.run("bundles", self._settings("bundles"), lambda _: self._bundles(stages.seconds))
        bundles = bundle_folders(recipe)
        scores = Manifest.read(bundles[0]).scores
        return TrainedRun(self.folder, bundles, scores, self._steps(keys))

    def _trainings(self) -> list[tuple[str, StageSchedule]]:
        tunes = [(f"tune-{i}", stage) for i, stage in enumerate(self.recipe.tune, start=1)]
        return [("distil", self.recipe.distil), *tunes]

    def _settings(self, title: str) -> list[object]:
        """Give what a stage depends on besides the stages before it."""
        recipe, output = self.recipe, self.recipe.output
        if title == "vocabulary":
            read = [(e.files, e.source, e.target, e.pieces, e.where) for e in recipe.parallel]
            held = [e.held_out for e in recipe.parallel]
            files = named_files(dataclasses.replace(recipe, task=(), evaluation=()))
            hashes = [self.material.hashes[file] for file in files]
            return [hashes, recipe.base, read, held, recipe.held_out, recipe.vocabulary]
        if title == "align":
            return [recipe.align, recipe.seed, [entry.align for entry in recipe.parallel]]
        if title == "distil":
            return [recipe.parallel, recipe.teacher, recipe.precision]
        if title == "bundles":
            form = [output.precision, output.layers, output.weights, output.licence]
            text = [recipe.name, recipe.languages, recipe.clean]
            return [form, text, recipe.matryoshka, recipe.evaluation]
        hashes = [self.material.hashes[file] for task in recipe.task for file in task.files]
        return [hashes, recipe.task, recipe.matryoshka, recipe.short_weight]

    def _vocabulary(self, key: str) -> None:
        from .pieces import write_vocabulary

        place = self.folder / "vocabulary"
        write_vocabulary(self.recipe, self.material, self.source.root, place)

    def _align(self, key: str) -> None:
        from .pieces import Words, write_table

        words = Words.read(self.folder / "vocabulary")
        write_table(self.recipe, self.material, self.source.root, words, self.folder / "table.npy")

    @functools.cached_property
    def _shop(self) -> "Context":
        from .training import open_workshop

        return open_workshop(
            self.recipe, self.material, self.source.root, self.folder, threads=self.threads
        )

    def _distil(self, key: str) -> None:
        from .training import run_distil

        run_distil(self._shop, self.recipe.distil, key)

    def _tuning(
        self, title: str, stage: StageSchedule, before: dict[str, str]
    ) -> Callable[[str], None]:
        assert isinstance(stage, Tune)

        def work(key: str) -> None:
            from .training import run_tune

            with self._weights(before, stage.mix, averaged=stage.start == "average") as start:
                run_tune(self._shop, stage, title, key, start)

        return work

    def _model(self, keys: dict[str, str]) -> None:
        from .export import write_model

        with self._weights(keys, self.recipe.mix, averaged=True) as weights:
            write_model(self._shop, self.source, weights)

    def _bundles(self, seconds: dict[str, float]) -> None:
        from .export import provenance, write_bundles

        training = provenance(self.recipe, self.material, seconds)
        model, licence = self.folder / "model", self.source.manifest.licence
        write_bundles(self.recipe, self.material, model, training, licence=licence)

    @contextlib.contextmanager
    def _weights(
        self, keys: dict[str, str], mix: dict[str, float], *, averaged: bool
    ) -> Iterator[Path]:
        """Give a file with the mixed weights of the stages named, or of the last one alone."""
        from .training import has_average, mix_weights

        learning = dict(self._trainings())
        parts = []
        for title, share in (mix or {list(keys)[-1]: 1.0}).items():
            saved = self.folder / title / f"{keys[title]}.safetensors"
            parts.append((saved, share, averaged and has_average(saved, learning[title])))
        path = self.folder / ".mixed.safetensors"
        mix_weights(parts, path)
        try:
            yield path
        finally:
            path.unlink(missing_ok=True)

    def _steps(self, keys: dict[str, str]) -> int:
        notes = [self.folder / title / f"{key}.json" for title, key in keys.items()]
        return sum(int(json.loads(path.read_text("utf-8"))["steps"]) for path in notes)
