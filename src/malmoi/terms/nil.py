"""NIL: the score below which a first candidate is more likely wrong than right, from dev data."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..errors import DataError, OutputError
from ..io.fingerprint import read_stamp, write_json
from .cache import FOLDER
from .linker import Linked
from .manifest import SHIPPED

# Scores are made to be about the chance of being right, so without dev data this is the border.
UNCALIBRATED = 0.5
_FILE = "nil.json"


@dataclass(frozen=True)
class Threshold:
    """A border between answers and NIL, and what it did on the data it was chosen on."""

    score: float
    mentions: int
    accuracy: float  # of the decision: answered and right, or NIL and rightly so
    answered: float  # the share of mentions at or above the border
    model: str = ""


def calibrate(linked: Sequence[Linked], right: Sequence[bool], *, model: str = "") -> Threshold:
    """Choose the border that decides best: keep right first candidates, turn wrong ones to NIL.

    `right` says of each mention whether its first candidate is what it means; a mention that
    means nothing in the lexicon is never right.

    >>> from .linker import Candidate, Linked
    >>> found = [Candidate("A", score, None, None, (), "fuzzy") for score in (0.9, 0.6, 0.2)]
    >>> calibrate([Linked("a", (one,)) for one in found], [True, True, False]).score
    0.4
    """
    if not linked:
        raise DataError("no mention was given; expected dev data to calibrate on. Name a file.")
    scores = np.array([one.best.score if one.best else 0.0 for one in linked])
    truth = np.array(right, bool)
    distinct = np.unique(scores)
    borders = np.concatenate([[0.0], (distinct[1:] + distinct[:-1]) / 2, [1.0]])
    decided = [float(((scores >= border) == truth).mean()) for border in borders]
    # Of equally good borders the middle one, which other data are likeliest to agree with.
    best = np.flatnonzero(np.array(decided) == max(decided))
    border = float(borders[best[len(best) // 2]])
    kept = float((scores >= border).mean())
    return Threshold(round(border, 4), len(linked), max(decided), kept, model)


def save_threshold(threshold: Threshold, lexicon: Path) -> None:
    """Keep a border with its lexicon."""
    folder = lexicon / FOLDER
    if lexicon.parent == SHIPPED:
        raise OutputError(
            f"{lexicon.name} is part of the installation; expected a lexicon of yours. "
            "Copy it with: malmoi lexicon build sample --out NAME.lexicon"
        )
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"cannot write to {lexicon}: {error.strerror}. Copy the lexicon to a folder of yours."
        ) from error
    write_json(folder / _FILE, asdict(threshold), indent=None)


def load_threshold(lexicon: Path | None, *, model: str = "") -> Threshold | None:
    """Give the border kept with a lexicon, None where there is none or another model's."""
    try:
        found = Threshold(**read_stamp((lexicon or Path()) / FOLDER / _FILE))
    except TypeError:  # no such file, or fields of another version
        return None
    return found if found.model == model else None
