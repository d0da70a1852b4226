"""What a run of any objective gives back."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Trained:
    """What a run has made: its bundles or folders, and the best model's scores by evaluation."""

    folder: Path
    bundles: tuple[Path, ...]
    scores: dict[str, float]
    steps: int
