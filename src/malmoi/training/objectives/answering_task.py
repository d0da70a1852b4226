"""An answerer: windows of a question and a text in, a loss over start and end; exported, judged.

A window that does not hold the whole answer learns that it has none: both its ends are [CLS].
Positions that no answer can have (the question, padding) are left out of the loss.
"""

import dataclasses
import logging
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional
from transformers import AutoModelForQuestionAnswering

from ...errors import by_number, counted
from ...evaluation.tasks.spans import answers_outcome, judge_answer
from ...export.heads import AnswerModule, export_answerer, write_settings
from ...export.source import ModelSource
from ...export.tokenizer import write_tokenizer
from ...heads.answerer import (
    OUTPUTS,
    Answer,
    AnswerSettings,
    QuestionCutter,
    QuestionWindow,
    load_answerer,
    read_all,
)
from ...heads.questions import Question
from ...runtime.tokenizer import TokenizedText
from ...types import Floats, Ints
from ..batching import Step
from ..distributed import Processes
from ..objective import FinishedRun, PreparedData, WrittenBundle
from .answering import Answering, AnsweringData
from .task import TokenTask, head_manifest, judge_bundle, judged_part

logger = logging.getLogger(__name__)

_BLOCK = 1024  # questions that are tokenised together


@dataclass(frozen=True)
class AnswerWindows:
    """Windows of questions, and where their answers start and end in their ids; 0 for none.

    `ids` has two rows a window, its ids and its segment ids, as arrays: KorQuAD's windows as lists
    of numbers take some gigabytes. An answer may stand at `places`, (first, last + 1) in the ids.
    """

    ids: list[NDArray[np.int32]]
    places: Ints  # (n, 2)
    starts: Ints
    ends: Ints

    @property
    def lengths(self) -> Ints:
        """How many tokens each window has."""
        return np.array([ids.shape[1] for ids in self.ids], dtype=np.int64)

    def input(self, row: int, number: int) -> TokenizedText:
        """One window as the model's input."""
        ids, types = self.ids[row].tolist()
        return TokenizedText(number, ids, types)


class AnsweringTask(TokenTask):
    """Trains two outputs a token; dev is judged by the F1 of answers."""

    recipe: Answering

    def __init__(
        self,
        recipe: Answering,
        source: ModelSource,
        data: AnsweringData,
        *,
        processes: Processes | None = None,
    ) -> None:
        super().__init__(recipe, source, processes)
        self.data = data
        with tempfile.TemporaryDirectory(prefix="malmoi-tokens-") as folder:
            write_tokenizer(source, Path(folder))
            path, steps = Path(folder) / "tokenizer.json", source.manifest.clean
            self.cutter = QuestionCutter(self.tokens, path, steps, recipe.stride)
        self.windows = self._windows(data.parts["train"])
        self._take(AutoModelForQuestionAnswering, AnswerModule)

    def _windows(self, questions: Sequence[Question]) -> AnswerWindows:
        ids: list[NDArray[np.int32]] = []
        places: list[tuple[int, int, int, int]] = []
        lost = 0
        for start in range(0, len(questions), _BLOCK):
            block = questions[start : start + _BLOCK]
            asked = self.cutter.question_ids([one.question for one in block])
            for one, question in zip(block, asked, strict=True):
                text = self.cutter.tokens_of(one.context)
                marked = one.answers[0] if one.answers else None
                span = text.find(marked.start, marked.end) if marked else None
                windows = self.cutter.windows(0, question, text)
                ids += [np.array([w.ids.ids, w.ids.types], dtype=np.int32) for w in windows]
                own = [(w.offset, w.offset + w.end - w.begin, *_place(w, span)) for w in windows]
                lost += marked is not None and not any(first for _, _, first, _ in own)
                places += own
        if lost:
            are = by_number(lost, "is", "are")
            logger.info(f"{counted(lost, 'answer')} {are} in no window whole and {are} not learnt")
        spread = np.array(places, dtype=np.int64).reshape(-1, 4)
        return AnswerWindows(ids, spread[:, :2], spread[:, 2], spread[:, 3])

    def loss(self, step: Step) -> Tensor:
        """Give the mean cross-entropy of start and end, over all processes."""
        shares = self.shares(step.rows)
        own = self._losses(shares[self.processes.rank])
        return self.processes.gather(own, [len(share) for share in shares]).mean()

    def _losses(self, rows: Ints) -> Tensor:
        """Give one loss a window, (n, 1), in any order."""
        inputs = [self.windows.input(int(row), i) for i, row in enumerate(rows)]
        losses = []
        for batch in self.tokens.batches(inputs, budget=self.recipe.schedule.piece_tokens):
            logits = self.run(batch)
            allowed = np.zeros(batch.ids.shape, dtype=bool)
            allowed[:, 0] = True
            for line, (first, last) in enumerate(self.windows.places[rows[batch.rows]].tolist()):
                allowed[line, first:last] = True
            mask = torch.from_numpy(allowed).to(logits.device)
            places = [self.windows.starts[rows[batch.rows]], self.windows.ends[rows[batch.rows]]]
            with torch.autocast(logits.device.type, enabled=False):
                sides = [
                    functional.cross_entropy(
                        logits[:, :, i].float().masked_fill(~mask, -1e9),
                        torch.from_numpy(place).to(logits.device),
                        reduction="none",
                    )
                    for i, place in enumerate(places)
                ]
            losses.append((sides[0] + sides[1]) / 2)
        return torch.cat(losses)[:, None]

    def _logits(self, windows: Sequence[QuestionWindow]) -> Iterator[Floats]:
        return self.window_logits([window.ids for window in windows])

    def evaluate(self) -> dict[str, float]:
        """Judge the dev questions: F1 at the best threshold for having no answer."""
        dev = self.data.parts["dev"]
        asked = [(one.question, one.context) for one in dev]
        found = read_all(self.cutter, asked, self._logits, longest=self.recipe.longest)
        return {"dev:f1": choose_threshold(dev, [next(iter(own), None) for own in found])[1]}


def _place(window: QuestionWindow, span: tuple[int, int] | None) -> tuple[int, int]:
    """Where an answer's first and last tokens stand in a window's ids; 0 where not both do."""
    if span is None or span[0] < window.begin or span[1] >= window.end:
        return 0, 0
    return tuple(token - window.begin + window.offset for token in span)  # type: ignore[return-value]


def choose_threshold(
    questions: Sequence[Question], found: Sequence[Answer | None]
) -> tuple[float, float]:
    """Find the score below which "no answer" gives the best F1 in all; gives that F1 too.

    Where every question has an answer the threshold is 0: one is always given.
    """
    given = [
        judge_answer(one, own.text if own else "")["f1"]
        for one, own in zip(questions, found, strict=True)
    ]
    none = np.array([judge_answer(one, "")["f1"] for one in questions])
    if not none.any():
        return 0.0, float(np.mean(given))
    scores = np.array([own.score if own else 0.0 for own in found])
    order = np.argsort(-scores, kind="stable")
    # After the first i of the order an answer is given, and none to the others.
    gains = np.concatenate([[0.0], np.cumsum((np.array(given) - none)[order])])
    best = int(gains.argmax())
    ends = np.concatenate([[1.0], scores[order], [0.0]])
    threshold = float((ends[best] + ends[best + 1]) / 2)
    return threshold, float((none.sum() + gains[best]) / len(questions))


def make_task(recipe: Answering, prepared: PreparedData, processes: Processes) -> AnsweringTask:
    """Load the model and cut the texts into windows."""
    task = AnsweringTask(recipe, prepared.source, prepared.data, processes=processes)
    logger.info(f"training on {counted(len(task.windows.ids), 'window')}")
    return task


def write_bundle(
    run: FinishedRun[Answering, PreparedData], folder: Path, precision: str
) -> WrittenBundle:
    """Export the best model; the bundle finds its threshold on dev and is judged on test."""
    recipe, parts = run.recipe, run.prepared.data.parts
    wanted = head_manifest(run, precision, kind="answerer", unit="question", labels=OUTPUTS)
    settings = AnswerSettings(recipe.stride, recipe.longest)
    weights = recipe.output.keeps_weights(precision)
    manifest = export_answerer(run.paths.best, folder, wanted, settings, weights=weights)
    threshold, _ = choose_threshold(parts["dev"], _answers(folder, parts["dev"]))
    write_settings(folder, dataclasses.replace(settings, threshold=round(threshold, 4)))
    manifest = manifest.write(folder)  # again, with the hash of the settings
    rows = parts[judged_part(run)]
    return judge_bundle(
        run,
        manifest,
        answers_outcome(rows, _answers(folder, rows)),
        task="answers",
        what="Answers",
        unit="question",
        does="Finds the answer to a question in text of any length",
        use=['answerer = malmoi.load("path/to/this/folder")', 'answerer.answer("…", "…")'],
    )


def _answers(folder: Path, questions: Sequence[Question]) -> list[Answer | None]:
    return load_answerer(folder).answer_all([(one.question, one.context) for one in questions])
