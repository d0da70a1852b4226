"""A tiny student and its teacher, in two languages made up here."""

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import torch
import transformers
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, pre_tokenizers, processors

from malmoi.training.distil.goals import DistillationTexts, ParallelText, tokenize
from malmoi.training.distil.recipe import Parallel
from malmoi.training.distil.student import Student
from malmoi.training.distil.teachers import TeacherCache
from research.ko_en_small.lessons import Lesson, Matryoshka
from research.ko_en_small.recipe import TaskRecipe

WORDS = {
    "cat": "고양이",
    "dog": "개",
    "sleeps": "잔다",
    "runs": "달린다",
    "red": "붉은",
    "old": "늙은",
}


def tiny_tokenizer() -> Tokenizer:
    """A tokenizer whose pieces are the words of both languages."""
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *WORDS.values()]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    return tokenizer


def tiny_student(**options: object) -> Student:
    """A student of two layers, the same every time."""
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=16, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
        intermediate_size=64, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0,
    )  # fmt: skip
    model = transformers.BertModel(config)
    return Student(model, tiny_tokenizer(), **options)  # type: ignore[arg-type]


def tiny_texts(student: Student, folder: Path) -> DistillationTexts:
    """The eight sentences with their translations and goals, ready to be learnt."""
    english, korean = sentences()
    cache = TeacherCache(folder / "cache", "key", 32)
    texts = [ParallelText(Parallel(files=("x",), name="all"), english, korean)]
    return tokenize(texts, student, cache.rows(english, teach), cache.open(), folder / "ids")


def sentences() -> tuple[list[str], list[str]]:
    """Eight sentences in one language, and their translations."""
    english = [
        f"{a} {n} {v}" for a in ("red", "old") for n in ("cat", "dog") for v in ("sleeps", "runs")
    ]
    return english, [" ".join(WORDS[w] for w in s.split()) for s in english]


def teach(texts: Iterable[str]) -> NDArray[np.float32]:
    """The teacher: a unit vector that is the sum of a random row a word, (n, 32)."""
    table = np.random.default_rng(1).standard_normal((len(WORDS), 32)).astype(np.float32)
    order = list(WORDS)
    out = np.stack([sum(table[order.index(w)] for w in t.split()) for t in texts])
    return out / np.linalg.norm(out, axis=1, keepdims=True)


def task(kind: str, **keys: object) -> TaskRecipe:
    """A task of a recipe with some of its keys, without files."""
    return TaskRecipe.model_construct(**{"kind": kind, "name": kind, **keys})


def falls(student: Student, lesson: Lesson, *, steps: int = 80) -> bool:
    """Train on one lesson; whether the last fifth of its losses is lower than the first fifth."""
    nested = Matryoshka((32, 16), (1.0, 0.5))
    student.embeddings.sparse = False
    optimizer = torch.optim.AdamW(student.model.parameters(), lr=1e-3)
    losses = []
    for step in range(steps):
        torch.manual_seed(step)
        loss = lesson.loss(student, nested, np.random.default_rng(step))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    part = max(1, steps // 5)
    return float(np.mean(losses[-part:])) < float(np.mean(losses[:part]))
