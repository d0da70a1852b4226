"""A tagger: marked texts in, a bundle out; the test part is judged once, at the end."""

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...bundle.manifest import Manifest
from ...errors import counted
from ...evaluate.examples import ExampleSource
from ...evaluate.report import Report, make_report
from ...evaluate.tagging import measure
from ...export.source import ModelSource
from ...tagger import load_tagger
from ..base_model import read_base
from ..run_dir import RunPaths, write_bundles
from .recipes import Tagging
from .tagging_data import TaggingData, read_tagging_data

logger = logging.getLogger(__name__)

REPORT = "report.json"


@dataclass(frozen=True)
class PreparedTags:
    """Everything a run needs that can be checked without torch."""

    source: ModelSource
    data: TaggingData

    @property
    def learnt(self) -> dict[str, str]:
        """The hashes of the files."""
        return self.data.hashes


def prepare(recipe: Tagging, root: Path, *, strict: bool) -> PreparedTags:
    """Read and check everything but the weights."""
    source = read_base(recipe.base, max_tokens=recipe.max_tokens, clean=recipe.clean)
    return PreparedTags(source, read_tagging_data(recipe, root, strict=strict))


def make_task(recipe: Tagging, prepared: PreparedTags, processes: Any) -> Any:
    """Load the model and cut the texts into windows."""
    from .tagging_task import TaggingTask

    task = TaggingTask(recipe, prepared.source, prepared.data, processes=processes)
    windows = counted(len(task.windows.ids), "window")
    logger.info(f"training on {windows}, {len(task.labels)} labels")
    return task


def finish(
    recipe: Tagging, prepared: PreparedTags, task: Any, paths: RunPaths, state: Any
) -> tuple[tuple[Path, ...], dict[str, float]]:
    """Export the best model by dev F1, and judge each finished bundle on the test part."""
    from ...export.tagger import export_tagger
    from ..card import provenance

    source, data = prepared.source, prepared.data
    texts = {part: len(found) for part, found in data.parts.items()}
    wanted = dataclasses.replace(
        source.manifest,
        kind="tagger",
        name=recipe.name,
        graph="onnx/model.onnx",
        dimension=len(task.labels),
        labels=task.labels,
        activation="softmax",
        layers=0,
        matryoshka=(),
        prompts={},
        default_prompt=None,
        licence=recipe.output.licence or source.manifest.licence,
        training=provenance(recipe, data.hashes, state, texts=texts, repeated=data.repeated),
        scores={},
    )
    part = "test" if data.parts["test"] else "dev"

    def write(folder: Path, precision: str) -> Report:
        manifest = dataclasses.replace(wanted, precision=precision)
        written = export_tagger(paths.best, folder, manifest, weights=recipe.output.weights)
        outcome = measure(load_tagger(folder), data.parts[part])
        judged = ExampleSource(part, "", len(data.parts[part]), {})
        report = make_report("tagging", recipe.name, outcome, judged)
        scores = {f"{part}:{n}": round(one.value, 4) for n, one in report.metrics.items()}
        (folder / "README.md").write_text(write_card(recipe, data, written, report), "utf-8")
        dataclasses.replace(written, scores=scores | state.best_scores).write(folder)
        return report

    reports = write_bundles(paths, recipe.output.precision, write)
    first = next(iter(reports.values()))
    first.save(paths.folder / REPORT)
    logger.info(str(first))
    scores = {f"{part}:{name}": metric.value for name, metric in first.metrics.items()}
    return tuple(reports), scores


def write_card(recipe: Tagging, data: TaggingData, manifest: Manifest, report: Report) -> str:
    """Say in Markdown what the tagger finds, what it was made from and how well it does."""
    from ..card import how_made

    lines = [
        f"# {recipe.name}",
        "",
        f"Finds {', '.join(data.types)} in text of any length ({manifest.architecture}, "
        f"{manifest.precision}), trained with malmoi from `{recipe.base}`.",
        "",
        "```python",
        "import malmoi",
        'tagger = malmoi.load_tagger("path/to/this/folder")',
        'tagger.tag("…")',
        "```",
        "",
        f"Exact entities of the {report.data.file} part, {counted(report.data.rows, 'text')}:",
        "",
        "| measure | value |",
        "|---|---|",
        *(f"| {name} | {metric} |" for name, metric in report.metrics.items()),
        "",
        "| file | sha256 |",
        "|---|---|",
        *(f"| {name} | {digest[:16]}… |" for name, digest in data.hashes.items()),
        *how_made(manifest.training),
    ]
    if manifest.licence:
        lines += ["", f"Licence: {manifest.licence}"]
    return "\n".join(lines) + "\n"
