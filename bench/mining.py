"""How fast alike texts are found, and in how much memory.

    python bench/mining.py pair                   # the most similar pair of 10,000 real sentences
    python bench/mining.py million                # all pairs above 0.9 of 1,000,000 static vectors

The second may be stopped early (`--seconds`) and says how far it came; its memory does not grow.
"""

import argparse
import resource
import time
from collections.abc import Iterator

import common

import malmoi
from malmoi.index.join import pairs_above
from malmoi.mining.pairs import mine_pairs
from malmoi.mining.texts import gather, vectors_of


def main() -> None:
    """Run one of the two measurements."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["pair", "million"])
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--seconds", type=float, default=1e9)
    options = parser.parse_args()
    if options.what == "pair":
        _pair()
    else:
        _million(options.count, options.seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"peak memory {peak:.2f} GB")


def _pair() -> None:
    lines = (common.data_root() / "paraphrase/parakqc.tsv").read_text("utf-8").splitlines()[1:]
    texts = [line.split("\t")[1] for line in lines][:10_000]
    start, cpu = time.perf_counter(), time.process_time()
    encoder = malmoi.load()
    found = gather(texts, where="parakqc")
    [best] = mine_pairs(encoder, found, top=1, least=0.5) if not found.again else [None]
    if best is None:  # exact repeats come first; the nearest distinct texts are wanted
        distinct = gather(found.texts, where="parakqc")
        [best] = mine_pairs(encoder, distinct, top=1, least=0.5)
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    print(f"{len(found.texts):,} sentences: {wall:.1f} s from raw text ({used:.1f} s of processor)")
    print(f"{best.score:.4f}  {best.a.text}  |  {best.b.text}")


def _million(count: int, seconds: float) -> None:
    encoder = malmoi.load("ko-en-static")
    start = time.perf_counter()
    texts = []
    for text in _sentences():
        texts.append(text)
        if len(texts) == count:
            break
    vectors = vectors_of(encoder, texts)
    encoded = time.perf_counter() - start
    print(f"{len(texts):,} texts encoded in {encoded:.0f} s, {vectors.shape[1]} dimensions")
    del texts
    start, cpu, pairs, row = time.perf_counter(), time.process_time(), 0, 0
    for block in pairs_above(vectors, least=0.9):
        pairs += len(block.left)
        row = max(row, int(block.left.max()))
        if time.perf_counter() - start > seconds:
            break
    else:
        row = len(vectors)
    share = 1 - (1 - row / len(vectors)) ** 2  # later rows have fewer partners left
    wall, used = time.perf_counter() - start, time.process_time() - cpu
    print(f"{pairs:,} pairs above 0.9 in {wall:.0f} s ({used:.0f} s of processor)")
    if share < 1:
        print(f"{share:.1%} of all pairs were looked at; at this rate all take ", end="")
        print(f"{wall / share / 60:.0f} minutes ({used / share / 60:.0f} of processor)")


def _sentences() -> Iterator[str]:
    """Distinct Korean and English sentences of the parallel texts."""
    seen: set[int] = set()
    for path in sorted((common.data_root() / "parallel").glob("*.tsv")):
        with path.open(encoding="utf-8") as file:
            next(file)
            for line in file:
                for text in line.rstrip("\n").split("\t")[:2]:
                    if len(text) > 8 and hash(text) not in seen:
                        seen.add(hash(text))
                        yield text


if __name__ == "__main__":
    main()
