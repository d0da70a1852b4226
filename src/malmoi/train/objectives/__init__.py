"""What a model can learn: X.py reads the data of an objective, X_task.py (with torch) trains it."""

from ..objective import Objective, register

__all__ = ["Objective", "register"]
