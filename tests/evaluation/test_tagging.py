"""Entity F1, beside the rules of conlleval written out by hand, on every kind of border error."""

import random
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest

from malmoi.errors import OptionError
from malmoi.evaluation import evaluate, tagging
from malmoi.evaluation.tasks.spans import Counts
from malmoi.heads.entity_files import EntitySpan, LabelledWord, Marked, spans_of


def conlleval(gold: list[list[str]], guess: list[list[str]]) -> tuple[int, int, int]:
    """Count right, found and gold chunks as the Perl script of CoNLL-2000 does, tag by tag.

    A chunk ends and begins by its rules for pairs of neighbouring tags; one is right when both
    files begin and end it at the same tags with the same type.
    """
    right = found = correct = 0
    for true_tags, guessed_tags in zip(gold, guess, strict=True):
        in_correct = False
        last_true, last_guess = "O", "O"
        for true, guessed in zip([*true_tags, "O"], [*guessed_tags, "O"], strict=True):
            true_ends, guess_ends = _ends(last_true, true), _ends(last_guess, guessed)
            true_starts, guess_starts = _starts(last_true, true), _starts(last_guess, guessed)
            if in_correct:
                if true_ends and guess_ends and last_true[2:] == last_guess[2:]:
                    in_correct = False
                    right += 1
                elif true_ends != guess_ends or true[2:] != guessed[2:]:
                    in_correct = False
            if true_starts and guess_starts and true[2:] == guessed[2:]:
                in_correct = True
            correct += true_starts
            found += guess_starts
            last_true, last_guess = true, guessed
    return right, found, correct


def _ends(before: str, tag: str) -> bool:
    if before == "O":
        return False
    if before[0] in "ES":
        return True
    return tag[0] in "BSO" or before[2:] != tag[2:]


def _starts(before: str, tag: str) -> bool:
    if tag == "O":
        return False
    if tag[0] in "BS" or before == "O" or before[0] in "ES":
        return True
    return before[2:] != tag[2:]


def counted(gold: list[str], guess: list[str]) -> Counts:
    """The same by spans, one letter a token."""
    counts = Counts()
    for true, guessed in zip(gold, guess, strict=True):
        counts.add(spans(true), spans(guessed))
    return counts


def spans(labels: str) -> list[EntitySpan]:
    tokens = [LabelledWord("w", label) for label in labels.split()]
    return [EntitySpan(first, last, name) for first, last, name in spans_of(tokens, "iob2")]


# gold, guess, what kind of error
CASES = [
    ("B-X I-X O", "B-X I-X O", {"right": 1}),
    ("B-X I-X O", "B-Y I-Y O", {"wrong type": 1}),
    ("B-X I-X O", "B-X O O", {"wrong border": 1}),  # too short at the end
    ("B-X I-X O", "O B-X O", {"wrong border": 1}),  # too short at the beginning
    ("B-X I-X O", "B-X I-X I-X", {"wrong border": 1}),  # too long at the end
    ("O B-X I-X", "B-X I-X I-X", {"wrong border": 1}),  # too long at the beginning
    ("O B-X I-X O", "B-X I-X I-X I-X", {"wrong border": 1}),  # too long at both
    ("B-X I-X I-X", "O B-X O", {"wrong border": 1}),  # too short at both
    ("B-X I-X O", "O B-X I-X", {"wrong border": 1}),  # moved by one
    ("B-X I-X I-X", "B-X B-X I-X", {"wrong border": 1, "invented": 1}),  # cut into two
    ("B-X B-X", "B-X I-X", {"wrong border": 1, "missed": 1}),  # two run together
    ("B-X I-X O", "B-Y O O", {"wrong border and type": 1}),
    ("B-X I-X O", "O O O", {"missed": 1}),
    ("O O O", "O B-X I-X", {"invented": 1}),
    ("O O", "O O", {}),
    ("B-X B-Y", "B-X I-X", {"wrong border": 1, "missed": 1}),
    ("B-X I-X O", "I-X I-X O", {"right": 1}),  # I- that begins an entity, as conlleval has it
    ("B-X B-X", "I-X B-X", {"right": 2}),
    ("B-X I-Y", "B-X B-Y", {"right": 2}),
]


@pytest.mark.parametrize(("gold", "guess", "errors"), CASES)
def test_every_kind_of_border_error(gold: str, guess: str, errors: dict[str, int]) -> None:
    counts = counted([gold], [guess])
    assert +counts.errors == Counter(errors)
    right, found, true = (int(column.sum()) for column in counts.columns())
    assert (right, found, true) == conlleval([gold.split()], [guess.split()])


def test_random_labels_count_as_conlleval_counts() -> None:
    rng = random.Random(4)
    labels = ["O", "O", "B-X", "I-X", "B-Y", "I-Y"]
    for _ in range(300):
        gold, guess = ([rng.choice(labels) for _ in range(12)] for _ in range(2))
        if rng.random() < 0.5:
            guess = [
                g if rng.random() < 0.8 else other for g, other in zip(gold, guess, strict=True)
            ]
        counts = counted([" ".join(gold)], [" ".join(guess)])
        right, found, true = (int(column.sum()) for column in counts.columns())
        assert (right, found, true) == conlleval([gold], [guess])


@dataclass(frozen=True)
class Found:
    type: str
    start: int
    end: int


class Words:
    """Finds "cancer" and calls "cold" a disease."""

    types = ("Disease",)

    def tag(self, text: str) -> list[Found]:
        return [
            Found("Disease", text.index(word), text.index(word) + len(word))
            for word in ("cancer", "cold")
            if word in text
        ]


def test_values_details_and_types_that_were_not_learnt() -> None:
    texts = [
        Marked("colon cancer", (EntitySpan(0, 12, "Disease"),)),
        Marked("a cancer", (EntitySpan(2, 8, "Disease"),)),
        Marked("cold water", ()),
        Marked("aspirin", (EntitySpan(0, 7, "Drug"),)),
    ]
    outcome = tagging.measure(Words(), texts)
    values = outcome.values()
    assert values["precision"] == pytest.approx(1 / 3)
    assert values["recall"] == pytest.approx(1 / 3)
    assert values["f1"] == pytest.approx(1 / 3)
    assert values["f1:Disease"] == pytest.approx(2 / 5) and values["f1:Drug"] == 0
    assert outcome.details["errors"]["wrong border"] == 1
    assert outcome.details["errors"]["missed"] == 1
    assert "has not learnt Drug: 1 entity is missed" in outcome.notes[0]


def test_nothing_marked_and_nothing_found_is_no_number_out_of_thin_air() -> None:
    assert tagging.measure(Words(), [Marked("water", ())]).values()["f1"] == 0
    assert Counts().f1() == 0


def test_the_task_on_a_file(tmp_path: Path) -> None:
    path = tmp_path / "dev.tsv"
    path.write_text("a\tO\ncancer\tB-Disease\n\ncold\tO\n", "utf-8")
    report = evaluate(Words(), "tagging", path, rounds=50)
    assert report.metrics["f1"].value == pytest.approx(2 / 3)
    assert report.metrics["f1"].low <= report.metrics["f1"].value <= report.metrics["f1"].high
    with pytest.raises(OptionError, match="cannot tag"):
        evaluate(object(), "tagging", path)
