"""Every index engine against exact search, and what is their own."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import malmoi.index.base
import malmoi.index.hnsw
from malmoi.errors import BundleCorrupt, OptionError, OutputError
from malmoi.index import Index, make_index, nearest, open_index, save_index
from malmoi.index.join import principal_axes, with_residual
from malmoi.types import Floats

DIM = 24

ENGINES = ("exact", "flat", "hnsw")


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each engine, made to do its own work even when there are only a few hundred rows."""
    monkeypatch.setattr(malmoi.index.base, "FEW_ROWS", 8)
    return str(request.param)


def units(count: int, *, seed: int = 0, dim: int = DIM) -> Floats:
    """Vectors in a few clusters, the way sentences are."""
    random = np.random.default_rng(seed)
    centres = random.standard_normal((12, dim))
    drawn = centres[random.integers(0, 12, count)] + 0.6 * random.standard_normal((count, dim))
    made: Floats = (drawn / np.linalg.norm(drawn, axis=1, keepdims=True)).astype(np.float32)
    return made


def filled(engine: str, count: int = 900, precision: str = "float32") -> tuple[Index, Floats]:
    index = make_index(DIM, engine=engine, precision=precision)
    vectors = units(count)
    assert index.add(vectors).tolist() == list(range(count))
    return index, vectors


def test_finds_what_a_product_finds(engine: str) -> None:
    index, vectors = filled(engine)
    queries = units(20, seed=1)
    true = np.argsort(-(queries @ vectors.T), axis=1)[:, :10]
    found = index.search(queries, 10)
    shared = np.mean([len(set(a) & set(b)) / 10 for a, b in zip(true, found.rows, strict=True)])
    assert shared >= 0.97
    assert (np.diff(found.scores, axis=1) <= 0).all()
    np.testing.assert_allclose(
        found.scores, np.take_along_axis(queries @ vectors.T, found.rows, 1), atol=1e-5
    )
    assert index.recall(queries, 10) >= 0.97


def test_exact_is_exact(engine: str) -> None:
    index, vectors = filled(engine)
    queries = units(40, seed=2)  # and a crowd of queries is looked up another way than one
    true = np.argsort(-(queries @ vectors.T), axis=1, kind="stable")[:, :7]
    assert (index.search(queries, 7, exact=True).rows == true).all()
    assert (index.search(queries[3], 7, exact=True).rows == true[3]).all()


def test_what_is_removed_is_not_found(engine: str) -> None:
    index, vectors = filled(engine)
    best = index.search(vectors[5], 20).rows[0]
    assert index.remove(best[:10]) == 10
    assert index.remove(np.append(best[:10], 10**9)) == 0
    assert len(index) == 890
    for exact in (False, True):
        left = index.search(vectors[5], 10, exact=exact).rows[0]
        assert not set(left) & set(best[:10])
        assert len(set(left) & set(best[10:])) >= 9
    index.remove(np.arange(900))
    assert len(index) == 0
    assert index.search(vectors[5], 3).rows.tolist() == [[-1, -1, -1]]
    assert index.search(vectors[5], 10**8).rows.shape[1] <= 4096  # not so many columns of nothing


def test_rows_are_named_by_whoever_adds_them(engine: str) -> None:
    index = make_index(DIM, engine=engine)
    vectors = units(40)
    index.add(vectors[:20], np.arange(100, 300, 10))
    index.add(vectors[20:], np.arange(300, 500, 10))
    assert index.search(vectors[25], 1).rows.tolist() == [[350]]
    assert index.add(vectors[:1]).tolist() == [491]
    for rows in ([5], [491], [600, 600], [700]):
        with pytest.raises(OptionError, match="row numbers?"):
            index.add(vectors[: max(2, len(rows))], np.array(rows))
    assert len(index) == 41


def test_only_some_rows_may_be_found(engine: str) -> None:
    index, vectors = filled(engine)
    for only in (np.arange(0, 900, 3), np.arange(880, 990), np.array([4, 4, 2])):
        there = np.unique(only[only < 900])
        true = there[np.argsort(-(vectors[there] @ vectors[9]), kind="stable")][:5]
        found = index.search(vectors[9], 5, only=only).rows[0]
        assert len(set(found) & set(true)) >= min(len(true), 5) - 1
        assert set(found) <= {*there, -1}
    assert (index.search(vectors[9], 5, only=np.empty(0, np.int64)).rows == -1).all()


@pytest.mark.parametrize("precision", ["float32", "int8", "binary"])
def test_saved_and_opened(engine: str, precision: str, tmp_path: Path) -> None:
    index, vectors = filled(engine, precision=precision)
    index.remove(np.arange(0, 900, 5))
    before = index.search(vectors[:3], 5, exact=True)
    save_index(index, tmp_path / "x.index")
    opened = open_index(tmp_path / "x.index")
    assert (type(opened), len(opened), opened.precision) == (type(index), 720, precision)
    after = opened.search(vectors[:3], 5, exact=True)
    assert (after.rows == before.rows).all()
    np.testing.assert_allclose(after.scores, before.scores, atol=1e-6)
    # It works as if it had never been closed, and can be saved onto its own file.
    new = units(300, seed=5)
    rows = opened.add(new)
    assert rows[0] == 900
    assert opened.remove(np.array([1, 950])) == 2
    assert opened.search(new[7], 1).rows.tolist() == [[907]]
    save_index(opened, tmp_path / "x.index")
    again = open_index(tmp_path / "x.index")
    assert len(again) == 720 + 298
    assert again.recall(new[:20], 5) >= (0.9 if precision != "binary" else 0.7)


@pytest.mark.parametrize(("precision", "least"), [("int8", 0.95), ("binary", 0.3)])
def test_small_precisions_come_near(engine: str, precision: str, least: float) -> None:
    index, vectors = filled(engine, precision=precision)
    found = index.search(vectors[:60], 10)
    true = np.argsort(-(vectors[:60] @ vectors.T), axis=1)[:, :10]
    shared = [len(set(a) & set(b)) / 10 for a, b in zip(true, found.rows, strict=True)]
    assert np.mean(shared) >= least
    assert found.scores[:, 0] == pytest.approx(1, abs=0.02 if precision == "int8" else 0.5)


def test_copies_do_not_crowd_out_the_codes(engine: str) -> None:
    index = make_index(DIM, engine=engine)
    index.add(np.concatenate([np.repeat(units(1, seed=3), 800, axis=0), units(200)]))
    rows = index.search(units(1, seed=3), 5).rows[0]
    assert (rows[rows >= 0] < 800).all()


def test_bad_questions(engine: str) -> None:
    index, vectors = filled(engine, 30)
    with pytest.raises(OptionError, match="k is 0"):
        index.search(vectors[0], 0)
    with pytest.raises(OptionError, match="rows of 24"):
        index.search(vectors[0][:5], 3)
    with pytest.raises(OptionError, match="finite"):
        index.search(np.full(DIM, np.nan, np.float32), 3)
    assert index.search(vectors[:0], 3).rows.shape == (0, 3)
    assert index.search(vectors[0], 50).rows.shape == (1, 50)
    assert make_index(DIM, engine=engine).search(vectors[0], 2).scores.tolist() == [[-np.inf] * 2]


def test_a_file_that_is_no_index(engine: str, tmp_path: Path) -> None:
    index, _ = filled(engine, 30)
    path = tmp_path / "x.index"
    save_index(index, path)
    whole = path.read_bytes()
    for broken in (b"", b"SQLite format 3\x00" * 9, whole[: len(whole) // 2]):
        path.write_bytes(broken)
        with pytest.raises(BundleCorrupt):
            open_index(path)


def test_unknown_engine() -> None:
    with pytest.raises(OptionError, match="known are exact, flat, hnsw"):
        make_index(3, engine="annoy")


def test_a_graph_that_cannot_be_written_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index, _ = filled("hnsw", 100)
    assert isinstance(index, malmoi.index.hnsw.HnswIndex)
    with pytest.raises(OutputError, match="does not exist"):
        index.save_graph(tmp_path / "missing" / "x")

    def fail(path: str) -> None:
        raise RuntimeError("no space left")

    monkeypatch.setattr(index, "_graph", SimpleNamespace(save=fail))
    with pytest.raises(OutputError, match="no space left"):
        index.save_graph(tmp_path / "x")
    assert not any(tmp_path.iterdir())


def test_a_broken_or_missing_graph_is_reported_or_built_again(tmp_path: Path) -> None:
    index, vectors = filled("hnsw", 100)
    path = tmp_path / "x.index"
    save_index(index, path)
    (tmp_path / "x.index.graph").write_bytes(b"nothing of the kind")
    with pytest.raises(BundleCorrupt, match="Delete it"):
        open_index(path)
    (tmp_path / "x.index.graph").unlink()
    assert open_index(path).search(vectors[8], 1).rows.tolist() == [[8]]


@settings(max_examples=25, deadline=None)
@given(st.lists(st.sampled_from(["add", "remove", "save"]), max_size=12), st.integers(0, 99))
def test_flat_agrees_with_a_dictionary(
    tmp_path_factory: pytest.TempPathFactory, steps: list[str], seed: int
) -> None:
    random = np.random.default_rng(seed)
    path = tmp_path_factory.mktemp("index") / "x.index"
    index, kept = make_index(DIM), dict[int, Floats]()
    for step in steps:
        if step == "add":
            block = units(int(random.integers(1, 40)), seed=int(random.integers(99)))
            kept |= dict(zip(index.add(block).tolist(), block, strict=True))
        elif step == "remove" and kept:
            gone = random.choice(list(kept), size=min(7, len(kept)), replace=False)
            assert index.remove(gone) == len(gone)
            kept = {row: vector for row, vector in kept.items() if row not in set(gone)}
        elif step == "save":
            save_index(index, path)
            index = open_index(path)
    assert len(index) == len(kept)
    if kept:
        query = units(1, seed=seed + 1)[0]
        scores = np.array([vector @ query for vector in kept.values()])
        found = index.search(query, 3)
        best = np.sort(scores)[::-1][:3]
        np.testing.assert_allclose(found.scores[0][: len(best)], best, atol=1e-5)


VECTORS = arrays(np.float32, (6, 5), elements=st.floats(-2, 2, width=32))


@given(VECTORS, st.integers(1, 5))
def test_the_bound_is_never_below_the_product(vectors: Floats, head: int) -> None:
    axes, squares = principal_axes(vectors)
    assert np.allclose(axes.T @ axes, np.eye(5), atol=1e-4)
    assert (np.diff(squares) <= 1e-4).all()  # the longest direction first
    heads = with_residual(vectors @ axes[:, :head], np.square(vectors).sum(axis=1))
    assert heads.shape == (6, head + 1)
    assert (heads @ heads.T >= vectors @ vectors.T - 1e-2).all()
    whole = with_residual(vectors @ axes, np.square(vectors).sum(axis=1))
    assert np.allclose(whole[:, :-1] @ whole[:, :-1].T, vectors @ vectors.T, atol=1e-3)


def test_nearest_of_many() -> None:
    random = np.random.default_rng(2)
    queries, documents = (random.standard_normal((n, 5)).astype(np.float32) for n in (33, 70))
    blocks = list(nearest(queries, documents, 4, query_block=10, document_block=16))
    rows = np.concatenate([block.rows for block in blocks])
    assert (rows == np.argsort(-(queries @ documents.T), axis=1)[:, :4]).all()
