"""Rerankers: the late interaction of the shipped encoder, or a cross-encoder of one's own.

Late interaction compares the token vectors of both texts; it needs no second model and works across
languages. A cross-encoder reads both texts together. A small one compares them word by word, and
the encoder it came from is deeper and was trained on far more text: a weighted sum of both scores
(`ScoreBlend`) is better than either.
"""

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..bundle.bundle import Bundle, find_model, open_bundle, shipped_models
from ..bundle.manifest import MANIFEST
from ..encoders import TextEncoder, load
from ..encoders.base import prompts_of
from ..encoders.token_vectors import TokenEncoder, interact, pack
from ..errors import BundleError, CutWarning, OptionError, TextError, by_number, counted
from ..io.progress import progressing
from ..runtime.pooling import normalize, softmax
from ..runtime.runner import GraphModel, chunks, pipelined
from ..runtime.tokenizer import Pair, PairTokenizer
from ..text.cleanup import SAFE, as_text, as_texts, clean
from ..types import Floats

# The labels that data sets use for "the second text says what the first does".
_SIMILAR = ("entailment", "same", "paraphrase", "duplicate", "equivalent", "relevant", "함의")
# The label of two that says yes.
_YES = ("1", "1.0", "true", "yes", "y", "t", "positive", "label_1", "참", "예", "긍정")


@dataclass(frozen=True, slots=True)
class RankedText:
    """One text of a ranking: its index in the list that was given, and its score."""

    index: int
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class ScoreBlend:
    """The encoder's name, and the weights of its cosine and of the reranker's own score.

    >>> blend = ScoreBlend("ko-en-small", cross=1.0, cosine=2.0, constant=-1.0)
    >>> blend.of(np.array([0.5]), np.array([0.75])).tolist()
    [1.0]
    """

    encoder: str
    cross: float
    cosine: float
    constant: float
    found: "FoundBlend | None" = None

    @classmethod
    def read(cls, data: dict[str, Any], *, where: str) -> "ScoreBlend":
        """Make one from a manifest's field; `where` names the file in messages."""
        try:
            numbers = [float(data[name]) for name in ("cross", "cosine", "constant")]
            name, found = str(data["encoder"]), data.get("found")
            more = [float(found[name]) for name in ("cross", "rank", "constant")] if found else []
        except (KeyError, TypeError, ValueError) as error:
            raise BundleError(
                f'{where} has a "beside" without encoder, cross, cosine and constant; expected '
                "all four. Export the model again with: malmoi model export"
            ) from error
        if not np.isfinite(numbers + more).all():
            raise BundleError(
                f'{where} has weights in "beside" that are not numbers; expected finite ones. '
                "Export the model again with: malmoi model export"
            )
        cross, cosine, constant = numbers
        return cls(name, cross, cosine, constant, FoundBlend(*more) if more else None)

    def to_json(self) -> dict[str, Any]:
        """Give what a manifest keeps."""
        return {name: value for name, value in asdict(self).items() if value is not None}

    def of(self, scores: Floats, cosines: Floats) -> Floats:
        """Give the weighted sum of a reranker's own scores and the encoder's cosines, all (n,)."""
        blended = self.cross * scores + self.cosine * cosines + self.constant
        return blended.astype(np.float32)


@dataclass(frozen=True, slots=True)
class FoundBlend:
    """The weights of a reranker's own score and of a search's, for what that search found.

    A search has compared the vectors and the words already; a small cross-encoder alone would be
    behind it where words decide.

    >>> FoundBlend(cross=1.0, rank=1.0, constant=0.0).of(np.array([0.5, 0.5]), np.array([3, 1]))
    array([0.7310586, 0.2689414], dtype=float32)
    """

    cross: float
    rank: float
    constant: float

    def of(self, own: Floats, found: Floats) -> Floats:
        """Give scores of 0 … 1 from a reranker's own ones (0 … 1) and the search's, all (n,)."""
        return squash(self.columns(own, found) @ np.array(astuple(self), dtype=np.float32))

    @staticmethod
    def columns(own: Floats, found: Floats) -> Floats:
        """Give what is weighed, (n, 3): the log-odds, the search's standard scores and 1."""
        odds = np.log(np.clip(own, 1e-6, 1 - 1e-6) / np.clip(1 - own, 1e-6, 1 - 1e-6))
        standard = (found - found.mean()) / max(float(found.std()), 1e-6)
        return np.stack([odds, standard, np.ones(len(own))], axis=1).astype(np.float32)


def load_reranker(
    name_or_path: str | Path | None = None,
    *,
    encoder: TextEncoder | None = None,
    threads: int | None = None,
    graph: str | None = None,
    device: str | None = None,
) -> "Reranker":
    """Open a reranker: a folder or a hub id, or else the late interaction of the encoder.

    - `encoder`: whose token vectors are compared where no model is named (the shipped one when left
      out), or whose similarity the reranker blends with its own score if it is that one.
    - `threads`: how many cores to use; all that this process may use when left out.
    - `graph`: which ONNX graph to use of a folder with several.
    - `device`: where the graph runs, as in `malmoi.load`.
    """
    if name_or_path is None:
        return LateReranker(encoder or load(threads=threads, device=device))
    folder = find_model(name_or_path, graph=graph)
    bundle = open_bundle(folder, kinds=("reranker",), graph=graph)
    return Reranker(bundle, encoder=encoder, threads=threads, device=device)


class Reranker(GraphModel):
    """A cross-encoder on onnxruntime. Make one with `malmoi.load`.

    `malmoi.load(kind="reranker")` gives one by late interaction, which needs no model of its own.
    """

    def __init__(
        self,
        bundle: Bundle,
        *,
        encoder: TextEncoder | None = None,
        threads: int | None = None,
        device: str | None = None,
    ) -> None:
        super().__init__(bundle, threads=threads, device=device)
        self._pairs = PairTokenizer(self._runner.tokens)
        self._check_graph()
        self._blend, self._encoder = self._open_blend(encoder)

    def __repr__(self) -> str:
        scores = ", ".join(self.labels) or "one score"
        return f"<Reranker {self.name}: {scores}, {self.max_tokens} tokens>"

    def score(
        self, pairs: Sequence[Pair], *, label: str | None = None, progress: bool = False
    ) -> Floats:
        """Give one score a pair, (n,), that grows with similarity.

        A model with one output gives that output, from 0 to 1 where it was trained so. One with
        several labels gives the probability of `label`, or else of the one that means similarity
        ("entailment", "same", "paraphrase", …, or "1" of "1" and "0"), and raises a BundleError if
        it has no such label. Pairs longer than the model reads are cut, with one CutWarning.
        Identical pairs are scored once.

        >>> reranker.score([("환불은요?", "7일 안에 됩니다."), ("환불은요?", "cat")]).shape
        (2,)
        """
        column = self._column(label)
        scores = self._activated(pairs, progress)[:, column]
        if self._blend is None or self._encoder is None:
            return scores
        return squash(self._blend.of(scores, cosines(self._encoder, pairs)))

    @property
    def found_blend(self) -> FoundBlend | None:
        """How its own score is weighed with that of a search, if it was fitted."""
        return self._blend.found if self._blend else None

    def own_scores(self, pairs: Sequence[Pair]) -> Floats:
        """Give the scores of a model without labels before an encoder's are blended in, (n,)."""
        return self._activated(pairs, False)[:, 0]

    def probabilities(self, pairs: Sequence[Pair], *, progress: bool = False) -> Floats:
        """Give the probability of each of the model's `labels` for each pair, (n, labels)."""
        if not self.labels:
            raise BundleError(
                f"{self.name} has one score and no labels; expected a model with labels. "
                "Use score instead."
            )
        return self._activated(pairs, progress)

    def count_cut(self, pairs: Sequence[Pair]) -> int:
        """Count the pairs that are longer than the model reads, and would be cut.

        >>> reranker.count_cut([("cat", "dog " * 2000)])  # by token vectors all of a text is read
        0
        """
        return self._pairs.encode(self._cleaned(pairs))[1]

    def rank(
        self, query: str, texts: Sequence[str], *, k: int | None = None, label: str | None = None
    ) -> list[RankedText]:
        """Sort texts by their score with the query, the best `k` or all; ties keep their order.

        The query stands first in each pair; `label` is that of `score`.

        >>> reranker.rank("환불은 언제 되나요?", ["cat", "환불은 7일 안에 됩니다."], k=1)[0].index
        1
        """
        if k is not None and k < 1:
            raise OptionError(f"k is {k}; expected 1 or more. Leave it out for all texts.")
        listed = as_texts(texts)
        as_text(query, where="query")
        scores = self.score([(query, text) for text in listed], label=label)
        order = np.argsort(-scores, kind="stable")[:k]
        return [RankedText(int(i), listed[i], float(scores[i])) for i in order]

    def _column(self, label: str | None) -> int:
        """The output that a score is read from."""
        if label is None:
            return similar_label(self.labels) if self.labels else 0
        if label not in self.labels:
            raise OptionError(
                f"label is not one of the model's ({', '.join(self.labels) or 'it has none'}); "
                "expected one of these. Leave it out for the one that means similarity."
            )
        return self.labels.index(label)

    def _open_blend(
        self, encoder: TextEncoder | None
    ) -> tuple[ScoreBlend | None, TextEncoder | None]:
        """Open the encoder whose similarity is blended with the scores, if there is one."""
        if not self.manifest.beside or self.labels:
            return None, None
        blend = ScoreBlend.read(self.manifest.beside, where=str(self.bundle.folder / MANIFEST))
        if encoder is None or encoder.manifest.name != blend.encoder:
            encoder = open_encoder(blend, threads=self.threads)
        return blend, encoder

    def _activated(self, pairs: Sequence[Pair], progress: bool) -> Floats:
        outputs = self._outputs(pairs, progress)
        if self.manifest.activation == "sigmoid":
            return squash(outputs)
        return softmax(outputs) if self.labels else outputs

    def _outputs(self, pairs: Sequence[Pair], progress: bool) -> Floats:
        """Run every distinct pair through the graph; (n, outputs)."""
        rows: dict[Pair, int] = {}
        owners = [rows.setdefault(pair, len(rows)) for pair in self._cleaned(pairs)]
        outputs = np.empty((len(rows), self.manifest.dimension), dtype=np.float32)
        started = (self._start(part) for part in chunks(rows, lambda p: len(p[0]) + len(p[1])))
        at = cut = 0
        with progressing("scoring", total=len(rows), shown=progress) as advance:
            for block, cut_here in pipelined(started):
                outputs[at : at + len(block)] = block
                at, cut = at + len(block), cut + cut_here
                advance(len(block))
        if cut:
            were = by_number(cut, "was", "were")
            warnings.warn(
                f"{cut:,} of {counted(len(rows), 'pair')} {were} longer than {self.max_tokens} "
                f"tokens and {were} cut, the longer text first",
                CutWarning,
                stacklevel=4,  # the caller of score or probabilities
            )
        return outputs[owners]

    def _start(self, pairs: list[Pair]) -> Callable[[], tuple[Floats, int]]:
        inputs, cut = self._pairs.encode(pairs)
        wait = self._runner.start(inputs, self._run)
        return lambda: (wait(), cut)

    def _cleaned(self, pairs: Sequence[Pair]) -> list[Pair]:
        """Check every pair, and clean each distinct text once."""
        if not isinstance(pairs, Sequence) or isinstance(pairs, str | bytes):
            raise TextError(
                f"pairs is {type(pairs).__name__}; expected a list of pairs of texts. "
                "Put the pairs into a list."
            )
        checked = [_as_pair(pair, i) for i, pair in enumerate(pairs)]
        steps = self.manifest.clean or SAFE
        cleaned = {text: clean(text, steps) for text in {t for pair in checked for t in pair}}
        return [(cleaned[a], cleaned[b]) for a, b in checked]

    def _check_graph(self) -> None:
        """Run one short pair, so that a graph which does not fit is found now."""
        stated = self.manifest.dimension
        found = self._start([("가", "a")])()[0].shape[1]
        if found != stated or len(self.labels) != (stated if stated > 1 else 0):
            raise BundleError(
                f"{self.bundle.graph} gives {counted(found, 'score')} a pair, and malmoi.json says "
                f"{stated} with {counted(len(self.labels), 'label')}; expected the same, and no "
                "label for a single score. Export the model again with: malmoi model export"
            )


class LateReranker(Reranker):
    """Scores by late interaction: the mean of MaxSim over token vectors and an encoder's cosine.

    A word of the query counts more if its best match in one text stands out from those in the
    others, so a text's score depends a little on what else is scored for that query at once.
    """

    def __init__(self, encoder: TextEncoder) -> None:
        tokens = TokenEncoder.fit(encoder)
        if tokens is None:
            raise BundleError(
                f"{encoder.manifest.name} gives no token vectors; expected a transformer encoder, "
                "or a reranker. Name one of them."
            )
        self._tokens, self._blend, self._encoder = tokens, None, encoder
        self.bundle, self.manifest = tokens.encoder.bundle, encoder.manifest
        self.name, self.labels = encoder.manifest.name, ()
        self.max_tokens, self.threads = tokens.encoder.max_tokens, tokens.encoder.threads

    def __repr__(self) -> str:
        return f"<Reranker {self.name}: late interaction, {self._tokens.size} dimensions a token>"

    def score(
        self, pairs: Sequence[Pair], *, label: str | None = None, progress: bool = False
    ) -> Floats:
        """Give one score a pair, (n,): the texts of one query are compared with each other."""
        self._column(label)
        rows: dict[str, list[int]] = {}
        cleaned = self._cleaned(pairs)
        for i, (query, _) in enumerate(cleaned):
            rows.setdefault(query, []).append(i)
        scores = np.zeros(len(cleaned), dtype=np.float32)
        with progressing("scoring", total=len(cleaned), shown=progress) as advance:
            for query, own in rows.items():
                scores[own] = self._compare(query, [cleaned[i][1] for i in own])
                advance(len(own))
        return scores

    def own_scores(self, pairs: Sequence[Pair]) -> Floats:
        """Give the scores, (n,)."""
        return self.score(pairs)

    def count_cut(self, pairs: Sequence[Pair]) -> int:
        """Count the pairs that would be cut: none, longer texts are read in windows."""
        return 0

    def _compare(self, query: str, texts: Sequence[str]) -> Floats:
        """Score texts with a query: (n,); one of them without a token has -1."""
        first, second = prompts_of(self._tokens.encoder) or (None, None)
        asked, [own] = self._tokens.encode_both([query], prompt=first)
        vectors, found = self._tokens.encode_both(texts, prompt=second)
        packed = [pack(one.vectors) for one in found]
        some = [i for i, one in enumerate(packed) if one]
        scores = np.full(len(texts), -1.0, dtype=np.float32)
        if some and len(own.vectors):
            met = interact(own.vectors, [packed[i] for i in some], size=self._tokens.size)
            cosines = normalize(vectors)[some] @ normalize(asked)[0]
            scores[some] = (met.scores + cosines) / 2  # docs/decisions/fusion.md has the trials
        return scores


def similar_label(labels: Sequence[str]) -> int:
    """Find the one label that means "the second text says what the first does".

    >>> similar_label(("contradiction", "neutral", "entailment")), similar_label(("0", "1"))
    (2, 1)
    """
    known = (*_SIMILAR, *_YES) if len(labels) == 2 else _SIMILAR
    found = [i for i, label in enumerate(labels) if label.lower() in known]
    if len(found) == 1:
        return found[0]
    raise BundleError(
        f"the labels are {', '.join(labels)}; expected just one that means similarity "
        f"({', '.join(_SIMILAR)}, or 1 of 1 and 0). Name the one you want as label."
    )


def _as_pair(pair: object, i: int) -> Pair:
    if isinstance(pair, tuple | list) and len(pair) == 2:
        a, b = pair
        return as_text(a, where=f"pairs[{i}][0]"), as_text(b, where=f"pairs[{i}][1]")
    size = f" of {len(pair)}" if isinstance(pair, tuple | list) else ""
    raise TextError(
        f"pairs[{i}] is {type(pair).__name__}{size}; expected two texts. "
        "Give a list of pairs, and one pair inside a list."
    )


def open_encoder(blend: ScoreBlend, *, threads: int | None) -> TextEncoder:
    """Open the encoder that a reranker names, if it is a shipped one: no path is followed."""
    if blend.encoder not in shipped_models():
        raise BundleError(
            f'the reranker blends its score with "{blend.encoder}", which is not shipped with this '
            f"installation ({', '.join(shipped_models()) or 'nothing is'}); expected a shipped "
            "encoder. Pass the encoder: malmoi.load(path, encoder=…)"
        )
    return load(blend.encoder, threads=threads)


def squash(values: Floats) -> Floats:
    """The logistic function: any numbers to 0 … 1.

    >>> squash(np.array([0, 1e4, -1e4], dtype=np.float32)).tolist()
    [0.5, 1.0, 0.0]
    """
    # exp of negative numbers only: nothing overflows, and low scores stay distinct.
    small = np.exp(-np.abs(values))
    squashed: Floats = np.where(values >= 0, 1, small) / (1 + small)
    return squashed


def cosines(encoder: TextEncoder, pairs: Sequence[Pair]) -> Floats:
    """The encoder's cosine for each pair, (n,); each distinct text is encoded once."""
    rows: dict[str, int] = {}
    at = np.array(
        [[rows.setdefault(text, len(rows)) for text in pair] for pair in pairs], dtype=np.int64
    ).reshape(-1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CutWarning)  # the reranker warns of the pairs it cuts
        vectors = encoder.encode(list(rows))
    found: Floats = np.einsum("nd,nd->n", vectors[at[:, 0]], vectors[at[:, 1]])
    return found
