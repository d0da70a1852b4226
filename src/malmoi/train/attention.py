"""Attention as training runs it: fused, and in float32 where the rest is in bfloat16.

torch's fused attention goes back through bfloat16 on a processor in three times the time that it
needs in float32, more than everything else of a step together.
"""

import contextlib
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

_NAME = "sdpa_float32"


def use_fused_attention(transformer: PreTrainedModel) -> None:
    """Let a model attend in one fused step; one without such a form stays as it was loaded."""
    with contextlib.suppress(ValueError, NotImplementedError, AttributeError):
        transformer.set_attn_implementation(_NAME)


def _attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    **options: Any,
) -> tuple[Tensor, Any]:
    given = query.dtype
    if given is not torch.bfloat16 or query.device.type != "cpu":
        return sdpa_attention_forward(module, query, key, value, attention_mask, **options)
    if attention_mask is not None and attention_mask.is_floating_point():
        attention_mask = attention_mask.float()
    with torch.autocast("cpu", enabled=False):
        found, weights = sdpa_attention_forward(
            module, query.float(), key.float(), value.float(), attention_mask, **options
        )
    return found.to(given), weights


AttentionInterface.register(_NAME, _attend)
AttentionMaskInterface.register(_NAME, sdpa_mask)
