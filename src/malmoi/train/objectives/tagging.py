"""What a tagger learns from: sentences with marked entities for training, dev and test."""

import logging
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...errors import DataError, by_number, counted
from ...tagger.files import Marked, read_marked
from ..base_model import PreparedData, read_base
from ..data import check_file, hash_files
from .recipes import TagData, Tagging

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TaggingData:
    """Sentences by part, the types to be learnt, and the hashes of the files."""

    parts: dict[str, list[Marked]]
    types: tuple[str, ...]
    hashes: dict[str, str]
    repeated: int  # sentences of dev and test that are trained on too


def read_tagging_data(recipe: Tagging, root: Path, *, strict: bool) -> TaggingData:
    """Read everything a recipe names; bad data are reported before torch is imported."""
    data = recipe.data
    names = (*data.train, *data.dev, *data.test, *data.files)
    hashes = hash_files({name: check_file(root / name, name, root) for name in names})
    if data.files:
        parts = _divide(_read(data, data.files, root, strict), data, recipe.seed)
    else:
        parts = {
            part: _read(data, getattr(data, part), root, strict)
            for part in ("train", "dev", "test")
        }
    counts = {
        part: Counter(span.type for marked in found for span in marked.spans)
        for part, found in parts.items()
    }
    for part, found in parts.items():
        shown = ", ".join(f"{name} {count:,}" for name, count in sorted(counts[part].items()))
        logger.info(f"{part}: {counted(len(found), 'text')} ({shown or 'no entities'})")
    if not counts["train"]:
        kept = f" of the types {', '.join(data.types)}" if data.types else ""
        raise DataError(
            f"the training files mark no entity{kept}; expected some, as lines of a token, a tab "
            "and a label. Check the files."
        )
    for part in ("dev", "test"):
        for name in sorted(set(counts[part]) - set(counts["train"])):
            logger.info(
                f"{part} has {counts[part][name]:,} of the type {name}, which train has not"
            )
    repeated = _repeated(parts)
    return TaggingData(parts, tuple(sorted(counts["train"])), hashes, repeated)


def _read(data: TagData, files: Sequence[str], root: Path, strict: bool) -> list[Marked]:
    found = [
        marked
        for file in files
        for marked in read_marked(root / file, scheme=data.scheme, strict=strict)
    ]
    if data.types:
        found = [
            Marked(one.text, tuple(span for span in one.spans if span.type in data.types))
            for one in found
        ]
    return found[: data.limit] if data.limit else found


def _divide(found: list[Marked], data: TagData, seed: int) -> dict[str, list[Marked]]:
    order = np.random.default_rng(seed).permutation(len(found))
    parts, start = {}, 0
    for part in ("dev", "test"):
        count = round(data.shares.get(part, 0.0) * len(found))
        parts[part] = [found[i] for i in sorted(order[start : start + count])]
        start += count
    return {"train": [found[i] for i in sorted(order[start:])], **parts}


def _repeated(parts: dict[str, list[Marked]]) -> int:
    known = {marked.text for marked in parts["train"]}
    total = 0
    for part in ("dev", "test"):
        count = sum(marked.text in known for marked in parts[part])
        total += count
        if count:
            texts, are = counted(len(parts[part]), "text"), by_number(count, "is", "are")
            logger.info(f"{count:,} of the {texts} of {part} {are} trained on too")
    return total


def prepare(recipe: Tagging, root: Path, *, strict: bool) -> PreparedData:
    """Read and check everything but the weights."""
    source = read_base(recipe.base, max_tokens=recipe.max_tokens, clean=recipe.clean)
    return PreparedData(source, read_tagging_data(recipe, root, strict=strict))
