"""Attention in training: fused, and in float32 under bfloat16."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModel
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from malmoi.export.module import use_fused_attention
from tests.support import tiny as tiny_models


@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta", "mpnet"])
def test_the_states_stay_the_same(tmp_path: Path, architecture: str) -> None:
    tiny_models.tiny_transformer(tmp_path, architecture)
    ids, mask = torch.arange(5, 17).reshape(2, 6), torch.tensor([[1] * 6, [1] * 4 + [0] * 2])
    found = []
    for fused in (False, True):
        model = AutoModel.from_pretrained(tmp_path, attn_implementation="eager").eval()
        if fused:
            use_fused_attention(model)
        with torch.no_grad():
            found.append(model(ids, mask).last_hidden_state[mask.bool()])
    torch.testing.assert_close(found[0], found[1], atol=1e-5, rtol=1e-5)


def test_bfloat16_attends_in_float32() -> None:
    # Only casts are in bfloat16 here: a product could kill the process on some machines.
    random = torch.Generator().manual_seed(1)
    sides = [torch.randn(2, 3, 40, 8, generator=random).bfloat16() for _ in range(3)]
    attend = ALL_ATTENTION_FUNCTIONS["sdpa_float32"]
    found, _ = attend(torch.nn.Module(), *sides, None)
    exact, _ = attend(torch.nn.Module(), *(side.float() for side in sides), None)
    assert found.dtype is torch.bfloat16
    assert torch.equal(found, exact.bfloat16())  # rounded once, at the end
