"""The models that people use for Korean, next to ours: quality as published, size, speed on a core.

    python bench/run.py peers [--rounds 5] [--sentences 128]

KorSTS test (Spearman × 100), KLUE-STS and Ko-StratQA (nDCG@10) of the others are public MTEB
results of August 2026 and model cards; ours are the newest record of the bench `shipped`. Speed is
processor time of one thread on the same sentences: the others as sentence-transformers runs them
(float32, a network of the same shape with random weights, its best batch of 16 and 32), ours as
shipped.
"""

import argparse
import json
from collections.abc import Callable, Iterator
from typing import Any

import torch
from transformers import BertConfig, BertModel

import malmoi
from bench.common import ROOT, Row, sentences
from bench.encode.one_core import least

# Layers, width; the size of the float32 weights in MB; KorSTS, KLUE-STS, Ko-StratQA.
PEERS: dict[str, tuple[tuple[int, int], int, tuple[float | None, ...]]] = {
    "multilingual-e5-small": ((12, 384), 471, (77.1, 75.8, 75.2)),
    "paraphrase-multilingual-MiniLM": ((12, 384), 471, (74.4, 65.9, 45.9)),
    "ko-sroberta-multitask": ((12, 768), 443, (85.6, None, 65.1)),
    "paraphrase-multilingual-mpnet": ((12, 768), 1112, (82.0, 79.9, 53.0)),
    "gte-multilingual-base": ((12, 768), 1221, (78.9, 82.1, 75.1)),
    "KURE-v1 (bge-m3)": ((24, 1024), 2271, (81.2, 87.7, 80.0)),
}
# Tables of vectors: no network to run.
STATIC = {"potion-multilingual-128M": (514, (65.9, 64.4, 36.1))}
OURS = ("ko-en-small", "ko-en-static")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sentences", type=int, default=128)


def run(options: argparse.Namespace) -> Iterator[Row]:
    torch.set_num_threads(1)
    texts = sentences(options.sentences)
    encoders = {name: malmoi.load(name, threads=1) for name in OURS}
    lengths = sorted(len(encoders[OURS[0]].tokens(text)) for text in texts)
    ways: dict[str, Callable[[], object]] = {
        name: lambda encoder=encoder: encoder.encode(texts) for name, encoder in encoders.items()
    }
    for shape in sorted({shape for shape, *_ in PEERS.values()}):
        network = made(*shape)
        for size in (16, 32):
            ways[f"{shape} {size}"] = lambda network=network, size=size: passed(
                network, lengths, size
            )
    rates = {name: len(texts) / seconds for name, seconds in least(ways, options.rounds).items()}
    for name in OURS:
        yield {"model": f"malmoi {name}"} | shipped(name) | {"sentences/s": round(rates[name])}
    for name, (shape, size, scores) in PEERS.items():
        rate = max(rates[f"{shape} {batch}"] for batch in (16, 32))
        yield row(name, size, scores) | {"sentences/s": round(rate, 1)}
    for name, (size, scores) in STATIC.items():
        yield row(name, size, scores)


def row(name: str, size: int, scores: tuple[float | None, ...]) -> Row:
    """What is published of a model."""
    known = zip(("KorSTS test", "KLUE-STS", "Ko-StratQA"), scores, strict=True)
    return {"model": name, "MB": size} | {key: value for key, value in known if value is not None}


def shipped(name: str) -> Row:
    """What the newest record of `shipped --test` says of one of our models."""
    lines = (ROOT / "bench/results/shipped.jsonl").read_text("utf-8").splitlines()
    records: list[dict[str, Any]] = [json.loads(line) for line in lines]
    figures = next(r["figures"] for r in reversed(records) if "KorSTS test" in r["figures"][0])
    [found] = [one for one in figures if one["model"] == name]
    return {"MB": found["MB"], "KorSTS test": found["KorSTS test"][0]}


def made(layers: int, width: int) -> BertModel:
    """A network of this shape with random weights; the table of tokens costs no time."""
    config = BertConfig(
        vocab_size=1000,
        hidden_size=width,
        num_hidden_layers=layers,
        num_attention_heads=width // 64 if width > 384 else 12,
        intermediate_size=4 * width,
    )
    return BertModel(config, add_pooling_layer=False).eval()


@torch.inference_mode()
def passed(network: BertModel, lengths: list[int], size: int) -> None:
    """Run batches of texts of alike lengths, padded, as sentence-transformers does."""
    for at in range(0, len(lengths), size):
        batch = lengths[at : at + size]
        ids = torch.full((len(batch), batch[-1]), 5)
        mask = (torch.arange(batch[-1])[None] < torch.tensor(batch)[:, None]).long()
        network(input_ids=ids, attention_mask=mask)
