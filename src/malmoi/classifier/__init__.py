"""Long documents: windows → scores → one decision.

`load_classifier` opens a trained classifier of notes; `windows.py` cuts at sentence borders,
`decision.py` makes one probability of many, `calibration.py` says how far it can be trusted.
"""

from .calibration import Bin, expected_error, fit_temperature, reliability, soften
from .classifier import Decision, NoteClassifier, ScoredWindow, load_classifier
from .decision import RULES, Rule, combine, joint, tune
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
