"""Rerankers on a graph whose scores can be worked out by hand, so that no test needs torch."""

import csv
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
from malmoi.errors import BundleError, BundleNotFound, CutWarning, OptionError, TextError
from malmoi.heads.reranker import RankedText, Reranker, squash
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
    return malmoi.load_reranker(folder)


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
    scores = malmoi.load_reranker(folder).score(PAIRS)
    np.testing.assert_allclose(scores, by_hand(PAIRS)[:, 0], rtol=1e-5)


def test_a_large_score_does_not_overflow() -> None:
    found = squash(np.array([[1e4], [-1e4], [0]], dtype=np.float32))
    assert found[:, 0].tolist() == [1.0, 0.0, 0.5]


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
    scores = malmoi.load_reranker(folder, threads=3).score(pairs)
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
    scores = malmoi.load_reranker(folder).score([("ＢＯＡＴ", "Sea"), ("boat", "sea")])
    assert scores[0] == scores[1]


def test_no_pairs_give_no_scores(reranker: Reranker) -> None:
    assert reranker.score([]).shape == (0,)
    assert reranker.rank("배", []) == []


def test_labels_give_probabilities(tmp_path: Path) -> None:
    reranker = malmoi.load_reranker(graphs.write_reranker(tmp_path / "nli", labels=NLI))
    found = reranker.probabilities(PAIRS)
    assert found.shape == (5, 3) and reranker.labels == NLI
    raised = np.exp(by_hand(PAIRS, 3))
    np.testing.assert_allclose(found, raised / raised.sum(axis=1, keepdims=True), rtol=1e-4)
    np.testing.assert_array_equal(reranker.score(PAIRS), found[:, 1])


@pytest.mark.parametrize("labels", [("a", "b"), ("same", "duplicate", "other")])
def test_labels_without_one_likeness_refuse_to_score(
    tmp_path: Path, labels: tuple[str, ...]
) -> None:
    reranker = malmoi.load_reranker(graphs.write_reranker(tmp_path / "x", labels=labels))
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
@pytest.mark.filterwarnings("ignore::malmoi.CutWarning")
def test_any_unicode_gives_a_score(reranker: Reranker, a: str, b: str) -> None:
    [score] = reranker.score([(a + "\ud800\x00", b)])
    assert 0 <= score <= 1


def test_kinds_open_with_their_own_functions(folder: Path, bundle: Path) -> None:
    with pytest.raises(BundleError, match=r"malmoi\.load_reranker"):
        malmoi.load(folder)
    with pytest.raises(BundleError, match=r"kind 'encoder'.*malmoi\.load\."):
        malmoi.load_reranker(bundle)


def test_a_classifiers_folder_names_the_command_that_converts_it(tmp_path: Path) -> None:
    config = {"architectures": ["BertForSequenceClassification"], "model_type": "bert"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BundleError, match="malmoi export"):
        malmoi.load_reranker(tmp_path)


def test_a_graph_without_scores_is_told(folder: Path) -> None:
    graphs.write_score_graph(folder / "onnx/model.onnx", outputs=1, name="other")
    Manifest.read(folder).write(folder)
    with pytest.raises(BundleError, match="expected logits"):
        malmoi.load_reranker(folder)


@pytest.mark.parametrize(
    "fields", [{"labels": ("same", "other"), "outputs": 3}, {"labels": ("only",)}, {"outputs": 2}]
)
def test_labels_that_do_not_fit_the_graph_are_told(tmp_path: Path, fields: Any) -> None:
    folder = graphs.write_reranker(tmp_path / "misfit", **fields)
    with pytest.raises(BundleError, match="scores? a pair"):
        malmoi.load_reranker(folder)


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
    assert run_here("rerank", "배", "-").returncode == 1  # none is shipped, or the input is empty
    assert run_here("rerank", "배", "-", "--model", folder, "--k", 0, stdin="a").returncode == 2


def test_without_a_name_the_shipped_one_is_opened_or_missed(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("malmoi.bundle.bundle.shipped_models", list)
    with pytest.raises(BundleNotFound, match="ko-en-reranker is not in this installation"):
        malmoi.load_reranker()
    monkeypatch.setattr("malmoi.bundle.bundle.shipped_models", lambda: ["ko-en-reranker"])
    monkeypatch.setattr("malmoi.bundle.bundle.SHIPPED", folder.parent)
    folder.rename(folder.parent / "ko-en-reranker")
    assert malmoi.load_reranker().score(PAIRS).shape == (len(PAIRS),)
