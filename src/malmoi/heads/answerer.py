"""The answerer: a question and a text → windows → a graph → the span that answers, or none.

A window is the question followed by as much of the text as fits. The graph gives each token two
logits, for being the first and the last of the answer; both point to the first token, [CLS], where
the window has no answer. A span is compared with that: its score is the probability that it, and
not "no answer", is right, if it is one of the two. So spans of different windows and of different
texts can be compared.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import Bundle, find_model, open_bundle
from ..errors import BundleError, OptionError, TextError
from ..io.files import parse_json
from ..runtime.runner import GraphModel
from ..runtime.tokenizer import PairTokenizer, TextTokenizer, TokenizedText, read_tokenizer
from ..text.cleanup import SAFE, as_text, as_texts, clean
from ..types import Floats, Ints
from .windows import Pieces, cut_pieces, token_windows

SETTINGS = "answerer.json"
OUTPUTS = ("start", "end")
_WINDOWS_AT_ONCE = 128
_NONE = -1  # the place of a token that stands for nothing of its text


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer: texts[number][start:end] of the texts that were read, and its score, 0 to 1."""

    text: str
    start: int
    end: int
    score: float
    number: int = 0


@dataclass(frozen=True, slots=True)
class AnswerSettings:
    """How a bundle reads.

    - `stride`: tokens that neighbouring windows share; 0 for a quarter of a window.
    - `longest`: tokens of the longest answer.
    - `threshold`: the score below which there is no answer; 0 always gives one.
    """

    stride: int = 0
    longest: int = 30
    threshold: float = 0.0

    @classmethod
    def read(cls, folder: Path) -> "AnswerSettings":
        """Read a bundle's answerer.json."""
        path = folder / SETTINGS
        try:
            data = parse_json(path.read_text("utf-8"))
            found = cls(int(data["stride"]), int(data["longest"]), float(data["threshold"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise BundleError(
                f"{path} cannot be read ({type(error).__name__}); expected stride, longest and "
                "threshold. Train the answerer again with: malmoi train"
            ) from error
        if found.stride < 0 or found.longest < 1 or not 0 <= found.threshold <= 1:
            raise BundleError(
                f"{path} has a value outside its range; expected stride 0 or more, longest 1 or "
                "more and a threshold from 0 to 1. Train the answerer again with: malmoi train"
            )
        return found


@dataclass(frozen=True, slots=True)
class QuestionWindow:
    """One input of the model: a question, and tokens begin…end of a text from `offset` on."""

    ids: TokenizedText
    offset: int
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class TextTokens:
    """A text's tokens: which part of it each stands for (_NONE for none), which begin a word."""

    pieces: Pieces
    starts: Ints  # (tokens,)
    ends: Ints
    begins: NDArray[np.bool_]

    @classmethod
    def of(cls, pieces: Pieces) -> "TextTokens":
        """Spread the places of a text's pieces over all of its tokens."""
        starts, ends = (np.full(len(pieces.ids), _NONE, dtype=np.int64) for _ in range(2))
        starts[pieces.heads], ends[pieces.heads] = pieces.starts, pieces.ends
        begins = np.zeros(len(pieces.ids), dtype=bool)
        begins[pieces.borders] = True
        return cls(pieces, starts, ends, begins)

    def find(self, start: int, end: int) -> tuple[int, int] | None:
        """Give the first and the last token of text[start:end]; None where it has none."""
        inside = np.flatnonzero((self.starts >= 0) & (self.starts < end) & (self.ends > start))
        return (int(inside[0]), int(inside[-1])) if len(inside) else None


class QuestionCutter:
    """Questions and texts → windows; a question longer than half a window is cut."""

    def __init__(self, tokens: TextTokenizer, path: Path, steps: Sequence[str], stride: int):
        self._tokens, self._steps = tokens, steps or SAFE
        self._pairs = PairTokenizer(tokens)
        # One that neither cuts nor pads: windows are cut here.
        self._plain = read_tokenizer(path)
        self._plain.no_truncation()
        self._plain.no_padding()
        self._stride = stride
        self._known: dict[str, TextTokens] = {}
        if not self._pairs.before:
            raise BundleError(
                f"{path} puts no token before a text; expected one, [CLS] or <s>, which stands "
                "for no answer. Choose a model with such a tokenizer."
            )

    def tokens_of(self, text: str) -> TextTokens:
        """Tokenise a text, with the places of its tokens; that of the last texts is kept."""
        if text not in self._known:
            if len(self._known) >= 256:
                self._known.clear()
            pieces = cut_pieces(self._plain, text, self._steps, unit="piece")
            self._known[text] = TextTokens.of(pieces)
        return self._known[text]

    def question_ids(self, questions: Sequence[str]) -> list[list[int]]:
        """Tokenise questions; half a window is the most that one may take."""
        half = self._pairs.budget // 2
        encoded = self._tokens.encode_plain([clean(one, self._steps) for one in questions])
        return [ids[:half] for ids, _ in encoded]

    def windows(self, owner: int, question: list[int], text: TextTokens) -> list[QuestionWindow]:
        """Cut a text into windows after a question; none for a text without tokens."""
        size = self._pairs.budget - len(question)
        stride = min(self._stride or size // 4, size - 1)
        found = []
        for one in token_windows(text.pieces, size, shared=stride):
            joined = self._pairs.join(
                owner, question, text.pieces.ids[one.begin : one.end].tolist()
            )
            offset = len(self._pairs.before) + len(question) + len(self._pairs.between)
            found.append(QuestionWindow(joined, offset, one.begin, one.end))
        return found


def find_spans(
    logits: Floats, window: QuestionWindow, text: TextTokens, *, longest: int, k: int = 1
) -> list[tuple[float, int, int]]:
    """Find the best spans of a window by its logits (length, 2): margin, first and last token.

    The margin is a span's sum of logits less that of "no answer". A span begins where a word does;
    it may end inside of one, before a particle. Spans that overlap a better one are left out.
    """
    place = slice(window.offset, window.offset + window.end - window.begin)
    first, last = logits[place, 0].astype(np.float64), logits[place, 1].astype(np.float64)
    real = text.starts[window.begin : window.end] >= 0
    words = real & text.begins[window.begin : window.end]
    first, last = np.where(words, first, -np.inf), np.where(real, last, -np.inf)
    count = len(first)
    reach = min(longest, count)
    padded = np.concatenate([last, np.full(reach, -np.inf)])
    # sums[i, j]: a span that begins at token i and ends j tokens later.
    sums = first[:, None] + np.lib.stride_tricks.sliding_window_view(padded, reach)[:count]
    none = float(logits[0, 0] + logits[0, 1])
    found = []
    for _ in range(k):
        at = int(sums.argmax()) if sums.size else 0
        if not sums.size or not np.isfinite(sums.flat[at]):
            break
        begin, more = divmod(at, reach)
        end = begin + more
        found.append((float(sums[begin, more]) - none, window.begin + begin, window.begin + end))
        if k > 1:
            sums[begin : end + 1] = -np.inf
            for i in range(max(0, begin - reach + 1), begin):
                sums[i, begin - i :] = -np.inf
    return found


def load_answerer(name_or_path: str | Path, *, threads: int | None = None) -> "Answerer":
    """Open an answerer: a folder that `malmoi train` wrote with objective = "answer", or a hub id.

    `threads` is how many cores to use; all that this process may use when left out.
    """
    return Answerer(open_bundle(find_model(name_or_path), kinds=("answerer",)), threads=threads)


class Answerer(GraphModel):
    """Reads texts and gives the span that answers. Make one with `malmoi.load`."""

    def __init__(
        self, bundle: Bundle, *, threads: int | None = None, device: str | None = None
    ) -> None:
        super().__init__(bundle, threads=threads, device=device)
        self.settings = AnswerSettings.read(bundle.folder)
        steps, stride = bundle.manifest.clean, self.settings.stride
        self._cutter = QuestionCutter(self._runner.tokens, bundle.tokenizer, steps, stride)
        self._check()

    def __repr__(self) -> str:
        return f"<Answerer {self.name}: {self.max_tokens} tokens, from {self.threshold:g} on>"

    @property
    def threshold(self) -> float:
        """The score below which there is no answer."""
        return self.settings.threshold

    def answer(
        self, question: str, text: str | Sequence[str], *, threshold: float | None = None
    ) -> Answer | None:
        """Find the answer in a text of any length, or in several; None if none has it.

        `threshold` is the lowest score of an answer, from 0 (always one) to 1; the bundle's own
        when left out.
        """
        texts = [text] if isinstance(text, str) else text
        return next(iter(self.answers(question, texts, k=1, threshold=threshold)), None)

    def answers(
        self, question: str, texts: Sequence[str], *, k: int = 5, threshold: float | None = None
    ) -> list[Answer]:
        """Find the `k` best answers in some texts, best first; no two overlap in one text."""
        if k < 1:
            raise OptionError(f"k is {k}; expected 1 or more. Leave it out for 5.")
        listed = as_texts(texts)
        asked = [(_as_question(question), text) for text in listed]
        found = [answer for own in self.read(asked, k=k) for answer in own]
        least = self._least(threshold)
        ranked = sorted(found, key=lambda one: (-one.score, one.number, one.start))
        return [one for one in ranked if one.score >= least][:k]

    def answer_all(
        self, asked: Sequence[tuple[str, str]], *, threshold: float | None = None
    ) -> list[Answer | None]:
        """Answer many questions, each about its own text; windows of all of them run together."""
        least = self._least(threshold)
        best = (next(iter(own), None) for own in self.read(asked))
        return [one if one is not None and one.score >= least else None for one in best]

    def read(self, asked: Sequence[tuple[str, str]], *, k: int = 1) -> list[list[Answer]]:
        """Find the `k` best spans for each question and its text, whatever their scores."""
        pairs = [
            (_as_question(question), as_text(text, where=f"text {i}"))
            for i, (question, text) in enumerate(asked)
        ]
        return read_all(self._cutter, pairs, self._logits, longest=self.settings.longest, k=k)

    def _least(self, threshold: float | None) -> float:
        if threshold is None:
            return self.threshold
        if not 0 <= threshold <= 1:
            raise OptionError(f"threshold is {threshold:g}; expected 0 to 1. 0 always answers.")
        return threshold

    def _logits(self, windows: Sequence[QuestionWindow]) -> Iterator[Floats]:
        return self._token_logits([window.ids for window in windows], at_once=_WINDOWS_AT_ONCE)

    def _check(self) -> None:
        """Run one short question, so that a graph which does not fit is found now."""
        [question] = self._cutter.question_ids(["a"])
        windows = self._cutter.windows(0, question, self._cutter.tokens_of("a a"))
        if self.labels != OUTPUTS or not windows:
            raise BundleError(
                f"malmoi.json of {self.bundle.folder} has the labels "
                f"{', '.join(self.labels) or 'none'}; expected start and end. "
                "Train the answerer again with: malmoi train"
            )
        logits = self._run(next(self._runner.tokens.batches([windows[0].ids])))
        if logits.shape != (1, len(windows[0].ids.ids), 2):
            raise BundleError(
                f"{self.bundle.graph} gives logits of the shape {logits.shape}; expected two a "
                "token. Train the answerer again with: malmoi train"
            )


def read_all(
    cutter: QuestionCutter,
    asked: Sequence[tuple[str, str]],
    run: Callable[[Sequence[QuestionWindow]], Iterator[Floats]],
    *,
    longest: int,
    k: int = 1,
) -> list[list[Answer]]:
    """Find the `k` best spans for each question in its text; `run` gives the windows' logits."""
    questions = dict.fromkeys(question for question, _ in asked)
    ids = dict(zip(questions, cutter.question_ids(list(questions)), strict=True))
    tokens = [cutter.tokens_of(text) for _, text in asked]
    windows = [
        window
        for i, (question, _) in enumerate(asked)
        for window in cutter.windows(i, ids[question], tokens[i])
    ]
    spans: list[list[tuple[float, int, int]]] = [[] for _ in asked]
    for window, logits in zip(windows, run(windows) if windows else (), strict=True):
        owner = window.ids.owner
        spans[owner] += find_spans(logits, window, tokens[owner], longest=longest, k=k)
    return [
        [_answer(i, text, tokens[i], *span) for span in _apart(sorted(spans[i], reverse=True))[:k]]
        for i, (_, text) in enumerate(asked)
    ]


def _apart(spans: list[tuple[float, int, int]]) -> list[tuple[float, int, int]]:
    """Leave out what overlaps a better span; neighbouring windows find the same ones."""
    kept: list[tuple[float, int, int]] = []
    for span in spans:
        if all(span[1] > other[2] or span[2] < other[1] for other in kept):
            kept.append(span)
    return kept


def _answer(number: int, text: str, tokens: TextTokens, margin: float, a: int, b: int) -> Answer:
    start, end = int(tokens.starts[a]), int(tokens.ends[b])
    small = float(np.exp(-abs(margin)))
    score = (1.0 if margin >= 0 else small) / (1.0 + small)
    return Answer(text[start:end], start, end, score, number)


def _as_question(question: object) -> str:
    found = as_text(question, where="question")
    if not found.strip():
        raise TextError("the question is empty; expected some text. Ask a question.")
    return found
