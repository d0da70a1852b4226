"""The tagger: text → tokens → windows → a graph → labels → entities.

Labels are "O", "B-X" and "I-X". An I-X may only follow a B-X or an I-X; of the sequences without
such a fault the most probable one is taken.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import Bundle, find_model, open_bundle
from ..bundle.transformers import OUTSIDE
from ..errors import BundleError, counted
from ..io.files import parse_json
from ..runtime.pooling import softmax
from ..runtime.runner import GraphModel
from ..runtime.tokenizer import Batch, TokenizedText, read_tokenizer
from ..text.cleanup import SAFE, as_texts
from ..types import Floats, Ints
from .windows import UNITS, Pieces, cut_pieces, token_windows

SETTINGS = "tagger.json"
# Units that are "O" with this probability need no search; sequences are found between them.
_SURE = 0.999


@dataclass(frozen=True, slots=True)
class Entity:
    """An entity that a tagger has found: text[start:end] of the text it was given."""

    text: str
    type: str
    start: int
    end: int
    score: float


def load_tagger(
    name_or_path: str | Path,
    *,
    threads: int | None = None,
    graph: str | None = None,
    device: str | None = None,
) -> "Tagger":
    """Open a tagger: a folder, a shipped model's name, or a hub id.

    - `threads`: how many cores to use; all that this process may use when left out.
    - `graph`: which ONNX graph to use of a folder with several.
    - `device`: where the graph runs, as in `malmoi.load`.
    """
    bundle = open_bundle(find_model(name_or_path, graph=graph), kinds=("tagger",), graph=graph)
    return Tagger(bundle, threads=threads, device=device)


class Tagger(GraphModel):
    """A token classifier on onnxruntime. Make one with `malmoi.load`."""

    def __init__(
        self, bundle: Bundle, *, threads: int | None = None, device: str | None = None
    ) -> None:
        super().__init__(bundle, threads=threads, device=device)
        foreign = not (bundle.manifest.files or (bundle.folder / SETTINGS).is_file())
        # Elsewhere a word has the label of its first token, unless somebody did otherwise.
        self.unit = "word" if foreign else read_unit(bundle.folder)
        # One that neither cuts nor pads: windows are cut by `token_windows`.
        self._tokenizer = read_tokenizer(bundle.tokenizer)
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        self.frame = SpecialTokens.of(self._tokenizer)
        self._check()

    @property
    def types(self) -> tuple[str, ...]:
        """The types of entities that it knows."""
        return tuple(dict.fromkeys(label[2:] for label in self.labels if label != OUTSIDE))

    def __repr__(self) -> str:
        return f"<Tagger {self.name}: {', '.join(self.types)}, {self.max_tokens} tokens>"

    def tag(self, text: str) -> list[Entity]:
        """Find the entities of a text of any length, in their order."""
        return self.tag_all([text])[0]

    def tag_all(self, texts: Sequence[str]) -> list[list[Entity]]:
        """Find the entities of many texts; windows of all of them run together."""
        checked = as_texts(texts)
        steps = self.manifest.clean or SAFE
        cut = [cut_pieces(self._tokenizer, text, steps, unit=self.unit) for text in checked]
        shares = read_shares(cut, self.frame, self._token_logits, len(self.labels), self.max_tokens)
        return [
            list(find_entities(text, pieces, found, self.labels))
            for text, pieces, found in zip(checked, cut, shares, strict=True)
        ]

    def _run(self, batch: Batch) -> Floats:
        logits = super()._run(batch)
        return logits[..., self.bundle.columns] if self.bundle.columns else logits

    def _check(self) -> None:
        """Run one word, so that a graph which does not fit is found now."""
        if self.labels[:1] != (OUTSIDE,):
            raise BundleError(
                f"malmoi.json of {self.bundle.folder} has the labels "
                f"{', '.join(self.labels) or 'none'}; expected labels that begin with "
                f'"{OUTSIDE}". Train the tagger again with: malmoi train'
            )
        ids = self.frame.around([self.frame.before[0] if self.frame.before else 0])
        batch = next(self._runner.tokens.batches([TokenizedText(0, ids)]))
        logits = self._run(batch)
        if logits.shape != (1, len(ids), len(self.labels)):
            raise BundleError(
                f"{self.bundle.graph} gives logits of the shape {logits.shape} for "
                f"{counted(len(ids), 'token')}; "
                f"expected {len(self.labels)} labels a token. Train the tagger again with: "
                "malmoi train"
            )


@dataclass(frozen=True)
class SpecialTokens:
    """The special tokens before and after a window's tokens."""

    before: list[int]
    after: list[int]

    @classmethod
    def of(cls, tokenizer: object) -> "SpecialTokens":
        """Find the special tokens that a tokenizer puts around a text."""
        encoding = tokenizer.encode("a")  # type: ignore[attr-defined]
        real = [i for i, special in enumerate(encoding.special_tokens_mask) if not special]
        first, last = (real[0], real[-1] + 1) if real else (1, 1)
        return cls(list(encoding.ids[:first]), list(encoding.ids[last:]))

    @property
    def count(self) -> int:
        """How many special tokens there are."""
        return len(self.before) + len(self.after)

    def around(self, ids: list[int]) -> list[int]:
        """Put the special tokens around a window's ids."""
        return [*self.before, *ids, *self.after]


def read_shares(
    cut: Sequence[Pieces],
    frame: SpecialTokens,
    run: Callable[[Sequence[TokenizedText]], Iterable[Floats]],
    labels: int,
    longest: int,
) -> list[Floats]:
    """Give each text's probabilities, one row a token: (tokens, labels); `run` gives logits."""
    shares = [np.zeros((len(p.ids), labels), dtype=np.float32) for p in cut]
    size = longest - frame.count
    jobs = [(i, part) for i, pieces in enumerate(cut) for part in token_windows(pieces, size)]
    inputs = [
        TokenizedText(i, frame.around(cut[owner].ids[window.begin : window.end].tolist()))
        for i, (owner, window) in enumerate(jobs)
    ]
    for (owner, window), logits in zip(jobs, run(inputs), strict=True):
        skip = len(frame.before) - window.begin
        kept = logits[window.first + skip : window.last + skip]
        shares[owner][window.first : window.last] = softmax(kept)
    return shares


def read_unit(folder: Path) -> str:
    """Read what a tagger gives labels to: words or tokens."""
    try:
        settings = parse_json((folder / SETTINGS).read_text("utf-8"))
        unit = str(settings["unit"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BundleError(
            f"{folder / SETTINGS} cannot be read ({type(error).__name__}); expected a tagger's "
            "settings. Train the tagger again with: malmoi train"
        ) from error
    if unit not in UNITS:
        raise BundleError(
            f'{folder / SETTINGS} says unit "{unit}"; known are {", ".join(UNITS)}. '
            "Train the tagger again with: malmoi train"
        )
    return unit


def find_entities(
    text: str, pieces: Pieces, shares: Floats, labels: Sequence[str]
) -> Iterator[Entity]:
    """Decode a text's probabilities, (tokens, labels), into entities."""
    for first, last, name, score in decode(shares[pieces.heads], labels):
        start, end = int(pieces.starts[first]), int(pieces.ends[last - 1])
        yield Entity(text[start:end], name, start, end, score)


def make_labels(types: Sequence[str]) -> tuple[str, ...]:
    """Give the labels of entity types, "O" first.

    >>> make_labels(["Disease"])
    ('O', 'B-Disease', 'I-Disease')
    """
    return (OUTSIDE, *(f"{mark}-{name}" for name in types for mark in "BI"))


def decode(shares: Floats, labels: Sequence[str]) -> list[tuple[int, int, str, float]]:
    """Find entities in probabilities (n, labels): first unit, last + 1, type and score.

    The score is the mean probability of the entity's labels.
    """
    path = np.zeros(len(shares), dtype=np.int64)
    allowed = _allowed(labels)
    unsure = np.concatenate([[False], shares[:, 0] < _SURE, [False]])
    edges = np.flatnonzero(np.diff(unsure.astype(np.int8)))
    for first, last in edges.reshape(-1, 2).tolist():
        path[first:last] = _likeliest(shares[first:last], allowed)
    begins = [i for i in np.flatnonzero(path).tolist() if labels[path[i]].startswith("B-")]
    return [_entity_at(first, path, shares, labels) for first in begins]


def _allowed(labels: Sequence[str]) -> NDArray[np.bool_]:
    """Which label may follow which: (labels, labels), from the row to the column."""
    table = np.ones((len(labels), len(labels)), dtype=bool)
    for column, name in enumerate(labels):
        if name.startswith("I-"):
            table[:, column] = [before[2:] == name[2:] for before in labels]
    return table


def _likeliest(shares: Floats, allowed: NDArray[np.bool_]) -> Ints:
    """Viterbi: the best sum of logarithms among sequences whose steps are allowed."""
    scores = np.log(np.maximum(shares, 1e-12).astype(np.float64))
    steps = np.where(allowed, 0.0, -np.inf)
    best = scores[0] + steps[0]  # the unit before is no entity
    back = np.zeros(shares.shape, dtype=np.int64)
    for i in range(1, len(scores)):
        ways = best[:, None] + steps
        back[i] = ways.argmax(axis=0)
        best = ways.max(axis=0) + scores[i]
    path = np.zeros(len(scores), dtype=np.int64)
    path[-1] = best.argmax()
    for i in range(len(scores) - 1, 0, -1):
        path[i - 1] = back[i, path[i]]
    return path


def _entity_at(
    first: int, path: Ints, shares: Floats, labels: Sequence[str]
) -> tuple[int, int, str, float]:
    name = labels[path[first]][2:]
    last = first + 1
    while last < len(path) and labels[path[last]] == f"I-{name}":
        last += 1
    score = float(np.mean(shares[np.arange(first, last), path[first:last]]))
    return first, last, name, score
