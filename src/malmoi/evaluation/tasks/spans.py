"""Spans that people marked in texts: tagging (entities) and answers (to questions).

tagging: an entity is right when its start, end and type are, as in the CoNLL tasks; a part of one
counts nothing. Errors are counted by kind, so that a person sees what the tagger does wrong.

answers: both measures are those of the data sets. SQuAD compares words, without articles and signs;
KorQuAD compares characters, because a particle (서울에서 for 서울) makes another word of a right
answer.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ...errors import OptionError, counted
from ...heads.answerer import Answer
from ...heads.entity_files import EntitySpan, Marked, read_marked
from ...heads.questions import Question, read_questions
from ..examples import Examples, describe
from ..measures import Measure, mean, number_groups, ratio
from ..models import name_of
from . import Outcome, Settings, Task

Texts = Sequence[Marked]
Questions = Sequence[Question]
_ARTICLES = re.compile(r"\b(a|an|the)\b")
_QUOTES = re.compile(r"[\"'《》<>〈〉()‘’]")
_SIGNS = str.maketrans("", "", string.punctuation)
_HANGUL = re.compile("[가-힣]")
ERRORS = ("right", "wrong type", "wrong border", "wrong border and type", "missed", "invented")


@dataclass
class Counts:
    """What was right, what was found and what was there; by text and type, and by kind of error."""

    right: list[Counter[str]] = field(default_factory=list)
    found: list[Counter[str]] = field(default_factory=list)
    gold: list[Counter[str]] = field(default_factory=list)
    errors: Counter[str] = field(default_factory=Counter)

    def add(self, gold: Iterable[EntitySpan], found: Iterable[EntitySpan]) -> None:
        """Compare the entities of one text."""
        truth, guesses = set(gold), set(found)
        self.right.append(Counter(span.type for span in truth & guesses))
        self.found.append(Counter(span.type for span in guesses))
        self.gold.append(Counter(span.type for span in truth))
        self.errors.update(_kinds(truth, guesses))

    def columns(self, name: str | None = None) -> tuple[NDArray[np.float64], ...]:
        """Right, found and gold by text, (n,) each, of one type or of all."""
        return tuple(
            np.array([sum(c.values()) if name is None else c[name] for c in part], dtype=np.float64)
            for part in (self.right, self.found, self.gold)
        )

    @property
    def types(self) -> list[str]:
        """Every type that was there or was found."""
        return sorted({name for part in (self.found, self.gold) for c in part for name in c})

    def f1(self, name: str | None = None) -> float:
        """The plain F1, of one type or of all; 0 where nothing is right."""
        right, found, gold = (float(column.sum()) for column in self.columns(name))
        return 2 * right / (found + gold) if found + gold else 0.0


def _kinds(gold: set[EntitySpan], found: set[EntitySpan]) -> Counter[str]:
    """Say of each entity what became of it; each guess explains one marked entity at most."""
    kinds = Counter({"right": len(gold & found)})
    rest = sorted(found - gold, key=lambda s: (s.start, s.end))
    for span in sorted(gold - found, key=lambda s: (s.start, s.end)):
        over = [g for g in rest if g.start < span.end and span.start < g.end]
        if not over:
            kinds["missed"] += 1
            continue
        # One with the same borders explains it best, then one of the same type.
        guess = max(
            over, key=lambda g: ((g.start, g.end) == (span.start, span.end), g.type == span.type)
        )
        rest.remove(guess)
        same_place = (guess.start, guess.end) == (span.start, span.end)
        border = "wrong border" if guess.type == span.type else "wrong border and type"
        kinds["wrong type" if same_place else border] += 1
    kinds["invented"] += len(rest)
    return kinds


class Entities(Task[Texts]):
    """F1 of all entities, and of each type; files have CoNLL columns, or .jsonl with spans."""

    name = "tagging"

    def load(self, path: Path, settings: Settings) -> Examples[Texts]:
        texts = read_marked(path, scheme="auto", strict=settings.strict)
        return Examples(texts, describe(path, len(texts), {}))

    def outcome(self, model: object, examples: Examples[Texts], settings: Settings) -> Outcome:
        """Tag every text and compare with what is marked."""
        found = tag_all(model, [marked.text for marked in examples.rows])
        counts = Counts()
        for marked, spans in zip(examples.rows, found, strict=True):
            counts.add(marked.spans, spans)
        return entities_outcome(counts, known=getattr(model, "types", ()))


def tag_all(tagger: object, texts: Sequence[str]) -> list[list[EntitySpan]]:
    """Call a tagger on many texts at once where it can, else one by one."""
    if hasattr(tagger, "tag_all"):
        found = tagger.tag_all(texts)
    elif hasattr(tagger, "tag"):
        found = [tagger.tag(text) for text in texts]
    else:
        raise OptionError(
            f"{type(tagger).__name__} cannot tag; the task tagging needs a model with tag(text). "
            'Train one with objective = "tag".'
        )
    return [[EntitySpan(one.start, one.end, one.type) for one in each] for each in found]


def entities_outcome(counts: Counts, known: Sequence[str] = ()) -> Outcome:
    """Turn counts into measures that can be resampled by text."""
    right, found, gold = counts.columns()
    measures = {"f1": ratio(2 * right, found + gold)}
    measures |= {"precision": ratio(right, found), "recall": ratio(right, gold)}
    if len(counts.types) > 1:
        for name in counts.types:
            own, guessed, marked = counts.columns(name)
            measures[f"f1:{name}"] = ratio(2 * own, guessed + marked)
    details = {
        "texts": len(right),
        "entities": int(gold.sum()),
        "errors": {kind: counts.errors[kind] for kind in ERRORS},
    }
    unseen = sorted({name for c in counts.gold for name in c} - set(known)) if known else []
    notes: tuple[str, ...] = ()
    if unseen:
        many = sum(c[name] for c in counts.gold for name in unseen)
        notes = (
            f"the tagger has not learnt {', '.join(unseen)}: "
            f"{counted(many, 'entity is', 'entities are')} missed",
        )
    return Outcome(measures, np.arange(len(right)), "f1", details, notes)


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


class Answers(Task[Questions]):
    """Exact match and F1; "f1" is KorQuAD's, of characters, for Korean, and SQuAD's for others.

    Where a file has questions without an answer, both kinds are judged by themselves too:
    "answerable" is the F1 of those with an answer, "unanswerable" the share of the others that
    were left without one.
    """

    name = "answers"

    def load(self, path: Path, settings: Settings) -> Examples[Questions]:
        rows = read_questions(path, strict=settings.strict)[: settings.limit or None]
        return Examples(rows, describe(path, len(rows), {}))

    def outcome(self, model: object, examples: Examples[Questions], settings: Settings) -> Outcome:
        """Answer every question and compare."""
        answer_all = getattr(model, "answer_all", None)
        if answer_all is None:
            raise OptionError(
                f"{name_of(model)} cannot answer; the task answers needs a model with answer_all. "
                'Train one with objective = "answer".'
            )
        rows = examples.rows
        return answers_outcome(rows, answer_all([(row.question, row.context) for row in rows]))


def answers_outcome(rows: Questions, found: Sequence[Answer | None]) -> Outcome:
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
    units = number_groups(row.context for row in rows)
    answered = sum(one is not None for one in found)
    details = {"questions": len(rows), "texts": len(set(units)), "answered": answered}
    return Outcome(measures, units, "f1", details)
