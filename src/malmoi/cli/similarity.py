"""`malmoi similarity`: how alike texts are; `malmoi classify-pair`: what a cross-encoder says."""

import itertools
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from typer import BadParameter

from ..encoders import load
from ..encoders.scale import score_scale
from ..errors import DataError, counted
from ..io.files import read_lines
from ..runtime.pooling import normalize
from .display import number, shorten, style, table
from .options import ModelOption, Threads, arg, opt
from .output import Row, prints

_BLOCK = 1024
_MATRIX = 8  # texts that a matrix has room for


def _matrix(rows: list[dict[str, Any]], columns: int) -> Iterable[str]:
    """Lay pairs out as a matrix, if they are all the pairs of a few texts."""
    texts = list(dict.fromkeys([row["a"] for row in rows] + [row["b"] for row in rows]))
    pairs = {(row["a"], row["b"]): row for row in rows}
    n = len(texts)
    if not 2 < n <= _MATRIX or len(rows) != n * (n - 1) // 2:
        return table(rows, columns)
    found: list[dict[str, object]] = []
    for i, text in enumerate(texts):
        line: dict[str, object] = {"": f"{i + 1}", "text": shorten(text, columns - 8 * n - 8)}
        for j, other in enumerate(texts, start=1):
            pair = pairs.get((text, other)) or pairs.get((other, text))
            line[str(j)] = "–" if pair is None else number(pair["score"])
        found.append(line)
    return table(found, columns)


@prints(view=_matrix)
def similarity(
    texts: Annotated[list[str], arg("Two texts or more; - reads pairs from stdin, tab between.")],
    calibrated: Annotated[
        bool,
        opt(
            "Add where the cosine lies from 0 (unrelated pairs) to 1 (paraphrases).",
            "--calibrated",
        ),
    ] = False,
    model: ModelOption = None,
    threads: Threads = None,
) -> Iterable[Row]:
    """Print the cosine of every pair of the texts, from -1 to 1."""
    if texts != ["-"] and len(texts) < 2:
        raise BadParameter("one text was given; give two or more, or - for pairs on stdin")
    encoder = load(model, threads=threads)
    scale = score_scale(encoder) if calibrated else None
    pairs = _stdin_pairs() if texts == ["-"] else itertools.combinations(texts, 2)
    while block := list(itertools.islice(pairs, _BLOCK)):
        left = normalize(encoder.encode([a for a, _ in block]))
        right = normalize(encoder.encode([b for _, b in block]))
        scores = (left * right).sum(axis=1)
        likely = scale.calibrated(scores) if scale else [None] * len(scores)
        for (a, b), score, same in zip(block, scores, likely, strict=True):
            row: dict[str, object] = {"a": a, "b": b, "score": round(float(score), 6)}
            yield row if same is None else row | {"same": round(float(same), 4)}


def _labels(rows: list[dict[str, Any]], columns: int) -> Iterable[str]:
    for row in rows:
        yield f"{row['a']} | {row['b']}"
        for label, share in row.get("probabilities", {}).items():
            line = f"  {label:<16} {number(share)}"
            yield style(line, "bold") if label == row["label"] else line
        if "score" in row:
            yield f"  {number(row['score'])}"


@prints(view=_labels)
def classify_pair(
    model: Annotated[str, arg("A cross-encoder's bundle, shipped name or hub id.")],
    texts: Annotated[list[str], arg("Two texts, the premise first; - reads pairs, tab between.")],
    threads: Threads = None,
) -> Iterable[Row]:
    """Print each label's probability for two texts (entailment, …), or the one score."""
    from ..heads.reranker import load_reranker  # here, because similarity needs none

    if texts != ["-"] and len(texts) != 2:
        raise BadParameter(f"{len(texts)} texts were given; give two, or - for pairs on stdin")
    reranker = load_reranker(model, threads=threads)
    pairs = _stdin_pairs() if texts == ["-"] else iter([(texts[0], texts[1])])
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


def _stdin_pairs() -> Iterator[tuple[str, str]]:
    """Read pairs of texts, a line each, with a tab between."""
    for line_number, line in enumerate(read_lines("-"), start=1):
        parts = line.split("\t")
        if len(parts) != 2:
            raise DataError(
                f"line {line_number} of stdin has {counted(len(parts), 'field')}; expected two "
                "texts with a tab between them. Add or remove a tab in that line."
            )
        yield parts[0], parts[1]
