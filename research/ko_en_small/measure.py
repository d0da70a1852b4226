"""What the joint run is measured on besides the recipe's evaluations: matches, senses, sentences.

All of it is development data: nothing here is taught, and nothing here is a test set.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from malmoi.io.tables import read_rows
from malmoi.training.distil.recipe import tidy

from .matches import TokenStudent, ask_bill, max_sim, read_bills, split_sentences

_ASKED = 400  # queries of a measure


class Development:
    """The development sets that need token vectors or the states of words."""

    def __init__(self, root: Path) -> None:
        boolq = [
            row for row in read_rows(root / "contrast/kobest-boolq.tsv") if row["split"] == "dev"
        ]
        self.questions = [tidy(row["question"]) for row in boolq]
        self.paragraphs = [tidy(row["paragraph"]) for row in boolq]
        self.across = _passages(root, ("transformers-docs", "godot", "debian-guide"))
        rng = np.random.default_rng(0)
        bills = read_bills(root / "text/assembly-bills.tsv", held=True)
        chosen = [bills[i] for i in rng.choice(len(bills), min(_ASKED, len(bills)), replace=False)]
        self.bills = [(one.query, one.passage) for one in (ask_bill(bill, rng) for bill in chosen)]
        self.senses = list(read_rows(root / "words/wic-dev.tsv"))

    def scores(self, student: TokenStudent) -> dict[str, float]:
        """Measure the student: shares of right answers, 0 to 1."""
        with torch.no_grad():
            found = {}
            asked, _ = _kept(self.questions)
            questions = [self.questions[i] for i in asked]
            right = self._rights(questions, asked)
            one, tokens, full = _both(student, questions, self.paragraphs)
            found["boolq one"] = _first(one, right)
            found["boolq tokens"] = _first(tokens, right)
            found["boolq states"] = _first(full, right)
            found["boolq sentences"] = _first(
                by_sentence(student, questions, self.paragraphs), right
            )
            for name, pairs in (("en>ko passages", self.across), ("bills", self.bills)):
                queries, passages = [q for q, _ in pairs], [p for _, p in pairs]
                one, tokens, full = _both(student, queries, passages)
                own = [{i} for i in range(len(pairs))]
                found[f"{name} one"] = _first(one, own)
                found[f"{name} tokens"] = _first(tokens, own)
                found[f"{name} states"] = _first(full, own)
            found |= self._word_senses(student)
        return {name: round(value, 4) for name, value in found.items()}

    def _rights(self, questions: Sequence[str], rows: Sequence[int]) -> list[set[int]]:
        """Give the paragraphs that count as right: those with the same text as the question's."""
        same: dict[str, set[int]] = {}
        for i, text in enumerate(self.paragraphs):
            same.setdefault(text, set()).add(i)
        return [same[self.paragraphs[i]] for i in rows]

    def _word_senses(self, student: TokenStudent) -> dict[str, float]:
        """WiC: the best threshold of the cosine of the two words, for each layer."""
        pairs, same = [], []
        for row in self.senses:
            sides = [_bracketed(row[name]) for name in ("SENTENCE1", "SENTENCE2")]
            if all(sides):
                pairs.append(sides)
                same.append(row["ANSWER"].strip().lower() in ("true", "1"))
        gold = np.array(same)
        texts = [side[0] for pair in pairs for side in pair]
        spans = [side[1] for pair in pairs for side in pair]
        found: list[list[torch.Tensor]] = [[], [], [], []]
        for begin in range(0, len(texts), 64):
            part, inside = texts[begin : begin + 64], spans[begin : begin + 64]
            encodings = student.tokenizer.encode_batch(part)
            _, _, layers = student.states(
                [e.ids[: student.longest] for e in encodings], layers=True
            )
            for at, layer in enumerate((3, 4, 5, 6)):
                for row, (encoding, (first, last)) in enumerate(
                    zip(encodings, inside, strict=True)
                ):
                    offsets = encoding.offsets[: student.longest]
                    own = [
                        i for i, (a, b) in enumerate(offsets) if b > a and a < last and b > first
                    ]
                    state = layers[layer][row, own or [0]].float().mean(0)
                    found[at].append(torch.nn.functional.normalize(state, dim=0))
        scores = {}
        for layer, states in zip((3, 4, 5, 6), found, strict=True):
            alike = np.array([float(a @ b) for a, b in zip(states[::2], states[1::2], strict=True)])
            steps = np.unique(np.quantile(alike, np.linspace(0, 1, 101)))
            scores[f"wic {layer}"] = max(float(((alike >= s) == gold).mean()) for s in steps)
        return scores


def _bracketed(text: str) -> tuple[str, tuple[int, int]] | None:
    first, last = text.find("["), text.find("]")
    if not 0 <= first < last:
        return None
    return text[:first] + text[first + 1 : last] + text[last + 1 :], (first, last - 1)


def _kept(questions: Sequence[str]) -> tuple[list[int], None]:
    return list(range(min(_ASKED, len(questions)))), None


def _passages(root: Path, files: Sequence[str]) -> list[tuple[str, str]]:
    """English sentences, and the Korean passage of three rows around each translation."""
    found = []
    for file in files:
        rows = list(read_rows(root / f"parallel/{file}.tsv"))
        for begin in range(0, len(rows) - 3, 3):
            window = rows[begin : begin + 3]
            query = tidy(window[1]["en"])
            if len(query.split()) >= 5:
                found.append((query, tidy(" ".join(row["ko"] for row in window))))
    rng = np.random.default_rng(0)
    chosen = rng.choice(len(found), min(2 * _ASKED, len(found)), replace=False)
    return [found[i] for i in sorted(chosen)]


def _both(
    student: TokenStudent, queries: Sequence[str], passages: Sequence[str]
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Score queries against passages: one vector, token vectors, states of the layer."""
    one, small, states = student.read(student.ids(queries))
    two, other, held = student.read(student.ids(passages))
    unit = [torch.nn.functional.normalize(s, dim=1) for s in states]
    units = [torch.nn.functional.normalize(s, dim=1) for s in held]
    return one @ two.T, _blocks(small, other), _blocks(unit, units)


def _blocks(queries: Sequence[torch.Tensor], passages: Sequence[torch.Tensor]) -> torch.Tensor:
    """MaxSim a few queries and passages of similar length at a time, which memory needs."""
    found = torch.empty(len(queries), len(passages))
    order = sorted(range(len(passages)), key=lambda i: len(passages[i]))
    for first in range(0, len(queries), 16):
        rows = slice(first, first + 16)
        for begin in range(0, len(order), 64):
            part = order[begin : begin + 64]
            found[rows, part] = max_sim(queries[rows], [passages[i] for i in part])
    return found


def by_sentence(
    student: TokenStudent, queries: Sequence[str], passages: Sequence[str]
) -> torch.Tensor:
    """Score a passage by the best of its sentences' vectors and its own: (n, m)."""
    parts = [[p, *split_sentences(p)] for p in passages]
    flat = [one for part in parts for one in part]
    vectors = torch.from_numpy(student.encode(flat))
    scores = torch.from_numpy(student.encode(list(queries))) @ vectors.T
    ends = np.cumsum([len(part) for part in parts])
    return torch.stack(
        [scores[:, end - len(part) : end].amax(1) for end, part in zip(ends, parts, strict=True)],
        dim=1,
    )


def _first(scores: torch.Tensor, right: Sequence[set[int]]) -> float:
    best = scores.argmax(1).tolist()
    return float(np.mean([best[i] in own for i, own in enumerate(right)]))
