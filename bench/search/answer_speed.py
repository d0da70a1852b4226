"""How long does a question over a corpus take, from the question to the answer?

    python bench/run.py answer_speed MODEL [--documents 1000] [--questions 50] [--threads 2]

MODEL is an answerer's bundle (recipes/ko-qa.toml); how well it answers does not matter here. The
documents are paragraphs of KoBEST BoolQ, the questions its own. Warm times are of one process; a
cold one is `malmoi answer`, from its start to the answer.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import malmoi
from bench.common import Row, data_root
from malmoi.corpus.corpus import answer_from
from malmoi.heads.answerer import load_answerer
from malmoi.io.tables import read_rows

COLD = 3  # processes that are started


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", type=Path)
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--questions", type=int, default=50)
    parser.add_argument("--threads", type=int, default=2)


def run(options: argparse.Namespace) -> Iterator[Row]:
    rows = list(read_rows(data_root() / "contrast/kobest-boolq.tsv"))
    texts = list(dict.fromkeys(row["paragraph"] for row in rows))[: options.documents]
    asked = [row["question"] for row in rows if row["paragraph"] in set(texts)]
    asked = asked[:: max(1, len(asked) // options.questions)][: options.questions]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "boolq.malmoi"
        encoder = malmoi.load(threads=options.threads)
        with malmoi.Corpus.open(path, encoder) as corpus:
            corpus.add({"id": str(i), "text": text} for i, text in enumerate(texts))
            answerer = load_answerer(options.model, threads=options.threads)
            answer_from(corpus, answerer, asked[0])  # opens what is opened once
            clock, processor = [], []
            for question in asked:
                begin = time.perf_counter(), time.process_time()
                answer_from(corpus, answerer, question, threshold=0.0)
                clock.append((time.perf_counter() - begin[0]) * 1000)
                processor.append((time.process_time() - begin[1]) * 1000)
        found = {"documents": len(texts), "questions": len(asked)}
        yield {"way": "warm"} | found | _figures(clock, processor)
        command = [sys.executable, "-m", "malmoi", "answer", str(options.model)]
        clock, processor = [], []
        for question in asked[:COLD]:
            begin = time.perf_counter(), _children()
            subprocess.run(
                [*command, question, str(path), "--threads", str(options.threads)],
                check=True,
                capture_output=True,
            )
            clock.append((time.perf_counter() - begin[0]) * 1000)
            processor.append((_children() - begin[1]) * 1000)
        found |= {"questions": len(clock)}
        yield {"way": "malmoi answer"} | found | _figures(clock, processor)


def _children() -> float:
    """The processor time of processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _figures(clock: list[float], processor: list[float]) -> Row:
    return {
        "p50, ms": round(float(np.median(clock))),
        "p95, ms": round(float(np.quantile(clock, 0.95))),
        "longest, ms": round(max(clock)),
        "processor p50, core ms": round(float(np.median(processor))),
    }
