"""Models with a head: scores of pairs, entities, categories of long notes, answers.

One file for each head: `reranker`, `tagger`, `classifier` (with `zero_shot`) and `answerer`.
"""

from .answerer import Answer, Answerer, load_answerer
from .classifier import Classifier, Decision, Estimate, ScoredWindow, load_classifier
from .reranker import RankedText, Reranker, ScoreBlend, load_reranker
from .tagger import Entity, Tagger, load_tagger
from .zero_shot import Category, ZeroShotClassifier, load_zero_shot

__all__ = [
    "Answer",
    "Answerer",
    "Category",
    "Classifier",
    "Decision",
    "Entity",
    "Estimate",
    "RankedText",
    "Reranker",
    "ScoreBlend",
    "ScoredWindow",
    "Tagger",
    "ZeroShotClassifier",
    "load_answerer",
    "load_classifier",
    "load_reranker",
    "load_tagger",
    "load_zero_shot",
]
