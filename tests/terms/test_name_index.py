"""Sketches of names: what they let pass, and what becomes of indexes that have none yet."""

from pathlib import Path

import numpy as np
import pytest

from malmoi.errors import LexiconError
from malmoi.index.join import WIDTH, Prefilter
from malmoi.runtime.pooling import to_precision
from malmoi.terms import Linker, name_index
from malmoi.terms.name_index import NameVectors
from malmoi.types import Floats
from tests.support.lexicons import HashingEncoder, write_lexicon


def clustered(count: int, dim: int = 256) -> Floats:
    """Unit vectors that crowd together as names do, most of them along few directions."""
    seeded = np.random.default_rng(5)
    falling = 0.97 ** np.arange(dim)
    topics = seeded.standard_normal((count // 50, dim))
    rows = topics[seeded.integers(len(topics), size=count)]
    rows = (rows + 0.7 * seeded.standard_normal((count, dim))) * falling
    found: Floats = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    return found


def test_the_nearest_pass_and_are_scored_in_full() -> None:
    vectors = clustered(12_000)
    codes, queries = to_precision(vectors, "int8"), vectors[::400]
    rows, products = NameVectors(codes, Prefilter.build(codes)).nearest(queries, 20)
    every = queries @ codes.T.astype(np.float32)
    exact = np.argsort(-every, axis=1)[:, :20]
    found = sum(len({*a} & {*b}) for a, b in zip(rows.tolist(), exact.tolist(), strict=True))
    assert found >= 0.99 * exact.size
    assert np.allclose(products, np.take_along_axis(every, rows, axis=1), rtol=1e-4)


def test_names_that_are_all_alike_are_still_found() -> None:
    codes = np.tile(to_precision(clustered(50)[:1], "int8"), (5_000, 1))
    rows, products = NameVectors(codes, Prefilter.build(codes)).nearest(clustered(50)[:3], 40)
    assert rows.shape == products.shape == (3, 40)
    assert all(len(set(row)) == 40 for row in rows.tolist())
    rows, _ = NameVectors(codes[:7], Prefilter.build(codes[:7])).nearest(clustered(50)[:3], 40)
    assert np.sort(rows, axis=1).tolist() == [list(range(7))] * 3


def test_an_index_from_before_gets_its_sketch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, encoder = write_lexicon(tmp_path), HashingEncoder(dimension=2 * WIDTH)
    before = Linker(folder, encoder).link("간경화").best
    assert not list(folder.rglob("sketch"))
    codes = {p: p.stat().st_mtime_ns for p in folder.rglob("codes.npy")}
    monkeypatch.setattr(name_index, "LEAST", 10)
    linker = Linker(folder, encoder)
    vectors = linker.indexes[0].vectors
    assert vectors is not None and vectors.prefilter is not None
    assert before is not None and linker.link("간경화").best == before
    made = {p: p.stat().st_mtime_ns for p in folder.rglob("sketch/*.npy")}
    assert len(made) >= 3
    Linker(folder, encoder)  # opens it
    assert made == {p: p.stat().st_mtime_ns for p in folder.rglob("sketch/*.npy")}
    assert codes == {p: p.stat().st_mtime_ns for p in folder.rglob("codes.npy")}  # not encoded anew
    with pytest.raises(LexiconError, match="--rebuild"):
        Linker(folder, HashingEncoder("other", 2 * WIDTH))
    other = Linker(folder, HashingEncoder("other", 2 * WIDTH), rebuild=True)
    assert other.link("간경화").best
    assert made != {p: p.stat().st_mtime_ns for p in folder.rglob("sketch/*.npy")}
    for name in ("sketch/rows.npy", "vectors/codes.npy"):  # what is damaged is made again
        next(folder.rglob(name)).write_bytes(b"no array")
        again = Linker(folder, HashingEncoder("other", 2 * WIDTH), rebuild=True)
        assert again.link("간경화").best == other.link("간경화").best
