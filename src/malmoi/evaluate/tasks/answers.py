"""Answers: does an answerer find what people marked, and does it know when there is no answer?

Both measures are those of the data sets. SQuAD compares words, without articles and signs; KorQuAD
compares characters, because a particle (서울에서 for 서울) makes another word of a right answer.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from ...errors import OptionError
from ...heads.answerer import Answer
from ...heads.questions import Question, read_questions
from ..examples import Examples, describe
from ..measures import Measure, mean
from ..models import name_of
from ..task import Outcome, Settings, Task
from .tagging import ratio

Rows = Sequence[Question]
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_QUOTES = re.compile(r"[\"'《》<>〈〉()‘’]")
_SIGNS = str.maketrans("", "", string.punctuation)
_HANGUL = re.compile("[가-힣]")


def normalize_english(text: str) -> str:
    """Bring an answer into SQuAD's form.

    >>> normalize_english("The  Han river!")
    'han river'
    """
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_SIGNS)).split())


def normalize_korean(text: str) -> str:
    """Bring an answer into KorQuAD's form.

    >>> normalize_korean("《훈민정음》(1446년)")
    '훈민정음 1446년'
    """
    return " ".join(_QUOTES.sub(" ", text).lower().translate(_SIGNS).split())


def overlap_f1(found: Sequence[str], gold: Sequence[str]) -> float:
    """F1 of two bags of words or characters; 1 where both are empty.

    >>> round(overlap_f1("서울시", "서울"), 4)
    0.8
    """
    if not found or not gold:
        return float(len(found) == len(gold))
    same = sum((Counter(found) & Counter(gold)).values())
    return 2 * same / (len(found) + len(gold))


def judge_answer(question: Question, found: str) -> dict[str, float]:
    """Compare an answer, "" for none, with every right one; the best of each measure counts."""
    golds = [one.text for one in question.answers] or [""]
    korean = bool(_HANGUL.search(question.question + golds[0]))
    form: Callable[[str], str] = normalize_korean if korean else normalize_english
    guess = form(found)
    judged = []
    for gold in map(form, golds):
        words = overlap_f1(guess.split(), gold.split())
        letters = overlap_f1(guess.replace(" ", ""), gold.replace(" ", ""))
        judged.append((float(guess == gold), letters if korean else words, words, letters))
    best = (max(column) for column in zip(*judged, strict=True))
    return dict(zip(("exact_match", "f1", "f1_words", "f1_characters"), best, strict=True))


class Answers(Task[Rows]):
    """Exact match and F1; "f1" is KorQuAD's, of characters, for Korean, and SQuAD's for others.

    Where a file has questions without an answer, both kinds are judged by themselves too:
    "answerable" is the F1 of those with an answer, "unanswerable" the share of the others that
    were left without one.
    """

    name = "answers"

    def load(self, path: Path, settings: Settings) -> Examples[Rows]:
        rows = read_questions(path, strict=settings.strict)[: settings.limit or None]
        return Examples(rows, describe(path, len(rows), {}))

    def outcome(self, model: object, examples: Examples[Rows], settings: Settings) -> Outcome:
        """Answer every question and compare."""
        answer_all = getattr(model, "answer_all", None)
        if answer_all is None:
            raise OptionError(
                f"{name_of(model)} cannot answer; the task answers needs a model with answer_all. "
                'Train one with objective = "answer".'
            )
        rows = examples.rows
        return outcome_of(rows, answer_all([(row.question, row.context) for row in rows]))


def outcome_of(rows: Rows, found: Sequence[Answer | None]) -> Outcome:
    """Turn answers into measures that can be resampled by text, with all of its questions."""
    judged = [
        judge_answer(row, one.text if one is not None else "")
        for row, one in zip(rows, found, strict=True)
    ]
    names = ("exact_match", "f1", "f1_words", "f1_characters")
    columns = {name: np.array([one[name] for one in judged]) for name in names}
    measures: dict[str, Measure] = {name: mean(column) for name, column in columns.items()}
    answerable = np.array([bool(row.answers) for row in rows], dtype=np.float64)
    if 0 < answerable.sum() < len(rows):
        measures["answerable"] = ratio(columns["f1"] * answerable, answerable)
        without = 1.0 - answerable
        measures["unanswerable"] = ratio(columns["exact_match"] * without, without)
    places: dict[str, int] = {}
    units = np.array([places.setdefault(row.context, len(places)) for row in rows])
    answered = sum(one is not None for one in found)
    details = {"questions": len(rows), "texts": len(places), "answered": answered}
    return Outcome(measures, units, "f1", details)
