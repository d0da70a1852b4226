"""Tiny tokenizers and ONNX graphs made in code, so that no test needs torch or a download."""

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from tokenizers.processors import TemplateProcessing

from malmoi.bundle.bundle import Manifest
from malmoi.bundle.sentence_transformers import write_layout
from malmoi.io.arrays import write_safetensors

# What the fixture `run` gives: `malmoi …` as a function.
Run = Callable[..., "subprocess.CompletedProcess[str]"]

WORDS = [
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "배",
    "배가",
    "배를",
    "타고",
    "바다",
    "아프다",
    "달다",
    "고양이",
    "강아지",
    "잔다",
    "당뇨",
    "신증",
    "환자",
    "는",
    "the",
    "a",
    "cat",
    "dog",
    "sleeps",
    "boat",
    "sea",
    "pear",
    "sweet",
    "diabetes",
    "nephropathy",
    "patient",
    "has",
]
DIM = 16


def tiny_tokenizer(words: list[str] = WORDS) -> Tokenizer:
    """A word-level tokenizer with BERT's special tokens."""
    tokenizer = Tokenizer(WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    return tokenizer


def embedding_table(rows: int = len(WORDS), dim: int = DIM) -> NDArray[np.float32]:
    """The same random rows every time."""
    return np.random.default_rng(7).standard_normal((rows, dim)).astype(np.float32)


def write_graph(
    path: Path, *, pooled: bool, rows: int = len(WORDS), dim: int = DIM, states: bool = False
) -> None:
    """An embedding lookup, with masked mean and normalisation in the graph when `pooled`.

    With `states` a graph that pools gives the token states too.
    """
    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["token_embeddings"])]
    out = helper.make_tensor_value_info("token_embeddings", TensorProto.FLOAT, ["n", "length", dim])
    others = [out] if pooled and states else []
    if pooled:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["mask3"]),
            helper.make_node("Mul", ["token_embeddings", "mask3"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "one"], ["sum"], keepdims=0),
            helper.make_node("ReduceSum", ["mask3", "one"], ["count"], keepdims=0),
            helper.make_node("Div", ["sum", "count"], ["mean"]),
            helper.make_node("LpNormalization", ["mean"], ["sentence_embedding"], axis=-1, p=2),
        ]
        out = helper.make_tensor_value_info("sentence_embedding", TensorProto.FLOAT, ["n", dim])
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    constants = [
        numpy_helper.from_array(embedding_table(rows, dim), "table"),
        numpy_helper.from_array(np.array([2], dtype=np.int64), "last"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "one"),
    ]
    graph = helper.make_graph(
        nodes, "tiny", inputs, [out, *others], constants if pooled else constants[:1]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def write_bundle(
    folder: Path, *, max_tokens: int = 12, states: bool = False, **fields: object
) -> Path:
    """A bundle with malmoi's manifest, whose graph pools and normalises."""
    folder.mkdir(parents=True)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    write_graph(folder / "onnx/model.onnx", pooled=True, states=states)
    Manifest(
        **{  # type: ignore[arg-type]
            "name": "tiny",
            "dimension": DIM,
            "max_tokens": max_tokens,
            "vocabulary": len(WORDS),
            "licence": "Apache-2.0",
            "languages": ("ko", "en"),
        }
        | fields
    ).write(folder)
    return folder


def write_static(folder: Path, *, tokenizer: Tokenizer | None = None, **fields: object) -> Path:
    """A static bundle with random rows."""
    folder.mkdir(parents=True)
    tokenizer = tokenizer or tiny_tokenizer()
    tokenizer.save(str(folder / "tokenizer.json"))
    rows = embedding_table(tokenizer.get_vocab_size())
    scales = np.abs(rows).max(axis=1) / np.float32(127)
    arrays = {
        "pieces": np.rint(rows / scales[:, None]).astype(np.int8),
        "scales": scales,
        "empty": np.full(DIM, 0.25, dtype=np.float32),
    }
    write_safetensors(folder / "static.safetensors", arrays)
    Manifest(
        **{  # type: ignore[arg-type]
            "kind": "static",
            "name": "tiny-static",
            "dimension": DIM,
            "max_tokens": 10**9,
            "precision": "int8",
            "graph": "static.safetensors",
        }
        | fields
    ).write(folder)
    return folder


def write_foreign(folder: Path, *, pooling: str = "mean", steps: tuple[str, ...]) -> Path:
    """A plain sentence-transformers folder with an ONNX graph that gives token states."""
    folder.mkdir(parents=True)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    write_graph(folder / "onnx/model.onnx", pooled=False)
    config = {"model_type": "bert", "hidden_size": DIM, "vocab_size": len(WORDS)}
    (folder / "config.json").write_text(json.dumps(config))
    write_layout(folder, pooling=pooling, hidden=DIM, max_tokens=12, steps=steps)
    return folder


def write_score_graph(path: Path, *, outputs: int, name: str = "logits") -> None:
    """A cross-encoder of one sum: a row of the table for each token, twice in the second text."""
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["rows"]),
        helper.make_node("Add", ["attention_mask", "token_type_ids"], ["weights"]),
        helper.make_node("Cast", ["weights"], ["floats"], to=TensorProto.FLOAT),
        helper.make_node("Unsqueeze", ["floats", "last"], ["weights3"]),
        helper.make_node("Mul", ["rows", "weights3"], ["weighted"]),
        helper.make_node("ReduceSum", ["weighted", "one"], [name], keepdims=0),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["n", "length"])
        for name in ("input_ids", "attention_mask", "token_type_ids")
    ]
    constants = [
        numpy_helper.from_array(embedding_table(dim=outputs), "table"),
        numpy_helper.from_array(np.array([2], dtype=np.int64), "last"),
        numpy_helper.from_array(np.array([1], dtype=np.int64), "one"),
    ]
    out = helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", outputs])
    graph = helper.make_graph(nodes, "scores", inputs, [out], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(model, path)


def write_reranker(
    folder: Path, *, labels: tuple[str, ...] = (), outputs: int | None = None, **fields: object
) -> Path:
    """A reranker's bundle with one score, or one for each label."""
    folder.mkdir(parents=True)
    tiny_tokenizer().save(str(folder / "tokenizer.json"))
    width = outputs or len(labels) or 1
    write_score_graph(folder / "onnx/model.onnx", outputs=width)
    Manifest(
        **{  # type: ignore[arg-type]
            "kind": "reranker",
            "name": "tiny-reranker",
            "dimension": width,
            "max_tokens": 16,
            "vocabulary": len(WORDS),
            "labels": labels,
            "activation": "softmax" if labels else "sigmoid",
        }
        | fields
    ).write(folder)
    return folder
