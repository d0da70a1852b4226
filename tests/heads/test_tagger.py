"""Labels → entities, by every scheme, whole and broken."""

import pytest

from malmoi.heads.entity_files import LabelledWord, find_scheme, spans_of


def found(labels: str, scheme: str = "iob2") -> list[tuple[int, int, str]]:
    return list(spans_of([LabelledWord("w", label) for label in labels.split()], scheme))


@pytest.mark.parametrize(
    ("scheme", "labels", "expected"),
    [
        ("iob2", "B-X I-X O B-X", [(0, 2, "X"), (3, 4, "X")]),
        ("iob2", "B-X B-X", [(0, 1, "X"), (1, 2, "X")]),
        ("iob2", "O O", []),
        ("iob2", "B-X I-X B-Y I-Y", [(0, 2, "X"), (2, 4, "Y")]),
        ("iob1", "I-X I-X O I-X", [(0, 2, "X"), (3, 4, "X")]),
        ("iob1", "I-X B-X I-Y", [(0, 1, "X"), (1, 2, "X"), (2, 3, "Y")]),
        ("bioes", "S-X B-X I-X E-X S-Y", [(0, 1, "X"), (1, 4, "X"), (4, 5, "Y")]),
        ("bioes", "U-X B-X L-X", [(0, 1, "X"), (1, 3, "X")]),
        ("bioes", "B-X O", [(0, 1, "X")]),  # an end that is missing
        ("bioes", "E-X I-X", [(0, 1, "X"), (1, 2, "X")]),
        ("iob2", "O I-X I-X", [(1, 3, "X")]),  # I- after O begins an entity
        ("iob2", "B-X I-Y", [(0, 1, "X"), (1, 2, "Y")]),
        ("iob2", "I-X", [(0, 1, "X")]),
    ],
)
def test_entities_of_labels(scheme: str, labels: str, expected: list[tuple[int, int, str]]) -> None:
    assert found(labels, scheme) == expected


def test_what_is_mended_is_noted() -> None:
    noted: list[tuple[int, str]] = []
    tokens = [
        LabelledWord("w", label, i)
        for i, label in enumerate(["O", "I-X", "I-X", "B-X", "I-Y"], start=1)
    ]
    list(spans_of(tokens, "iob2", lambda line, found, mended: noted.append((line, found))))
    assert noted == [(2, "I- after O"), (5, "I- after another type")]
    noted.clear()
    list(spans_of(tokens[:3], "iob1", lambda line, found, mended: noted.append((line, found))))
    assert noted == []  # there it is the rule


@pytest.mark.parametrize(
    ("labels", "scheme"),
    [
        ("B-X I-X O", "iob2"),
        ("I-X O I-X B-X", "iob1"),
        ("B-X E-X O", "bioes"),
        ("S-X", "bioes"),
        ("O I-X B-X O B-X", "iob2"),  # broken IOB2, not IOB1: a B- that IOB1 would not write
        ("O O", "iob2"),
    ],
)
def test_the_scheme_is_found(labels: str, scheme: str) -> None:
    assert find_scheme([labels.split()]) == scheme
