"""Classification of long notes: windows → scores → one decision."""

from .classifier import Decision, NoteClassifier, ScoredWindow, load_classifier
from .decision import (
    RULES,
    Bin,
    Rule,
    combine,
    expected_error,
    fit_temperature,
    joint,
    reliability,
    soften,
    tune,
)
from .windows import TextSpan, cut_windows, sentences

__all__ = [
    "RULES",
    "Bin",
    "Decision",
    "NoteClassifier",
    "Rule",
    "ScoredWindow",
    "TextSpan",
    "combine",
    "cut_windows",
    "expected_error",
    "fit_temperature",
    "joint",
    "load_classifier",
    "reliability",
    "sentences",
    "soften",
    "tune",
]

# The name of 0.1.
Span = TextSpan
