"""The teacher of a distillation: any encoder, run without torch, its vectors kept on disk."""

import logging
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...bundle.manifest import MANIFEST, Manifest
from ...encoder import load
from ...errors import CutWarning
from ...export.export import export
from ...io.files import writing_folder
from ..base_model import find_base
from .distillation import Encode, TeacherCache, model_key

logger = logging.getLogger(__name__)


def find_teacher(name: str, run: Path) -> tuple[Path, str]:
    """Find a teacher that runs without torch, and the key of its vectors.

    A folder with torch weights alone is exported into the run's folder, once.
    """
    folder = find_base(name)
    key = model_key(folder)
    if any(folder.glob("onnx/model*.onnx")) or (folder / "model.onnx").is_file():
        return folder, key
    if (folder / MANIFEST).is_file() and Manifest.read(folder).kind == "static":
        return folder, key
    bundle = run / f"teacher-{key}"
    if not bundle.exists():
        logger.info(f"the teacher {name} has no graph; exporting it once")
        with writing_folder(bundle) as partial:
            export(folder, partial, name="teacher", weights=False)
    return bundle, key


class Taught:
    """Vectors of texts: read from the cache, or computed by whoever teaches."""

    def __init__(self, cache: TeacherCache, encode: Encode) -> None:
        self.cache, self.encode = cache, encode

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give unit vectors from the cache, those it lacks being computed: (n, dimension)."""
        rows = self.cache.rows(texts, self.encode)
        found = self.cache.open()[rows].astype(np.float32)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


class Teacher(Taught):
    """The teacher that the recipe names, run by malmoi's own runtime."""

    def __init__(self, bundle: Path, key: str, cache: Path, *, threads: int | None = None) -> None:
        self.encoder: Any = load(bundle, threads=threads)
        super().__init__(TeacherCache(cache, key, self.dimension), self._encode)

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        return int(self.encoder.dimension)

    def _encode(self, texts: Sequence[str]) -> NDArray[np.floating]:
        """Compute vectors: (n, dimension)."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CutWarning)  # as long as it reads is as long as it may
            vectors: NDArray[np.float32] = self.encoder.encode(list(texts))
        return vectors
