"""A run in stages: each leaves its result and a marker, and is passed over when it is done."""

import hashlib
import json
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...io.files import writing
from .recipe import Distillation

logger = logging.getLogger(__name__)


@dataclass
class Stages:
    """The markers of a run; a stage's key depends on its settings and on every stage before it.

    So a changed setting runs its own stage and the later ones again, and no earlier one.
    """

    folder: Path
    key: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.markers = self.folder / "stages"
        self.markers.mkdir(parents=True, exist_ok=True)

    def run(self, name: str, settings: object, work: Callable[[str], None]) -> None:
        """Do the work unless its marker says that it is done; `work` gets the stage's key."""
        self.key = _digest([self.key, name, settings])
        marker = self.markers / f"{name}.json"
        done = _read(marker)
        if done.get("key") == self.key:
            self.seconds[name] = float(done["seconds"])
            logger.info(f"{name} is done already")
            return
        if done:
            logger.info(f"{name} was done with other settings or data, and is done again")
        marker.unlink(missing_ok=True)
        begin = time.monotonic()
        work(self.key)
        self.seconds[name] = round(time.monotonic() - begin, 1)
        with writing(marker) as file:
            text = json.dumps({"key": self.key, "seconds": self.seconds[name]})
            file.write(text.encode() + b"\n")
        logger.info(f"{name} took {spell(self.seconds[name])}")


def spell(seconds: float) -> str:
    """Write a time for people.

    >>> spell(5), spell(125), spell(7384)
    ('5 s', '2 min 5 s', '2 h 3 min')
    """
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def _digest(value: object) -> str:
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _read(path: Path) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):  # never begun, or cut off by a crash: not done
        return {}
    return found if isinstance(found, dict) else {}


def bundle_folders(recipe: Distillation) -> tuple[Path, ...]:
    """Say where the bundles stand: the first precision's in bundle/, the others' named by it."""
    folder, precisions = Path(recipe.output.folder), recipe.output.precision
    return tuple(folder / (f"bundle-{p}" if i else "bundle") for i, p in enumerate(precisions))
