"""Which architectures can be exported, how exactly, and what it takes.

python bench/run.py architectures [NAME …] [--width 128] [--layers 2] [--sentences 32] [--lines 128]

Each is a folder of the true architecture with random weights, smaller than in the wild, and the
tokenizer of the shipped encoder. Its bundles are compared with sentence-transformers on real
sentences, Korean and English: the
largest difference of float32 vectors, and the least cosine of int8 and float16 ones. Real weights
are those of all-MiniLM-L6-v2 (minilm on English, minilm-mixed on Korean and English, of which it
reads letters) and of ko-en-small, given back to torch; e5-base and bge-m3 are of true size and run
only if they are named (bge-m3-quarter has 6 of its 24 layers). The most memory is that of the
export, libraries included. Of real weights and true sizes the speed is measured too, on lines of 60
tokens: × is sentence-transformers' time by ours, by the clock and by processor time.
"""

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from bench.common import Row, english, minilm, peak, sentences
from malmoi.bundle.bundle import find_model
from malmoi.runtime.tokenizer import read_tokenizer

_GROUPED = {"num_key_value_heads": 2, "head_dim": 32}
_XLM_R = {"model_type": "xlm-roberta", "type_vocab_size": 1, "vocab_size": 250_002}
ARCHITECTURES: dict[str, dict[str, Any]] = {
    "bert": {},
    "roberta": {},
    "xlm-roberta": {"type_vocab_size": 1},
    "distilbert": {"hidden_dim": 512},
    "albert": {"embedding_size": 128},
    "electra": {"embedding_size": 128},
    "mpnet": {},
    "camembert": {},
    "rembert": {"input_embedding_size": 128},
    "ernie": {},
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
    "mmbert": {"model_type": "modernbert"},
    "gte": {},
    "jina_embeddings_v3": {},
    "nomic_bert": {},
    "eurobert": {"num_key_value_heads": 2},
    "qwen3": _GROUPED,
    "gemma3_text": {**_GROUPED, "use_bidirectional_attention": True},  # EmbeddingGemma
    "mistral": {**_GROUPED, "sliding_window": 128},
    "t5": {"d_kv": 32, "d_ff": 512},
}
TRUE_SIZE: dict[str, dict[str, Any]] = {
    "e5-base": {
        **_XLM_R,
        "hidden_size": 768,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
        "intermediate_size": 3072,
    },
    "bge-m3": {
        **_XLM_R,
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
        "max_position_embeddings": 8194,
    },
}
# A quarter of bge-m3's layers and the tokens of the shipped encoder: its speed in less time.
TRUE_SIZE["bge-m3-quarter"] = {
    name: value
    for name, value in (TRUE_SIZE["bge-m3"] | {"num_hidden_layers": 6}).items()
    if name != "vocab_size"
}
REAL = ("minilm", "minilm-mixed", "ko-en-small")
_FIRST_NEWER = list(ARCHITECTURES).index("deberta-v2")
GROUPS = {
    "classic": list(ARCHITECTURES)[:_FIRST_NEWER],
    "newer": list(ARCHITECTURES)[_FIRST_NEWER:],
    "real": list(REAL),
    "true-size": list(TRUE_SIZE),
}
_DECODERS = ("qwen3", "mistral")
_LIKE_GEMMA = ("mmbert", "gemma3_text")  # their tokenizer
_INSTRUCTION = "Instruct: Find a sentence that means the same.\nQuery: "


def add_options(parser: argparse.ArgumentParser) -> None:
    known = [*GROUPS, *(name for names in GROUPS.values() for name in names)]
    parser.add_argument(
        "names", nargs="*", help=f"of {', '.join(known)}; all but true-size if left out"
    )
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--sentences", type=int, default=32)
    parser.add_argument("--precisions", default="float32,int8,float16", help="what is exported")
    parser.add_argument("--lines", type=int, default=128, help="of 60 tokens, to measure speed on")
    parser.add_argument("--threads", type=int, default=2, help="to measure speed with")


def run(options: argparse.Namespace) -> Iterator[Row]:
    import torch

    for package in ("malmoi.export.build", "sentence_transformers"):
        import_module(package)  # once: every step is a fork of this process
    torch.set_num_threads(1)
    timed = lines(options.lines)
    asked = options.names or [group for group in GROUPS if group != "true-size"]
    for name in [name for one in asked for name in GROUPS.get(one, [one])]:
        with tempfile.TemporaryDirectory(prefix="malmoi-architectures-") as scratch:
            folder = Path(scratch)
            texts = (english if name == "minilm" else sentences)(options.sentences)
            values = apart(judge, name, options.width, options.layers, texts, folder)
            row: Row = {"architecture": name, "million values": round(values / 1e6, 1)}
            for precision in options.precisions.split(","):
                row |= apart(measure, name, precision, texts, folder)
            if name not in ARCHITECTURES:
                row |= apart(compare_speed, timed, folder, options.threads)
            yield row


def lines(count: int, tokens: int = 60) -> list[str]:
    """Real texts of so many tokens, special ones included, by the shipped encoder."""
    whole = " ".join(sentences(100 * count))
    tokenizer = read_tokenizer(find_model(None) / "tokenizer.json")
    offsets = tokenizer.encode(whole, add_special_tokens=False).offsets
    step = tokens - 2
    return [whole[offsets[i][0] : offsets[i + step - 1][1]] for i in range(0, step * count, step)]


def compare_speed(timed: list[str], folder: Path, threads: int) -> Row:
    """Encode the lines with sentence-transformers and both bundles, part by part in turns."""
    import torch
    from sentence_transformers import SentenceTransformer

    import malmoi

    torch.set_num_threads(threads)
    judge = SentenceTransformer(str(folder / "source"), device="cpu", local_files_only=True)
    ways: dict[str, Callable[[list[str]], Any]] = {
        "": lambda part: judge.encode(part, show_progress_bar=False)
    }
    for precision in ("float32", "int8"):
        if (folder / precision).exists():
            ways[precision] = malmoi.load(folder / precision, threads=threads).encode
    took = {name: np.zeros(2) for name in ways}
    for encode in ways.values():
        encode(timed[:2])
    for start in range(0, len(timed), 32):
        for name, encode in ways.items():
            before = np.array([time.perf_counter(), time.process_time()])
            encode(timed[start : start + 32])
            took[name] += [time.perf_counter(), time.process_time()] - before
    theirs = took.pop("")
    return {
        f"{name}, × by {clock}": round(float(ratio), 2)
        for name, ours in took.items()
        for clock, ratio in zip(("the clock", "processor time"), theirs / ours, strict=True)
    }


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function in a process of its own: the most memory a process has held only grows."""
    with ProcessPoolExecutor(1, mp_context=get_context("fork")) as pool:
        return pool.submit(function, *arguments).result()


def judge(name: str, width: int, layers: int, texts: list[str], folder: Path) -> int:
    """Write a model's folder, and its vectors by sentence-transformers; gives its values."""
    from sentence_transformers import SentenceTransformer

    source = folder / "source"
    if name.startswith("minilm"):
        shutil.copytree(minilm(), source)
    elif name in REAL:
        from malmoi.export.weights_from_graph import export_torch

        export_torch(find_model(name), source)
    else:
        write(name, width, layers, source)
    model = SentenceTransformer(str(source), device="cpu", local_files_only=True)
    prompt = "query" if name in _DECODERS else None
    found = model.encode(texts, show_progress_bar=False, prompt_name=prompt, batch_size=8)
    np.save(folder / "expected.npy", found)
    return sum(parameter.numel() for parameter in model.parameters())


def measure(name: str, precision: str, texts: list[str], folder: Path) -> Row:
    """Export a model and compare its vectors with those of sentence-transformers."""
    import malmoi
    from malmoi.errors import BundleError
    from malmoi.export.export import export

    start = time.process_time()
    try:
        export(folder / "source", folder / precision, precision=precision, weights=False)
    except BundleError as error:
        return {f"{precision}, refused": str(error)}
    took, most = time.process_time() - start, peak()
    prompt = "query" if name in _DECODERS else None
    found = malmoi.load(folder / precision, threads=1).encode(texts, prompt=prompt)
    expected = np.load(folder / "expected.npy")
    size = sum(file.stat().st_size for file in (folder / precision / "onnx").iterdir()) / 1e6
    if precision == "float32":
        row: Row = {"float32: largest difference": float(f"{np.abs(found - expected).max():.1e}")}
    else:
        row = {f"{precision}: least cosine": round(float((found * expected).sum(axis=1).min()), 4)}
    return row | {
        f"{precision}, MB": round(size, 1),
        f"{precision}, core s": round(took, 1),
        f"{precision}, peak MiB": round(most),
    }


def write(name: str, width: int, layers: int, folder: Path) -> None:
    """Write a sentence-transformers folder of an architecture with random weights."""
    import torch
    import transformers
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Normalize, Pooling, Transformer
    from transformers import AutoTokenizer

    plain = folder / "plain"
    plain.mkdir(parents=True)
    shipped = find_model(None)
    tokenizer = gemma() if name in _LIKE_GEMMA else AutoTokenizer.from_pretrained(shipped)
    tokenizer.padding_side = "left" if name in _DECODERS else "right"
    tokenizer.save_pretrained(plain)
    own = TRUE_SIZE.get(name) or ARCHITECTURES[name]
    sizes: dict[str, Any] = {
        "model_type": name,
        "vocab_size": len(tokenizer),
        "pad_token_id": tokenizer.pad_token_id,
        "hidden_size": width,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "intermediate_size": 4 * width,
        "max_position_embeddings": 514,
    }
    config = transformers.AutoConfig.for_model(**sizes | own)
    loader = transformers.AutoModelForTextEncoding if name == "t5" else transformers.AutoModel
    model = loader.from_config(config)  # type: ignore[no-untyped-call]
    random = torch.Generator().manual_seed(0)
    # Large enough that every layer matters, which it does not in a fresh model.
    scale = 1.28 / config.hidden_size**0.5
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=random)
            parameter.copy_(scale * noise) if parameter.dim() > 1 else parameter.add_(0.05 * noise)
    model.save_pretrained(plain)
    del model
    pooling = "lasttoken" if name in _DECODERS else "mean"
    first = Transformer(str(plain), max_seq_length=256)
    made = SentenceTransformer(
        modules=[first, Pooling(config.hidden_size, pooling), Normalize()], device="cpu"
    )
    made.prompts = {"query": _INSTRUCTION} if name in _DECODERS else {}
    made.save_pretrained(str(folder), create_model_card=False)
    shutil.rmtree(plain)


def gemma() -> Any:
    """A small tokenizer of Gemma's kind: pieces of whole sentences, and bytes for the rest."""
    from tokenizers import Tokenizer, models, normalizers, processors, trainers
    from transformers import PreTrainedTokenizerFast

    names = ("<pad>", "<eos>", "<bos>", "<unk>", "<mask>")
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", byte_fallback=True, fuse_unk=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    pieces = [*names, *(f"<0x{byte:02X}>" for byte in range(256))]
    trainer = trainers.BpeTrainer(vocab_size=2000, special_tokens=pieces, show_progress=False)
    tokenizer.train_from_iterator(sentences(500), trainer)
    ids = [(name, names.index(name)) for name in ("<bos>", "<eos>")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A <eos>", pair="<bos> $A <eos> $B <eos>", special_tokens=ids
    )
    pad, eos, bos, unk, mask = names
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        pad_token=pad,
        eos_token=eos,
        bos_token=bos,
        unk_token=unk,
        mask_token=mask,
        model_max_length=512,
    )
