"""Answers that stand in a text: a question and texts in, spans out, without torch.

answerer = malmoi.load_answerer("runs/ko-qa/bundle")
answerer.answer("수도는 어디인가?", "대한민국의 수도는 서울이다.")
"""

from .answerer import Answer, Answerer, load_answerer
from .files import AnswerSpan, Question, read_questions
from .search import FoundAnswer, answer_from

__all__ = [
    "Answer",
    "AnswerSpan",
    "Answerer",
    "FoundAnswer",
    "Question",
    "answer_from",
    "load_answerer",
    "read_questions",
]
