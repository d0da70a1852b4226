"""A sentence encoder as one torch module: ids in, vectors out, ready to be traced or trained.

Training attends in a fused step, and in float32 where the rest is in bfloat16: the backward pass of
torch's fused attention in bfloat16 takes three times as long on a processor as in float32, more
than everything else of a step together.

Shapes: ids and mask (n, length) int64, states (n, length, hidden) float32, vectors (n, dim). A
transformer in float16 (`halve`) has its states made float32 again before they are pooled.
"""

import contextlib
import inspect
import logging
import re
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import (
    CONFIG_MAPPING,
    AttentionInterface,
    AutoModel,
    AutoModelForTextEncoding,
    PreTrainedModel,
)
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface, sdpa_mask

from ..bundle.sentence_transformers import DenseSpec, read_json
from ..encoders.token_vectors import TOKEN_OUTPUT
from ..errors import BundleError
from .silence import silenced_libraries
from .source import ModelSource

logger = logging.getLogger(__name__)

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


# The architectures that distinguish first and second sentence.
WITH_TYPES = ("bert", "albert", "electra")
POOLING_MASK = "pooling_mask"
# Those with a decoder, of which sentence encoders keep the encoder alone.
_WITH_DECODER = ("t5", "mt5", "umt5")

_ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "identity": nn.Identity,
    "tanh": nn.Tanh,
    "relu": nn.ReLU,
    "gelu": nn.GELU,
    "sigmoid": nn.Sigmoid,
}


def from_pretrained(source: ModelSource, loader: Any, **options: Any) -> Any:
    """Load safetensors in float32 with a class of transformers; nothing in the folder is run."""
    config = source.root / "config.json"
    found = read_json(config)
    if found.get("model_type") not in CONFIG_MAPPING:
        code = ", only code in its folder (auto_map), which is never run" * ("auto_map" in found)
        raise BundleError(
            f'{config} says model_type "{found.get("model_type", "")}", of which transformers has '
            f"no class{code}; expected an architecture of transformers. Use the model's ONNX "
            "graph, or a copy of it that transformers knows."
        )
    try:
        with silenced_libraries():
            return loader.from_pretrained(
                source.root,
                local_files_only=True,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                **options,
            )
    except Exception as error:  # OSError, safetensors' own, or a RuntimeError for other shapes
        raise BundleError(
            f"the weights in {source.root} cannot be read ({type(error).__name__}); expected "
            "safetensors that fit config.json. Copy the whole folder again."
        ) from error


def load_transformer(
    source: ModelSource, loader: Any = AutoModel, *, whole: bool = False
) -> PreTrainedModel:
    """Load the transformer on the CPU, and check that every weight of the encoder is present.

    `whole` also refuses weights that the encoder does not use: they are a head that would be lost.
    """
    if loader is AutoModel and source.manifest.architecture in _WITH_DECODER:
        loader = AutoModelForTextEncoding
    model, report = from_pretrained(
        source,
        loader,
        attn_implementation="eager",  # the form of attention that the fuser recognises
        output_loading_info=True,
        **({"num_hidden_layers": source.layers} if source.layers else {}),
    )
    # A missing pooler is the rule for encoders trained on masked words, and never used here.
    missing = sorted(key for key in report["missing_keys"] if not key.startswith("pooler."))
    coded = "auto_map" in read_json(source.root / "config.json")
    if missing:
        remedy = (
            "Its code (auto_map) may know them, and is never run: use the model's ONNX graph."
            if coded
            else "Copy the whole folder again."
        )
        raise BundleError(
            f"the weights in {source.root} lack {', '.join(missing[:3])}; expected a whole "
            f"encoder. {remedy}"
        )
    if coded:
        logger.warning(
            f"{source.root} has code of its own (auto_map), which is never run: the model is "
            f"transformers' {type(model).__name__}. If that code computes otherwise, vectors differ"
        )
    lost = sorted(key for key in report["unexpected_keys"] if not _BUFFER.search(key))
    if whole and lost:
        raise BundleError(
            f"the weights in {source.root} hold {', '.join(lost[:3])}, which no encoder has; "
            "expected an encoder, or a head that config.json names in architectures. Name it there."
        )
    if report["missing_keys"]:
        model.pooler = None
    ready: PreTrainedModel = model.eval()
    return ready


# What weights may hold besides an encoder's own: a pooling that is not used, and constants.
_BUFFER = re.compile(r"(^|\.)(pooler|position_ids|inv_freq)(\.|$)")


def check_whole(source: ModelSource) -> None:
    """Raise a BundleError where weights are missing, which a library would draw at random."""
    with torch.random.fork_rng(devices=[]):  # what is drawn after this is as if it had not been
        load_transformer(source)


def set_dropout(model: nn.Module, share: float) -> None:
    """Let a model, its head included, drop this share of its states while it is trained."""
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = share


class GraphModule(nn.Module):
    """A transformer and what follows it, with the inputs and the output of its graph by name.

    `types` says whether segment ids are an input; left out, the architecture decides. Where they
    are none and the model has a table of them, they are zeros.
    """

    output: str
    axes: ClassVar[dict[int, str]] = {0: "batch"}  # those of the output that are free
    extras: tuple[str, ...] = ()  # outputs of tokens between the output and the layers

    def __init__(self, transformer: PreTrainedModel, *, types: bool | None = None) -> None:
        super().__init__()
        self.transformer = transformer
        takes = "token_type_ids" in inspect.signature(transformer.forward).parameters
        rows = (getattr(transformer.config, "type_vocab_size", None) or 0) if takes else 0
        read = takes and (transformer.config.model_type in WITH_TYPES if types is None else types)
        self.inputs = ("input_ids", "attention_mask", *(("token_type_ids",) if read else ()))
        self.zero_types = not read and rows > 0

    def named(self, arrays: tuple[Tensor, ...]) -> dict[str, Tensor]:
        """Name ids and masks, given in the order of `inputs`, as the transformer wants them."""
        named = dict(zip(self.inputs, arrays, strict=True))
        named.pop(POOLING_MASK, None)
        if self.zero_types:
            # Left to itself the model gathers zeros from a buffer, in six nodes instead of one.
            named["token_type_ids"] = torch.zeros_like(named["input_ids"])
        return named


def halve(module: GraphModule) -> None:
    """Make a module's transformer compute in float16, but for what its class keeps in float32.

    transformers' models themselves take the steps that float16 needs: masks end at its least
    value, normalisations are computed in float32, and so are rotations, from buffers that stay.
    """
    transformer = module.transformer
    kept = {
        name
        for attribute in ("_keep_in_fp32_modules", "_keep_in_fp32_modules_strict")
        for name in getattr(transformer, attribute, None) or ()
    }
    for path, parameter in transformer.named_parameters():
        if not kept.intersection(path.split(".")):
            parameter.data = parameter.data.half()


# A linear map of a hidden layer to token vectors: "weight" (size, width), and the "layer". In a
# folder of its own: weights next to config.json are those of the transformer.
TOKEN_HEAD = "token_head/weights.safetensors"


class SentenceModule(GraphModule):
    """What the graph computes: a transformer, its pooling, and what follows.

    Gives the vectors, then a small vector for every token if the folder has a head for them, and
    with `layers` every hidden state after them, the embeddings first. With `unpooled` it takes
    another mask, of the tokens that are pooled.
    """

    output = "sentence_embedding"

    def __init__(
        self,
        source: ModelSource,
        transformer: PreTrainedModel,
        *,
        layers: bool,
        types: bool | None = None,
        unpooled: bool = False,
    ) -> None:
        super().__init__(transformer, types=types)
        self.pooling = source.manifest.pooling
        self.layers = layers
        if unpooled:
            self.inputs = (*self.inputs, POOLING_MASK)
        self.tail = nn.Sequential(*(_module(step) for step in source.steps[1:]))
        head = source.root / TOKEN_HEAD
        self.head: nn.Linear | None = None
        if head.is_file():
            tensors = load_file(head)
            weight = tensors["weight"].float()  # (size, width)
            self.head = nn.Linear(weight.shape[1], weight.shape[0], bias=False)
            self.head.weight.data = weight
            self.head_layer = int(tensors["layer"])
            self.extras = (TOKEN_OUTPUT,)

    def forward(self, *arrays: Tensor) -> tuple[Tensor, ...]:
        """Turn ids and masks, in the order of `inputs`, into vectors."""
        named = self.named(arrays)
        every = self.layers or self.head is not None
        found = self.transformer(**named, output_hidden_states=every, return_dict=True)
        # Prompts that are not pooled have zeros in a mask of their own, which comes last.
        mask = arrays[-1] if POOLING_MASK in self.inputs else named["attention_mask"]
        states = found.last_hidden_state.float()  # a long text's sum is more than float16 holds
        parts = [POOLINGS[name](states, mask) for name in self.pooling.split("+")]
        vectors = self.tail(parts[0] if len(parts) == 1 else torch.cat(parts, dim=1))
        tokens = []
        if self.head is not None:
            tokens = [self.head(found.hidden_states[self.head_layer].float())]
        layers = found.hidden_states if self.layers else ()
        return (vectors, *tokens, *map(torch.Tensor.float, layers))


class Normalize(nn.Module):
    """Gives each row length 1; a row of zeros stays one."""

    def forward(self, vectors: Tensor) -> Tensor:
        """Divide by the length; the bound is that of torch's functional.normalize."""
        unit: Tensor = vectors / vectors.norm(dim=1, keepdim=True).clamp(min=1e-12)
        return unit


def _module(step: str | DenseSpec) -> nn.Module:
    if not isinstance(step, DenseSpec):
        return Normalize()
    weights = load_file(step.weights)
    matrix = weights["linear.weight"]
    linear = nn.Linear(matrix.shape[1], matrix.shape[0], bias="linear.bias" in weights)
    linear.load_state_dict({key.removeprefix("linear."): w.float() for key, w in weights.items()})
    return nn.Sequential(linear, _ACTIVATIONS[step.activation]())


def _cls(states: Tensor, mask: Tensor) -> Tensor:
    return states[:, 0]


def _sum(states: Tensor, weights: Tensor) -> Tensor:
    # As a product of matrices: no array of the size of the states is made on the way.
    return (weights.unsqueeze(1) @ states).squeeze(1)  # (n, 1, length) @ (n, length, hidden)


def _mean(states: Tensor, mask: Tensor) -> Tensor:
    weights = mask.to(states.dtype)
    return _sum(states, weights) / weights.sum(dim=1, keepdim=True).clamp(min=1.0)


def _mean_sqrt_len(states: Tensor, mask: Tensor) -> Tensor:
    weights = mask.to(states.dtype)
    return _sum(states, weights) / weights.sum(dim=1, keepdim=True).clamp(min=1.0).sqrt()


def _max(states: Tensor, mask: Tensor) -> Tensor:
    lowest = torch.finfo(states.dtype).min
    largest = states.masked_fill(mask.unsqueeze(2) == 0, lowest).amax(dim=1)
    # A row without a token would be all `lowest`, and not finite after its length is taken.
    return largest * mask.amax(dim=1, keepdim=True).to(states.dtype)


def _weightedmean(states: Tensor, mask: Tensor) -> Tensor:
    weights = (mask.cumsum(dim=1) * mask).to(states.dtype)
    return _sum(states, weights) / weights.sum(dim=1, keepdim=True).clamp(min=1.0)


def _lasttoken(states: Tensor, mask: Tensor) -> Tensor:
    # 1 at the last token and 0 elsewhere: where the count of tokens so far is the count of all.
    counts = mask.cumsum(dim=1)
    last = (counts == mask.sum(dim=1, keepdim=True)).to(mask.dtype) * mask
    return _sum(states, last.to(states.dtype))


POOLINGS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "cls": _cls,
    "mean": _mean,
    "max": _max,
    "mean_sqrt_len": _mean_sqrt_len,
    "weightedmean": _weightedmean,
    "lasttoken": _lasttoken,
}
