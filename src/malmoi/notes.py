"""The old name of `malmoi.classifier`, kept for code written for 0.1."""

from .classifier import *  # noqa: F403
from .classifier import Span as Span
from .classifier import __all__ as __all__
