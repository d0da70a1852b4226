"""InferSent: word vectors, a BiLSTM, the maximum over time, and NLI as the lesson.

    python recipes/prepare/cong_vectors.py --data DATA --out cong.txt
    python examples/infersent.py --words cong.txt --nli DATA/nli/klue-nli-train.tsv \
        --sts DATA/sts/korsts-dev.tsv

What sentence vectors were before Sentence-BERT (Conneau et al., 2017). The network needs torch even
after training and is no bundle of malmoi's: this is for comparing, next to the plain mean of the
same word vectors. Korean is cut into morphemes, because the file has no words with particles.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from malmoi.evaluation import Settings, WordVectors, evaluate
from malmoi.io.files import read_lines
from malmoi.io.tables import read_rows
from malmoi.text.morphemes import morphemes_of

LABELS = ("entailment", "neutral", "contradiction")


class InferSent(nn.Module):
    """A text's vector: the largest value of each dimension over a BiLSTM's states."""

    name = "InferSent"

    def __init__(self, words: Path, width: int = 256) -> None:
        super().__init__()
        lines = (line.split(" ") for line in read_lines(words))
        vectors = {word: np.array(own, dtype=np.float32) for word, *own in lines if len(own) > 1}
        self.rows = {word: row for row, word in enumerate(vectors, start=1)}
        table = np.stack(list(vectors.values()))
        padding = np.zeros((1, table.shape[1]), dtype=np.float32)
        self.table = nn.Embedding.from_pretrained(torch.from_numpy(np.vstack([padding, table])))
        self.lstm = nn.LSTM(table.shape[1], width, batch_first=True, bidirectional=True)
        self.classes = nn.Sequential(nn.Linear(8 * width, width), nn.Tanh(), nn.Linear(width, 3))

    def forward(self, texts: Sequence[str]) -> Tensor:
        """Give the vectors of texts, (n, 2 × width); a text without a known word has 0."""
        known = [
            [self.rows[one.text] for one in found if one.text in self.rows]
            for found in morphemes_of(texts)
        ]
        ids = nn.utils.rnn.pad_sequence([torch.tensor(own or [0]) for own in known], True)
        lengths = torch.tensor([max(len(own), 1) for own in known])
        packed = nn.utils.rnn.pack_padded_sequence(
            self.table(ids), lengths, batch_first=True, enforce_sorted=False
        )
        states, _ = nn.utils.rnn.pad_packed_sequence(
            self.lstm(packed)[0], batch_first=True, padding_value=-torch.inf
        )  # (n, longest, 2 × width)
        empty = torch.tensor([not own for own in known])[:, None]
        largest: Tensor = states.amax(dim=1)
        return largest.masked_fill(empty, 0.0)

    def loss(self, premises: Sequence[str], hypotheses: Sequence[str], labels: Tensor) -> Tensor:
        """Give the cross-entropy of the labels, from (u, v, |u - v|, u · v)."""
        u, v = self(premises), self(hypotheses)
        joined = torch.cat([u, v, (u - v).abs(), u * v], dim=1)
        return nn.functional.cross_entropy(self.classes(joined), labels)

    def encode(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Give the vectors of texts, (n, 2 × width), as malmoi's evaluation asks for them."""
        with torch.no_grad():
            blocks = [self(texts[at : at + 256]).numpy() for at in range(0, len(texts), 256)]
        return np.concatenate(blocks)


def train(model: InferSent, nli: Path, *, epochs: int = 2, batch: int = 64) -> list[float]:
    """Learn from a file with premise, hypothesis and label; gives the mean loss of each epoch."""
    rows = list(read_rows(nli))
    optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    order, means = np.random.default_rng(0), []
    for _ in range(epochs):
        losses = []
        for own in np.array_split(order.permutation(len(rows)), max(1, len(rows) // batch)):
            chosen = [rows[i] for i in own]
            labels = torch.tensor([LABELS.index(row["label"]) for row in chosen])
            premises, hypotheses = ([row[k] for row in chosen] for k in ("premise", "hypothesis"))
            loss = model.loss(premises, hypotheses, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(float(loss.detach()))
        means.append(float(np.mean(losses)))
        print(f"loss {means[-1]:.3f}", flush=True)
    return means


def main() -> None:
    """Train, and compare with the mean of the same word vectors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--words", type=Path, required=True)
    parser.add_argument("--nli", type=Path, required=True)
    parser.add_argument("--sts", type=Path, required=True)
    parser.add_argument("--epochs", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(0)
    model = InferSent(options.words)
    train(model, options.nli, epochs=options.epochs)
    settings = Settings(sides="ko")
    against = [WordVectors(options.words)]
    print(evaluate(model, "sts", options.sts, against=against, settings=settings))


if __name__ == "__main__":
    main()
