"""Distillation: a sequence of stages, each with its own schedule, in `distil/`."""

from pathlib import Path

from ..distil import run as distil
from ..distil.recipe import Distillation
from ..objective import Objective, PreparedData
from ..run_dir import TrainedRun


class DistilObjective(Objective[Distillation, PreparedData]):
    """Several stages that are done once each."""

    name = "distil"
    recipe = Distillation
    staged = True

    def prepare(self, recipe: Distillation, root: Path, *, strict: bool = False) -> PreparedData:
        """Read and check everything but the weights."""
        return PreparedData(*distil.prepare(recipe, root, strict=strict))

    def run(
        self, recipe: Distillation, prepared: PreparedData, *, resume: bool, threads: int | None
    ) -> TrainedRun:
        """Do every stage that is not done yet."""
        return distil.run(recipe, prepared.source, prepared.data, threads=threads)


OBJECTIVES = (DistilObjective(),)
