"""The old name of `malmoi.classifier`, kept so that code written for 0.1 goes on working."""

from .classifier import *  # noqa: F403
from .classifier import __all__  # noqa: F401
