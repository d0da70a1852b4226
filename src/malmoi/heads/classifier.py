"""The classifier of long notes: every window is scored, and a rule makes one decision."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..bundle.bundle import Bundle, find_model, open_bundle
from ..errors import BundleError, OptionError, TextError, counted
from ..io.files import parse_json
from ..io.progress import progressing
from ..runtime.pooling import softmax
from ..runtime.runner import GraphModel, chunks, pipelined
from ..runtime.tokenizer import TextTokenizer
from ..text.cleanup import SAFE, as_text, clean
from ..types import Doubles, Floats
from .decision import Rule, combine, soften
from .notes import MULTI, REGRESSION, SINGLE
from .windows import TextSpan, sentence_windows

DECISION = "decision.json"
# What a bundle's activation says about its labels.
ACTIVATIONS = {SINGLE: "softmax", MULTI: "sigmoid", REGRESSION: "identity"}


@dataclass(frozen=True, slots=True)
class ScoredWindow:
    """One window: its note, its span in the note, and each label's probability (or the number)."""

    note: int
    start: int
    end: int
    probabilities: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision about one document, or one patient's notes together.

    `probabilities` go with the model's `labels`; `windows` are in the order of the text. `label`
    is the most probable one, `labels` are all that hold: just this one, or any number where
    they do not exclude each other.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    windows: tuple[ScoredWindow, ...]
    labels: tuple[str, ...] = ()

    def telling(
        self, labels: Sequence[str], *, k: int = 3, label: str | None = None
    ) -> list[ScoredWindow]:
        """Give the windows with the strongest evidence for the decision, or a label, best first."""
        column = list(labels).index(self.label if label is None else label)
        return sorted(self.windows, key=lambda one: -one.probabilities[column])[:k]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number about one document, or one patient's notes together: what it is, and its value."""

    name: str
    number: float
    windows: tuple[ScoredWindow, ...]


_MORE = {"threshold": 0.5, "mean": 0.0, "scale": 1.0}  # of a pool, with their defaults


@dataclass(frozen=True)
class DecisionPool:
    """How a bundle decides: its rule and its temperature.

    Of several labels those hold whose probability reaches the `threshold`; a number is the
    graph's output times `scale`, plus `mean`.
    """

    rule: Rule = field(default_factory=Rule)
    temperature: float = 1.0
    threshold: float = 0.5
    mean: float = 0.0
    scale: float = 1.0

    @classmethod
    def read(cls, folder: Path) -> "DecisionPool":
        """Read `decision.json` of a bundle; the defaults where it has none."""
        path = folder / DECISION
        if not path.is_file():
            return cls()
        try:
            data: dict[str, Any] = parse_json(path.read_text("utf-8"))
            return cls(
                Rule(str(data["rule"]), float(data["c"])),
                float(data["temperature"]),
                **{name: float(data[name]) for name in _MORE if name in data},
            )
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise BundleError(
                f"{path} cannot be read ({type(error).__name__}); expected rule, c and "
                "temperature. Train the classifier again with: malmoi train"
            ) from error

    def to_json(self) -> dict[str, Any]:
        """Give what `read` reads."""
        data = {"rule": self.rule.name, "c": self.rule.c, "temperature": self.temperature}
        more = {name: getattr(self, name) for name in _MORE}
        return data | {name: one for name, one in more.items() if one != _MORE[name]}


@dataclass(frozen=True)
class ScoredWindows:
    """A document's windows: note and span, and probabilities (n, labels).

    The one column of a model of numbers holds each window's number.
    """

    spans: list[tuple[int, TextSpan]]
    shares: Floats


def load_classifier(
    name_or_path: str | Path,
    *,
    threads: int | None = None,
    graph: str | None = None,
    device: str | None = None,
) -> "Classifier":
    """Open a classifier: a bundle, or a sequence classifier's folder with an ONNX graph.

    - `threads`: how many cores to use; all that this process may use when left out.
    - `graph`: which ONNX graph to use of a folder with several.
    - `device`: where the graph runs, as in `malmoi.load`.
    """
    folder = find_model(name_or_path, graph=graph)
    bundle = open_bundle(folder, kinds=("classifier",), graph=graph)
    return Classifier(bundle, threads=threads, device=device)


class Classifier(GraphModel):
    """Scores windows of long notes and decides. Make one with `malmoi.load`."""

    def __init__(
        self, bundle: Bundle, *, threads: int | None = None, device: str | None = None
    ) -> None:
        super().__init__(bundle, threads=threads, device=device)
        self.pool = DecisionPool.read(bundle.folder)
        found = {activation: problem for problem, activation in ACTIVATIONS.items()}
        self.problem = found.get(bundle.manifest.activation, SINGLE)
        self._steps = bundle.manifest.clean or SAFE
        self._check_graph()

    def __repr__(self) -> str:
        return f"<Classifier {self.name}: {', '.join(self.labels)}>"

    def classify(self, notes: str | Sequence[str], *, rule: Rule | None = None) -> Decision:
        """Decide about one note, or about all the notes of one patient together.

        Empty notes among several are passed over; raises a TextError if no text is left.
        """
        [scored] = self.score([[notes] if isinstance(notes, str) else list(notes)])
        return self.decide(scored, rule=rule)

    def estimate(self, notes: str | Sequence[str], *, rule: Rule | None = None) -> Estimate:
        """Give the number of one note, or of all the notes of one patient together."""
        if self.problem != REGRESSION:
            raise OptionError(
                f"{self.name} decides among {', '.join(self.labels)}; expected a model trained "
                'with problem_type = "regression". Call classify.'
            )
        [scored] = self.score([[notes] if isinstance(notes, str) else list(notes)])
        joined, windows = self._joined(scored, rule)
        return Estimate(self.labels[0], float(joined[0]), windows)

    def score(
        self, documents: Sequence[Sequence[str]], *, progress: bool = False
    ) -> list[ScoredWindows]:
        """Score the windows of many documents, each of one note or several."""
        spans: list[list[tuple[int, TextSpan]]] = []
        texts: list[str] = []
        for i, notes in enumerate(documents):
            checked = [as_text(note, where=f"document {i}") for note in notes]
            found = [
                (j, span)
                for j, note in enumerate(checked)
                for span in note_windows(note, self._runner.tokens, self._steps)
            ]
            if not found:
                raise TextError(
                    f"document {i} has no text; expected some in every document. "
                    "Leave empty ones out."
                )
            spans.append(found)
            texts += [clean(notes[j][s.start : s.end], self._steps) for j, s in found]
        return self._split(spans, self._outputs(texts, progress))

    def decide(self, scored: ScoredWindows, *, rule: Rule | None = None) -> Decision:
        """Make one decision from scored windows, by the bundle's own rule if none is given."""
        if self.problem == REGRESSION:
            raise OptionError(
                f"{self.name} gives the number {self.labels[0]}; expected a model with labels. "
                "Call estimate."
            )
        joined, windows = self._joined(scored, rule)
        exclusive = self.problem == SINGLE
        [softened] = soften(joined[None], self.pool.temperature, exclusive=exclusive).tolist()
        probabilities = dict(zip(self.labels, softened, strict=True))
        best = max(self.labels, key=probabilities.__getitem__)
        held = tuple(one for one in self.labels if probabilities[one] >= self.pool.threshold)
        labels = (best,) if exclusive else held
        return Decision(best, probabilities[best], probabilities, windows, labels)

    def _joined(
        self, scored: ScoredWindows, rule: Rule | None
    ) -> tuple[Doubles, tuple[ScoredWindow, ...]]:
        """What the rule makes of the windows, (labels,), and the windows."""
        exclusive = self.problem == SINGLE
        joined = combine(scored.shares, rule or self.pool.rule, exclusive=exclusive)
        windows = tuple(
            ScoredWindow(note, span.start, span.end, tuple(row))
            for (note, span), row in zip(scored.spans, scored.shares.tolist(), strict=True)
        )
        return joined, windows

    def _outputs(self, texts: list[str], progress: bool) -> Floats:
        """Run texts through the graph; logits, (n, labels)."""
        blocks = []
        started = (self._start(chunk) for chunk in chunks(texts, len))
        with progressing("scoring windows", total=len(texts), shown=progress) as advance:
            for block in pipelined(started):
                blocks.append(block)
                advance(len(block))
        return np.concatenate(blocks)

    def _start(self, texts: list[str]) -> Callable[[], Floats]:
        inputs, _ = self._runner.tokens.encode(texts)
        return self._runner.start(inputs, self._run)

    def _split(
        self, spans: list[list[tuple[int, TextSpan]]], outputs: Floats
    ) -> list[ScoredWindows]:
        logits = outputs.astype(np.float64)
        shares = window_shares(logits, self.problem, self.pool).astype(np.float32)
        ends = np.cumsum([len(own) for own in spans])[:-1]
        return [ScoredWindows(*own) for own in zip(spans, np.split(shares, ends), strict=True)]

    def _check_graph(self) -> None:
        """Run one short text, so that a graph which does not fit is found now."""
        session = self._runner.session
        least = 2 if self.problem == SINGLE else 1
        if len(self.labels) < least:
            raise BundleError(
                f"malmoi.json of {self.bundle.folder} has {counted(len(self.labels), 'label')}; "
                f"expected {counted(least, 'label')} or more. Train the classifier again with: "
                "malmoi train"
            )
        width = self._start(["가 a"])().shape[1]
        if width != len(self.labels):
            raise BundleError(
                f"{session.path} gives {counted(width, 'score')} and malmoi.json names "
                f"{len(self.labels)} labels; expected as many. Train the classifier again with: "
                "malmoi train"
            )


def window_shares(logits: Doubles, problem: str, pool: DecisionPool) -> Doubles:
    """Make of logits (n, labels) what windows say: probabilities, or the number (n, 1)."""
    if problem == REGRESSION:
        return logits * pool.scale + pool.mean
    if problem == MULTI:
        return softmax(np.stack([np.zeros_like(logits), logits], axis=-1))[..., 1]
    return softmax(logits)


def note_windows(note: str, tokens: TextTokenizer, steps: Sequence[str]) -> list[TextSpan]:
    """Cut a note as the model reads it: whole sentences, as many as its longest input holds."""

    def count(texts: Sequence[str]) -> list[int]:
        return [length for _, length in tokens.encode_plain([clean(text, steps) for text in texts])]

    specials = tokens.tokenizer.num_special_tokens_to_add(is_pair=False)
    return sentence_windows(note, count, size=tokens.max_tokens - specials)
