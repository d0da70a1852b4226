"""Several processes give what one gives, in order."""

from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.scale import encode_in_processes


def test_processes_give_the_same_rows_in_order(bundle: Path) -> None:
    texts = [f"cat {'dog ' * (i % 7)}배" for i in range(5000)]
    found = np.stack(list(encode_in_processes(bundle, iter(texts), processes=2, dim=8)))
    np.testing.assert_allclose(found, malmoi.load(bundle).encode(texts, dim=8), atol=1e-6)


def test_errors_and_warnings_come_back(bundle: Path) -> None:
    with pytest.warns(malmoi.errors.CutWarning, match="1 of 1 text was longer than 12 tokens"):
        list(encode_in_processes(bundle, ["cat " * 50], processes=1))
    with pytest.raises(malmoi.errors.TextError, match=r"texts\[1\] is int"):
        list(encode_in_processes(bundle, ["a", 1], processes=1))  # type: ignore[list-item]
    with pytest.raises(malmoi.errors.OptionError, match="processes is 0"):
        list(encode_in_processes(bundle, ["a"], processes=0))


def test_a_model_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(malmoi.errors.BundleNotFound):
        list(encode_in_processes(tmp_path / "none", ["a"], processes=1))
