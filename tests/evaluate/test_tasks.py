"""Tasks: what they measure, against judges or values worked out by hand."""

import dataclasses

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.errors import BundleError, DataError, OptionError
from malmoi.evaluate import nli, pairs, rerank, retrieval, sts, transfer
from malmoi.evaluate.tasks.nli import Labelled, _usable_folds
from malmoi.evaluate.tasks.retrieval import (
    Member,
    Relevant,
    _ranks,
    from_pairs,
    from_sets,
    unit_vectors,
)
from malmoi.evaluate.tasks.similarity import LabelledPair, ScoredPair
from tests.support.fakes import Constant, Letters, Noise, Shared

WORDS = ["boat", "ship", "harbour", "pear", "apple", "snow", "cat", "dogs", "sleep", "sweet"]
# No text beside itself: whether such cosines are tied would be up to rounding.
PAIRS = [ScoredPair(a, b, len(a) + len(b)) for a in WORDS for b in WORDS if a != b]


def test_sts_correlates_every_similarity() -> None:
    found = sts.measure(Noise(), PAIRS).values()
    left = Noise().encode([pair.a for pair in PAIRS]).astype(float)
    right = Noise().encode([pair.b for pair in PAIRS]).astype(float)
    gold = [pair.score for pair in PAIRS]
    dots = (left * right).sum(axis=1)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    judges = {"": dots / lengths, "_dot": dots, "_euclidean": -np.linalg.norm(left - right, axis=1)}
    assert set(found) == {f"{r}{ending}" for r in ("spearman", "pearson") for ending in judges}
    for ending, scores in judges.items():
        spearman = scipy.stats.spearmanr(scores, gold)[0]
        assert found[f"spearman{ending}"] == pytest.approx(spearman, abs=1e-6)
        pearson = scipy.stats.pearsonr(scores, gold)[0]
        assert found[f"pearson{ending}"] == pytest.approx(pearson, abs=1e-6)


def test_a_reranker_is_measured_by_its_score() -> None:
    found = sts.measure(Shared(), PAIRS).values()
    scores = Shared().score([(pair.a, pair.b) for pair in PAIRS])
    judge = scipy.stats.spearmanr(scores, [pair.score for pair in PAIRS])[0]
    assert found == {"spearman": pytest.approx(judge), "pearson": found["pearson"]}


def test_models_that_cannot_do_a_task_are_told_so() -> None:
    with pytest.raises(OptionError, match="Shared|shared has no encode"):
        retrieval.measure(Shared(), from_pairs([Relevant("a", "b")] * 3))
    with pytest.raises(OptionError, match="letters has no score"):
        found = from_pairs([Relevant("a", "b"), Relevant("c", "d")])
        rerank.measure(Letters(), found, encoder=Letters())


def test_vectors_that_are_no_numbers_are_refused() -> None:
    class Broken:
        def encode(self, texts: list[str]) -> np.ndarray:
            return np.full((len(texts), 2), np.nan)

    with pytest.raises(BundleError, match="Broken gave vectors that are not finite"):
        sts.measure(Broken(), PAIRS)


def test_pairs_are_parted_by_a_threshold() -> None:
    rows = [LabelledPair(word, word[::-1], True) for word in WORDS]
    rows += [LabelledPair(word, "zzz", False) for word in WORDS]
    outcome = pairs.measure(Letters(), rows)
    assert outcome.values()["average_precision"] == pytest.approx(1)
    assert outcome.values()["accuracy"] == outcome.values()["f1"] == 1
    assert 0 < outcome.details["threshold_accuracy"] < 1
    assert outcome.details["share_same"] == 0.5


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 5), st.integers(0, 11)), min_size=3, max_size=30),
    st.integers(0, 1000),
)
def test_ranking_measures_are_sklearns(relevant: list[tuple[int, int]], seed: int) -> None:
    """Random relevance: nDCG and MAP of every query against scikit-learn."""
    rows = [Relevant(f"query {q} {seed}", f"document {d}") for q, d in relevant]
    rows += [Relevant("other", f"document {d}") for d in range(12)]
    found = from_pairs(rows)
    outcome = retrieval.measure(Noise(), found, ks=(1, 3, 5))
    left, right = unit_vectors(Noise(), found)
    scores = left @ right.T
    gold = np.array([[row in found_ for row in range(12)] for found_ in found.relevant], float)
    ndcg = sklearn.metrics.ndcg_score(gold, scores, k=5)
    precision = [
        sklearn.metrics.average_precision_score(truth, row)
        for truth, row in zip(gold, scores, strict=True)
    ]
    values = outcome.values()
    assert values["ndcg@5"] == pytest.approx(ndcg, abs=1e-6)
    assert values["map"] == pytest.approx(np.mean(precision), abs=1e-6)
    order = np.argsort(-scores, axis=1)[:, :3]
    hits = np.take_along_axis(gold, order, axis=1)
    assert values["hit@3"] == pytest.approx(hits.any(axis=1).mean())
    assert values["recall@3"] == pytest.approx((hits.sum(axis=1) / gold.sum(axis=1)).mean())
    first = np.where(hits.any(axis=1), 1 / (hits.argmax(axis=1) + 1), 0)
    assert values["mrr@3"] == pytest.approx(first.mean())


def test_graded_gains_are_sklearns() -> None:
    rows = [Relevant("query", f"document {i}", grade) for i, grade in enumerate([3, 0, 1, 2, 1])]
    found = from_pairs([*rows, Relevant("other", "document 1")])
    left, right = unit_vectors(Noise(), found)
    gold = [[3, 0, 1, 2, 1], [0, 1, 0, 0, 0]]
    judge = sklearn.metrics.ndcg_score(gold, left @ right.T, k=3)
    assert retrieval.measure(Noise(), found, ks=(3,)).values()["ndcg@3"] == pytest.approx(judge)


def test_counting_and_sorting_give_the_same_ranks() -> None:
    random = np.random.default_rng(0)
    scores = random.integers(0, 20, size=300).astype(np.float32)  # many ties
    few = _ranks(scores, np.arange(10))
    many = _ranks(scores, np.arange(300))
    assert few == many[:10]
    assert sorted(many) == list(range(1, 301))


def test_a_member_finds_its_set_and_not_itself() -> None:
    members = [Member(str(i), text) for i, word in enumerate(WORDS) for text in (word, word[::-1])]
    found = from_sets([*members, Member("alone", "zzz"), members[0]])
    assert len(found.queries) == 20  # the lone text asks nothing, the double one once
    values = retrieval.measure(Letters(), found).values()
    assert values["hit@1"] == values["map"] == 1
    assert values["recall@1"] == 1


def test_a_constant_model_is_near_chance() -> None:
    rows = [Relevant(f"query {i}", f"document {i}") for i in range(100)]
    values = retrieval.measure(Constant(), from_pairs(rows)).values()
    assert values["hit@10"] == pytest.approx(0.1)


def test_k_beyond_the_documents_is_left_out_and_told() -> None:
    found = from_pairs([Relevant(word, word[::-1]) for word in WORDS])
    outcome = retrieval.measure(Letters(), found, ks=(1, 10, 100))
    assert [name for name in outcome.values() if name.startswith("recall")] == ["recall@1"]
    assert outcome.notes == (
        "only 10 documents are ranked, so k = 10, 100 says nothing and was left out",
    )
    with pytest.raises(OptionError, match="k is"):
        retrieval.measure(Letters(), found, ks=(0,))


def test_reranking_orders_what_the_encoder_proposed() -> None:
    found = from_pairs([Relevant(word, word[::-1]) for word in WORDS])
    after = rerank.measure(Shared(), found, encoder=Noise(), top=10, ks=(1, 3))
    [(title, before)] = after.others
    assert title == "noise alone"
    assert after.values()["hit@1"] > before.values()["hit@1"]
    few = rerank.measure(Shared(), found, encoder=Noise(), top=3, ks=(3,))
    # What was not proposed stays below, so the first three hold the same documents.
    assert few.values()["recall@3"] == before.values()["recall@3"]
    with pytest.raises(OptionError, match="top is 0"):
        rerank.measure(Shared(), found, encoder=Noise(), top=0)


def test_prompts_reach_the_side_they_are_for() -> None:
    class Prompted(Letters):
        def encode(self, texts: list[str], prompt: str = "") -> np.ndarray:
            seen.append((prompt, len(texts)))
            return super().encode([prompt + text for text in texts])

    seen: list[tuple[str, int]] = []
    found = from_pairs([Relevant("a", "b"), Relevant("c", "d"), Relevant("e", "d")])
    retrieval.measure(Prompted(), dataclasses.replace(found, query_prompt="query: "), ks=(1,))
    assert seen == [("query: ", 3), ("", 2)]


def labelled(count: int = 60) -> list[Labelled]:
    """Texts whose first letter is their label."""
    return [Labelled((f"{'ab'[i % 2]} {i}",), "ab"[i % 2]) for i in range(count)]


def test_a_probe_reads_what_vectors_hold() -> None:
    outcome = transfer.measure(Letters(), labelled(), folds=5)
    assert outcome.values()["accuracy"] > 0.95
    assert outcome.details["labels"] == {"a": 30, "b": 30}
    assert transfer.measure(Noise(), labelled(), folds=5).values()["accuracy"] < 0.8
    trained = transfer.measure(Letters(), labelled(20), train=labelled(80)[20:])
    assert trained.values()["accuracy"] == 1
    assert trained.notes == ()
    seen = transfer.measure(Letters(), labelled(20), train=labelled(80)[15:])
    assert seen.notes == ("5 of 20 rows are in the training file too, so the values are too high",)


def test_groups_stay_in_one_fold() -> None:
    """Labels that only copies of the same text could tell: a leak would show as accuracy."""
    rows = [Labelled((f"text {i}",), "ab"[(i * 7919) % 13 % 2]) for i in range(40)] * 5
    assert transfer.measure(Noise(), rows, folds=5).values()["accuracy"] < 0.8


def test_labels_that_cannot_be_learnt_are_refused() -> None:
    with pytest.raises(DataError, match="all 5 rows have one label"):
        transfer.measure(Letters(), [Labelled((f"{i}",), "a") for i in range(5)])
    rows = [Labelled((f"{i}",), str(min(i, 1))) for i in range(5)]
    with pytest.raises(DataError, match="1 of 2 labels is in one row only"):
        transfer.measure(Letters(), rows)
    same = [Labelled(("x",), "ab"[i % 2]) for i in range(8)]
    with pytest.raises(DataError, match="the same first text"):
        transfer.measure(Letters(), same)
    with pytest.raises(OptionError, match="folds is 1"):
        transfer.measure(Letters(), labelled(), folds=1)


def test_few_rows_of_a_label_mean_fewer_folds() -> None:
    labels = np.array(["a"] * 3 + ["b"] * 20)
    assert _usable_folds(labels, 10) == 3


class Judge:
    """A reranker with labels: texts that share all letters follow from each other."""

    name = "judge"
    labels = ("Entailment", "neutral")

    def probabilities(self, pairs: list[tuple[str, str]]) -> np.ndarray:
        same = np.array([[set(a) == set(b)] for a, b in pairs], dtype=float)
        return np.concatenate([same, 1 - same], axis=1)


def test_a_reranker_with_labels_judges_by_itself() -> None:
    rows = [Labelled((word, word[::-1]), "entailment") for word in WORDS]
    rows += [Labelled((word, "zzz"), "neutral") for word in WORDS[:5]]
    rows += [Labelled(("ab", "ba"), "neutral")]
    outcome = nli.measure(Judge(), rows)
    assert outcome.values()["accuracy"] == pytest.approx(15 / 16)
    assert outcome.details["confusion"]["neutral"] == {"entailment": 1, "neutral": 5}
    with pytest.raises(DataError, match=r"does not know \(1 of 2\); it knows"):
        nli.measure(Judge(), [Labelled(("a", "b"), "neutral"), Labelled(("a", "b"), "maybe")])


def test_a_reranker_without_labels_cannot_judge() -> None:
    scorer = Judge()
    scorer.labels = ()  # type: ignore[assignment]
    with pytest.raises(OptionError, match="judge gives one score and no labels"):
        nli.measure(scorer, [Labelled(("a", "b"), "neutral"), Labelled(("a", "b"), "maybe")])


def test_an_encoder_is_asked_through_a_probe() -> None:
    texts = [f"{word} {other}" for word in WORDS for other in WORDS[:4]]
    rows = [Labelled((text, text[::-1]), "same") for text in texts[::2]]
    rows += [Labelled((text, "zz"), "other") for text in texts[1::2]]
    assert nli.measure(Letters(), rows, folds=3).values()["accuracy"] > 0.9
