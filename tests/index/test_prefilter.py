"""The cheap bound: never below the product of the vectors, in whatever directions they lie."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from malmoi.index.join import principal_axes, with_residual
from malmoi.types import Floats

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
