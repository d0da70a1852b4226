"""What a large corpus costs: making it, opening it, searching it, and its memory.

    python bench/corpus_cost.py [--model ko-en-small] [--count 1000000] [--precision int8]
                                [--rate 20000]

The vectors are made beforehand (see bench/search_data.py), so that what is timed is the store's
own work; `--rate N` then compares `malmoi index` on N texts with encoding them alone, the two in
turn on halves of the texts. The corpus is opened in a process of its own, whose memory is told.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from search_data import texts, vectors, work_folder

import malmoi
from malmoi.corpus import Corpus, Document, Stored, index_files
from malmoi.precision import to_precision

OPEN = """
import json, sys, time
import numpy as np
started = time.perf_counter()
from malmoi.corpus import Corpus
corpus = Corpus.open(sys.argv[1])
opened = time.perf_counter()
query = np.load(sys.argv[2])
corpus.store.nearest(query[0], 10)
first = time.perf_counter()
took = []
for vector in query:
    at = time.perf_counter()
    corpus.store.nearest(vector, 10)
    took.append(time.perf_counter() - at)
words = []
for word in ("서버", "파일", "error", "사용자"):
    at = time.perf_counter()
    corpus.store.matching([word, "설정"], 10)
    words.append(time.perf_counter() - at)
status = open("/proc/self/status").read()  # getrusage would count the parent's memory too
peak = int(status.split("VmHWM:")[1].split()[0]) / 1024
print(json.dumps({
    "documents": len(corpus),
    "import_and_open_seconds": round(opened - started, 2),
    "and_first_search_seconds": round(first - started, 2),
    "p50_ms": round(1000 * float(np.median(took)), 2),
    "keyword_p50_ms": round(1000 * float(np.median(words)), 2),
    "peak_mb": round(peak),
}))
"""


def make(path: Path, model: str, count: int, precision: str) -> None:
    """Put texts with ready vectors into a corpus."""
    if path.exists():
        return
    started = time.perf_counter()
    table, listed = vectors(model, count), texts(count)
    with Corpus.open(path, malmoi.load(model), precision=precision, words="bigrams") as corpus:  # type: ignore[arg-type]
        for start in range(0, count, 2048):
            block = to_precision(np.array(table[start : start + 2048]), precision)
            batch = [
                Stored(Document(str(start + i), text), vector)
                for i, (text, vector) in enumerate(
                    zip(listed[start : start + 2048], block, strict=True)
                )
            ]
            corpus.store.write(batch)
        stored = time.perf_counter()
        corpus.store.settle()
    row = {
        "write_per_second": round(count / (stored - started)),
        "index_seconds": round(time.perf_counter() - stored, 1),
        "file_mb": round(path.stat().st_size / 2**20),
        "index_mb": round(path.with_name(path.name + ".index").stat().st_size / 2**20),
    }
    print(json.dumps(row), flush=True)


def rate(model: str, count: int, words: str) -> None:
    """Compare indexing with encoding, in turn."""
    listed = texts(2 * count)
    encoder = malmoi.load(model)
    encoder.encode(listed[:256])
    step = count // 4
    ratios, worked = list[float](), list[float]()
    with tempfile.TemporaryDirectory() as folder:
        corpus = Corpus.open(Path(folder) / "x.malmoi", encoder, words=words)
        corpus.put([{"id": "first", "text": "준비"}])  # an analyser takes seconds to wake
        for turn in range(4):
            part = listed[2 * turn * step : 2 * (turn + 1) * step]
            ours, alone = part[::2], part[1::2]
            file = Path(folder) / f"{turn}.txt"
            file.write_text("\n".join(" ".join(text.split()) for text in ours), "utf-8")
            started, busy = time.perf_counter(), time.process_time()
            index_files(corpus, [str(file)])
            middle, used = time.perf_counter(), time.process_time()
            encoder.encode(alone)
            ratios.append((time.perf_counter() - middle) / (middle - started))
            worked.append((time.process_time() - used) / (used - busy))
        corpus.close()
    row = {
        "words": words,
        "indexing as a share of the encoding rate": round(float(np.median(ratios)), 3),
        "the same by processor time": round(float(np.median(worked)), 3),
    }
    print(json.dumps(row | {"turns": [round(one, 3) for one in ratios]}), flush=True)


def main() -> None:
    """Measure, and print JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default="ko-en-small")
    parser.add_argument("--count", type=int, default=1_000_000)
    parser.add_argument("--precision", default="int8")
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("--words", default="morphemes")
    options = parser.parse_args()
    if options.rate:
        rate(options.model, options.rate, options.words)
        return
    path = work_folder() / f"{options.model}-{options.precision}-{options.count}.malmoi"
    make(path, options.model, options.count, options.precision)
    asked = work_folder() / "queries.npy"
    np.save(asked, np.array(vectors(options.model, options.count)[:: options.count // 100]))
    for _ in range(3):
        subprocess.run([sys.executable, "-c", OPEN, str(path), str(asked)], check=True)


if __name__ == "__main__":
    main()
