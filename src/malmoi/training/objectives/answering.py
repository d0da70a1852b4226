"""What an answerer learns from: questions with their texts and answers, a text in one part only."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

import numpy as np

from ...errors import DataError, counted
from ...heads.questions import Question, read_questions
from ..data import PARTS, count_shared, hash_named, read_parts
from ..objective import Objective, PreparedData
from ..schema import (
    AboveZero,
    Amount,
    Count,
    DataParts,
    ModelRecipe,
    PartShare,
    Positive,
    Shares,
    key,
    needed,
)

logger = logging.getLogger(__name__)


class AnswerData(DataParts):
    """[data]: files of questions, by part or to be divided by text."""

    shares: Shares = key({"dev": 0.1, "test": 0.1}, "The shares of dev and test in files.")
    unrelated: Amount = key(
        0.0, "Ask so many times as many questions of other texts too, which have no answer."
    )


class Answering(ModelRecipe):
    """An answerer: two outputs over an encoder's tokens find where an answer starts and ends."""

    data: AnswerData = needed("The questions.")
    objective: Literal["answer"] = key("answer", "Chooses this kind of recipe.")
    stride: Count = key(0, "Tokens that neighbouring windows share; 0 is a quarter of them.")
    longest: Positive = key(30, "Tokens of the longest answer that is looked for.")
    dropout: PartShare = key(0.1, "Dropout while training.")
    head_rate: AboveZero = key(1.0, "The head's learning rate, as a multiple of the encoder's.")


@dataclass(frozen=True)
class AnsweringData:
    """Questions by part, and the hashes of the files."""

    parts: dict[str, list[Question]]
    hashes: dict[str, str]
    repeated: int  # questions of dev and test whose text is trained on too


def _unrelated(questions: Sequence[Question], times: float, seed: int) -> list[Question]:
    """Ask questions of a text that another one is about; one that has the answer is left out."""
    if not times or len({one.context for one in questions}) < 2:
        return []
    draw = np.random.default_rng(seed)
    asked = [one for one in questions if one.answers]
    made = []
    for i in draw.integers(len(asked), size=round(times * len(asked))) if asked else ():
        one, other = asked[i], questions[int(draw.integers(len(questions)))]
        if not any(answer.text in other.context for answer in one.answers):
            name = f"{one.id}/{other.id}"
            made.append(replace(one, id=name, context=other.context, answers=()))
    return made


def _check(parts: dict[str, list[Question]]) -> None:
    for part in ("train", "dev"):
        if not any(one.answers for one in parts[part]):
            raise DataError(
                f"the {part} part has no question with an answer; expected some. "
                "Add questions, or change data.shares."
            )
    for part, found in parts.items():
        texts = len({one.context for one in found})
        without = sum(not one.answers for one in found)
        logger.info(
            f"{part}: {counted(len(found), 'question')} about {counted(texts, 'text')} "
            f"({without:,} without an answer)"
        )


class AnswerObjective(Objective[Answering, PreparedData]):
    """Finds the answer to a question in a text."""

    name = "answer"
    recipe = Answering
    trainer = "malmoi.training.objectives.answering_task"

    def read(self, recipe: Answering, root: Path, *, strict: bool) -> AnsweringData:
        """Read the questions; bad data are reported before torch is imported."""
        data = recipe.data
        hashes = hash_named(data.names, root)
        read = partial(read_questions, strict=strict)
        parts = read_parts(data, root, read, seed=recipe.seed, by=lambda one: one.context)
        repeated = count_shared(parts, lambda one: one.context, "question")
        for i, part in enumerate(PARTS):
            parts[part] += _unrelated(parts[part], data.unrelated, recipe.seed + i)
        _check(parts)
        return AnsweringData(parts, hashes, repeated)


OBJECTIVES = (AnswerObjective(),)
