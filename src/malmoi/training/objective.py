"""What a model can be trained for: one object an objective, found by the name in its recipe.

Every objective goes the same way: its recipe is checked, `prepare` reads the files (both without
torch), the loop trains the task, the best model is exported with its card. `trainer` names the
module with torch that has `make_task` and `write_bundle`; it is imported when training begins.
"""

import functools
import importlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar

from ..bundle.manifest import Manifest
from ..evaluation.report import Report
from ..export.source import ModelSource
from .data import read_base
from .run_dir import Hooks, RunPaths, TrainedRun, write_bundles
from .schema import BaseRecipe, unknown_objective

if TYPE_CHECKING:
    from .checkpoint import State
    from .distributed import Processes
    from .loop import TrainingTask

logger = logging.getLogger(__name__)

REPORT = "report.json"
# Every objective that comes with malmoi is in OBJECTIVES of one of these modules, which need no
# torch. They are imported when the first recipe is read.
MODULES = (
    "malmoi.training.objectives.pairs",
    "malmoi.training.objectives.tagging",
    "malmoi.training.objectives.classification",
    "malmoi.training.objectives.answering",
    "malmoi.training.objectives.masked_lm",
    "malmoi.training.distil.recipe",
)


class Prepared(Protocol):
    """What `prepare` gives: at least the sha256 of every file that is learnt from."""

    @property
    def learnt(self) -> Mapping[str, str]: ...


@dataclass(frozen=True)
class PreparedData:
    """What a run needs that can be checked without torch: the base, and the data with `hashes`."""

    source: ModelSource
    data: Any

    @property
    def learnt(self) -> dict[str, str]:
        """The hashes of the files."""
        found: dict[str, str] = self.data.hashes
        return found


R = TypeVar("R", bound=BaseRecipe)
D = TypeVar("D", bound=Prepared)


@dataclass(frozen=True)
class FinishedRun(Generic[R, D]):
    """A run whose training has ended: what it was made of, and where its best model is."""

    recipe: R
    prepared: D
    task: Any
    paths: RunPaths
    state: "State"


@dataclass(frozen=True)
class WrittenBundle:
    """A bundle of a run: its manifest, its card (README.md), and how the finished bundle does."""

    manifest: Manifest
    card: str
    report: Report | None = None
    scores: dict[str, float] = field(default_factory=dict)


class Objective(Generic[R, D]):
    """One kind of training."""

    name: str
    recipe: ClassVar[type[BaseRecipe]]
    trainer: ClassVar[str] = ""

    def prepare(self, recipe: R, root: Path, *, strict: bool = False) -> D:
        """Read and check everything but the weights: the base, and what `read` gives."""
        settings: Any = recipe
        names = {"max_tokens": settings.max_tokens, "clean": settings.clean}
        found: Any = PreparedData(
            read_base(settings.base, **names), self.read(recipe, root, strict=strict)
        )
        return found  # type: ignore[no-any-return]

    def read(self, recipe: R, root: Path, *, strict: bool) -> Any:
        """Read and check the files; what comes back has their `hashes`."""
        raise NotImplementedError

    def task(self, recipe: R, prepared: D, processes: "Processes") -> "TrainingTask":
        """Load the model and make what the loop trains."""
        task: TrainingTask = self._trainer().make_task(recipe, prepared, processes)
        return task

    def write_bundle(self, run: FinishedRun[R, D], folder: Path, precision: str) -> WrittenBundle:
        """Write the best model as a bundle into an empty folder."""
        written: WrittenBundle = self._trainer().write_bundle(run, folder, precision)
        return written

    def export(self, run: FinishedRun[R, D]) -> tuple[tuple[Path, ...], dict[str, float]]:
        """Write a bundle for each precision; gives their folders, and the scores of the first."""
        recipe: Any = run.recipe
        written = write_bundles(
            run.paths,
            recipe.output.precision,
            lambda folder, precision: self._with_card(run, folder, precision),
        )
        first = next(iter(written.values()))
        if first.report is not None:
            first.report.save(run.paths.folder / REPORT)
            logger.info(str(first.report))
        return tuple(written), first.scores

    def run(
        self, recipe: R, prepared: D, *, resume: bool, threads: int | None, hooks: Hooks
    ) -> TrainedRun:
        """Train to the end of the schedule, and export the best model."""
        import torch  # here, because everything before is checked without it

        from .checkpoint import draw_log
        from .distributed import joining
        from .loop import check_bfloat16, train

        settings: Any = recipe
        paths = RunPaths(Path(settings.output.folder))
        if threads:
            torch.set_num_threads(threads)
        if settings.schedule.bf16 and not torch.cuda.is_available():
            check_bfloat16()
        with joining() as processes:
            task = self.task(recipe, prepared, processes)
            state = train(
                task,
                settings.schedule,
                settings.output,
                seed=settings.seed,
                processes=processes,
                resume=resume,
                hooks=hooks,
            )
            bundles: tuple[Path, ...] = ()
            scores = dict(state.best_scores)
            if processes.first:
                draw_log(paths.log, paths.folder / "training.png")
                bundles, found = self.export(FinishedRun(recipe, prepared, task, paths, state))
                scores |= found
            processes.wait()
        return TrainedRun(paths.folder, bundles, scores, state.step, dict(state.base_scores))

    def _trainer(self) -> Any:
        return importlib.import_module(self.trainer)

    def _with_card(self, run: FinishedRun[R, D], folder: Path, precision: str) -> WrittenBundle:
        written = self.write_bundle(run, folder, precision)
        (folder / "README.md").write_text(written.card, "utf-8")
        written.manifest.write(folder)  # again, with the hash of the card
        return written


_registered: dict[str, Objective[Any, Any]] = {}


def register(objective: Objective[Any, Any]) -> None:
    """Make an objective known to recipes by its name."""
    _registered[objective.name] = objective


def objectives() -> dict[str, Objective[Any, Any]]:
    """Give every objective by its name."""
    return _built_in() | _registered


@functools.cache
def _built_in() -> dict[str, Objective[Any, Any]]:
    modules = map(importlib.import_module, MODULES)
    return {one.name: one for module in modules for one in module.OBJECTIVES}


def find_objective(name: str, *, where: str) -> Objective[Any, Any]:
    """Find an objective by its name."""
    known = objectives()
    if name not in known:
        raise unknown_objective(name, known, where)
    return known[name]


def objective_of(recipe: BaseRecipe) -> Objective[Any, Any]:
    """Find the objective of a checked recipe; one for pairs may name it in its data only."""
    known = objectives()
    named = known.get(getattr(recipe, "objective", ""))
    return named or next(one for one in known.values() if one.recipe is type(recipe))
