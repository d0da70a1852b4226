"""What tasks over one transformer share: its tokenizer, frozen parts, batches, each process's rows.

A task of a new objective has `module` (what learns), `_plan`, `loss`, `evaluate` and `save`.
"""

import dataclasses
import functools
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ...bundle.manifest import Manifest
from ...errors import OptionError, counted
from ...evaluation.examples import ExampleSource
from ...evaluation.report import make_report
from ...evaluation.tasks import Outcome
from ...export.module import (
    GraphModule,
    check_whole,
    from_pretrained,
    set_dropout,
    use_fused_attention,
)
from ...export.silence import silenced_libraries
from ...export.source import ModelSource
from ...export.tokenizer import write_tokenizer
from ...runtime.tokenizer import Batch, TextTokenizer, TokenizedText
from ...types import Floats, Ints
from ..batching import Sizes, Step, plan_epoch
from ..data import Measure
from ..distributed import Processes
from ..objective import FinishedRun, WrittenBundle
from ..run_dir import file_table, provenance, rounded, write_card
from ..sampler import BatchClusters
from .pairs import Recipe, TrainingExamples

_AT_ONCE = 256  # windows that are run together without gradients


class ModelTask:
    """A model in training; the loop asks for steps, losses, scores, and for the model's folder."""

    module: nn.Module
    recipe: Any

    def __init__(self, recipe: Any, source: ModelSource, processes: Processes | None) -> None:
        self.recipe, self.source = recipe, source
        self.processes = processes or Processes()
        self.tokens = read_tokens(source)
        # Asked for twice an epoch, once to count the steps; a plan of a million rows takes a while.
        self.plan = functools.lru_cache(maxsize=2)(self._plan)

    def _plan(self, epoch: int) -> list[Step]:
        raise NotImplementedError

    def loss(self, step: Step) -> Tensor:
        """Give the loss of the whole step, the same in every process."""
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        """Give scores that grow with quality, by name."""
        raise NotImplementedError

    def save(self, folder: Path) -> None:
        """Write the model as a folder that can be loaded and exported."""
        raise NotImplementedError

    def batches(
        self,
        lengths: Sequence[Ints],
        epoch: int,
        *,
        weights: Sequence[float] | None = None,
        texts: Sequence[NDArray[Any] | None] | None = None,
        clusters: Sequence[BatchClusters | None] | None = None,
        least: int = 2,
    ) -> list[Step]:
        """Plan an epoch over data sets whose rows have these lengths, as the schedule says."""
        return plan_epoch(
            lengths,
            weights or [1.0] * len(lengths),
            texts or [None] * len(lengths),
            Sizes.of(self.recipe.schedule, self.processes.world, least=least),
            seed=self.recipe.seed,
            epoch=epoch,
            clusters=clusters,
        )

    def shares(self, rows: Ints) -> list[Ints]:
        """Divide the rows of a step among the processes."""
        return [rows[rank :: self.processes.world] for rank in range(self.processes.world)]


class PairTask(ModelTask):
    """A model in training on one data set of pairs or several, measured by the recipe."""

    def __init__(
        self,
        recipe: Recipe,
        source: ModelSource,
        examples: Sequence[TrainingExamples],
        measures: Sequence[Measure] = (),
        *,
        processes: Processes | None = None,
    ) -> None:
        super().__init__(recipe, source, processes)
        self.examples, self.measures = examples, measures
        self._load()

    def _load(self) -> None:
        raise NotImplementedError

    def evaluate(self) -> dict[str, float]:
        """Measure the model on every evaluation of the recipe."""
        return {measure.title: measure(self) for measure in self.measures}


class TokenTask(ModelTask):
    """A head over the tokens of windows in training: what taggers and answerers share.

    One has `windows` with the `lengths` of its training windows, and takes its model by `_take`.
    """

    windows: Any

    def _take(self, auto: Any, graph: type[GraphModule], **config: Any) -> None:
        """Load an encoder's weights below a new head, which has a learning rate of its own."""
        recipe = self.recipe
        torch.manual_seed(recipe.seed)  # the head is drawn at random
        check_whole(self.source)
        self.model: Any = from_pretrained(self.source, auto, ignore_mismatched_sizes=True, **config)
        use_fused_attention(self.model)
        set_dropout(self.model, recipe.dropout)
        freeze(self.model.base_model, recipe.schedule.freeze)
        self.module = self.graph = graph(self.model)
        self.module.to(self.processes.device)
        base = {id(p) for p in self.model.base_model.parameters()}
        self.scales = {
            id(p): recipe.head_rate for p in self.model.parameters() if id(p) not in base
        }

    def _plan(self, epoch: int) -> list[Step]:
        return self.batches([self.windows.lengths], epoch, least=1)

    def run(self, batch: Batch) -> Tensor:
        """Run a batch: logits (n, length, outputs)."""
        arrays = (batch.ids, batch.mask, batch.types)[: len(self.graph.inputs)]
        device = self.processes.device
        logits: Tensor = self.graph(*(torch.from_numpy(a).to(device) for a in arrays))[0]
        return logits

    def window_logits(self, windows: Sequence[TokenizedText]) -> Iterator[Floats]:
        """Give the logits of windows in order, (length, outputs) each, as the exported model."""
        for start in range(0, len(windows), _AT_ONCE):
            block = windows[start : start + _AT_ONCE]
            found: dict[int, Floats] = {}
            with torch.no_grad():
                for batch in self.tokens.batches(block, budget=self.recipe.schedule.piece_tokens):
                    rows = self.run(batch).float().cpu().numpy()
                    found |= dict(zip(batch.rows.tolist(), rows, strict=True))
            yield from (found[i] for i in range(len(block)))

    def save(self, folder: Path) -> None:
        """Write the model, head and all, as a transformers folder."""
        write_tokenizer(self.source, folder)
        with silenced_libraries():
            self.model.save_pretrained(folder)


def head_manifest(
    run: FinishedRun[Any, Any], precision: str, *, kind: str, unit: str, labels: tuple[str, ...]
) -> Manifest:
    """Describe the bundle of a head over tokens; `unit` is what its parts are counted in."""
    recipe, data = run.recipe, run.prepared.data
    base: Manifest = run.prepared.source.manifest
    counts = {f"{unit}s": {part: len(found) for part, found in data.parts.items()}}
    return dataclasses.replace(
        base,
        kind=kind,
        name=recipe.name,
        graph="onnx/model.onnx",
        precision=precision,
        dimension=len(labels),
        labels=labels,
        activation="",
        layers=0,
        matryoshka=(),
        prompts={},
        default_prompt=None,
        licence=recipe.output.licence or base.licence,
        training=provenance(recipe, data.hashes, run.state, **counts, repeated=data.repeated),
        scores={},
    )


def judged_part(run: FinishedRun[Any, Any]) -> str:
    """Name the part that a finished bundle is judged on: test, or dev where there is none."""
    return "test" if run.prepared.data.parts["test"] else "dev"


def judge_bundle(
    run: FinishedRun[Any, Any],
    manifest: Manifest,
    outcome: Outcome,
    *,
    task: str,
    what: str,
    unit: str,
    does: str,
    use: Sequence[str],
    against: Sequence[tuple[str, Outcome]] = (),
    settings: Mapping[str, Any] | None = None,
    more: Sequence[str] = (),
) -> WrittenBundle:
    """Put the outcome of `judged_part` into a bundle's manifest, its report and its card.

    The card says what the model `does`, `what` was judged and how many of which `unit`, how other
    outcomes compare that it is judged `against`, and `more` lines. `settings` go to the report.
    """
    recipe, data, part = run.recipe, run.prepared.data, judged_part(run)
    judged = ExampleSource(part, "", len(data.parts[part]), {})
    report = make_report(task, recipe.name, outcome, judged, against=against, settings=settings)
    scores = {f"{part}:{name}": metric.value for name, metric in report.metrics.items()}
    manifest = dataclasses.replace(manifest, scores=rounded(scores) | run.state.best_scores)
    about = (
        f"{does} ({manifest.architecture}, {manifest.precision}), trained with malmoi from "
        f"`{recipe.base}`."
    )
    body = [
        f"{what} of the {part} part, {counted(judged.rows, unit)}:",
        "",
        "| measure | value |",
        "|---|---|",
        *(f"| {name} | {metric} |" for name, metric in report.metrics.items()),
        *(
            f"| {name}, {other.model} | {found.theirs} |"
            for other in report.comparisons
            for name, found in other.differences.items()
        ),
        "",
        *file_table(data.hashes),
        *more,
    ]
    return WrittenBundle(manifest, write_card(manifest, about, body, use=use), report, scores)


def read_tokens(source: ModelSource) -> TextTokenizer:
    """Read the tokenizer as the exported model will."""
    with tempfile.TemporaryDirectory(prefix="malmoi-tokens-") as folder:
        write_tokenizer(source, Path(folder))
        path = Path(folder) / "tokenizer.json"
        return TextTokenizer.from_file(path, max_tokens=source.manifest.max_tokens)


def freeze(transformer: nn.Module, names: Sequence[str]) -> None:
    """Keep the parameters under these names (e.g. "embeddings") as they are."""
    for name in names:
        found = [p for key, p in transformer.named_parameters() if key.startswith(name)]
        if not found:
            known = sorted({key.split(".")[0] for key, _ in transformer.named_parameters()})
            raise OptionError(
                f"schedule.freeze has {name}, and no parameter's name starts so; they start with "
                f"{', '.join(known)}. Use one of these."
            )
        for parameter in found:
            parameter.requires_grad_(False)
