"""The training of the second reader: its cases are where they say, and what it learns is read."""

import itertools

import pytest

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

from malmoi.clinical.rules import ContextRules
from research.notes_reader import cases, marks, phrases, templates, train


def test_templates_and_phrases_name_their_spans() -> None:
    for text, found in itertools.chain(itertools.islice(templates(), 300), phrases()):
        assert found and all(text[start:end].strip() for start, end, *_ in found)


def test_a_reader_is_trained_and_judged() -> None:
    rules = ContextRules.open()
    extra = cases(itertools.islice(templates(), 300), rules)
    own = cases(phrases(), rules)
    row = marks("phrases", own, train([own], extra))
    assert row["mentions"] == len(own) > 300
    assert row["given wrongly, both"] <= row["given wrongly, tables"]  # type: ignore[operator]
