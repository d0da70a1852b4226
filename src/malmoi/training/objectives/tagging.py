"""What a tagger learns from: sentences with marked entities for training, dev and test."""

import logging
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from ...errors import DataError, counted
from ...heads.entity_files import Marked, read_marked
from ..data import count_shared, hash_named, read_parts
from ..objective import Objective, PreparedData
from ..schema import (
    AboveZero,
    DataParts,
    ModelRecipe,
    Names,
    PartShare,
    Share,
    Shares,
    key,
    needed,
)

logger = logging.getLogger(__name__)


class TagData(DataParts):
    """[data]: files with marked entities, by part or to be divided."""

    shares: Shares = key({"dev": 0.1, "test": 0.2}, "The shares of dev and test in files.")
    scheme: Literal["auto", "iob1", "iob2", "bioes"] = key("auto", "How entities are labelled.")
    types: Names = key((), "Learn only these types of entities; all when empty.")


class Tagging(ModelRecipe):
    """A tagger: a linear layer over an encoder's tokens finds entities."""

    data: TagData = needed("The marked texts.")
    objective: Literal["tag"] = key("tag", "Chooses this kind of recipe.")
    unit: Literal["word", "piece"] = key(
        "word", "What gets a label; piece if entities end in words."
    )
    dropout: PartShare = key(0.1, "Dropout while training.")
    balance: Share = key(0.0, "Weigh labels by rarity: 0 not at all, 1 so that all count the same.")
    weights: dict[str, float] = key({}, 'Factors of single labels, as { "O" = 0.5 }.')
    head_rate: AboveZero = key(1.0, "The head's learning rate, as a multiple of the encoder's.")


@dataclass(frozen=True)
class TaggingData:
    """Sentences by part, the types to be learnt, and the hashes of the files."""

    parts: dict[str, list[Marked]]
    types: tuple[str, ...]
    hashes: dict[str, str]
    repeated: int  # sentences of dev and test that are trained on too


def _read(data: TagData, strict: bool, path: Path) -> Iterator[Marked]:
    for one in read_marked(path, scheme=data.scheme, strict=strict):
        kept = (span for span in one.spans if not data.types or span.type in data.types)
        yield Marked(one.text, tuple(kept))


class TagObjective(Objective[Tagging, PreparedData]):
    """Finds entities."""

    name = "tag"
    recipe = Tagging
    trainer = "malmoi.training.objectives.tagging_task"

    def read(self, recipe: Tagging, root: Path, *, strict: bool) -> TaggingData:
        """Read the marked texts; bad data are reported before torch is imported."""
        data = recipe.data
        hashes = hash_named(data.names, root)
        parts = read_parts(data, root, partial(_read, data, strict), seed=recipe.seed)
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
                f"the training files mark no entity{kept}; expected some, as lines of a token, a "
                "tab and a label. Check the files."
            )
        for part in ("dev", "test"):
            for name in sorted(set(counts[part]) - set(counts["train"])):
                logger.info(
                    f"{part} has {counts[part][name]:,} of the type {name}, which train has not"
                )
        repeated = count_shared(parts, lambda one: one.text, "text")
        return TaggingData(parts, tuple(sorted(counts["train"])), hashes, repeated)


OBJECTIVES = (TagObjective(),)
