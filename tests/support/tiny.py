"""Tiny random transformers with real tokenizers, made in code: what training tests start from."""

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import transformers
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import (
    Dense,
    Normalize,
    Pooling,
    Transformer,
)
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
from transformers import PreTrainedConfig, PreTrainedTokenizerFast

ARCHITECTURES = ("bert", "roberta", "xlm-roberta", "albert", "electra", "distilbert", "mpnet")
_GROUPED = {"head_dim": 8, "num_key_value_heads": 2}
# What newer architectures have of their own: windows of 16 tokens, relative positions, groups of
# heads.
NEWER: dict[str, dict[str, object]] = {
    "modernbert": {"global_attn_every_n_layers": 2, "local_attention": 16},
    "qwen3": _GROUPED,
    "gemma3_text": {**_GROUPED, "sliding_window": 16, "use_bidirectional_attention": True},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 16,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "gte": {},
    "jina_embeddings_v3": {},
    "t5": {"d_kv": 8, "d_ff": 64},
}

TEXTS = [
    "배가 아파서 병원에 갔다.",
    "The ship left the harbour at dawn.",
    "pt는 DM nephropathy로 f/u 중",
    "병원에서 배를 보았다. The ship was in the harbour.",
    "at dawn",
    "배",
]
_BERT = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_ROBERTA = ("<s>", "<pad>", "</s>", "<unk>", "<mask>")  # the order fixes pad = 1, as in the wild
_WIDTH = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
    "max_position_embeddings": 66,
}


def tiny_tokenizer(architecture: str) -> PreTrainedTokenizerFast:
    """Make the kind of tokenizer that goes with an architecture, of a few lines' letters."""
    if architecture in ("roberta", "xlm-roberta", "mpnet", *NEWER):
        names, specials = ("<s>", "</s>", "<pad>", "<unk>", "<mask>"), _ROBERTA
    else:
        names, specials = ("[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]"), _BERT
    first, last, pad, unk, mask = names
    tokenizer = _KINDS.get(architecture, _unigram)(list(specials), unk)
    ids = [(name, tokenizer.token_to_id(name)) for name in (first, last)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{first} $A {last}", pair=f"{first} $A {last} $B:1 {last}:1", special_tokens=ids
    )
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        cls_token=first,
        sep_token=last,
        pad_token=pad,
        unk_token=unk,
        mask_token=mask,
        model_max_length=64,
    )


def _wordpiece(specials: list[str], unk: str) -> Tokenizer:
    normalizer = normalizers.Sequence([normalizers.BertNormalizer(), normalizers.NFC()])
    words = {word for text in TEXTS for word in normalizer.normalize_str(text).split()}
    letters = sorted({letter for word in words for letter in word})
    pieces = [*specials, *letters, *(f"##{letter}" for letter in letters), "the", "##병원", "ship"]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token=unk))
    tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def _bytes(specials: list[str], unk: str) -> Tokenizer:
    splitter = pre_tokenizers.ByteLevel(add_prefix_space=False)
    parts = {part for text in TEXTS for part, _ in splitter.pre_tokenize_str(text)}
    letters = sorted({letter for part in parts for letter in part})
    merges = [("t", "h"), ("th", "e")]
    pieces = [*specials, *letters, *("".join(pair) for pair in merges)]
    vocabulary = {piece: i for i, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unk))
    tokenizer.pre_tokenizer = splitter
    return tokenizer


def _unigram(specials: list[str], unk: str) -> Tokenizer:
    letters = sorted({letter for text in TEXTS for letter in text.replace(" ", "▁")})
    pieces = [*specials, *letters, "▁the", "병원", "▁harbour"]
    scores = [(piece, -float(len(letters)) / len(piece)) for piece in pieces]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=pieces.index(unk)))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


_KINDS: dict[str, Callable[[list[str], str], Tokenizer]] = {
    "bert": _wordpiece,
    "electra": _wordpiece,
    "distilbert": _wordpiece,
    "mpnet": _wordpiece,
    "roberta": _bytes,
}


def tiny_config(architecture: str, tokenizer: PreTrainedTokenizerFast) -> PreTrainedConfig:
    """Describe a transformer of two layers, 32 wide, for a tokenizer."""
    size, pad = len(tokenizer), tokenizer.pad_token_id
    if architecture == "distilbert":
        return transformers.DistilBertConfig(
            vocab_size=size,
            pad_token_id=pad,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
            max_position_embeddings=66,
        )
    narrow = {"embedding_size": 16} if architecture in ("albert", "electra") else {}
    own = NEWER.get(architecture, narrow)
    return transformers.AutoConfig.for_model(
        architecture, vocab_size=size, pad_token_id=pad, **_WIDTH, **own
    )


def tiny_transformer(folder: Path, architecture: str = "bert", *, seed: int = 0) -> Path:
    """Write a random transformer and its tokenizer into `folder`; the same seed, the same weights.

    The weights are far larger than a fresh model's, so that attention and layers matter.
    """
    tokenizer = tiny_tokenizer(architecture)
    config = tiny_config(architecture, tokenizer)
    loader = (
        transformers.AutoModelForTextEncoding if architecture == "t5" else transformers.AutoModel
    )
    model = loader.from_config(config)  # type: ignore[no-untyped-call]
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=random)
            if parameter.dim() > 1:
                parameter.copy_(0.2 * noise)
            else:
                parameter.add_(0.1 * noise)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def headed(folder: Path, kind: str, labels: list[str], base: str = "bert") -> Path:
    """Write a random model of transformers with a head of its own."""
    source = tiny_transformer(folder.parent / "base", base)
    config = transformers.AutoConfig.from_pretrained(source, id2label=dict(enumerate(labels)))
    torch.manual_seed(3)
    model = getattr(transformers, f"AutoModelFor{kind}").from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(std=0.4)
    model.save_pretrained(folder)
    transformers.AutoTokenizer.from_pretrained(source).save_pretrained(folder)
    return folder


def assembled(
    folder: Path, pooling: str | Sequence[str] = "mean", *extra: torch.nn.Module
) -> SentenceTransformer:
    """Put a tiny transformer and a pooling together the way sentence-transformers does it."""
    first = Transformer(str(folder), max_seq_length=64)
    return SentenceTransformer(modules=[first, Pooling(32, pooling), *extra], device="cpu")


def with_dense(folder: Path, transformer: Path) -> SentenceTransformer:
    """Save a model with a Dense, a Normalize module and a prompt into `folder`."""
    torch.manual_seed(0)
    model = assembled(transformer, "cls", Dense(32, 12), Normalize())
    model.prompts = {"query": "찾기: "}
    model.save_pretrained(str(folder), create_model_card=False)
    return model
