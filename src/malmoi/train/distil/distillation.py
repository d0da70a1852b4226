"""Multilingual distillation: a student learns the teacher's vector of a sentence in two languages.

Teacher vectors are computed once into a memory-mapped cache keyed by model and text
(`TeacherCache`); sentences are tokenized once into memory-mapped bags (`prepare`); then batches
of similar length go down the squared distance, with an in-batch contrastive term if asked for.
"""

import contextlib
import hashlib
import itertools
import logging
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...bundle.manifest import MANIFEST, Manifest
from ...encoder import load
from ...errors import CutWarning, DataError
from ...export.export import export
from ...io.files import writing_folder
from ...io.fingerprint import sha256
from ...types import Floats, Ints
from ..base_model import find_base
from ..batching import token_batches
from .alignment import SentenceBags
from .recipe import Distil, StageSchedule
from .student import Student

logger = logging.getLogger(__name__)

Encode = Callable[[Sequence[str]], NDArray[np.floating]]

_DIGEST = 16


def model_key(folder: Path) -> str:
    """Name a model by the content of the files that decide its vectors."""
    digest = hashlib.sha256()
    names = ("config.json", "tokenizer.json", "1_Pooling/config.json", "sentence_bert_config.json")
    weights = sorted(
        p for pattern in ("*.safetensors", "onnx/*.onnx") for p in folder.glob(pattern)
    )
    for path in (*(folder / name for name in names), *weights):
        if path.exists():
            digest.update(path.name.encode())
            digest.update(bytes.fromhex(sha256(path)))
    return digest.hexdigest()[:16]


class TeacherCache:
    """Vectors of texts on disk, half precision, in the order they were first asked for.

    Two files that only grow: `keys.bin` (a 16-byte digest per text) and `vectors.f16`. A run that
    was cut off leaves at most an incomplete row, which the next one cuts away.
    """

    def __init__(self, folder: Path, key: str, dimension: int) -> None:
        """Open or begin the cache of the model `key` under `folder`."""
        self.folder = folder / f"{key}-{dimension}"
        self.folder.mkdir(parents=True, exist_ok=True)
        self.dimension = dimension
        self._keys, self._vectors = self.folder / "keys.bin", self.folder / "vectors.f16"
        self._keys.touch()
        self._vectors.touch()
        width = 2 * dimension
        whole = min(self._keys.stat().st_size // _DIGEST, self._vectors.stat().st_size // width)
        for path, size in ((self._keys, _DIGEST), (self._vectors, width)):
            with path.open("r+b") as file:
                file.truncate(whole * size)
        stored = self._keys.read_bytes()
        self._row = {stored[i : i + _DIGEST]: i // _DIGEST for i in range(0, len(stored), _DIGEST)}

    def __len__(self) -> int:
        """Count the texts held."""
        return len(self._row)

    def rows(self, texts: Sequence[str], encode: Encode, *, chunk: int = 4096) -> Ints:
        """Give the row of each text's vector, computing those not held yet."""
        keys = [hashlib.blake2b(text.encode(), digest_size=_DIGEST).digest() for text in texts]
        missing = {k: t for k, t in zip(keys, texts, strict=True) if k not in self._row}
        todo = list(missing.items())
        for begin in range(0, len(todo), chunk):
            part = todo[begin : begin + chunk]
            self._append([k for k, _ in part], encode([t for _, t in part]))
        return np.fromiter((self._row[k] for k in keys), dtype=np.int64, count=len(keys))

    def _append(self, keys: Sequence[bytes], vectors: NDArray[np.floating]) -> None:
        if vectors.shape != (len(keys), self.dimension):
            raise DataError(
                f"the teacher gave vectors of shape {vectors.shape}; "
                f"expected ({len(keys)}, {self.dimension}). "
                "Use another cache folder for another teacher."
            )
        with self._vectors.open("ab") as file:
            file.write(np.ascontiguousarray(vectors, dtype=np.float16).tobytes())
        with self._keys.open("ab") as file:
            file.write(b"".join(keys))
        for key in keys:
            self._row[key] = len(self._row)

    def open(self) -> NDArray[np.float16]:
        """Map the vectors: (n, dimension)."""
        return np.memmap(self._vectors, dtype=np.float16, mode="r").reshape(-1, self.dimension)


@dataclass(frozen=True)
class ParallelText:
    """Sentences with their translations, and how often a sentence is drawn, relative to the others.

    `source` is what the teacher reads; `target` may be the same list (the student then learns the
    teacher's own language only).
    """

    name: str
    source: Sequence[str]
    target: Sequence[str]
    weight: float = 1.0


@dataclass(frozen=True)
class DistillationTexts:
    """Everything a run reads, row by row: ids of both sides, the goal's row, the drawing weight."""

    source: SentenceBags
    target: SentenceBags
    goal: Ints
    weight: Floats


def prepare(
    texts: Sequence[ParallelText],
    student: Student,
    cache: TeacherCache,
    encode: Encode,
    folder: Path,
) -> DistillationTexts:
    """Tokenize both sides and compute the teacher's vectors, a chunk at a time, on disk."""
    folder.mkdir(parents=True, exist_ok=True)
    goal = np.concatenate([cache.rows(t.source, encode) for t in texts])
    weight = np.concatenate([np.full(len(t.source), t.weight, np.float32) for t in texts])
    source = _write_side(folder / "source.i32", [t.source for t in texts], student)
    target = _write_side(folder / "target.i32", [t.target for t in texts], student)
    return DistillationTexts(source, target, goal, weight)


def _write_side(path: Path, lists: Sequence[Sequence[str]], student: Student) -> SentenceBags:
    sizes: list[int] = []
    with path.open("wb") as file:
        for texts in lists:
            for begin in range(0, len(texts), 8192):
                for ids in student.ids(texts[begin : begin + 8192]):
                    sizes.append(len(ids))
                    file.write(np.asarray(ids, dtype=np.int32).tobytes())
    return SentenceBags(np.memmap(path, dtype=np.int32, mode="r"), np.cumsum(sizes, dtype=np.int64))


@dataclass(frozen=True)
class StepReport:
    """What a step reports: its number, the share of the run done, the losses, tokens a second."""

    step: int
    progress: float
    loss: float
    source_loss: float
    contrast: float
    tokens_per_second: float


def distil(
    student: Student,
    data: DistillationTexts,
    goals: NDArray[np.float16],
    stage: Distil,
    *,
    seed: int = 0,
    report: Callable[[StepReport], None] | None = None,
    every: int = 50,
    spent: float = 0.0,
) -> None:
    """Train the student on the goals. `report` is called every so many steps (measure, save there).

    Time that `report` takes does not count towards `minutes`. A student that has taken steps goes
    on with the batches that come after them, `spent` minutes being used already.
    """
    rng = np.random.default_rng(seed)
    batches = draw(data, rng, tokens=stage.tokens, source_share=stage.source_share)
    clock, meter = StageClock(stage, spent), _Meter()
    for rows, source in itertools.islice(batches, student.steps, None):
        progress = clock.progress(student.steps)
        if progress >= 1:
            break
        side = data.source if source else data.target
        vectors = student.vectors(bag_ids(side, rows))
        goal = torch.from_numpy(goals[data.goal[rows]].astype(np.float32))
        far = distance(vectors, goal)
        near = far * 0
        if stage.contrast:
            near = contrast(vectors, goal, data.goal[rows], stage.temperature)
        student.step(far + stage.contrast * near, progress)
        meter.add(float(far.detach()), float(near.detach()), source, int(side.sizes_at(rows).sum()))
        if report and student.steps % every == 0:
            with clock.paused():
                report(meter.read(student.steps, progress))
            meter = _Meter()


def distance(vectors: Tensor, goal: Tensor) -> Tensor:
    """Squared distance of unit vectors, summed over dimensions: 2 − 2 cos."""
    goal = torch.nn.functional.normalize(goal, dim=1)
    return (vectors - goal).square().sum(1).mean()


def contrast(vectors: Tensor, goal: Tensor, key: Ints, temperature: float) -> Tensor:
    """Cross-entropy of finding one's own goal in the batch; equal goals do not compete."""
    goal = torch.nn.functional.normalize(goal, dim=1)
    return find_own(vectors @ goal.T / temperature, key)


def find_own(scores: Tensor, keys: NDArray[Any] | None = None) -> Tensor:
    """Cross-entropy of column i for row i, (n, n or more); equal keys (n,) do not compete."""
    if keys is not None:
        same = torch.from_numpy(keys[:, None] == keys[None, :])
        same.fill_diagonal_(False)
        scores[:, : len(keys)] = scores[:, : len(keys)].masked_fill(same, float("-inf"))
    return torch.nn.functional.cross_entropy(scores, torch.arange(len(scores)))


def bag_ids(bags: SentenceBags, rows: Ints) -> list[list[int]]:
    """Give the ids of the chosen bags as lists."""
    flat, starts = bags.take(rows)
    return [part.tolist() for part in np.split(flat, starts[1:])]


def draw(
    data: DistillationTexts,
    rng: np.random.Generator,
    *,
    tokens: int,
    source_share: float,
    chunk: int = 100_000,
) -> Iterator[tuple[Ints, bool]]:
    """Yield batches for ever: rows drawn by weight, and whether to read their source side."""
    chance = data.weight.astype(np.float64)
    chance /= chance.sum()  # summed in float32, a hundred thousand of them would not make 1
    for_source, for_target = data.source.sizes(), data.target.sizes()
    while True:
        drawn = rng.choice(len(chance), chunk, p=chance)
        on_source = rng.random(chunk) < source_share
        plan = []
        for source, lengths in ((True, for_source), (False, for_target)):
            rows = np.unique(drawn[on_source == source])  # twice in a batch teaches nothing
            if len(rows):
                plan += [(rows[b], source) for b in token_batches(lengths[rows], tokens, rng)]
        for i in rng.permutation(len(plan)):
            yield plan[i]


class StageClock:
    """How much of a stage is done, by steps or by minutes, without the pauses."""

    def __init__(self, stage: StageSchedule, spent: float) -> None:
        self.stage, self.begin = stage, time.monotonic() - 60 * spent

    def progress(self, steps: int) -> float:
        """Give the share that is done after so many steps."""
        return self.stage.progress(steps, (time.monotonic() - self.begin) / 60)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Stop counting the minutes for a while."""
        start = time.monotonic()
        yield
        self.begin += time.monotonic() - start


class _Meter:
    """Means since it was made."""

    def __init__(self) -> None:
        self.far: tuple[list[float], list[float]] = ([], [])
        self.near: list[float] = []
        self.tokens, self.since = 0, time.monotonic()

    def add(self, far: float, near: float, source: bool, tokens: int) -> None:
        self.far[source].append(far)
        self.near.append(near)
        self.tokens += tokens

    def read(self, step: int, progress: float) -> StepReport:
        speed = self.tokens / max(time.monotonic() - self.since, 1e-9)
        target, source = (float(np.mean(f)) if f else float("nan") for f in self.far)
        return StepReport(step, progress, target, source, float(np.mean(self.near)), speed)


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


class CachedTeacher:
    """Vectors of texts: read from the cache, or computed by whoever teaches."""

    def __init__(self, cache: TeacherCache, encode: Encode) -> None:
        self.cache, self.encode = cache, encode

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give unit vectors from the cache, those it lacks being computed: (n, dimension)."""
        rows = self.cache.rows(texts, self.encode)
        found = self.cache.open()[rows].astype(np.float32)
        return np.asarray(found / np.linalg.norm(found, axis=1, keepdims=True), dtype=np.float32)


class Teacher(CachedTeacher):
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
