"""What a model can learn: X.py has an objective's recipe and data, X_task.py (torch) trains it."""

from ..objective import register
from .pairs import PairObjective

Objective = PairObjective  # its name in 0.1

__all__ = ["Objective", "PairObjective", "register"]
