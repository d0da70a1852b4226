"""A classifier of long notes on onnxruntime: every window is scored, then they decide together."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import Bundle, open_bundle
from ..bundle.catalog import find_model
from ..errors import BundleError, OptionError, TextError, counted
from ..io.progress import progressing
from ..runtime.runner import Runner, chunks, in_turn
from ..runtime.tokenizer import Batch, TextTokenizer
from ..text.cleanup import SAFE, as_text, clean
from ..types import Floats
from .calibration import soften
from .decision import Rule, combine
from .windows import TextSpan, cut_windows

DECISION = "decision.json"
_LOGITS = "logits"


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """One window: its note, where it stands in it, and each label's probability there."""

    note: int
    start: int
    end: int
    probabilities: tuple[float, ...]
    weight: float | None = None


@dataclass(frozen=True, slots=True)
class Decision:
    """What is decided of one document, or of one patient's notes together.

    `probabilities` go with the model's `labels`; `windows` stand in the order of the text.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    windows: tuple[ScoredWindow, ...]

    def telling(self, labels: Sequence[str], *, k: int = 3) -> list[ScoredWindow]:
        """The windows that speak most for the decision, the strongest first."""
        column = list(labels).index(self.label)
        return sorted(self.windows, key=lambda one: -one.probabilities[column])[:k]


@dataclass(frozen=True)
class DecisionPool:
    """How a bundle decides: its rule, the temperature, attention's vectors where it has some."""

    rule: Rule = field(default_factory=Rule)
    temperature: float = 1.0
    direction: NDArray[np.float64] | None = None  # (hidden,)

    @classmethod
    def read(cls, folder: Path) -> "DecisionPool":
        """Read `decision.json` of a bundle; the defaults where it has none."""
        path = folder / DECISION
        if not path.is_file():
            return cls()
        try:
            data: dict[str, Any] = json.loads(path.read_text("utf-8"))
            direction = data.get("attention")
            return cls(
                Rule(str(data["rule"]), float(data["c"])),
                float(data["temperature"]),
                None if direction is None else np.asarray(direction, dtype=np.float64),
            )
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BundleError(
                f"{path} cannot be read ({type(error).__name__}); expected rule, c and "
                "temperature. Train the classifier again."
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Give what `read` reads."""
        data: dict[str, Any] = {
            "rule": self.rule.name,
            "c": self.rule.c,
            "temperature": self.temperature,
        }
        if self.direction is not None:
            data["attention"] = [round(float(x), 6) for x in self.direction]
        return data

    def weights(self, states: Floats) -> NDArray[np.float64] | None:
        """Attention's share of each window, (n,), from the windows' states (n, hidden)."""
        if self.direction is None:
            return None
        return attend(states, self.direction)


def attend(states: object, direction: object) -> NDArray[np.float64]:
    """Give windows their shares by a softmax over how far they point in a direction."""
    raw = np.asarray(states, dtype=np.float64) @ np.asarray(direction, dtype=np.float64)
    raised = np.exp(raw - raw.max())
    found: NDArray[np.float64] = raised / raised.sum()
    return found


@dataclass(frozen=True)
class ScoredWindows:
    """The windows of one document, scored: shares (n, labels), states (n, hidden) or none."""

    spans: list[tuple[int, TextSpan]]
    shares: Floats
    states: Floats | None


def load_classifier(name_or_path: str | Path, *, threads: int | None = None) -> "NoteClassifier":
    """Open a classifier: a folder that `malmoi train` wrote with objective = "classify"."""
    bundle = open_bundle(find_model(name_or_path), kinds=("classifier",))
    return NoteClassifier(bundle, threads=threads)


class NoteClassifier:
    """Scores windows of long notes and decides. Make one with `malmoi.load_classifier`."""

    def __init__(self, bundle: Bundle, *, threads: int | None = None) -> None:
        self.bundle, self.manifest = bundle, bundle.manifest
        self.name, self.labels = bundle.manifest.name, bundle.manifest.labels
        self.max_tokens = bundle.manifest.max_tokens
        self.pool = DecisionPool.read(bundle.folder)
        self._runner = Runner(bundle, threads=threads)
        self._steps = bundle.manifest.clean or SAFE
        self._state = f"layer_{bundle.manifest.layers - 1}" if bundle.manifest.layers else None
        self._check_graph()

    def __repr__(self) -> str:
        return f"<NoteClassifier {self.name}: {', '.join(self.labels)}>"

    def classify(self, notes: str | Sequence[str], *, rule: Rule | None = None) -> Decision:
        """Decide of one note, or of all the notes of one patient together.

        Empty notes among several are passed over; a TextError says when no text is left.
        """
        listed = [notes] if isinstance(notes, str) else list(notes)
        [scored] = self.score([listed])
        return self.decide(scored, rule=rule)

    def score(
        self, documents: Sequence[Sequence[str]], *, progress: bool = False
    ) -> list[ScoredWindows]:
        """Score the windows of many documents, each of one note or several."""
        spans: list[list[tuple[int, TextSpan]]] = []
        texts: list[str] = []
        for i, notes in enumerate(documents):
            found = [(j, s) for j, note in enumerate(notes) for s in self._windows(note, i)]
            if not found:
                raise TextError(
                    f"document {i} has no text; expected some in every document. "
                    "Leave empty ones out."
                )
            spans.append(found)
            texts += [clean(notes[j][s.start : s.end], self._steps) for j, s in found]
        return self._split(spans, self._outputs(texts, progress))

    def decide(self, scored: ScoredWindows, *, rule: Rule | None = None) -> Decision:
        """Make one decision of scored windows, by the bundle's own rule when none is named."""
        chosen = rule or self.pool.rule
        weights = None
        if chosen.name == "attention":
            if scored.states is None or self.pool.direction is None:
                raise OptionError(
                    f"{self.name} has no attention; expected one trained with it. "
                    "Choose another rule."
                )
            weights = self.pool.weights(scored.states)
        joined = combine(scored.shares, chosen, weights=weights)
        [calm] = soften(joined[None], self.pool.temperature)
        best = int(calm.argmax())
        windows = tuple(
            ScoredWindow(
                note,
                span.start,
                span.end,
                tuple(float(p) for p in shares),
                None if weights is None else float(weights[i]),
            )
            for i, ((note, span), shares) in enumerate(
                zip(scored.spans, scored.shares, strict=True)
            )
        )
        named = {label: float(p) for label, p in zip(self.labels, calm, strict=True)}
        return Decision(self.labels[best], float(calm[best]), named, windows)

    def _windows(self, note: str, document: int) -> list[TextSpan]:
        return note_windows(
            as_text(note, where=f"document {document}"), self._runner.tokens, self._steps
        )

    def _outputs(self, texts: list[str], progress: bool) -> Floats:
        """Run texts through the graph; logits and state side by side, (n, labels + hidden)."""
        blocks = []
        started = (self._start(chunk) for chunk in chunks(texts, len))
        with progressing("scoring windows", total=len(texts), shown=progress) as advance:
            for block in in_turn(started):
                blocks.append(block)
                advance(len(block))
        return np.concatenate(blocks)

    def _start(self, texts: list[str]) -> Any:
        pieces, _ = self._runner.tokens.encode(texts)
        return self._runner.start(pieces, self._run)

    def _run(self, batch: Batch) -> Floats:
        if self._state is None:
            [logits] = self._runner.session.run(batch, [_LOGITS])
            return logits
        logits, states = self._runner.session.run(batch, [_LOGITS, self._state])
        return np.concatenate([logits, states[:, 0]], axis=1)

    def _split(
        self, spans: list[list[tuple[int, TextSpan]]], outputs: Floats
    ) -> list[ScoredWindows]:
        logits = outputs[:, : len(self.labels)].astype(np.float64)
        raised = np.exp(logits - logits.max(axis=1, keepdims=True))
        shares = (raised / raised.sum(axis=1, keepdims=True)).astype(np.float32)
        states = outputs[:, len(self.labels) :] if self._state else None
        found, at = [], 0
        for mine in spans:
            here = slice(at, at + len(mine))
            found.append(
                ScoredWindows(mine, shares[here], None if states is None else states[here])
            )
            at += len(mine)
        return found

    def _check_graph(self) -> None:
        """Run one short text, so that a graph which does not fit is found now."""
        session = self._runner.session
        wanted = [_LOGITS, *([self._state] if self._state else [])]
        missing = [name for name in wanted if name not in session.outputs]
        if missing or len(self.labels) < 2:
            raise BundleError(
                f"{session.path} has the outputs {', '.join(session.outputs)} and "
                f"{counted(len(self.labels), 'label')}; expected {', '.join(wanted)} and two "
                "labels or more. "
                "Train the classifier again."
            )
        width = self._start(["가 a"])().shape[1]
        if width < len(self.labels):
            raise BundleError(
                f"{session.path} gives {counted(width, 'score')} and malmoi.json names "
                f"{len(self.labels)} labels; expected as many. Train the classifier again."
            )


def note_windows(note: str, tokens: TextTokenizer, steps: Sequence[str]) -> list[TextSpan]:
    """Cut a note as the model reads it: whole sentences, as many as its longest input holds."""

    def count(texts: Sequence[str]) -> list[int]:
        return [length for _, length in tokens.encode_plain([clean(text, steps) for text in texts])]

    specials = tokens.tokenizer.num_special_tokens_to_add(is_pair=False)
    return cut_windows(note, count, size=tokens.max_tokens - specials)
