"""Pairs with classes: a 1/0 classifier ranks, NLI labels are shown, categories need no training."""

import json
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi import BundleError, OptionError
from malmoi.evaluate import evaluate
from malmoi.heads.reranker import similar_label
from malmoi.heads.zero_shot import ZeroShotClassifier, load_zero_shot
from tests.support import graphs
from tests.support.graphs import Run

NLI = ("entailment", "neutral", "contradiction")
PAIRS = [("배가 아프다", "복통이 있다"), ("배가 아프다", "배를 탔다"), ("the cat", "a cat")]


def rows(stdout: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in stdout.splitlines()]


@pytest.mark.parametrize(
    ("labels", "yes"),
    [(("0", "1"), 1), (("1", "0"), 0), (("false", "true"), 1), (("LABEL_0", "LABEL_1"), 1)],
)
def test_the_label_that_says_yes_is_the_score(labels: tuple[str, ...], yes: int) -> None:
    assert similar_label(labels) == yes
    with pytest.raises(BundleError, match="expected just one"):
        similar_label((*labels, "2"))  # three grades are no yes and no


def test_a_classifier_of_pairs_ranks_and_is_evaluated(tmp_path: Path, run_here: Run) -> None:
    model = graphs.write_reranker(tmp_path / "same", labels=("0", "1"))
    reranker = malmoi.load_reranker(model)
    np.testing.assert_allclose(reranker.score(PAIRS), reranker.probabilities(PAIRS)[:, 1])
    np.testing.assert_allclose(
        reranker.score(PAIRS, label="0"), reranker.probabilities(PAIRS)[:, 0]
    )
    with pytest.raises(OptionError, match="0, 1"):
        reranker.score(PAIRS, label="same")
    (tmp_path / "texts.txt").write_text("복통이 있다\n배를 탔다\n", "utf-8")
    best = rows(run_here("rerank", "배가 아프다", "texts.txt", "-m", model).stdout)
    worst = rows(run_here("rerank", "배가 아프다", "texts.txt", "-m", model, "--label", "0").stdout)
    assert [row["text"] for row in best] == [row["text"] for row in worst][::-1]
    table = "".join(f"{a}\t{b}\t{i % 2}\n" for i, (a, b) in enumerate(PAIRS))
    (tmp_path / "pairs.tsv").write_text("a\tb\tlabel\n" + table, "utf-8")
    report = evaluate(reranker, "pairs", tmp_path / "pairs.tsv", rounds=0)
    assert 0 < report.metrics["average_precision"].value <= 1


def test_compare_prints_every_label(tmp_path: Path, run_here: Run, run: Run) -> None:
    model = graphs.write_reranker(tmp_path / "nli", labels=NLI)
    [row] = rows(run("compare", model, *PAIRS[0]).stdout)
    shares = row["probabilities"]
    assert isinstance(shares, dict) and tuple(shares) == NLI
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    assert row["label"] == max(shares, key=shares.__getitem__)
    lines = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
    assert len(rows(run_here("compare", model, "-", stdin=lines).stdout)) == 3
    one = graphs.write_reranker(tmp_path / "score")
    [row] = rows(run_here("compare", one, *PAIRS[0]).stdout)
    assert isinstance(row["score"], float)
    assert run_here("compare", model, "하나").returncode == 2


def test_categories_by_inference_and_by_similarity(
    tmp_path: Path, run_here: Run, bundle: Path
) -> None:
    model = graphs.write_reranker(tmp_path / "nli", labels=NLI)
    sorter = load_zero_shot(model, ["동물", "배", "배"])
    assert sorter.labels == ("동물", "배")
    [found] = sorter.classify_all(["the cat 배"])
    assert sum(found.probabilities.values()) == pytest.approx(1)
    assert found.probability == found.probabilities[found.label]
    [alone] = sorter.classify_all(["the cat 배"], several=True)
    pairs = [("the cat 배", f"이 글은 {name}에 대한 것이다.") for name in sorter.labels]
    entails, _, against = malmoi.load_reranker(model).probabilities(pairs)[1]
    assert alone.probabilities["배"] == pytest.approx(entails / (entails + against), rel=1e-4)
    encoder = malmoi.load(bundle)
    by_cosine = ZeroShotClassifier(encoder, ["cat", "dog"], template="{}")
    assert by_cosine.classify("the cat cat").label == "cat"
    with pytest.raises(OptionError, match="several categories"):
        by_cosine.classify_all(["cat"], several=True)

    (tmp_path / "a.txt").write_text("the cat cat", "utf-8")
    options = ("--zero-shot", "cat,dog", "--template", "{}")
    [row] = rows(run_here("classify", bundle, "a.txt", *options).stdout)
    assert row["label"] == "cat" and row["note"] == "a.txt"
    done = run_here("classify", bundle, "a.txt", "--zero-shot", "cat")
    assert done.returncode == 1 and "two or more" in done.stderr
    done = run_here("classify", bundle, "a.txt", "--zero-shot", "a,b", "--template", "x")
    assert done.returncode == 1 and "{}" in done.stderr
    one = graphs.write_reranker(tmp_path / "score")
    done = run_here("classify", one, "a.txt", "--zero-shot", "a,b")
    assert done.returncode == 1 and "one score and no labels" in done.stderr
