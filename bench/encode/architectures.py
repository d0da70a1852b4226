"""Which architectures can be exported, how exactly, and what it takes.

python bench/run.py architectures [NAME …] [--width 256] [--layers 4] [--sentences 64]

Each is a folder of the true architecture with random weights, smaller than in the wild, and the
tokenizer of the shipped encoder. Its bundles are compared with sentence-transformers on real
sentences: the largest difference of float32 vectors, and the least cosine of int8 ones. With
"minilm" among the names, all-MiniLM-L6-v2 is exported too: real weights.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from bench.common import ROOT, Row, minilm, sentences
from malmoi.bundle.catalog import find_model

_GROUPED = {"num_key_value_heads": 2}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "xlm-roberta": {"type_vocab_size": 1},
    "albert": {"embedding_size": 128},
    "electra": {"embedding_size": 128},
    "distilbert": {},
    "mpnet": {},
    "camembert": {},
    "rembert": {"input_embedding_size": 128},
    "ernie": {},
    "convbert": {"embedding_size": 128},
    "xlm-roberta-xl": {},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"]},
    "deberta-v2": {
        "relative_attention": True,
        "pos_att_type": ["p2c", "c2p"],
        "position_buckets": 256,
        "share_att_key": True,
        "norm_rel_ebd": "layer_norm",
    },
    "modernbert": {},
    "gte": {},
    "jina_embeddings_v3": {},
    "nomic_bert": {},
    "eurobert": _GROUPED,
    "qwen3": {**_GROUPED, "head_dim": 64},
    "gemma3_text": {**_GROUPED, "head_dim": 64, "use_bidirectional_attention": True},
    "mistral": {**_GROUPED, "sliding_window": 128},
}
_DECODERS = ("qwen3", "mistral")
_HEADS = 4


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("names", nargs="*", help=f"of {', '.join(ARCHITECTURES)} and minilm")
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=64)


def run(options: argparse.Namespace) -> Iterator[Row]:
    for name in options.names or [*ARCHITECTURES, "minilm"]:
        # In a process of its own: the most memory that a process has held only grows.
        command = [sys.executable, __file__, name, str(options.width), str(options.layers)]
        done = subprocess.run(
            command,
            input=json.dumps(sentences(options.sentences)),
            env=os.environ | {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            sys.exit(f"{name}: {done.stderr.strip().splitlines()[-1]}")
        yield json.loads(done.stdout.splitlines()[-1])


def measure(name: str, width: int, layers: int, texts: list[str], folder: Path) -> Row:
    """Export one architecture twice and compare both bundles with sentence-transformers."""
    import time

    import numpy as np
    from sentence_transformers import SentenceTransformer

    import malmoi
    from bench.common import peak
    from malmoi.errors import BundleError
    from malmoi.export.export import export

    source = minilm() if name == "minilm" else write(name, width, layers, folder / "source")
    judge = SentenceTransformer(str(source), device="cpu", local_files_only=True)
    expected = judge.encode(texts, show_progress_bar=False)
    del judge
    row: Row = {"architecture": name}
    for precision in ("float32", "int8"):
        start = time.process_time()
        try:
            export(source, folder / precision, precision=precision, weights=False)
        except BundleError as error:
            return row | {"refused": str(error)}
        took = time.process_time() - start
        found = malmoi.load(folder / precision).encode(texts)
        size = (folder / precision / "onnx/model.onnx").stat().st_size / 1e6
        if precision == "float32":
            row["float32: largest difference"] = float(f"{np.abs(found - expected).max():.1e}")
        else:
            row["int8: least cosine"] = round(float((found * expected).sum(axis=1).min()), 4)
        row |= {f"{precision}, MB": round(size, 1), f"{precision}, CPU s": round(took, 1)}
    return row | {"peak, MiB": round(peak())}


def write(name: str, width: int, layers: int, folder: Path) -> Path:
    """Write a sentence-transformers folder of an architecture with random weights."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer

    plain = folder / "plain"
    plain.mkdir(parents=True)
    shipped = find_model(None)
    for file in shipped.glob("*token*.json"):
        shutil.copyfile(file, plain / file.name)
    tokenizer = transformers.AutoTokenizer.from_pretrained(plain)
    if name in _DECODERS:
        tokenizer.padding_side = "left"
        tokenizer.save_pretrained(plain)
    sizes: dict[str, Any] = {
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": _HEADS,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 514,
    }
    if name == "distilbert":
        sizes = {"dim": width, "n_layers": layers, "n_heads": _HEADS, "hidden_dim": 4 * width}
    config = transformers.AutoConfig.for_model(
        name,
        vocab_size=len(tokenizer),
        pad_token_id=tokenizer.pad_token_id,
        **sizes,
        **ARCHITECTURES[name],
    )
    model = transformers.AutoModel.from_config(config)  # type: ignore[no-untyped-call]
    random = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=random)
            # Large enough that every layer matters, which it does not in a fresh model.
            parameter.copy_(0.08 * noise) if parameter.dim() > 1 else parameter.add_(0.05 * noise)
    model.save_pretrained(plain)
    pooling = "lasttoken" if name in _DECODERS else "mean"
    modules = [Transformer(str(plain), max_seq_length=256), Pooling(width, pooling), Normalize()]
    made = SentenceTransformer(modules=modules, device="cpu")
    made.save_pretrained(str(folder), create_model_card=False)
    shutil.rmtree(plain)
    return folder


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(prefix="malmoi-architectures-") as scratch:
        asked, *numbers = sys.argv[1:]
        print(json.dumps(measure(asked, *map(int, numbers), json.load(sys.stdin), Path(scratch))))
