"""Late interaction: a small vector for every token, trained beside the sentence vector.

The score of a query and a passage is the mean over the query's tokens of their best cosine among
the passage's tokens (MaxSim). The vectors are a linear map of a middle layer.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file
from torch import Tensor

from malmoi.export.module import TOKEN_HEAD
from malmoi.io.tables import read_rows
from malmoi.training.batching import pad, pool
from malmoi.training.data import digest
from malmoi.training.distil.recipe import tidy
from malmoi.training.distil.student import Student
from malmoi.training.distil.training import find_own

normalize = torch.nn.functional.normalize

_SENTENCE = re.compile(r"(?<=[.!?])\s+|\s*⏎\s*")
_HELD = 20  # one law in this many is held out for measuring


class TokenStudent(Student):
    """A student with a token head: a linear map of the states of one hidden layer."""

    layer: int = 4
    head: torch.nn.Linear

    def read(
        self, ids: Sequence[Sequence[int]], *, budget: int = 3072
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Give sentence vectors (n, dim), token vectors (length, small) and the layer's states.

        The first and the last token, which are special, have no vector.
        """
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        vectors: list[Tensor] = [torch.empty(0)] * len(ids)
        tokens, states = list(vectors), list(vectors)
        begin = 0
        for end in range(1, len(order) + 1):
            if end < len(order) and (end - begin + 1) * len(ids[order[end]]) <= budget:
                continue
            part = order[begin:end]
            hidden, mask, layers = self.states([ids[i] for i in part], layers=True)
            pooled = normalize(pool(hidden, mask), dim=1)
            middle = layers[self.layer].float()
            small = normalize(self.head(middle), dim=2)
            for row, i in enumerate(part):
                inside = slice(1, max(2, len(ids[i]) - 1))
                vectors[i], tokens[i] = pooled[row], small[row, inside]
                states[i] = middle[row, inside]
            begin = end
        return torch.stack(vectors), tokens, states


def fit_head(student: TokenStudent, texts: Sequence[str], size: int) -> torch.nn.Linear:
    """Start the token head at the strongest directions of the layer's states."""
    total = torch.zeros(student.table.shape[1], student.table.shape[1], dtype=torch.float64)
    head = torch.nn.Linear(student.table.shape[1], size, bias=False)
    student.head = head
    with torch.no_grad():
        for begin in range(0, len(texts), 256):
            for state in student.read(student.ids(texts[begin : begin + 256]))[2]:
                unit = normalize(state, dim=1).double()
                total += unit.T @ unit
        _, directions = torch.linalg.eigh(total)
        head.weight.copy_(directions.flip(1)[:, :size].T.float())
    return head


def open_head(student: TokenStudent, base: Path, texts: Sequence[str], size: int) -> None:
    """Take the base's token head, or fit one to texts where it has none of this layer and size."""
    fit_head(student, texts, size)
    if not (base / TOKEN_HEAD).is_file():
        return
    kept = load_file(base / TOKEN_HEAD)
    if int(kept["layer"]) == student.layer and kept["weight"].shape == student.head.weight.shape:
        student.head.weight.data = kept["weight"]


def max_sim(queries: Sequence[Tensor], passages: Sequence[Tensor]) -> Tensor:
    """Give the mean over each query's tokens of the best cosine in each passage: (n, m)."""
    asked = torch.nn.utils.rnn.pad_sequence(list(queries), batch_first=True)
    held = torch.nn.utils.rnn.pad_sequence(list(passages), batch_first=True)
    own = torch.tensor([len(one) for one in queries])
    sizes = torch.tensor([len(one) for one in passages])
    outside = torch.arange(held.shape[1])[None, :] >= sizes[:, None]  # (m, longest)
    cosines = torch.einsum("qid,pjd->qpij", asked, held)
    best = cosines.masked_fill(outside[None, :, None, :], -1.0).amax(3)  # (n, m, longest query)
    inside = torch.arange(asked.shape[1])[None, :] < own[:, None]
    return (best * inside[:, None, :]).sum(2) / own[:, None]


@dataclass(frozen=True)
class Asked:
    """A query, the passage that answers it, and the key that equal answers share."""

    query: str
    passage: str
    key: object = None


Draw = Callable[[np.random.Generator, int], list[Asked]]


def split_sentences(text: str) -> list[str]:
    """Split at the marks that end a sentence, and at paragraphs.

    >>> split_sentences("규정하고 있음. ⏎ 이에 개정함.")
    ['규정하고 있음.', '이에 개정함.']
    """
    return [part.strip() for part in _SENTENCE.split(text) if part and part.strip()]


@dataclass(frozen=True)
class Bill:
    """The reason of a bill, by sentences, and the law that it changes."""

    law: str
    sentences: tuple[str, ...]


def read_bills(path: Path, *, held: bool) -> list[Bill]:
    """Read bills of two sentences and more: those of held laws, or all others."""
    found = []
    for row in read_rows(path):
        if (digest(row["law"]) % _HELD == 0) is held:
            sentences = tuple(split_sentences(tidy(row["reason"])))
            if len(sentences) > 1:
                found.append(Bill(row["law"], sentences))
    return found


def keywords_of(sentence: str, rng: np.random.Generator) -> str:
    """Take some words of a sentence in their order, as a person types a query."""
    words = [word.strip(".,“”\"'()") for word in sentence.split()]
    words = [word for word in words if len(word) > 1]
    if len(words) < 4:
        return sentence
    count = int(rng.integers(3, min(7, len(words)) + 1))
    return " ".join(words[i] for i in sorted(rng.choice(len(words), count, replace=False)))


def _window(sentences: Sequence[str], rng: np.random.Generator, letters: int) -> list[str]:
    """Take a run of sentences of up to this many letters, from a random start."""
    total = np.cumsum([len(one) + 1 for one in sentences])
    if total[-1] <= letters:
        return list(sentences)
    begin = int(rng.integers(len(sentences)))
    end = begin + 1
    while end < len(sentences) and total[end] - (total[begin - 1] if begin else 0) <= letters:
        end += 1
    return list(sentences[begin:end])


def ask_bill(bill: Bill, rng: np.random.Generator) -> Asked:
    """Make a question about a bill without a label."""
    window = _window(bill.sentences, rng, int(rng.integers(200, 650)))
    kind = rng.random()
    if len(window) > 2 and kind < 0.2:
        half = len(window) // 2
        return Asked(" ".join(window[:half])[:400], " ".join(window[half:]))
    at = int(rng.integers(len(window)))
    sentence = window[at]
    if kind < 0.45:
        query = keywords_of(sentence, rng)
    elif kind < 0.6:
        query = f"{bill.law} {keywords_of(sentence, rng)}"
    else:
        query = sentence
        if len(window) > 1 and rng.random() < 0.7:
            del window[at]
    return Asked(query, " ".join(window))


def draw_bills(bills: Sequence[Bill]) -> Draw:
    """Ask about bills, two of each law: the other one is the hard negative."""
    by: dict[str, list[Bill]] = {}
    for bill in bills:
        by.setdefault(bill.law, []).append(bill)
    laws = [found for found in by.values() if len(found) > 1]
    chance = np.sqrt([len(found) for found in laws])
    chance /= chance.sum()

    def draw(rng: np.random.Generator, size: int) -> list[Asked]:
        chosen = rng.choice(len(laws), max(1, size // 2), replace=False, p=chance)
        pairs = (laws[i] for i in chosen)
        return [
            ask_bill(found[j], rng)
            for found in pairs
            for j in rng.choice(len(found), 2, replace=False)
        ]

    return draw


def draw_lines(lines: Sequence[str], span: tuple[int, int]) -> Draw:
    """Ask for the passage that a line was taken from; passages are runs of lines."""

    def draw(rng: np.random.Generator, size: int) -> list[Asked]:
        found = []
        for _ in range(size // 2):
            first = int(rng.integers(len(lines) - 2 * span[1]))
            for _ in range(2):  # the run that follows is near, and not the answer
                length = int(rng.integers(span[0], span[1] + 1))
                window = list(lines[first : first + length])
                first += length
                at = int(rng.integers(length))
                query = window[at]
                if rng.random() < 0.3:
                    query = keywords_of(query, rng)
                elif rng.random() < 0.7:
                    del window[at]
                found.append(Asked(query, " ".join(window)))
        return found

    return draw


def draw_documents(documents: Sequence[Sequence[tuple[str, str]]], span: tuple[int, int]) -> Draw:
    """Ask in either language for a run of rows in either language."""
    counts = np.array([len(rows) for rows in documents], dtype=np.float64)
    chance = counts**0.7 / (counts**0.7).sum()

    def draw(rng: np.random.Generator, size: int) -> list[Asked]:
        found = []
        for _ in range(size // 2):
            rows = documents[int(rng.choice(len(documents), p=chance))]
            first = int(rng.integers(max(1, len(rows) - 2 * span[1])))
            asked, held = (0, 1, 0, 1)[(kind := int(rng.integers(4)))], (1, 0, 0, 1)[kind]
            for _ in range(2):
                length = int(rng.integers(span[0], span[1] + 1))
                window = rows[first : first + length]
                first += length
                if len(window) < 2:
                    continue
                at = int(rng.integers(len(window)))
                passage = [row[held] for row in window]
                # Across languages the translation mostly stays: it is what a search should find.
                if rng.random() < (0.6 if asked == held else 0.25):
                    del passage[at]
                query = window[at][asked]
                if asked == held and rng.random() < 0.25:
                    query = keywords_of(query, rng)
                found.append(Asked(query, " ".join(passage)))
        return found

    return draw


def draw_pairs(pairs: Sequence[tuple[str, str]], near: NDArray[np.int64] | None = None) -> Draw:
    """Ask for the second of a pair; with `near` (n, k), a near row of each comes along."""

    def draw(rng: np.random.Generator, size: int) -> list[Asked]:
        if near is None:
            rows = rng.choice(len(pairs), min(size, len(pairs)), replace=False)
        else:
            seeds = rng.choice(len(pairs), max(1, size // 2), replace=False)
            rows = np.unique([*seeds, *near[seeds, rng.integers(0, near.shape[1], len(seeds))]])
        return [Asked(*pairs[int(i)], key=pairs[int(i)][1]) for i in rows]

    return draw


@dataclass(frozen=True)
class Shares:
    """What the parts of the loss of a match count."""

    vector: float = 0.6  # the sentence vectors find the passage
    tokens: float = 1.0  # the token vectors find it
    kept: float = 0.5  # the token vectors order passages as the untrained states did
    scale: float = 24.0
    both: bool = False  # passages find their queries, too


class Matches:
    """Queries find their passages among those of the batch, by token vectors and by one vector."""

    def __init__(
        self, name: str, draw: Draw, size: int, shares: Shares, before: "Frozen | None"
    ) -> None:
        self.name, self.draw, self.size = name, draw, size
        self.shares, self.before = shares, before

    def loss(self, student: TokenStudent, nested: Callable[..., Tensor], rng: np.random.Generator
             ) -> Tensor:  # fmt: skip
        """Draw a batch and give the loss, with gradients."""
        shares = self.shares
        asked = {one.query: one for one in self.draw(rng, self.size)}.values()
        rows = list({one.passage: one for one in asked}.values())
        n = len(rows)
        keys = np.array([row.key if row.key is not None else i for i, row in enumerate(rows)],
                        dtype=object)  # fmt: skip
        ids = student.ids([row.query for row in rows] + [row.passage for row in rows])
        vectors, tokens, _ = student.read(ids)
        scores = max_sim(tokens[:n], tokens[n:])

        def find(one: Tensor, two: Tensor) -> Tensor:
            there = find_own(20.0 * one @ two.T, keys)
            return (there + find_own(20.0 * two @ one.T, keys)) / 2 if shares.both else there

        total = shares.vector * nested(find, vectors[:n], vectors[n:])
        total = total + shares.tokens * find_own(shares.scale * scores, keys)
        if shares.both:
            back = max_sim(tokens[n:], tokens[:n])
            total = total + shares.tokens * find_own(shares.scale * back, keys)
        if self.before is not None and shares.kept and rng.random() < 0.4:
            goal = self.before.scores(ids, n)
            total = total + shares.kept * torch.nn.functional.kl_div(
                (shares.scale * scores).log_softmax(1),
                (shares.scale * goal).softmax(1),
                reduction="batchmean",
            )
        return total


class Frozen:
    """The base as it was: its full-width matches are what the token head must not unlearn."""

    def __init__(self, model: torch.nn.Module, layer: int, bf16: bool) -> None:
        self.model, self.layer, self.bf16 = model, layer, bf16

    @torch.no_grad()
    def scores(self, ids: Sequence[Sequence[int]], n: int) -> Tensor:
        """Give MaxSim of the first `n` texts among the others, by the layer's own states."""
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]))
        tokens: list[Tensor] = [torch.empty(0)] * len(ids)
        begin = 0
        for end in range(1, len(order) + 1):
            if end < len(order) and (end - begin + 1) * len(ids[order[end]]) <= 3072:
                continue
            part = order[begin:end]
            batch, mask = pad([ids[i] for i in part])
            with torch.autocast("cpu", torch.bfloat16, enabled=self.bf16):
                out = self.model(input_ids=batch, attention_mask=mask, output_hidden_states=True)
            states = normalize(out.hidden_states[self.layer].float(), dim=2)
            for row, i in enumerate(part):
                tokens[i] = states[row, 1 : max(2, len(ids[i]) - 1)]
            begin = end
        return max_sim(tokens[:n], tokens[n:])
