"""The older home of `malmoi.reranker.blend`."""

from ..reranker.blend import fit_join, write_join

__all__ = ["fit_join", "write_join"]
