"""An encoder's similarity blended with a reranker's own score."""

import dataclasses
import runpy
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.bundle.bundle import Manifest
from malmoi.corpus import Corpus
from malmoi.encoders import TextEncoder
from malmoi.errors import BundleError, DataError
from malmoi.heads.reranker import FoundBlend, ScoreBlend, cosines, squash
from tests.support import ROOT, graphs

JOIN = runpy.run_path(str(ROOT / "recipes/prepare/reranker_join.py"))
FoundTexts, fit_found = JOIN["FoundTexts"], JOIN["fit_found"]
fit_blend, write_blend = JOIN["fit_blend"], JOIN["write_blend"]

PAIRS = [
    ("배가 아프다", "환자 는 배가 아프다"),
    ("the cat sleeps", "고양이 잔다"),
    ("배", "boat"),
    ("sweet pear", "배 달다"),
    ("배", "배"),
]


@pytest.fixture
def encoder(tmp_path: Path) -> TextEncoder:
    return malmoi.load(graphs.write_bundle(tmp_path / "encoder", name="beside"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return graphs.write_reranker(tmp_path / "reranker")


def test_scores_are_the_weighted_sum(folder: Path, encoder: TextEncoder) -> None:
    alone = malmoi.load_reranker(folder).score(PAIRS)
    write_blend(folder, ScoreBlend("beside", cross=0.5, cosine=2.0, constant=-1.0))
    found = malmoi.load_reranker(folder, encoder=encoder).score(PAIRS)
    one, two = (encoder.encode([pair[side] for pair in PAIRS]) for side in (0, 1))
    summed = 0.5 * alone + 2.0 * (one * two).sum(axis=1) - 1.0
    assert np.allclose(found, 1 / (1 + np.exp(-summed)), atol=1e-5)
    assert found.dtype == np.float32


def test_no_pairs_and_identical_ones(folder: Path, encoder: TextEncoder) -> None:
    write_blend(folder, ScoreBlend("beside", cross=1, cosine=1, constant=0))
    reranker = malmoi.load_reranker(folder, encoder=encoder)
    assert reranker.score([]).shape == (0,)
    assert len(set(reranker.score([("배", "달다")] * 3).tolist())) == 1
    assert cosines(encoder, [("배", "배")])[0] == pytest.approx(1, abs=1e-5)


def test_an_encoder_of_another_name_is_not_used(folder: Path, encoder: TextEncoder) -> None:
    write_blend(folder, ScoreBlend("somewhere/else", cross=1, cosine=1, constant=0))
    with pytest.raises(BundleError, match=r"somewhere/else.*not shipped.*encoder=…"):
        malmoi.load_reranker(folder, encoder=encoder)


@pytest.mark.parametrize(
    "beside",
    [
        {"encoder": "ko-en-small"},
        {"encoder": "ko-en-small", "cross": "x", "cosine": 1, "constant": 0},
        {"encoder": "ko-en-small", "cross": float("inf"), "cosine": 1, "constant": 0},
        {"encoder": "ko-en-small", "cross": 1, "cosine": 1, "constant": 0, "found": {"cross": 1}},
    ],
)
def test_a_broken_field_is_refused(folder: Path, beside: dict[str, object]) -> None:
    dataclasses.replace(Manifest.read(folder), beside=beside).write(folder)
    with pytest.raises(BundleError, match="beside"):
        malmoi.load_reranker(folder)


def test_the_fit_finds_what_made_the_scores(folder: Path, encoder: TextEncoder) -> None:
    words = ["배", "달다", "고양이", "boat", "환자", "the cat sleeps", "sweet pear"]
    pairs = [(a, b) for a in words for b in words]
    reranker = malmoi.load_reranker(folder)
    true = ScoreBlend("beside", cross=1.3, cosine=3.0, constant=-0.7)
    logits = true.of(reranker.own_scores(pairs), cosines(encoder, pairs))
    found = fit_blend(reranker, encoder, pairs, squash(logits).tolist())
    assert found.encoder == "beside"
    again = found.of(reranker.own_scores(pairs), cosines(encoder, pairs))
    assert np.allclose(squash(again), squash(logits), atol=0.01)
    assert found.cosine == pytest.approx(3.0, abs=0.2)


def test_a_fit_wants_shares(folder: Path, encoder: TextEncoder) -> None:
    with pytest.raises(DataError, match="from 0 to 1"):
        fit_blend(malmoi.load_reranker(folder), encoder, PAIRS * 3, [4.2] * 15)


def test_what_a_search_found_is_weighed_with_its_score(
    folder: Path, encoder: TextEncoder, tmp_path: Path
) -> None:
    texts = {"a": "배 달다", "b": "boat", "c": "고양이 잔다"}
    corpus = Corpus.open(tmp_path / "found.malmoi", encoder)
    corpus.add({"id": id, "text": text} for id, text in texts.items())
    blends = {"search": FoundBlend(0, 5, 0), "own": FoundBlend(3, 0, 0)}
    order = {}
    for name, found in blends.items():
        write_blend(folder, ScoreBlend("beside", 1, 1, 0, found))
        reranker = malmoi.load_reranker(folder, encoder=encoder)
        hits = corpus.search("배", 3, mode="dense", reranker=reranker)
        order[name] = [hit.id for hit in hits]
        assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
        assert all(0 <= hit.score <= 1 and hit.scores["rerank"] == hit.score for hit in hits)
    assert order["search"] == [hit.id for hit in corpus.search("배", 3, mode="dense")]
    own = reranker.own_scores([("배", text) for text in texts.values()])
    assert order["own"] == [list(texts)[i] for i in np.argsort(-own, kind="stable")]


def test_only_the_order_within_a_search_counts(
    monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    """A reranker that tells a search's texts apart, but whose level differs from query to query."""
    reranker, random = malmoi.load_reranker(folder), np.random.default_rng(0)
    searches, own = [], {}
    for i in range(60):
        right = [False] * 6
        right[int(random.integers(6))] = True
        level = random.normal() * 3
        own[f"query {i}"] = squash(level + np.array(right) * 1.5 + random.normal(size=6) * 0.5)
        texts = [f"text {j}" for j in range(6)]
        searches.append(FoundTexts(f"query {i}", texts, random.normal(size=6).tolist(), right))
    monkeypatch.setattr(malmoi.Reranker, "own_scores", lambda self, pairs: own[pairs[0][0]])
    found = fit_found(reranker, searches)
    assert found.cross > 1 and abs(found.rank) < 0.25 * found.cross
    # One text far before all others, which is not always the right one: no weights that run away.
    searches, texts = [], [f"text {j}" for j in range(50)]
    for i in range(40):
        scores = random.normal(size=50) * 0.1
        scores[7] = 9.0
        searches.append(
            FoundTexts(
                f"{i}", texts, scores.tolist(), [j == (7 if i % 8 else 8) for j in range(50)]
            )
        )
        own[f"{i}"] = squash(random.normal(size=50))
    found = fit_found(reranker, searches)
    assert 0 < found.rank < 3 and abs(found.cross) < 1


def test_the_fit_of_searches_finds_which_score_is_right(folder: Path) -> None:
    words = ["배", "달다", "고양이", "boat", "환자", "the cat sleeps", "sweet pear"]
    reranker, random = malmoi.load_reranker(folder), np.random.default_rng(0)
    searches = []
    for query in words * 4:
        scores = random.normal(size=len(words)).tolist()
        right = [score == max(scores) for score in scores]
        searches.append(FoundTexts(query, words, scores, right))
    found = fit_found(reranker, searches)
    assert found.rank > 1
    assert abs(found.cross) < 0.5 * found.rank
    with pytest.raises(DataError, match="0 searches found right texts and wrong ones"):
        fit_found(reranker, [FoundTexts("배", words, [1.0] * 7, [False] * 7)] * 20)
