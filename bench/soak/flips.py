"""Flip single bits in files of each kind, open and use them, and look for answers that are wrong.

    python bench/run.py flips [--flips 1000] [--kinds lexicon,index,…]

A flip is told (a MalmoiError), harmless (the answer is the same), silently wrong, or a traceback.
What is derived (the index of names, the index of a corpus) may be made again without a word.
"""

import argparse
import logging
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

import malmoi
from bench.common import Row
from malmoi.corpus import Corpus
from malmoi.errors import MalmoiError
from malmoi.index import make_index, open_index, save_index
from malmoi.terms import Lexicon, Linker
from tests.support import graphs
from tests.support.lexicons import write_lexicon

TEXTS = [f"{one} {i}" for i in range(40) for one in ("cat dog", "배 바다", "the pear")]
Use = Callable[[Path], object]


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add this bench's options."""
    parser.add_argument("--flips", type=int, default=1000)
    parser.add_argument("--kinds", default=",".join(KINDS))


def make_bundle(folder: Path) -> Use:
    """A tiny encoder."""
    graphs.write_bundle(folder)
    return lambda path: malmoi.load(path).encode(TEXTS[:9]).round(5).tolist()


def make_lexicon(folder: Path) -> Use:
    """A small lexicon, with all of its names."""
    shutil.move(write_lexicon(folder.parent / "made"), folder)

    def use(path: Path) -> object:
        opened = Lexicon.open(path)
        return [
            vars(opened.name(i)) if hasattr(opened.name(i), "__dict__") else opened.name(i)
            for i in range(len(opened))
        ]

    return use


def make_names(folder: Path) -> Use:
    """A lexicon with the index of its names, linked by spelling."""
    shutil.move(write_lexicon(folder.parent / "made"), folder)
    Linker(folder, None).link("간경화")
    return lambda path: [str(one) for one in Linker(path, None).link(["간경화", "DM", "폐렴"])]


def make_vectors(folder: Path) -> Use:
    """An index file."""
    folder.mkdir()
    drawn = np.random.default_rng(0).standard_normal((300, 32)).astype(np.float32)
    vectors = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    index = make_index(32)
    index.add(vectors)
    save_index(index, folder / "x.index")

    def use(path: Path) -> object:
        found = open_index(path / "x.index").search(vectors[:50], 5)
        return found.rows.tolist(), found.scores.round(5).tolist()

    return use


def make_corpus(folder: Path) -> Use:
    """A corpus file: every way to find a document or to be told that there is none."""
    folder.mkdir()
    encoder = malmoi.load(graphs.write_bundle(folder.parent / "encoder"))
    texts = TEXTS[::2]
    with Corpus.open(folder / "x.malmoi", encoder) as corpus:
        rows = [{"id": str(i), "text": text, "n": i} for i, text in enumerate(texts)]
        corpus.add(rows[:40])
        corpus.add(rows[40:])
        corpus.delete(["7"])
    queries = [(text, encoder.encode(text)) for text in texts[:2]]

    def use(path: Path) -> object:
        with Corpus.open(path / "x.malmoi") as corpus:
            found = [str(hit) for text, v in queries for hit in corpus.search(text, 5, vector=v)]
            fit = corpus.search("cat sea 3", 30, mode="keyword", filter=["n>=20", "n!=30"])
            ids = [str(corpus.get(id)) for id in ("3", "7", "30", "none")]
            listed = [str(one) for one in corpus.store.documents()]
            counts = len(corpus), corpus.store.passage_count(), corpus.store.fields()
            documents = [str(one.document) for one in corpus.store.scan()]
            return found, [str(hit) for hit in fit], ids, listed, counts, documents

    return use


def make_tokens(folder: Path) -> Use:
    """A corpus file with token vectors, of the model that ships: what late interaction finds."""
    folder.mkdir()
    encoder = malmoi.load()
    texts = ["배를 타고 바다에 나간다", "a sweet pear", "배가 아프다", "the cat sleeps on the mat"]
    with Corpus.open(folder / "x.malmoi", encoder) as corpus:
        corpus.add([{"id": str(i), "text": f"{text}. {text} {i}"} for i, text in enumerate(texts)])

    def use(path: Path) -> object:
        with Corpus.open(path / "x.malmoi", encoder) as corpus:
            hits = [hit for query in ("복통", "ship") for hit in corpus.search(query, 3)]
            return [(hit.id, round(hit.score, 4), sorted(hit.scores)) for hit in hits]

    return use


def make_checkpoint(folder: Path) -> Use:
    """A checkpoint of a training run: weights, optimizer and position."""
    import torch

    from malmoi.training import checkpoint

    def made() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        torch.manual_seed(0)
        module = torch.nn.Linear(24, 12)
        return module, torch.optim.AdamW(module.parameters())

    folder.mkdir()
    module, optimizer = made()
    module(torch.ones(3, 24)).sum().backward()
    optimizer.step()
    checkpoint.save(folder, module, optimizer, checkpoint.State(step=1, best=0.5), keep=1)

    def use(path: Path) -> object:
        module, optimizer = made()
        state = checkpoint.load_newest(path, module, optimizer)
        moments = [v.tolist() for own in optimizer.state.values() for v in own.values()]
        return state, [p.tolist() for p in module.parameters()], moments

    return use


KINDS: dict[str, Callable[[Path], Use]] = {
    "bundle": make_bundle,
    "lexicon": make_lexicon,
    "index of names": make_names,
    "index": make_vectors,
    "corpus": make_corpus,
    "token vectors": make_tokens,
    "checkpoint": make_checkpoint,
}


def outcome(use: Use, folder: Path, right: object) -> str:
    """What became of a flip."""
    try:
        return "harmless" if use(folder) == right else "silently wrong"
    except MalmoiError:
        return "told"
    except Exception:
        return "traceback"


def run(options: argparse.Namespace) -> Iterator[Row]:
    """One row a kind of file."""
    logging.disable(logging.WARNING)  # that a checkpoint cannot be read, a thousand times
    chance = random.Random(0)
    for kind in options.kinds.split(","):
        with tempfile.TemporaryDirectory() as place:
            whole, copy = Path(place) / "whole", Path(place) / "copy"
            use = KINDS[kind](whole)
            right = use(whole)
            files = [
                p
                for p in sorted(whole.rglob("*"))
                if p.is_file()
                and p.stat().st_size
                and p.suffix != ".md"
                and not p.name.endswith((".adding", "-shm"))
            ]
            weights = [max(p.stat().st_size, 500) for p in files]
            counts = Counter[str]()
            for _ in range(options.flips):
                shutil.rmtree(copy, ignore_errors=True)
                shutil.copytree(whole, copy)
                file = copy / chance.choices(files, weights)[0].relative_to(whole)
                data = bytearray(file.read_bytes())
                # Zeros are mostly room that nothing uses yet: half of a small corpus.
                used = np.flatnonzero(np.frombuffer(data, dtype=np.uint8))
                data[chance.choice(used)] ^= 1 << chance.randrange(8)
                file.write_bytes(data)
                counts[outcome(use, copy, right)] += 1
        yield {
            "kind": kind,
            "flips": options.flips,
            **{name: counts[name] for name in ("told", "harmless", "silently wrong", "traceback")},
        }
