"""A distillation: the stages in their order, each skipped if it is done already."""

import contextlib
import functools
import json
import logging
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...bundle.manifest import Manifest
from ...errors import OptionError
from ...export.source import ModelSource, read_source
from ...io.fingerprint import hash_data, read_stamp, write_json
from ..base_model import find_trainable
from ..run_dir import RunPaths, TrainedRun, opening_run
from .data import DistillationData, named_files, read_distillation_data
from .recipe import Distillation, StageSchedule, Tune

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from .training import Context


@dataclass
class Stages:
    """The markers of a run; a stage's key depends on its settings and on every stage before it.

    So a changed setting runs its own stage and the later ones again, and no earlier one.
    """

    folder: Path
    key: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.markers = self.folder / "stages"
        self.markers.mkdir(parents=True, exist_ok=True)

    def run(self, name: str, settings: object, work: Callable[[str], None]) -> None:
        """Do the work unless its marker says that it is done; `work` gets the stage's key."""
        self.key = hash_data([self.key, name, settings])
        marker = self.markers / f"{name}.json"
        done = read_stamp(marker)
        if done.get("key") == self.key:
            self.seconds[name] = float(done["seconds"])
            logger.info(f"{name} is done already")
            return
        if done:
            logger.info(f"{name} was done with other settings or data, and is done again")
        marker.unlink(missing_ok=True)
        begin = time.monotonic()
        work(self.key)
        self.seconds[name] = round(time.monotonic() - begin, 1)
        write_json(marker, {"key": self.key, "seconds": self.seconds[name]}, indent=None)
        from ..log import spell  # here, because it imports torch

        logger.info(f"{name} took {spell(self.seconds[name])}")


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
    recipe: Distillation, source: ModelSource, data: DistillationData, *, threads: int | None
) -> TrainedRun:
    """Do every stage that is not done yet."""
    folder = Path(recipe.output.folder)
    with opening_run(recipe, data.hashes, folder):
        return _Run(recipe, source, data, folder, threads).stages()


@dataclass
class _Run:
    recipe: Distillation
    source: ModelSource
    dataset: DistillationData
    folder: Path
    threads: int | None

    def stages(self) -> TrainedRun:
        import torch  # here, because everything before is checked without it

        from .export import export_bundles
        from .pieces import Words, write_table, write_vocabulary
        from .training import run_distil, run_tune

        if self.threads:
            torch.set_num_threads(self.threads)
        recipe, data, base = self.recipe, self.dataset, self.source.root
        stages, words = Stages(self.folder), self.folder / "vocabulary"

        def vocabulary(key: str) -> None:
            write_vocabulary(recipe, data, base, words)

        def align(key: str) -> None:
            write_table(recipe, data, base, Words.read(words), self.folder / "table.npy")

        def train(key: str) -> None:
            if not isinstance(stage, Tune):
                run_distil(self._context, recipe.distil, key)
                return
            with self._weights(keys, stage.mix, averaged=stage.start == "average") as start:
                run_tune(self._context, stage, title, key, start)

        def bundles(key: str) -> None:
            licence = self.source.manifest.licence
            export_bundles(recipe, data, self.folder / "model", stages.seconds, licence=licence)

        stages.run("vocabulary", self._settings("vocabulary"), vocabulary)
        stages.run("align", self._settings("align"), align)
        keys: dict[str, str] = {}
        for title, stage in self._trainings():
            stages.run(title, [stage, *self._settings(title)], train)
            keys[title] = stages.key
        stages.run("model", [recipe.mix, recipe.max_tokens], lambda _: self._model(keys))
        stages.run("bundles", self._settings("bundles"), bundles)
        written = tuple(RunPaths(self.folder).bundles(recipe.output.precision))
        notes = [self.folder / title / f"{key}.json" for title, key in keys.items()]
        steps = sum(int(json.loads(path.read_text("utf-8"))["steps"]) for path in notes)
        return TrainedRun(self.folder, written, Manifest.read(written[0]).scores, steps)

    def _trainings(self) -> list[tuple[str, StageSchedule]]:
        tunes = [(f"tune-{i}", stage) for i, stage in enumerate(self.recipe.tune, start=1)]
        return [("distil", self.recipe.distil), *tunes]

    def _settings(self, title: str) -> list[object]:
        """Give what a stage depends on besides the stages before it."""
        recipe, output = self.recipe, self.recipe.output
        if title == "vocabulary":
            read = [(e.files, e.source, e.target, e.pieces, e.where) for e in recipe.parallel]
            held = [e.held_out for e in recipe.parallel]
            files = named_files(recipe.model_copy(update={"task": (), "evaluation": ()}))
            hashes = [self.dataset.hashes[file] for file in files]
            return [hashes, recipe.base, read, held, recipe.held_out, recipe.vocabulary]
        if title == "align":
            return [recipe.align, recipe.seed, [entry.align for entry in recipe.parallel]]
        if title == "distil":
            return [recipe.parallel, recipe.teacher, recipe.precision]
        if title == "bundles":
            form = [output.precision, output.layers, output.weights, output.licence]
            text = [recipe.name, recipe.languages, recipe.clean]
            return [form, text, recipe.matryoshka, recipe.evaluation]
        hashes = [self.dataset.hashes[file] for task in recipe.task for file in task.files]
        return [hashes, recipe.task, recipe.matryoshka, recipe.short_weight]

    @functools.cached_property
    def _context(self) -> "Context":
        from .training import open_context

        return open_context(
            self.recipe, self.dataset, self.source.root, self.folder, threads=self.threads
        )

    def _model(self, keys: dict[str, str]) -> None:
        from .export import write_model

        with self._weights(keys, self.recipe.mix, averaged=True) as weights:
            write_model(self._context, self.source, weights)

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
