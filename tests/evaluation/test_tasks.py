"""Every task: figures by hand, bad data, folders, linking, senses."""

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.stats
import sklearn.metrics
from hypothesis import given, settings
from hypothesis import strategies as st

import malmoi
from malmoi.errors import BundleError, DataError, OptionError
from malmoi.evaluation import (
    Settings,
    evaluate,
    linking,
    nli,
    pairs,
    rerank,
    retrieval,
    senses,
    sts,
    transfer,
)
from malmoi.evaluation.tasks import Task
from malmoi.evaluation.tasks.linking import (
    Case,
    CaseSet,
    judge,
    outcome_of,
    read_cases,
    split_composite,
)
from malmoi.evaluation.tasks.nli import Labelled
from malmoi.evaluation.tasks.retrieval import (
    Member,
    Relevant,
    from_pairs,
    from_sets,
    unit_vectors,
)
from malmoi.evaluation.tasks.similarity import LabelledPair, ScoredPair, find_brackets
from malmoi.terms import Lexicon, Linker
from tests.support import graphs
from tests.support.fakes import Constant, Letters, Noise, Shared
from tests.support.graphs import Run
from tests.support.lexicons import HashingEncoder, write_lexicon
from tests.support.logs import record_messages

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


ROWS = """question\tfile\tanswer
the cat sleeps\ta.md\tcat sleeps
a boat\ta.md\tA  BOAT
고양이 잔다\tsub/b.txt\t고양이
sweet pear\tdocs/sub/b.txt\tnot there
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "a.md").write_text("# Sea\n\n## Cats\n\nthe cat sleeps\n\n## Boats\n\na boat\n")
    (docs / "sub/b.txt").write_text("고양이 잔다", "utf-8")
    (tmp_path / "asked.tsv").write_text(ROWS, "utf-8")
    return docs


def test_passages_and_documents_are_counted(folder: Path, encoder: malmoi.TextEncoder) -> None:
    settings = Settings(documents=folder, ks=(1, 2))
    report = evaluate(encoder, "retrieval", folder.parent / "asked.tsv", settings=settings)
    values = {name: metric.value for name, metric in report.metrics.items()}
    assert values["passage@1"] == 0.75  # the last answer is in no passage
    assert values["document@2"] == 1.0 and values["document@1"] >= values["passage@1"]
    assert report.main == "passage@1" and report.metrics["passage@1"].low < 0.75
    assert [one.model for one in report.comparisons] == ["dense", "keyword"]
    assert report.details == {"queries": 4, "documents": 2, "passages": 3}
    assert report.settings["folder"] == "docs"


def test_a_reranker_is_compared_with_the_order_before_it(
    folder: Path, encoder: malmoi.TextEncoder, tmp_path: Path
) -> None:
    settings = Settings(documents=folder, ks=(1,), encoder=encoder)
    examples = rerank.read(tmp_path / "asked.tsv", settings)
    reranker = malmoi.load(graphs.write_reranker(tmp_path / "reranker"))
    found = rerank.measure(reranker, examples, settings)
    assert [name for name, _ in found.others] == ["hybrid"]


def test_what_cannot_be_measured(folder: Path, encoder: malmoi.TextEncoder) -> None:
    path = folder.parent / "asked.tsv"
    path.write_text("question\tfile\tanswer\nx\tnone.md\ty\n", "utf-8")
    settings = Settings(documents=folder)
    examples = retrieval.read(path, settings)
    with pytest.raises(DataError, match=r"names the file none.md, which is not among the 2 docu"):
        retrieval.measure(encoder, examples, settings)
    with pytest.raises(OptionError, match="a folder is indexed by an encoder"):
        retrieval.measure(Letters(), examples, settings)


def test_the_command(folder: Path, run_here: Run, tmp_path: Path) -> None:
    graphs.write_bundle(tmp_path / "tiny")
    command = ("evaluate", "--task", "retrieval", "--data", "asked.tsv", "--documents", "docs")
    done = run_here(*command, "tiny", "--k", "1,5")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert set(report["metrics"]) == {"passage@1", "passage@5", "document@1", "document@5"}


ABSTRACT = {
    "title": "Congestive heart failure (CXHF).",
    "abstract": "CHFX and fever.",
    "mentions": [
        {"start": 0, "end": 4, "text": "cough", "type": "Disease", "id": "R05"},
        {"text": "fever and cough", "type": "CompositeMention", "id": "R50.9|R05"},
        {"start": 0, "end": 4, "text": "aspirin", "type": "Chemical", "id": "MESH:D1"},
        {"start": 0, "end": 4, "text": "unknown", "type": "Disease", "id": "-1"},
    ],
}  # fmt: skip


def test_files_of_three_forms_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("mention\tcode\n폐렴\tJ18.9|J18\n\tR05\n없는것\tNIL\n", "utf-8")
    (tmp_path / "b.txt").write_text("R05||cough\nD1|2||name\n", "utf-8")
    (tmp_path / "c.jsonl").write_text(json.dumps(ABSTRACT) + "\n", "utf-8")
    told = record_messages()
    found = read_cases(tmp_path / "a.tsv")
    table, source = found.rows, found.source
    assert [(c.mention, c.codes) for c in table] == [("폐렴", ("J18.9", "J18")), ("없는것", ())]
    assert source.rows == 2 and any("1 row passed over" in line for line in told)
    lines = read_cases(tmp_path / "b.txt").rows
    assert [c.codes for c in lines] == [("R05",), ("D1", "2")]
    kept = read_cases(tmp_path / "c.jsonl", types=("Disease", "CompositeMention")).rows
    assert [(c.mention, c.codes, c.composite) for c in kept] == [
        ("cough", ("R05",), False),
        ("fever and cough", ("R50.9", "R05"), True),
    ]
    (tmp_path / "d.tsv").write_text("mention\tcode\n", "utf-8")
    with pytest.raises(DataError, match="no row that can be used"):
        read_cases(tmp_path / "d.tsv")


def test_concepts_are_counted_and_composites_need_all(tmp_path: Path) -> None:
    linker = Linker(Lexicon.open(write_lexicon(tmp_path)))
    cases = [
        Case("폐렴", ("J18", "J18.9"), "ko"),
        Case("fever and cough", ("R50.9", "R05"), "en", composite=True),
        Case("fever and cough", ("R50.9", "I10"), "en", composite=True),
        Case("기침", ("I10",), "ko"),
        Case("아무것", (), "ko"),
    ]
    judged = judge(linker, cases)
    assert [one.rank for one in judged[:3]] == [1, 1, 0]
    outcome = outcome_of(judged, linker.lexicon)
    assert outcome.values()["accuracy@1"] == 0.5
    assert outcome.details["mentions"] == 4
    assert outcome.details["by name"]["seen"]["mentions"] == 1
    with pytest.raises(DataError, match="no mention has a code"):
        outcome_of(judged[4:], linker.lexicon)


def test_parts_share_their_head() -> None:
    assert split_composite("fever") == []
    assert split_composite("T-cell and B-cell lymphoma")[:2] == [
        "T-cell lymphoma",
        "B-cell lymphoma",
    ]


def test_models_are_compared_on_one_lexicon(tmp_path: Path) -> None:
    lexicon = write_lexicon(tmp_path)
    (tmp_path / "dev.tsv").write_text(
        "mention\tcode\n폐렴\tJ18.9\n기침\tR05\n위암\tC22.9\n", "utf-8"
    )
    report = evaluate(
        HashingEncoder(),
        "linking",
        tmp_path / "dev.tsv",
        against=[HashingEncoder("other", 32)],
        settings=Settings(lexicon=lexicon, errors=tmp_path / "errors.tsv"),
        rounds=10,
    )
    assert set(report.metrics) == {f"{m}@{k}" for m in ("accuracy", "mrr") for k in (1, 5, 10)}
    assert report.metrics["accuracy@1"].value == pytest.approx(2 / 3)
    assert [one.model for one in report.comparisons] == ["spelling alone", "other"]
    listed = (tmp_path / "errors.tsv").read_text("utf-8").splitlines()
    assert len(listed) == 2 and listed[1].startswith("위암\tC16\t")
    assert not (lexicon / "linking").exists()


def test_wrong_use_is_named(tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("mention\tcode\n폐렴\tJ18.9\n", "utf-8")
    with pytest.raises(OptionError, match="--lexicon"):
        evaluate(HashingEncoder(), "linking", tmp_path / "dev.tsv")
    cases = CaseSet(Lexicon.open("sample"), [Case("폐렴", ("J18.9",), "ko")])
    with pytest.raises(OptionError, match="has no encode"):
        linking.measure(object(), cases)


def test_the_command_measures(run_here: Run, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "dev.tsv").write_text("mention\tcode\n폐렴\tJ18.9\n당뇨\tE14\n", "utf-8")
    done = run_here(
        "evaluate", bundle, "--task", "linking", "--data", "dev.tsv", "--lexicon", "sample",
        "--rounds", 0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["metrics"]["accuracy@5"]["value"] == 1


BOAT = ["[배]를 타고 바다에 나간다", "[배]가 항구에 들어왔다", "섬으로 가는 [배]가 끊겼다"]

PEAR = ["[배]가 달고 맛있다", "과수원에서 [배]를 땄다", "사과와 [배]를 깎아 먹었다"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pairs = [(a, b, "True") for group in (BOAT, PEAR) for a in group for b in group if a != b]
    pairs += [(a, b, "False") for a in BOAT for b in PEAR]
    path = tmp_path / "wic.tsv"
    lines = ["SENTENCE1\tSENTENCE2\tANSWER", *("\t".join(pair) for pair in pairs)]
    path.write_text("\n".join([*lines, "낱말이 없다\t[배]가 왔다\tTrue"]), "utf-8")
    return path


def test_every_choice_of_layers_is_reported_with_its_interval(data: Path) -> None:
    told = record_messages()
    settings = Settings(train=data)
    encoder = malmoi.load("ko-en-small")
    report = evaluate(encoder, "senses", data, settings=settings, rounds=50)
    assert {"layer 0", "layer 6", "sum-last-4", "mean-all + sentence"} <= set(report.metrics)
    assert len(report.metrics) == 20
    best = report.metrics[report.main]
    assert 0.6 < best.value <= 1 and best.low <= best.value <= best.high
    assert report.data.rows == 21
    assert any("1 row passed over (line 23)" in line for line in told)
    assert report.details["train_accuracy"][report.main] == pytest.approx(best.value)


def test_brackets_come_off() -> None:
    place = find_brackets("냉동 [대구]를 쓰면 [대구]탕의 제맛을 못 낸다")
    assert place is not None and place.word == "대구" and "[" not in place.text
    assert find_brackets("대구") is None


def test_what_is_missing_is_told(data: Path, bundle: Path) -> None:
    with pytest.raises(OptionError, match="--train"):
        evaluate(malmoi.load("ko-en-small"), "senses", data)
    with pytest.raises(BundleError, match="--layers all"):
        evaluate(malmoi.load(bundle), "senses", data, settings=Settings(train=data))
    with pytest.raises(OptionError, match="no word vectors"):
        evaluate(object(), "senses", data, settings=Settings(train=data))
    with pytest.raises(DataError, match="brackets"):
        senses.read(data, strict=True)


@pytest.mark.parametrize(
    ("task", "file", "roles"),
    [
        (sts, "sts/korsts-dev.tsv", {"a": "ko1", "b": "ko2", "score": "score"}),
        (sts, "sts/klue-sts-train.tsv", {"a": "ko1", "b": "ko2", "score": "score"}),
        (pairs, "paraphrase/question-pairs-validation.tsv", {"a": "question1", "same": "same"}),
        (pairs, "words/wic-dev.tsv", {"a": "SENTENCE1", "b": "SENTENCE2", "same": "ANSWER"}),
        (retrieval, "paraphrase/parakqc.tsv", {"set": "set", "text": "sentence"}),
        (retrieval, "faq/chatbot.tsv", {"query": "question", "document": "answer"}),
        (retrieval, "parallel/tatoeba.tsv", {"query": "ko", "document": "en"}),
        (nli, "nli/xnli-dev.tsv", {"a": "ko1", "b": "ko2", "label": "label"}),
        (nli, "nli/klue-nli-train.tsv", {"a": "premise", "b": "hypothesis"}),
        (transfer, "notes/mtsamples.jsonl", {"text": "text", "label": "specialty"}),
    ],
)
def test_headers_are_understood(
    task: Task[Any], file: str, roles: dict[str, str], public_data: Callable[[str], Path]
) -> None:
    assert roles.items() <= dict(task.read(public_data(file)).source.columns).items()
