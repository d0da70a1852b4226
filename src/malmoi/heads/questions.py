"""Files of questions with their texts and answers, read as SQuAD, KorQuAD and KLUE-MRC have them.

Three forms of JSON are known: paragraphs under `data` (SQuAD 1.1 and 2.0, KorQuAD 1.0, KLUE-MRC),
whole articles with one `answer` a question (KorQuAD 2), and rows of `question`, `context` and
`answers`, as a list or a line each (what the datasets library writes).
"""

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from ..errors import DataError, by_number, counted
from ..io.tables import BadRows, list_in, read_json, read_typed_rows

logger = logging.getLogger(__name__)

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class AnswerSpan:
    """An answer that people marked: context[start:end] of its question's text."""

    text: str
    start: int

    @property
    def end(self) -> int:
        """Where it ends."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a text, with every answer that counts as right; none if it has none."""

    id: str
    question: str
    context: str
    answers: tuple[AnswerSpan, ...] = ()


def read_questions(path: str | Path, *, strict: bool = False) -> list[Question]:
    """Read a file of questions.

    A question that has no text, or whose answer does not stand in its text, is passed over and
    counted; `strict` raises a DataError at the first. An answer that stands elsewhere than its
    `answer_start` says is taken where it stands next.
    """
    if Path(path).suffix.lower() not in (".json", ".jsonl"):
        raise DataError(
            f"{path} does not end in .json or .jsonl; expected questions as SQuAD, KorQuAD and "
            "KLUE-MRC have them. See docs/answers.md for the forms."
        )
    bad = BadRows(str(path), strict, unit="question")
    found: list[Question] = []
    moved = 0
    for number, (context, row) in enumerate(_asked(Path(path)), start=1):
        question = str(row.get("question") or "").strip()
        if not question or not isinstance(context, str) or not context.strip():
            bad.add(number, "no question or no text", "both")
            continue
        marked = () if _impossible(row) else tuple(_answers(row))
        placed = tuple(_placed(context, text, start) for text, start in marked)
        whole = tuple(dict.fromkeys(one for one in placed if one is not None))
        if marked and not whole:
            bad.add(number, "an answer that is not in its text", "one that is")
            continue
        starts = {start for _, start in marked}
        moved += any(one.start not in starts for one in whole)
        name = str(row.get("id") or row.get("guid") or number)
        found.append(Question(name, question, context, whole))
    bad.report()
    if moved:
        stand = by_number(moved, "stands", "stand")
        logger.info(f"{path}: {counted(moved, 'answer')} {stand} elsewhere than answer_start says")
    if not found:
        raise DataError(
            f"{path} has no question that can be used; expected some, with question, context and "
            "answers. See docs/answers.md for the forms."
        )
    return found


def _asked(path: Path) -> Iterator[tuple[object, Row]]:
    """Yield each question's row with its text."""
    if path.suffix.lower() == ".jsonl":
        rows: object = [row for _, row in read_typed_rows(path)]
    else:
        rows = list_in(read_json(path))
    for row in _objects(rows):
        if "question" in row:
            yield row.get("context"), row
        for paragraph in _objects(row.get("paragraphs") or [row]):
            for asked in _objects(paragraph.get("qas")):
                yield paragraph.get("context"), asked


def _objects(found: object) -> Iterator[Row]:
    """Give the objects of a list; whatever else a file has in their place is none."""
    if isinstance(found, list):
        yield from (one for one in found if isinstance(one, dict))


def _impossible(row: Row) -> bool:
    return row.get("is_impossible") in (True, "true", "True", 1)


def _answers(row: Row) -> Iterator[tuple[str, int]]:
    """Give an answer's text and start, whichever way a file has them."""
    answers = row.get("answers", row.get("answer"))
    if isinstance(answers, str):
        answers = {"text": answers, "answer_start": row.get("answer_start")}
    if isinstance(answers, dict):
        texts, starts = answers.get("text"), answers.get("answer_start")
        if isinstance(texts, list):  # a list of texts, and one of their starts
            starts = starts if isinstance(starts, list) else []
            pairs = zip_longest(texts, starts[: len(texts)])
            answers = [{"text": text, "answer_start": start} for text, start in pairs]
        else:
            answers = [answers]
    for one in _objects(answers):
        text, start = one.get("text"), one.get("answer_start")
        if isinstance(text, str) and text.strip():
            yield text, start if isinstance(start, int) else 0


def _placed(context: str, text: str, start: int) -> AnswerSpan | None:
    """Find an answer in its text: where it was said to stand, or as near to it as it does."""
    if context.startswith(text, max(start, 0)) and start >= 0:
        return AnswerSpan(text, start)
    after, before = context.find(text, max(start, 0)), context.rfind(text, 0, max(start, 0))
    places = [place for place in (before, after) if place >= 0]
    if not places:
        return None
    return AnswerSpan(text, min(places, key=lambda place: abs(place - start)))
