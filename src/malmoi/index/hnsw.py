"""A graph of neighbours (usearch's HNSW) for millions of rows: faster, with a little less recall.

The graph keeps its own int8 vectors and only proposes; scores come from the table. Removed rows
stay in the graph and are skipped until it is built again.
"""

import threading
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import BundleCorrupt, require
from ..io.files import writing
from ..runtime.pooling import to_precision
from ..types import Floats
from .base import Mask, Positions, Rows, VectorTable
from .flat import BinaryCodes, FlatIndex, Planes

# More links or a wider search find a little more and take longer; see docs/decisions/flat-index.md.
_LINKS = 24
_WIDTH_ADD = 128
_WIDTH_SEARCH = 128
_BLOCK = 16_384


class HnswIndex(FlatIndex):
    """Proposes rows by a walk in the graph, or by codes where the walk would be too long."""

    engine = "hnsw"

    def __init__(
        self,
        table: VectorTable,
        *,
        codes: BinaryCodes | None = None,
        planes: Planes | None = None,
        graph: Path | None = None,
    ) -> None:
        super().__init__(table, codes=codes, planes=planes)
        self._writing = threading.Lock()
        self._graph: Any = _new_graph(table.dimension)
        if graph is not None:
            self._open(graph)
        self._catch_up()

    @classmethod
    def over(cls, index: FlatIndex) -> "HnswIndex":
        """Build a graph over an index."""
        made = cls(index.table)
        made.shared_with(index)
        return made

    def save_graph(self, path: Path) -> None:
        """Write the graph, whole or not at all."""
        with writing(path) as file:
            try:
                self._graph.save(file.name)
            except Exception as error:  # the library raises whatever its C++ part threw
                raise OSError(str(error)) from error

    def _open(self, path: Path) -> None:
        try:
            self._graph.load(str(path))
        except Exception as error:  # the library raises whatever its C++ part threw
            raise BundleCorrupt(
                f"{path} cannot be read as a graph of neighbours; expected one that malmoi saved. "
                "Delete it; it is made again from the vectors."
            ) from error
        if self._graph.ndim != self.dimension:
            raise BundleCorrupt(
                f"{path} has {self._graph.ndim} dimensions, and its table {self.dimension}; "
                "expected the same. Delete it; it is made again from the vectors."
            )

    def _catch_up(self) -> None:
        """Add the rows of the table that the graph does not have."""
        for part in self.table.parts:
            for start in range(0, len(part.rows), _BLOCK):
                rows = part.rows[start : start + _BLOCK]
                missing = ~self._graph.contains(rows.astype(np.uint64))
                if missing.any():
                    vectors = self.table.as_floats(part.vectors[start : start + _BLOCK][missing])
                    self._added(vectors * self.table.factor, rows[missing])

    def _added(self, vectors: Floats, rows: Rows) -> None:
        with self._writing:
            self._graph.add(rows.astype(np.uint64), to_precision(vectors, "int8"))

    def _propose(self, query: Floats, k: int, allowed: Mask | None) -> Positions:
        keep = len(self) if allowed is None else int(allowed.sum())
        # Only live and allowed rows count, so more are asked for.
        wanted = int(2 * k * len(self._graph) / max(keep, 1))
        if wanted > len(self._graph) // 10:  # comparing all codes is cheaper
            return super()._propose(query, k, allowed)
        self._graph.expansion_search = max(_WIDTH_SEARCH, wanted)
        matches = self._graph.search(to_precision(query, "int8"), max(wanted, _WIDTH_SEARCH // 2))
        return self.table.positions(matches.keys.astype(np.int64))


def _new_graph(dimension: int) -> Any:
    usearch = require("usearch.index", extra="search", purpose="the HNSW index")
    return usearch.Index(
        ndim=dimension,
        metric="cos",
        dtype="i8",
        connectivity=_LINKS,
        expansion_add=_WIDTH_ADD,
        expansion_search=_WIDTH_SEARCH,
    )
