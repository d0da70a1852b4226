"""Pretraining: text in, an encoder's folder out, measured on documents that were held out."""

import json
import logging
import math
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ...errors import DataError
from ...export.source import ModelSource, read_transformer
from ...io.files import writing, writing_folder
from ...io.progress import silenced
from ...runtime.tokenizer import read_tokenizer
from ...text.cleanup import SAFE
from ..base_model import find_trainable
from ..data import check_file, hash_files
from ..run_dir import RunPaths
from .masked_lm_data import PARTS, Barred, Packed, TextDocument, pack, read_documents
from .recipes import Pretraining

logger = logging.getLogger(__name__)

REPORT = "report.json"


@dataclass(frozen=True)
class PreparedText:
    """What can be checked without torch: where to start, and the files' hashes."""

    source: ModelSource | None
    root: Path
    learnt: dict[str, str]
    strict: bool


def prepare(recipe: Pretraining, root: Path, *, strict: bool) -> PreparedText:
    """Find the base and every file, and read the first document."""
    source = None
    if recipe.base:
        source = read_transformer(find_trainable(recipe.base), max_tokens=recipe.max_tokens)
    left = [file for entry in recipe.data.leave_out for file in entry.files]
    names = (*(file for part in recipe.data.parts for file in part.files), *left)
    hashes = hash_files({name: check_file(root / name, name, root) for name in names})
    Barred.read(recipe.data.leave_out, root, strict=strict)
    prepared = PreparedText(source, root, hashes, strict)
    with silenced():  # what is logged of the files is logged when they are packed
        first = next(_documents(recipe, prepared), None)
    if first is None:
        raise DataError("the files hold no text; expected some to learn from. Check data.columns.")
    return prepared


def _documents(recipe: Pretraining, prepared: PreparedText) -> Iterator[TextDocument]:
    return read_documents(recipe.data, prepared.root, strict=prepared.strict)


def make_task(recipe: Pretraining, prepared: PreparedText, processes: Any) -> Any:
    """Pack the text on disk, load or make the encoder, and measure it before the first step."""
    from ...export.module import check_whole
    from .masked_lm_start import make_start
    from .masked_lm_task import MaskedLMTask

    if prepared.source is not None:
        check_whole(prepared.source)  # before the text is packed, which may take hours
    folder, steps = Path(recipe.output.folder), _steps(recipe, prepared)
    if processes.first:
        with silenced():
            make_start(recipe, prepared.source, _documents(recipe, prepared), steps)
        _pack(recipe, prepared, folder, steps)
    processes.wait()
    source = make_start(recipe, prepared.source, iter(()), steps)
    packed = {part: Packed.open(folder / "packed" / part) for part in PARTS}
    task = MaskedLMTask(recipe, source, packed, processes=processes)
    task.module.eval()
    task.before = task.measure()
    logger.info(f"held-out perplexity before: {task.before.perplexity:,.1f}")
    return task


def _steps(recipe: Pretraining, prepared: PreparedText) -> tuple[str, ...]:
    if recipe.clean is not None:
        return recipe.clean
    return prepared.source.manifest.clean if prepared.source else SAFE


def _pack(
    recipe: Pretraining, prepared: PreparedText, folder: Path, steps: tuple[str, ...]
) -> None:
    """Write the ids once; a run that is resumed finds them."""
    packed = folder / "packed"
    if (packed / "counts.json").is_file():
        return
    shutil.rmtree(packed, ignore_errors=True)
    start = folder / "start"
    root = start if start.is_dir() else prepared.source.root if prepared.source else start
    tokenizer = read_tokenizer(root / "tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with writing_folder(packed) as partial:
        counts = pack(
            _documents(recipe, prepared),
            partial,
            tokenizer,
            steps,
            words=recipe.masking.words,
            held_out=recipe.data.held_out,
            seed=recipe.seed,
        )
    logger.info(", ".join(f"{part}: {count:,} tokens" for part, count in counts.items()))


def finish(
    recipe: Pretraining, prepared: PreparedText, task: Any, paths: RunPaths, state: Any
) -> tuple[tuple[Path, ...], dict[str, float]]:
    """Write the report: perplexity before and after. The best folder itself is the result."""
    from ..card import provenance

    after = math.exp(-state.best_scores["held-out:log-likelihood"])
    scores = {"perplexity:before": task.before.perplexity, "perplexity:after": after}
    if task.before_whole is not None:
        scores["perplexity:head alone"] = task.before_whole.perplexity
    report = {
        "task": "pretrain",
        "scores": scores | state.best_scores,
        **provenance(recipe, prepared.learnt, state),
    }
    with writing(paths.folder / REPORT) as file:
        file.write(json.dumps(report, ensure_ascii=False, indent=2).encode() + b"\n")
    logger.info(", ".join(f"{name} {value:,.1f}" for name, value in scores.items()))
    logger.info(f"wrote {paths.best}; name it as the base of another recipe")
    return (paths.best,), scores
