"""How well an answerer answers: made questions that it did not learn, and freely worded ones.

    python recipes/prepare/questions.py --data DATA --out runs/ko-qa-data
    python bench/run.py answers MODEL --questions runs/ko-qa-data [--most 250]

MODEL is a bundle of recipes/ko-qa.toml. The made questions are those of the held-out tenth, by
kind. free_questions.tsv has 32 questions in words of their own, about eleven paragraphs of KoBEST
BoolQ that are in the held-out tenth; six of them have no answer there. The paragraphs themselves
come out of the data folder.

F1 is of characters in Korean, as KorQuAD defines it; "of words" is SQuAD's.
"""

import argparse
import random
from collections.abc import Iterator
from pathlib import Path

from bench.common import Row, data_root
from malmoi.evaluation.tasks.spans import answers_outcome
from malmoi.heads.answerer import Answerer, load_answerer
from malmoi.heads.questions import AnswerSpan, Question, read_questions
from malmoi.io.tables import read_rows

KINDS = ("cloze", "statements", "leaflets")
FREE = Path(__file__).with_name("free_questions.tsv")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path)
    parser.add_argument("--questions", type=Path, required=True)
    parser.add_argument("--most", type=int, default=0, help="of each kind; 0 for all")


def run(options: argparse.Namespace) -> Iterator[Row]:
    answerer = load_answerer(options.model)
    for kind in KINDS:
        found = read_questions(options.questions / f"{kind}-test.json")
        if options.most:
            found = random.Random(0).sample(found, min(options.most, len(found)))
        yield {"questions": f"made, {kind}"} | measure(answerer, found)
    held = {one.context for one in read_questions(options.questions / "statements-test.json")}
    yield {"questions": "worded freely"} | measure(answerer, free(held))


def measure(answerer: Answerer, asked: list[Question]) -> Row:
    """The measures of SQuAD and KorQuAD, in per cent."""
    given = answerer.answer_all([(one.question, one.context) for one in asked])
    metrics = answers_outcome(asked, given).values()
    named = {
        "exact_match": "exact match",
        "f1": "F1",
        "f1_words": "F1 of words",
        "answerable": "with an answer",
        "unanswerable": "without",
    }
    return {"count": len(asked)} | {
        name: round(100 * metrics[key], 1) for key, name in named.items()
    }


def free(held: set[str]) -> list[Question]:
    """The freely worded questions, each with its paragraph, which must be a held-out one."""
    rows = read_rows(data_root() / "contrast/kobest-boolq.tsv")
    texts = [text for text in dict.fromkeys(row["paragraph"] for row in rows) if text in held]
    found = []
    for number, row in enumerate(read_rows(FREE)):
        [text] = [one for one in texts if one.startswith(row["text"])]
        answer = row["answer"]
        marked = (AnswerSpan(answer, text.index(answer)),) if answer else ()
        found.append(Question(str(number), row["question"], text, marked))
    return found
