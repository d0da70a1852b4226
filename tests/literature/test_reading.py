"""Files, words, notes and pairs with classes, as the literature has them."""

import json
import runpy
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.encoders.words import Word, by_layer, similarity
from malmoi.errors import BundleError, DataError, OptionError
from malmoi.evaluation import evaluate, nli, sts
from malmoi.heads.notes import part_of, read_documents, targets_of
from malmoi.heads.questions import read_questions
from malmoi.heads.reranker import similar_label
from malmoi.heads.zero_shot import ZeroShotClassifier, load_zero_shot
from malmoi.io.tables import read_rows, read_texts
from tests.support import ROOT, graphs
from tests.support.graphs import Run

BOATS = [
    "배를 타고 여행을 간다",
    "배를 타고 바다에 나간다",
    "배가 항구에 들어왔다",
    "부산에서 배를 타고 제주도에 갔다",
    "바다에 배가 떠 있다",
]

PEARS = ["배가 달고 맛있다", "시장에서 사과와 배를 샀다", "과일 가게에서 배를 깎아 주었다"]

PEARS += ["배를 먹는다", "배는 가을에 나는 과일이다"]

BELLIES = ["배가 고파서 밥을 먹었다", "배가 부르다"]

TEXTS = [*BOATS, *PEARS, *BELLIES]

MEANINGS = np.repeat([0, 1, 2], [len(BOATS), len(PEARS), len(BELLIES)])


@pytest.fixture(scope="module")
def encoder() -> malmoi.TextEncoder:
    return malmoi.load()


def nouns(encoder: malmoi.TextEncoder, layers: str | int) -> list[Word]:
    """The noun 배 of every text, by its span: the analyser of morphemes takes long to load."""
    at = [text.index("배") for text in TEXTS]
    return [
        encoder.words(text, layers=layers, by=[(start, start + 1)])[0]
        for text, start in zip(TEXTS, at, strict=True)
    ]


def test_a_boat_is_nearest_to_boats(encoder: malmoi.TextEncoder) -> None:
    scores = similarity(nouns(encoder, 5), centred=True)
    np.fill_diagonal(scores, -1)
    boats = len(BOATS)
    assert sum(row.argmax() < boats for row in scores[:boats]) >= boats - 1
    pears = scores[boats : boats + len(PEARS)]
    nearer = pears[:, boats:].mean(axis=1) > pears[:, :boats].mean(axis=1)
    assert nearer.sum() >= len(PEARS) - 1


def test_nine_of_twelve_find_their_own_meaning(encoder: malmoi.TextEncoder) -> None:
    """docs/words.md names the three that do not."""
    scores = similarity(nouns(encoder, 5), centred=True)
    np.fill_diagonal(scores, -1)
    right = MEANINGS[scores.argmax(axis=1)] == MEANINGS
    assert right.sum() >= 9
    wrong = {text for text, found in zip(TEXTS, right, strict=True) if not found}
    assert wrong <= {"배는 가을에 나는 과일이다", *BELLIES}


def test_layers_separate_the_senses_step_by_step(encoder: malmoi.TextEncoder) -> None:
    """In the embeddings all 배 are alike; in later layers boats differ from the rest."""
    scores = by_layer(nouns(encoder, "concat-all"), len(encoder.hidden_states("배").states))
    boats = len(BOATS)
    rows, columns = np.triu_indices(boats, 1)
    among = scores[:, :boats, :boats][:, rows, columns].mean(axis=1)
    across = scores[:, :boats, boats:].mean(axis=(1, 2))
    gaps = among - across
    assert gaps[0] < 0.03 < gaps[-2:].min()


COLUMNS = {"text": "text", "label": "readmitted", "patient": "patient_id"}


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("notes") / "notes.jsonl"
    script = runpy.run_path(str(ROOT / "examples/notes.py"))
    assert script["write_notes"](path, patients=60) > 100
    return path


def test_the_sample_notes_are_what_the_recipe_reads(notes: Path) -> None:
    patients = read_documents([notes], COLUMNS, decide="patient")
    assert len(patients) == 60 and {one.label for one in patients} == {"yes", "no"}
    assert max(len(one.notes) for one in patients) > 1
    parts = {one.patient: part_of(one.patient, dev=0.15, test=0.15) for one in patients}
    assert set(parts.values()) == {"train", "dev", "test"}
    again = notes.with_name("again.jsonl")
    runpy.run_path(str(ROOT / "examples/notes.py"))["write_notes"](again, patients=60)
    assert again.read_bytes() == notes.read_bytes()


def test_stays_and_diagnoses_of_the_same_notes(notes: Path) -> None:
    """docs/notes.md: a number and several labels a patient, each of which the notes mention."""
    stays = read_documents(
        [notes], COLUMNS | {"label": "days"}, decide="patient", problem="regression"
    )
    days = targets_of(stays, (), "regression")
    assert len(days) == 60 and 2 <= days.min() < days.max() <= 12
    several = read_documents(
        [notes],
        COLUMNS | {"label": "diagnoses"},
        decide="patient",
        problem="multi_label_classification",
    )
    assert {len(one.labels) for one in several} == {1, 2}
    for one in several:
        assert all(label in " ".join(one.notes) for label in one.labels)


def write(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=2), "utf-8")
    return path


def test_klue_json(tmp_path: Path) -> None:
    scores = [
        {"guid": f"klue-sts-v1_dev_{i}", "sentence1": f"가{i}", "sentence2": "나",
         "labels": {"label": score, "real-label": score + 0.014, "binary-label": 1}}
        for i, score in enumerate((3.7, 0.5))
    ]  # fmt: skip
    found = sts.read(write(tmp_path / "klue-sts-v1.1_dev.json", scores)).rows
    assert [row.score for row in found] == [3.714, 0.514]
    entails = [
        {"guid": "1", "premise": "비가 온다", "hypothesis": "날씨가 흐리다", "gold_label": label}
        for label in ("entailment", "neutral")
    ]
    rows = nli.read(write(tmp_path / "klue-nli-v1.1_dev.json", entails)).rows
    assert [row.label for row in rows] == ["entailment", "neutral"]
    titles = {"version": "1", "data": [{"title": "제목", "label": "정치"}]}
    path = write(tmp_path / "ynat.json", titles)
    assert list(read_texts(path, column="title")) == ["제목"]


def test_kornli_and_korsts_tables(tmp_path: Path) -> None:
    path = tmp_path / "xnli.dev.ko.tsv"
    path.write_text("sentence1\tsentence2\tgold_label\n가\t나\tneutral\n", "utf-8")
    assert nli.read(path).rows[0].label == "neutral"
    path = tmp_path / "sts-dev.tsv"
    lines = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
    path.write_text(lines + "m\tf\t2012\t1\t5.000\t가\t나\nm\tf\t2012\t2\t1.0\t가\t다\n", "utf-8")
    assert [row.score for row in sts.read(path).rows] == [5.0, 1.0]


@pytest.mark.parametrize(
    "data",
    [
        {"data": ["x", {"paragraphs": ["y", {"context": 3, "qas": [1]}]}]},
        [{"question": "왜?", "context": "배", "answers": 3}, {"question": 1}],
        {"data": [{"paragraphs": {}, "qas": "no"}], "other": []},
    ],
)
def test_questions_of_another_shape_are_no_traceback(tmp_path: Path, data: object) -> None:
    path = write(tmp_path / "odd.json", data)
    try:
        found = read_questions(path)
    except DataError as error:
        assert "no question that can be used" in str(error)
    else:
        assert [(one.question, one.answers) for one in found] == [("왜?", ())]


def test_lists_and_lines_of_json(tmp_path: Path) -> None:
    rows = [{"text": "가"}, {"text": "나"}]
    assert list(read_rows(write(tmp_path / "a.json", rows))) == rows
    lines = tmp_path / "b.json"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert list(read_rows(lines)) == rows


def test_what_cannot_be_read_gets_advice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ends in \.txt; expected a table: \.tsv"):
        list(read_rows(tmp_path / "a.txt"))
    with pytest.raises(DataError, match="holds no list of rows"):
        list(read_rows(write(tmp_path / "a.json", {"a": 1})))
    (tmp_path / "cut.json").write_text('[{"text": "가"},', "utf-8")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        list(read_rows(tmp_path / "cut.json"))
    with pytest.raises(DataError, match="entry 1 of .* has no JSON object"):
        list(read_rows(write(tmp_path / "list.json", [1]), strict=True))


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
    reranker = malmoi.load(model)
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
    [row] = rows(run("classify-pair", model, *PAIRS[0]).stdout)
    shares = row["probabilities"]
    assert isinstance(shares, dict) and tuple(shares) == NLI
    assert sum(shares.values()) == pytest.approx(1, abs=1e-3)
    assert row["label"] == max(shares, key=shares.__getitem__)
    lines = "".join(f"{a}\t{b}\n" for a, b in PAIRS)
    assert len(rows(run_here("classify-pair", model, "-", stdin=lines).stdout)) == 3
    one = graphs.write_reranker(tmp_path / "score")
    [row] = rows(run_here("classify-pair", one, *PAIRS[0]).stdout)
    assert isinstance(row["score"], float)
    assert run_here("classify-pair", model, "하나").returncode == 2


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
    entails, _, against = malmoi.load(model).probabilities(pairs)[1]
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
