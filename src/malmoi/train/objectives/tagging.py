"""A recipe of marked texts in, a tagger's bundle out; the test part is judged once, at the end."""

import dataclasses
import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...bundle.manifest import Manifest
from ...errors import counted
from ...evaluate.examples import ExampleSource as DataSource
from ...evaluate.report import Report, make_report
from ...evaluate.tagging import measure
from ...export.source import ModelSource, read_source
from ...io.files import writing_folder
from ...tagger import load_tagger
from ...tagger.decode import make_labels
from ..base_model import find_trainable
from ..run_dir import TrainedRun
from .tagging_data import Tagging, TaggingData, read_tagging_data

logger = logging.getLogger(__name__)

REPORT = "report.json"


@dataclass(frozen=True)
class PreparedTags:
    """Everything a run needs that can be checked without torch."""

    source: ModelSource
    material: TaggingData

    @property
    def hashes(self) -> dict[str, str]:
        """The sha256 of every file."""
        return self.material.hashes


def prepare(recipe: Tagging, root: Path, *, strict: bool) -> PreparedTags:
    """Read and check everything but the weights."""
    source = read_source(find_trainable(recipe.base), max_tokens=recipe.max_tokens)
    if recipe.clean is not None:
        manifest = dataclasses.replace(source.manifest, clean=recipe.clean)
        source = dataclasses.replace(source, manifest=manifest)
    return PreparedTags(source, read_tagging_data(recipe, root, strict=strict))


def run(
    recipe: Tagging, prepared: PreparedTags, *, resume: bool, threads: int | None
) -> TrainedRun:
    """Train, export the best by dev F1, and judge the finished bundle on the test part."""
    import torch  # here, because everything before is checked without it

    from ..distributed import joining
    from ..loop import RunPaths, check_bfloat16
    from ..loop import train as loop
    from .tagging_task import TaggingTask

    source, material = prepared.source, prepared.material
    if threads:
        torch.set_num_threads(threads)
    if recipe.schedule.bf16 and not torch.cuda.is_available():
        check_bfloat16()
    with joining() as processes:
        task = TaggingTask(recipe, source, material, processes=processes)
        places = RunPaths(Path(recipe.output.folder))
        windows, labels = counted(len(task.windows.ids), "window"), len(task.labels)
        logger.info(f"training on {windows}, {labels} labels")
        state = loop(
            task,
            recipe.schedule,
            recipe.output,
            seed=recipe.seed,
            processes=processes,
            resume=resume,
        )
        bundles: tuple[Path, ...] = ()
        scores = dict(state.best_scores)
        if processes.first:
            bundles, judged = _finish(recipe, source, material, places, state)
            scores |= judged
        processes.wait()
    return TrainedRun(places.folder, bundles, scores, state.step)


def _finish(
    recipe: Tagging, source: ModelSource, material: TaggingData, places: Any, state: Any
) -> tuple[tuple[Path, ...], dict[str, float]]:
    from ..log import draw_log

    if not draw_log(places.log, places.folder / "training.png"):
        logger.info("no plot was drawn: matplotlib is not installed (pip install 'malmoi[plots]')")
    bundles, scores = [], {}
    for i, precision in enumerate(recipe.output.precision):
        out = places.folder / ("bundle" if i == 0 else f"bundle-{precision}")
        report = _export(recipe, source, material, places.best, out, precision, state)
        if i == 0:
            report.save(places.folder / REPORT)
            part = report.data.file
            scores = {f"{part}:{name}": metric.value for name, metric in report.metrics.items()}
            logger.info(str(report))
        bundles.append(out)
        logger.info(f"wrote {out}")
    return tuple(bundles), scores


def _export(
    recipe: Tagging,
    source: ModelSource,
    material: TaggingData,
    best: Path,
    out: Path,
    precision: str,
    state: Any,
) -> Report:
    from ...export.tagger import export_tagger
    from ..checkpoint import tensor_errors

    labels = make_labels(material.types)
    manifest = dataclasses.replace(
        source.manifest,
        kind="tagger",
        name=recipe.name,
        precision=precision,
        graph="onnx/model.onnx",
        dimension=len(labels),
        labels=labels,
        activation="softmax",
        layers=0,
        matryoshka=(),
        prompts={},
        default_prompt=None,
        licence=recipe.output.licence or source.manifest.licence,
        training=_provenance(recipe, material, state),
        scores={},
    )
    part = "test" if material.parts["test"] else "dev"
    with writing_folder(out, replace=True) as half, tensor_errors():
        written = export_tagger(best, half, manifest, weights=recipe.output.weights)
        outcome = measure(load_tagger(half), material.parts[part])
        data = DataSource(part, "", len(material.parts[part]), {})
        report = make_report("tagging", recipe.name, outcome, data)
        scores = {f"{part}:{n}": round(one.value, 4) for n, one in report.metrics.items()}
        (half / "README.md").write_text(write_card(recipe, material, written, report), "utf-8")
        Manifest.write(dataclasses.replace(written, scores=scores | state.best_scores), half)
    return report


def _provenance(recipe: Tagging, material: TaggingData, state: Any) -> dict[str, Any]:
    from ..card import versions

    return {
        "recipe": recipe.to_json(),
        "seed": recipe.seed,
        "versions": versions(),
        "data": material.hashes,
        "texts": {part: len(found) for part, found in material.parts.items()},
        "repeated": material.repeated,
        "steps": state.step,
        "best_step": state.best_step or state.step,
        "seconds": round(state.seconds, 1),
    }


def write_card(recipe: Tagging, material: TaggingData, manifest: Manifest, report: Report) -> str:
    """Say in Markdown what the tagger finds, what it was made from and how well it does."""
    from ..card import how_made

    lines = [
        f"# {recipe.name}",
        "",
        f"Finds {', '.join(material.types)} in text of any length ({manifest.architecture}, "
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
        *(f"| {name} | {digest[:16]}… |" for name, digest in material.hashes.items()),
        *how_made(manifest.training),
    ]
    if manifest.licence:
        lines += ["", f"Licence: {manifest.licence}"]
    return "\n".join(lines) + "\n"
