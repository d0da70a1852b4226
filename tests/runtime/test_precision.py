"""Small vectors: int8 keeps angles, binary keeps signs."""

import numpy as np
import pytest

from malmoi.errors import OptionError
from malmoi.runtime.pooling import normalize
from malmoi.runtime.precision import from_int8, to_precision

VECTORS = normalize(np.random.default_rng(5).standard_normal((200, 384)).astype(np.float32))


def test_int8_keeps_every_cosine() -> None:
    codes = to_precision(VECTORS, "int8")
    assert codes.dtype == np.int8 and codes.shape == VECTORS.shape
    back = from_int8(codes)
    assert np.abs(back @ back.T - VECTORS @ VECTORS.T).max() < 0.01


def test_int8_clips_instead_of_wrapping_around() -> None:
    spike = np.zeros((2, 384), dtype=np.float32)
    spike[0, 0], spike[1, 0] = 1, -1
    assert to_precision(spike, "int8")[:, 0].tolist() == [127, -127]


def test_binary_keeps_the_signs() -> None:
    codes = to_precision(VECTORS, "binary")
    assert codes.dtype == np.uint8 and codes.shape == (200, 48)
    np.testing.assert_array_equal(np.unpackbits(codes, axis=1) == 1, VECTORS > 0)


def test_float32_is_untouched_and_others_are_refused() -> None:
    assert to_precision(VECTORS, "float32") is VECTORS
    with pytest.raises(OptionError, match="known are float32, int8, binary"):
        to_precision(VECTORS, "float8")
