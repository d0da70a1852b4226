"""Classification of long notes: windows → scores → one decision."""

from .classifier import Decision, Estimate, NoteClassifier, ScoredWindow, load_classifier
from .decision import (
    RULES,
    Bin,
    Rule,
    calibrate,
    combine,
    expected_error,
    fit_temperature,
    joint,
    reliability,
    soften,
    tune,
)
from .windows import TextSpan, cut_windows, sentences
from .zero_shot import Category, ZeroShotClassifier, load_zero_shot

__all__ = [
    "RULES",
    "Bin",
    "Category",
    "Decision",
    "Estimate",
    "NoteClassifier",
    "Rule",
    "ScoredWindow",
    "TextSpan",
    "ZeroShotClassifier",
    "calibrate",
    "combine",
    "cut_windows",
    "expected_error",
    "fit_temperature",
    "joint",
    "load_classifier",
    "load_zero_shot",
    "reliability",
    "sentences",
    "soften",
    "tune",
]

# The name of 0.1.
Span = TextSpan
