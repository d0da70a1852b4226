"""A distillation: the stages in their order, each skipped if it is done already."""

import functools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from ...bundle.manifest import Manifest
from ...errors import OptionError
from ...export.source import ModelSource, read_source
from ...io.fingerprint import hash_data, read_stamp, write_json
from ..base_model import find_trainable
from ..objective import Objective, PreparedData
from ..run_dir import RunPaths, TrainedRun
from ..schema import RecipeTable
from .data import DistillationData, named_files, read_distillation_data
from .recipe import Distil, Distillation, Tune

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from torch import Tensor

    from ..distributed import Processes
    from .training import Context


@dataclass
class Stages:
    """The markers of a run; a stage's key depends on its settings and on every stage before it.

    So a changed setting runs its own stage and the later ones again, and no earlier one.
    """

    folder: Path
    processes: "Processes"
    key: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.markers = self.folder / "stages"
        self.markers.mkdir(parents=True, exist_ok=True)

    def run(
        self, name: str, settings: object, work: Callable[[str], None], *, alone: bool = True
    ) -> None:
        """Do the work unless its marker says that it is done; `work` gets the stage's key.

        Of several processes, only the first does work that is to be done `alone`.
        """
        self.key = hash_data([self.key, name, _plain(settings)])
        marker = self.markers / f"{name}.json"
        done = read_stamp(marker)
        self.processes.wait()  # so that all have read the marker
        if done.get("key") == self.key:
            self.seconds[name] = float(done["seconds"])
            logger.info(f"{name} is done already")
            return
        if done:
            logger.info(f"{name} was done with other settings or data, and is done again")
        first = self.processes.first
        if first:
            marker.unlink(missing_ok=True)
        begin = time.monotonic()
        if first or not alone:
            work(self.key)
        self.processes.wait()
        self.seconds[name] = round(time.monotonic() - begin, 1)
        if first:
            write_json(marker, {"key": self.key, "seconds": self.seconds[name]}, indent=None)
        from ..log import spell  # here, because it imports torch

        logger.info(f"{name} took {spell(self.seconds[name])}")


def _plain(settings: object) -> object:
    """Write settings as data, without defaults: a key that is added later changes nothing."""
    if isinstance(settings, RecipeTable):
        return settings.model_dump(exclude_defaults=True)
    return [_plain(one) for one in settings] if isinstance(settings, list | tuple) else settings


class DistilObjective(Objective[Distillation, PreparedData]):
    """Several stages that are done once each."""

    name = "distil"
    recipe = Distillation
    staged = True

    def prepare(self, recipe: Distillation, root: Path, *, strict: bool = False) -> PreparedData:
        """Read and check everything but the weights."""
        source = read_source(find_trainable(recipe.base), max_tokens=recipe.max_tokens)
        if source.steps not in (("pool",), ("pool", "normalize")):
            raise OptionError(
                f"base {recipe.base} has a Dense module; expected a transformer and its pooling. "
                "Name another base."
            )
        return PreparedData(source, read_distillation_data(recipe, root, strict=strict))

    def run(
        self, recipe: Distillation, prepared: PreparedData, *, resume: bool, threads: int | None
    ) -> TrainedRun:
        """Do every stage that is not done yet."""
        import torch  # here, because everything before is checked without it

        from ..distributed import joining

        if threads:
            torch.set_num_threads(threads)
        folder = Path(recipe.output.folder)
        with joining() as processes:
            made = _Run(recipe, prepared.source, prepared.data, folder, threads, processes)
            return made.stages()


@dataclass
class _Run:
    recipe: Distillation
    source: ModelSource
    dataset: DistillationData
    folder: Path
    threads: int | None
    processes: "Processes"

    def stages(self) -> TrainedRun:
        from .export import export_bundles, export_twin
        from .pieces import read_vocabulary, write_table, write_vocabulary
        from .training import prepare_stage, run_stage, stage_results, write_goals

        recipe, data, base, threads = self.recipe, self.dataset, self.source.root, self.threads
        stages, words = Stages(self.folder, self.processes), self.folder / "vocabulary"
        table = self.folder / "table.npy"

        def train(key: str) -> None:
            # In turn: a teacher's cache and its exported bundle are written by one process.
            with self.processes.first_before_others():
                start = None
                if isinstance(stage, Tune):
                    start = self._weights(titles, stage.mix, averaged=stage.start == "average")
                task = prepare_stage(self._context, stage, title, key, start)
            run_stage(self._context, task, title, key)

        def bundles(key: str) -> None:
            licence = self.source.manifest.licence
            export_bundles(recipe, data, self.folder / "model", stages.seconds, licence=licence)

        stages.run(
            "vocabulary",
            self._settings("vocabulary"),
            lambda _: write_vocabulary(recipe, data, base, words),
        )
        stages.run(
            "align",
            self._settings("align"),
            lambda _: write_table(recipe, data, base, read_vocabulary(words), table),
        )
        if recipe.teachers:
            stages.run("goals", self._settings("goals"), lambda _: write_goals(self._context))
        titles: list[str] = []
        for title, stage in self._trainings():
            stages.run(title, [stage, *self._settings(title)], train, alone=False)
            titles.append(title)
        stages.run("model", [recipe.mix, recipe.max_tokens], lambda _: self._model(titles))
        stages.run("bundles", self._settings("bundles"), bundles)
        [first, *_] = RunPaths(self.folder).bundles(recipe.output.precision)
        if twin := recipe.output.static:
            stages.run("static", [twin], lambda _: export_twin(twin, data, first, threads))
        steps = sum(int(str(stage_results(self.folder / title)["steps"])) for title in titles)
        if not self.processes.first:
            return TrainedRun(self.folder, (), {}, steps)  # one process reports
        written = tuple(RunPaths(self.folder).bundles(recipe.output.precision))
        return TrainedRun(self.folder, written, Manifest.read(written[0]).scores, steps)

    def _trainings(self) -> list[tuple[str, Distil | Tune]]:
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
        if title == "goals":
            return [recipe.teachers, recipe.parallel, recipe.text, recipe.distil.goal]
        if title == "distil":
            return [recipe.parallel, recipe.text, recipe.teacher, recipe.precision]
        if title == "bundles":
            form = [output.precision, output.layers, output.weights, output.licence]
            text = [recipe.name, recipe.languages, recipe.clean]
            return [form, text, recipe.matryoshka, recipe.evaluation]
        hashes = [self.dataset.hashes[file] for task in recipe.task for file in task.files]
        return [hashes, recipe.task, recipe.matryoshka, recipe.short_weight]

    @functools.cached_property
    def _context(self) -> "Context":
        from .training import open_context

        base, threads = self.source.root, self.threads
        return open_context(
            self.recipe, self.dataset, base, self.folder, self.processes, threads=threads
        )

    def _model(self, titles: list[str]) -> None:
        from .export import write_model

        weights = self._weights(titles, self.recipe.mix, averaged=True)
        write_model(self._context, self.source, weights)

    def _weights(
        self, titles: list[str], mix: dict[str, float], *, averaged: bool
    ) -> "dict[str, Tensor]":
        """Give the mixed weights of the stages named, or of the last one alone."""
        from .training import mix_weights, read_weights

        read = functools.partial(read_weights, self._context, averaged=averaged)
        return mix_weights(mix or {titles[-1]: 1.0}, read)


OBJECTIVES = (DistilObjective(),)
