"""The older home of `malmoi.heads.blend`."""

from ..heads.blend import fit_join, write_join

__all__ = ["fit_join", "write_join"]
