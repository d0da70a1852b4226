"""All pairs above a bound, and the nearest of many, without a matrix that holds everything."""

import numpy as np
import pytest

from malmoi.index import close_pairs, nearest


@pytest.mark.parametrize("blocks", [(7, 11), (11, 7), (512, 16_384)])
def test_close_pairs_are_all_there_once(blocks: tuple[int, int]) -> None:
    vectors = np.random.default_rng(0).standard_normal((60, 6)).astype(np.float32)
    sizes = {"query_block": blocks[0], "document_block": blocks[1]}
    found = {
        (int(a), int(b)): float(score)
        for close in close_pairs(vectors, least=2.0, **sizes)
        for a, b, score in zip(close.left, close.right, close.scores, strict=True)
    }
    products = vectors @ vectors.T
    true = {(i, j) for i in range(60) for j in range(i + 1, 60) if products[i, j] >= 2.0}
    assert found.keys() == true
    assert all(score == pytest.approx(products[pair], abs=1e-5) for pair, score in found.items())


def test_close_pairs_of_two_tables() -> None:
    random = np.random.default_rng(1)
    left, right = (random.standard_normal((n, 4)).astype(np.float32) for n in (20, 30))
    count = sum(
        len(close.left)
        for close in close_pairs(left, right, least=1.0, query_block=6, document_block=9)
    )
    assert count == int((left @ right.T >= 1.0).sum())


def test_nearest_of_many() -> None:
    random = np.random.default_rng(2)
    queries, documents = (random.standard_normal((n, 5)).astype(np.float32) for n in (33, 70))
    blocks = list(nearest(queries, documents, 4, query_block=10, document_block=16))
    rows = np.concatenate([block.rows for block in blocks])
    assert (rows == np.argsort(-(queries @ documents.T), axis=1)[:, :4]).all()
