"""`malmoi compare`: what a cross-encoder says of two texts, label by label."""

import itertools
from collections.abc import Iterable
from typing import Annotated

from typer import BadParameter

from ..heads.reranker import load_reranker
from .options import Threads, arg
from .output import Row, prints_rows
from .similarity import stdin_pairs

_BLOCK = 1024


@prints_rows
def compare(
    model: Annotated[str, arg("A cross-encoder's bundle, shipped name or hub id.")],
    texts: Annotated[list[str], arg("Two texts, the premise first; - reads pairs, tab between.")],
    threads: Threads = None,
) -> Iterable[Row]:
    """Print each label's probability for two texts (entailment, …), or the one score."""
    if texts != ["-"] and len(texts) != 2:
        raise BadParameter(f"{len(texts)} texts were given; give two, or - for pairs on stdin")
    reranker = load_reranker(model, threads=threads)
    pairs = stdin_pairs() if texts == ["-"] else iter([(texts[0], texts[1])])
    while block := list(itertools.islice(pairs, _BLOCK)):
        if not reranker.labels:
            for (a, b), score in zip(block, reranker.score(block).tolist(), strict=True):
                yield {"a": a, "b": b, "score": round(score, 6)}
            continue
        for (a, b), row in zip(block, reranker.probabilities(block).tolist(), strict=True):
            shares = dict(zip(reranker.labels, row, strict=True))
            best = max(shares, key=shares.__getitem__)
            shown = {label: round(share, 4) for label, share in shares.items()}
            yield {"a": a, "b": b, "label": best, "probabilities": shown}
