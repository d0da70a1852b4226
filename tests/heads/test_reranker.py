"""Rerankers: order, blended scores, calibration, the command."""

import csv
import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import malmoi
from malmoi.bundle.bundle import Manifest
from malmoi.corpus import Corpus
from malmoi.encoders import TextEncoder
from malmoi.errors import BundleError, CutWarning, DataError, OptionError, TextError
from malmoi.heads.decision import (
    calibrate,
    expected_error,
    fit_temperature,
    reliability,
    soften,
)
from malmoi.heads.reranker import (
    FoundBlend,
    LateReranker,
    RankedText,
    Reranker,
    ScoreBlend,
    load_reranker,
    squash,
)
from tests.support import graphs
from tests.support.graphs import Run

NLI = ("contradiction", "Entailment", "neutral")

PAIRS = [
    ("배가 아프다", "환자 는 배가 아프다"),
    ("the cat sleeps", "고양이 잔다"),
    ("배", "boat"),
    ("", ""),
    ("sweet pear", "배 달다"),
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A reranker with one score."""
    return graphs.write_reranker(tmp_path / "reranker")


@pytest.fixture
def reranker(folder: Path) -> Reranker:
    """The same, opened."""
    return malmoi.load(folder)


def by_hand(pairs: list[tuple[str, str]], outputs: int = 1) -> NDArray[np.float32]:
    """The graph's sum: each token's row, those of the second text twice."""
    table = graphs.embedding_table(dim=outputs)
    tokenizer = graphs.tiny_tokenizer()
    rows = []
    for pair in pairs:
        encoding = tokenizer.encode(*pair)
        weights = 1 + np.array(encoding.type_ids, dtype=np.float32)
        rows.append((table[encoding.ids] * weights[:, None]).sum(axis=0))
    return np.array(rows, dtype=np.float32).reshape(-1, outputs)


def sigmoid(values: NDArray[np.float32]) -> NDArray[np.float32]:
    return 1 / (1 + np.exp(-values))


def test_scores_are_the_graphs_in_the_order_given(reranker: Reranker) -> None:
    scores = reranker.score(PAIRS)
    assert scores.shape == (5,) and scores.dtype == np.float32
    np.testing.assert_allclose(scores, sigmoid(by_hand(PAIRS)[:, 0]), rtol=1e-5)


def test_identity_leaves_scores_as_they_are(tmp_path: Path) -> None:
    folder = graphs.write_reranker(tmp_path / "raw", activation="identity")
    scores = malmoi.load(folder).score(PAIRS)
    np.testing.assert_allclose(scores, by_hand(PAIRS)[:, 0], rtol=1e-5)


def test_low_scores_stay_apart() -> None:
    found = squash(np.array([[-20], [-20.001], [-30]], dtype=np.float32))[:, 0]
    assert found[0] > found[1] > found[2] > 0 and found.dtype == np.float32


def test_padding_and_company_do_not_change_a_score(reranker: Reranker) -> None:
    together = reranker.score(PAIRS)
    alone = [reranker.score([pair])[0] for pair in PAIRS]
    np.testing.assert_allclose(together, alone, rtol=1e-6)


def test_many_chunks_on_several_threads_keep_their_order(folder: Path) -> None:
    rng = np.random.default_rng(3)
    words = graphs.WORDS[4:]

    def text() -> str:
        return " ".join(rng.choice(words, rng.integers(1, 5)))

    pairs = [(text(), text()) for _ in range(5000)]
    scores = malmoi.load(folder, threads=3).score(pairs)
    np.testing.assert_allclose(scores, sigmoid(by_hand(pairs)[:, 0]), rtol=1e-4)


def test_identical_pairs_are_scored_once(
    reranker: Reranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = 0
    plain = reranker._runner.session.run

    def counted(batch: Any, outputs: Any) -> Any:
        nonlocal rows
        rows += len(batch.ids)
        return plain(batch, outputs)

    monkeypatch.setattr(reranker._runner.session, "run", counted)
    scores = reranker.score([("배", "boat"), ("boat", "배"), ("배", "boat")] * 50)
    assert rows == 2
    assert scores.shape == (150,) and scores[0] == scores[2] != scores[1]


def test_cut_pairs_are_told_once_with_their_number(reranker: Reranker) -> None:
    long = "boat " * 40
    with pytest.warns(CutWarning, match="2 of 3 pairs were longer than 16 tokens") as told:
        scores = reranker.score([(long, "배"), ("배", long), ("배", "배")])
    assert len(told) == 1 and told[0].filename == __file__
    kept = by_hand([("boat " * 12, "배"), ("배", "boat " * 12), ("배", "배")])
    np.testing.assert_allclose(scores, sigmoid(kept[:, 0]), rtol=1e-4)


def test_text_is_cleaned_as_the_manifest_says(tmp_path: Path) -> None:
    folder = graphs.write_reranker(tmp_path / "lower", clean=("surrogates", "narrow", "lower"))
    scores = malmoi.load(folder).score([("ＢＯＡＴ", "Sea"), ("boat", "sea")])
    assert scores[0] == scores[1]


def test_no_pairs_give_no_scores(reranker: Reranker) -> None:
    assert reranker.score([]).shape == (0,)
    assert reranker.rank("배", []) == []


def test_labels_give_probabilities(tmp_path: Path) -> None:
    reranker = malmoi.load(graphs.write_reranker(tmp_path / "nli", labels=NLI))
    found = reranker.probabilities(PAIRS)
    assert found.shape == (5, 3) and reranker.labels == NLI
    raised = np.exp(by_hand(PAIRS, 3))
    np.testing.assert_allclose(found, raised / raised.sum(axis=1, keepdims=True), rtol=1e-4)
    np.testing.assert_array_equal(reranker.score(PAIRS), found[:, 1])


@pytest.mark.parametrize("labels", [("a", "b"), ("same", "duplicate", "other")])
def test_labels_without_one_likeness_refuse_to_score(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    reranker = malmoi.load(graphs.write_reranker(tmp_path / "x", labels=labels))
    with pytest.raises(BundleError, match="Name the one you want"):
        reranker.score(PAIRS)
    assert reranker.probabilities(PAIRS).shape == (5, len(labels))


def test_one_score_has_no_probabilities(reranker: Reranker) -> None:
    with pytest.raises(BundleError, match="Use score"):
        reranker.probabilities(PAIRS)


def test_ranking_sorts_and_keeps_ties_in_order(reranker: Reranker) -> None:
    texts = ["boat", "sea", "boat", "pear", "sea"]
    hits = reranker.rank("배", texts)
    scores = reranker.score([("배", text) for text in texts])
    assert [hit.score for hit in hits] == sorted(map(float, scores), reverse=True)
    assert all(
        hit == RankedText(hit.index, texts[hit.index], float(scores[hit.index])) for hit in hits
    )
    places = [hit.index for hit in hits]
    assert places.index(0) < places.index(2) and places.index(1) < places.index(4)
    assert reranker.rank("배", texts, k=2) == hits[:2]
    assert reranker.rank("배", texts, k=99) == hits


def test_k_must_be_one_or_more(reranker: Reranker) -> None:
    with pytest.raises(OptionError, match="k is 0"):
        reranker.rank("배", ["boat"], k=0)


@pytest.mark.parametrize(
    "pairs",
    [
        "배",
        ("배", "boat"),
        ["배"],
        [("배",)],
        [("배", "boat", "sea")],
        [("배", None)],
        [(b"a", "b")],
        [("배", float("nan"))],
        None,
        7,
        {"배": "boat"},
    ],
)
def test_what_is_no_pair_of_texts_is_told(reranker: Reranker, pairs: Any) -> None:
    with pytest.raises(TextError, match="expected"):
        reranker.score(pairs)


@pytest.mark.parametrize(("query", "texts"), [(None, ["a"]), ("a", "b"), ("a", [None]), ("a", b"")])
def test_what_is_no_text_to_rank_is_told(reranker: Reranker, query: Any, texts: Any) -> None:
    with pytest.raises(TextError, match="expected"):
        reranker.rank(query, texts)


def test_errors_do_not_show_the_text(reranker: Reranker) -> None:
    with pytest.raises(TextError) as caught:
        reranker.score([("비밀", "secret", "more")])  # type: ignore[list-item]
    assert "비밀" not in str(caught.value) and "secret" not in str(caught.value)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(a=st.text(st.characters(), max_size=40), b=st.text(st.characters(), max_size=40))
@pytest.mark.filterwarnings("ignore::malmoi.errors.CutWarning")
def test_any_unicode_gives_a_score(reranker: Reranker, a: str, b: str) -> None:
    [score] = reranker.score([(a + "\ud800\x00", b)])
    assert 0 <= score <= 1


def test_load_opens_every_kind_and_refuses_another(folder: Path, bundle: Path) -> None:
    assert isinstance(malmoi.load(folder), malmoi.Reranker)
    assert isinstance(malmoi.load(bundle), malmoi.Encoder)
    with pytest.raises(BundleError, match="is of kind 'reranker'; expected encoder"):
        malmoi.load(folder, kind="encoder")
    with pytest.raises(BundleError, match="is of kind 'encoder'; expected reranker"):
        malmoi.load(bundle, kind="reranker")


def test_a_classifiers_folder_names_the_command_that_converts_it(tmp_path: Path) -> None:
    config = {"architectures": ["BertForSequenceClassification"], "model_type": "bert"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match="malmoi model export"):
        malmoi.load(tmp_path)


def test_a_graph_without_scores_is_told(folder: Path) -> None:
    graphs.write_score_graph(folder / "onnx/model.onnx", outputs=1, name="other")
    Manifest.read(folder).write(folder)
    with pytest.raises(BundleError, match="expected logits"):
        malmoi.load(folder)


@pytest.mark.parametrize(
    "fields", [{"labels": ("same", "other"), "outputs": 3}, {"labels": ("only",)}, {"outputs": 2}]
)
def test_labels_that_do_not_fit_the_graph_are_told(tmp_path: Path, fields: Any) -> None:
    folder = graphs.write_reranker(tmp_path / "misfit", **fields)
    with pytest.raises(BundleError, match="scores? a pair"):
        malmoi.load(folder)


def test_an_unknown_activation_is_told(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match='activation "tanh"'):
        graphs.write_reranker(tmp_path / "odd", activation="tanh")


def test_the_command_prints_ranks(
    run: Run, run_here: Run, folder: Path, reranker: Reranker, tmp_path: Path
) -> None:
    texts = ["boat", "sea", "pear"]
    done = run("rerank", "배", "-", "--model", folder, "--k", 2, stdin="\n".join(texts))
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    hits = reranker.rank("배", texts, k=2)
    assert [(row["rank"], row["index"], row["text"]) for row in rows] == [
        (rank, hit.index, hit.text) for rank, hit in enumerate(hits, start=1)
    ]
    assert rows[0]["score"] == pytest.approx(hits[0].score, abs=1e-6)
    (tmp_path / "texts.csv").write_text("id,text\n1,boat\n2,배\n", "cp949")
    done = run_here("rerank", "배", "texts.csv", "--column", "text", "--model", folder, "--csv")
    assert next(csv.reader(io.StringIO(done.stdout))) == ["rank", "index", "text", "score"]
    assert "cp949" in done.stderr and len(done.stdout.splitlines()) == 3
    assert "rank" in run_here("rerank", "배", "-", "-m", folder, "--table", stdin="sea").stdout


def test_the_command_tells_what_is_wrong_in_a_line(run_here: Run, folder: Path) -> None:
    empty = run_here("rerank", "배", "-", "--model", folder)
    assert empty.returncode == 1 and "is empty" in empty.stderr
    missing = run_here("rerank", "배", "none.txt", "--model", folder)
    assert missing.returncode == 1 and missing.stderr.count("\n") == 1
    assert run_here("rerank", "배", "-").returncode == 1  # the input is empty
    assert run_here("rerank", "배", "-", "--model", folder, "--k", 0, stdin="a").returncode == 2


def test_without_a_name_token_vectors_are_compared() -> None:
    reranker = malmoi.load(kind="reranker")
    assert isinstance(reranker, LateReranker) and "late interaction" in repr(reranker)
    texts = [
        "배송 조회는 주문 내역에서 합니다.",
        "Refunds are paid within five days.",
        "",
        "환불 안내",
    ]
    for query, best in (("환불은 언제 되나요?", 3), ("when is my refund paid", 1)):
        hits = reranker.rank(query, texts)
        assert hits[0].index == best and hits[-1] == RankedText(2, "", -1.0)
        scores = reranker.score([(query, text) for text in texts])
        assert [hit.score for hit in hits] == sorted(scores.tolist(), reverse=True)
    together = reranker.score([("환불", one) for one in texts] + [("refund", one) for one in texts])
    assert together[4:].tolist() == reranker.score([("refund", one) for one in texts]).tolist()
    assert reranker.count_cut([("cat", "dog " * 2000)]) == 0 and not reranker.labels
    with pytest.raises(BundleError, match="has one score and no labels"):
        reranker.probabilities([("a", "b")])
    assert reranker.score([]).shape == (0,)


def test_an_encoder_without_token_vectors_does_not_rerank() -> None:
    with pytest.raises(BundleError, match="ko-en-static gives no token vectors"):
        load_reranker(encoder=malmoi.load("ko-en-static"))


def write_blend(folder: Path, blend: ScoreBlend) -> None:
    """Note in a bundle how its score is blended, as bundles of 0.2 have it."""
    dataclasses.replace(Manifest.read(folder), beside=blend.to_json()).write(folder)


BLENDED = [
    ("배가 아프다", "환자 는 배가 아프다"),
    ("the cat sleeps", "고양이 잔다"),
    ("배", "boat"),
    ("sweet pear", "배 달다"),
    ("배", "배"),
]


@pytest.fixture
def encoder(tmp_path: Path) -> TextEncoder:
    return malmoi.load(graphs.write_bundle(tmp_path / "encoder", name="beside"))


def test_scores_are_the_weighted_sum(folder: Path, encoder: TextEncoder) -> None:
    alone = malmoi.load(folder).score(BLENDED)
    write_blend(folder, ScoreBlend("beside", cross=0.5, cosine=2.0, constant=-1.0))
    found = load_reranker(folder, encoder=encoder).score(BLENDED)
    one, two = (encoder.encode([pair[side] for pair in BLENDED]) for side in (0, 1))
    summed = 0.5 * alone + 2.0 * (one * two).sum(axis=1) - 1.0
    assert np.allclose(found, 1 / (1 + np.exp(-summed)), atol=1e-5)
    assert found.dtype == np.float32


def test_an_encoder_of_another_name_is_not_used(folder: Path, encoder: TextEncoder) -> None:
    write_blend(folder, ScoreBlend("somewhere/else", cross=1, cosine=1, constant=0))
    with pytest.raises(BundleError, match=r"somewhere/else.*not shipped.*encoder=…"):
        load_reranker(folder, encoder=encoder)


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
        malmoi.load(folder)


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
        reranker = load_reranker(folder, encoder=encoder)
        hits = corpus.search("배", 3, mode="dense", reranker=reranker)
        order[name] = [hit.id for hit in hits]
        assert [hit.score for hit in hits] == sorted((h.score for h in hits), reverse=True)
        assert all(0 <= hit.score <= 1 and hit.scores["blended"] == hit.score for hit in hits)
        own_scores = reranker.own_scores([("배", hit.text) for hit in hits])
        assert [hit.scores["rerank"] for hit in hits] == pytest.approx(own_scores.tolist())
    assert order["search"] == [hit.id for hit in corpus.search("배", 3, mode="dense")]
    own = reranker.own_scores([("배", text) for text in texts.values()])
    assert order["own"] == [list(texts)[i] for i in np.argsort(-own, kind="stable")]


def test_temperature_by_hand() -> None:
    # log-odds of 0.8 are log 4; halved they are log 2, a probability of 2/3.
    assert soften([[0.2, 0.8]], 2.0)[0, 1] == pytest.approx(2 / 3)


def test_fitted_temperature_brings_what_is_said_to_what_is_so() -> None:
    rng = np.random.default_rng(0)
    real = rng.uniform(0.05, 0.95, 4000)
    happened = (rng.random(4000) < real).astype(int)
    odds = np.log(real / (1 - real)) * 3  # three times too sure
    said = 1 / (1 + np.exp(-odds))
    found = fit_temperature(np.stack([1 - said, said], axis=1), happened)
    assert found == pytest.approx(3.0, rel=0.1)


def test_certainty_that_is_wrong_stays_finite() -> None:
    assert np.isfinite(fit_temperature([[0.0, 1.0], [1.0, 0.0]], [0, 0]))


def test_nothing_to_calibrate_on() -> None:
    with pytest.raises(DataError, match="no decision"):
        fit_temperature(np.empty((0, 2)), [])


def test_bins_by_hand() -> None:
    bins = reliability([0.0, 0.04, 0.55, 1.0], [0, 1, 1, 1], bins=10)
    assert [(one.count, one.was) for one in bins] == [(2, 0.5), (1, 1.0), (1, 1.0)]
    # |0.02 − 0.5| · 2 + |0.55 − 1| + 0, over four.
    assert expected_error(bins) == pytest.approx((0.48 * 2 + 0.45) / 4)


def test_few_decisions_are_not_calibrated() -> None:
    """Two notes that happen to be right must not make 0.58 into 0.998."""
    temperature, told = calibrate([[0.42, 0.58], [0.6, 0.4]], [1, 0])
    assert temperature == 1.0 and "2 dev documents, 50 are needed" in told
    temperature, told = calibrate([[0.42, 0.58]] * 60, [1] * 58 + [0] * 2)
    assert temperature == 1.0 and "a label has 2 dev documents" in told


def test_a_temperature_is_bounded_and_told() -> None:
    said = [[0.42, 0.58], [0.58, 0.42]] * 40
    temperature, told = calibrate(said, [1, 0] * 40)  # always right, so never sure enough
    assert temperature == pytest.approx(0.5, rel=0.01) and "at its bound" in told
    assert soften([[0.42, 0.58]], temperature)[0, 1] < 0.7


def test_labels_that_do_not_exclude_each_other() -> None:
    assert soften([[0.8, 0.8]], 2.0, exclusive=False) == pytest.approx(np.array([[2 / 3, 2 / 3]]))
    said, gold = [[0.9, 0.1]] * 60, [[1, 0]] * 42 + [[0, 1]] * 18
    temperature, told = calibrate(said, gold)
    assert soften(said, temperature, exclusive=False)[0] == pytest.approx([0.7, 0.3], abs=0.01)
    assert "calibrated on 60 dev documents" in told
    assert calibrate(said, [[1, 0]] * 60)[0] == 1.0
