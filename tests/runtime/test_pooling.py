"""Pooling: equal to torch's way, blind to padding."""

import numpy as np
import pytest

from malmoi.bundle.manifest import POOLINGS
from malmoi.errors import OptionError
from malmoi.runtime.pooling import ACTIVATIONS, FUNCTIONS, from_int8, normalize, pool, to_precision

STATES = np.random.default_rng(3).standard_normal((4, 7, 5)).astype(np.float32)
MASK = np.array([[1] * n + [0] * (7 - n) for n in (7, 3, 1, 5)], dtype=np.int64)


def test_every_known_pooling_has_a_function() -> None:
    assert set(FUNCTIONS) == set(POOLINGS)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_changes_nothing(pooling: str) -> None:
    pooled = pool(STATES, MASK, pooling)
    changed = np.where(MASK[:, :, None] == 1, STATES, np.float32(99))
    np.testing.assert_array_equal(pool(changed, MASK, pooling), pooled)
    for row, length in enumerate(MASK.sum(axis=1)):
        alone = pool(STATES[row : row + 1, :length], MASK[row : row + 1, :length], pooling)
        np.testing.assert_allclose(alone[0], pooled[row], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_pooling_equals_sentence_transformers(pooling: str) -> None:
    torch = pytest.importorskip("torch")
    modules = pytest.importorskip("sentence_transformers.sentence_transformer.modules")
    theirs = {"mean_sqrt_len": "mean_sqrt_len_tokens"}.get(pooling, pooling)
    features = {
        "token_embeddings": torch.from_numpy(STATES),
        "attention_mask": torch.from_numpy(MASK),
    }
    expected = modules.Pooling(5, pooling_mode=theirs)(features)["sentence_embedding"].numpy()
    np.testing.assert_allclose(pool(STATES, MASK, pooling), expected, rtol=1e-5, atol=1e-6)


def test_joined_poolings_stand_side_by_side() -> None:
    joined = pool(STATES, MASK, "cls+mean")
    np.testing.assert_array_equal(joined[:, :5], pool(STATES, MASK, "cls"))
    np.testing.assert_array_equal(joined[:, 5:], pool(STATES, MASK, "mean"))


def test_a_row_without_tokens_is_finite() -> None:
    empty = np.zeros((1, 7), dtype=np.int64)
    assert len(POOLINGS) > 3
    for pooling in POOLINGS:
        assert np.isfinite(normalize(pool(STATES[:1], empty, pooling))).all()


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_equal_torch(name: str) -> None:
    torch = pytest.importorskip("torch")
    classes = {"identity": "Identity", "relu": "ReLU", "gelu": "GELU"}
    theirs = getattr(torch.nn, classes.get(name, name.title()))()
    x = np.linspace(-6, 6, 1001, dtype=np.float32)
    np.testing.assert_allclose(ACTIVATIONS[name](x), theirs(torch.from_numpy(x)).numpy(), atol=1e-6)


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
