"""The older home of `malmoi.export.shrink`."""

from ..export.shrink import Shrunk, shrink

__all__ = ["Shrunk", "shrink"]
