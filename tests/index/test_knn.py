"""The nearest of many, without a matrix that holds everything."""

import numpy as np

from malmoi.index import nearest


def test_nearest_of_many() -> None:
    random = np.random.default_rng(2)
    queries, documents = (random.standard_normal((n, 5)).astype(np.float32) for n in (33, 70))
    blocks = list(nearest(queries, documents, 4, query_block=10, document_block=16))
    rows = np.concatenate([block.rows for block in blocks])
    assert (rows == np.argsort(-(queries @ documents.T), axis=1)[:, :4]).all()
