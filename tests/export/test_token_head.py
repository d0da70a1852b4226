"""A head for token vectors becomes an output of the graph."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
from safetensors.torch import save_file  # noqa: E402

import malmoi  # noqa: E402
from malmoi.encoders.token_vectors import TOKEN_OUTPUT, TokenEncoder  # noqa: E402
from malmoi.export.export import export  # noqa: E402
from malmoi.export.module import TOKEN_HEAD  # noqa: E402


@pytest.mark.parametrize("precision", ["float32", "int8"])
@pytest.mark.parametrize("layers", ["none", "all"])
def test_a_head_is_an_output(
    tiny: Callable[[str], Path], tmp_path: Path, precision: str, layers: str
) -> None:
    export(tiny("bert"), tmp_path / "plain", layers="all")
    width = malmoi.load(tmp_path / "plain").hidden_states("cat").states.shape[2]
    weight = torch.randn(8, width, generator=torch.Generator().manual_seed(0))
    source = tmp_path / "plain"
    (source / TOKEN_HEAD).parent.mkdir()
    save_file({"weight": weight, "layer": torch.tensor(1)}, source / TOKEN_HEAD)
    made = export(source, tmp_path / "out", precision=precision, layers=layers, weights=False)
    assert made.layers == (0 if layers == "none" else 3) and TOKEN_HEAD in made.files
    encoder = malmoi.load(tmp_path / "out")
    assert TOKEN_OUTPUT in encoder._session.outputs
    reader = TokenEncoder.fit(encoder, ["cat"])
    assert reader is not None
    [found] = reader.encode("the cat sleeps")
    states = malmoi.load(source).hidden_states("the cat sleeps").states[1, 1:-1]
    expected = states @ weight.numpy().T
    expected /= np.linalg.norm(expected, axis=1, keepdims=True)
    assert (found.vectors * expected).sum(axis=1).min() > (
        0.9999 if precision == "float32" else 0.97
    )
