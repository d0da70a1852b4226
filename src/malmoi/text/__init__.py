"""Korean, English and mixed text: clean-up, symbols, text aligned to its original, morphology."""

from .cleanup import SAFE, STANDARD, STEPS, as_text, check_steps, clean, is_whole

__all__ = ["SAFE", "STANDARD", "STEPS", "as_text", "check_steps", "clean", "is_whole"]
