"""Text in, an encoder's folder out: packed on disk, trained, measured on what was held out."""

import json
import logging
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
from ..run_dir import TrainedRun
from .masked_lm_data import PARTS, Barred, Packed, Pretraining, TextDocument, pack, read_documents

logger = logging.getLogger(__name__)

REPORT = "report.json"


@dataclass(frozen=True)
class PreparedText:
    """What can be checked without torch: where to start, and the files' hashes."""

    source: ModelSource | None
    root: Path
    hashes: dict[str, str]
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


def run(
    recipe: Pretraining, prepared: PreparedText, *, resume: bool, threads: int | None
) -> TrainedRun:
    """Pack the text, train, and say what perplexity was before and is after."""
    import torch  # here, because everything before is checked without it

    from ...export.module import check_whole
    from ..distributed import joining
    from ..loop import RunPaths, check_bfloat16
    from ..loop import train as loop
    from .masked_lm_start import make_start
    from .masked_lm_task import MaskedLMTask

    if threads:
        torch.set_num_threads(threads)
    if recipe.schedule.bf16 and not torch.cuda.is_available():
        check_bfloat16()
    if prepared.source is not None:
        check_whole(prepared.source)  # before the text is packed, which may take hours
    with joining() as processes:
        places = RunPaths(Path(recipe.output.folder))
        steps = _steps(recipe, prepared)
        if processes.first:
            with silenced():
                make_start(recipe, prepared.source, _documents(recipe, prepared), steps)
            _pack(recipe, prepared, places.folder, steps)
        processes.wait()
        source = make_start(recipe, prepared.source, iter(()), steps)
        packed = {part: Packed.open(places.folder / "packed" / part) for part in PARTS}
        task = MaskedLMTask(recipe, source, packed, processes=processes)
        task.module.eval()
        before = task.measure()
        logger.info(f"held-out perplexity before: {before.perplexity:,.1f}")
        state = loop(
            task,
            recipe.schedule,
            recipe.output,
            seed=recipe.seed,
            processes=processes,
            resume=resume,
        )
        scores = dict(state.best_scores)
        if processes.first:
            scores |= _report(recipe, prepared, places, task, before, state)
        processes.wait()
    # One process of several has something to show.
    return TrainedRun(places.folder, (places.best,) if processes.first else (), scores, state.step)


def _steps(recipe: Pretraining, prepared: PreparedText) -> tuple[str, ...]:
    if recipe.clean is not None:
        return recipe.clean
    return prepared.source.manifest.clean if prepared.source else SAFE


def _pack(
    recipe: Pretraining, prepared: PreparedText, folder: Path, steps: tuple[str, ...]
) -> None:
    """Write the ids once; a run that goes on finds them."""
    place = folder / "packed"
    if (place / "counts.json").is_file():
        return
    shutil.rmtree(place, ignore_errors=True)
    start = folder / "start"
    root = start if start.is_dir() else prepared.source.root if prepared.source else start
    tokenizer = read_tokenizer(root / "tokenizer.json")
    tokenizer.no_truncation()
    tokenizer.no_padding()
    with writing_folder(place) as half:
        counts = pack(
            _documents(recipe, prepared),
            half,
            tokenizer,
            steps,
            words=recipe.masking.words,
            held_out=recipe.data.held_out,
            seed=recipe.seed,
        )
    logger.info(", ".join(f"{part}: {count:,} pieces" for part, count in counts.items()))


def _report(
    recipe: Pretraining, prepared: PreparedText, places: Any, task: Any, before: Any, state: Any
) -> dict[str, float]:
    import math

    from ..card import versions
    from ..log import draw_log

    if not draw_log(places.log, places.folder / "training.png"):
        logger.info("no plot was drawn: matplotlib is not installed (pip install 'malmoi[plots]')")
    after = math.exp(-state.best_scores["held-out:log-likelihood"])
    scores = {"perplexity:before": before.perplexity, "perplexity:after": after}
    if task.before_whole is not None:
        scores["perplexity:head alone"] = task.before_whole.perplexity
    report = {
        "task": "pretrain",
        "recipe": recipe.to_json(),
        "seed": recipe.seed,
        "scores": scores | state.best_scores,
        "data": prepared.hashes,
        "versions": versions(),
        "steps": state.step,
        "seconds": round(state.seconds, 1),
    }
    with writing(places.folder / REPORT) as file:
        file.write(json.dumps(report, ensure_ascii=False, indent=2).encode() + b"\n")
    logger.info(", ".join(f"{name} {value:,.1f}" for name, value in scores.items()))
    logger.info(f"wrote {places.best}; name it as the base of another recipe")
    return scores
