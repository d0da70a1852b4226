"""What a model can learn: X.py has an objective's recipe and data, X_task.py (torch) trains it."""

from ..objective import register
from .pairs import PairObjective

__all__ = ["PairObjective", "register"]
