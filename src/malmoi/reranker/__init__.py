"""Cross-encoders: scores for pairs of texts, blended with an encoder's similarity if asked."""

from .reranker import RankedText, Reranker, ScoreBlend, load_reranker

__all__ = ["RankedText", "Reranker", "ScoreBlend", "load_reranker"]
