"""`objective = "answer"`: questions in, an answerer that runs without torch out."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi.errors import BundleError, DataError, OptionError, TextError
from malmoi.evaluation import evaluate
from malmoi.heads.answerer import Answer
from malmoi.heads.questions import Question, read_questions
from malmoi.training.objectives.answering_task import choose_threshold
from malmoi.training.recipe import make_recipe
from malmoi.training.run import TrainedRun, train
from tests.support import tiny as tiny_models
from tests.support.graphs import Run

# What each question asks for, and words that stand between the answers.
ASKED = {"the": "병원에서", "was": "DM", "at": "harbour"}
OTHERS = ["배가", "아파서", "left", "보았다"]


def write_squad(path: Path, *, texts: int = 24, seed: int = 0) -> Path:
    """Write questions in SQuAD's form; each text lacks the answer to one of three questions."""
    draw = np.random.default_rng(seed)
    paragraphs = []
    for i in range(texts):
        missing, *there = draw.permutation(list(ASKED)).tolist()
        words = draw.permutation([*OTHERS, *(ASKED[name] for name in there)]).tolist()
        context = " ".join(words)
        asked = []
        for name in there:
            answers = [{"text": ASKED[name], "answer_start": context.index(ASKED[name])}]
            asked.append({"id": f"{i}-{name}", "question": name, "answers": answers})
        none: dict[str, Any] = {"question": missing, "answers": [], "is_impossible": True}
        asked.append({"id": f"{i}-none", **none})
        paragraphs.append({"context": context, "qas": asked})
    data = {"version": "v2.0", "data": [{"title": "tiny", "paragraphs": paragraphs}]}
    path.write_text(json.dumps(data, ensure_ascii=False), "utf-8")
    return path


def table(folder: Path, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "tiny-answerer",
        "objective": "answer",
        "base": str(folder / "base"),
        "max_tokens": 48,
        "data": {name: ["train.json"] for name in ("train", "dev", "test")},
        "schedule": {"epochs": 12, "batch_size": 8, "learning_rate": 5e-3},
        "output": {"folder": str(folder / "run")},
        "dropout": 0.0,
    }
    for key, value in changes.items():
        made[key] = made[key] | value if isinstance(made.get(key), dict) else value
    return made


def run(folder: Path, **changes: Any) -> TrainedRun:
    recipe = make_recipe(table(folder, **changes), where="the recipe")
    return train(recipe, data=folder, threads=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("answer")
    tiny_models.tiny_transformer(made / "base")
    write_squad(made / "train.json")
    return made


@pytest.fixture(scope="module")
def trained(folder: Path) -> TrainedRun:
    return run(folder, output={"precision": ["float32", "int8"]})


def test_it_learns_and_says_how_well(trained: TrainedRun) -> None:
    assert trained.scores["dev:f1"] > 0.9 and trained.scores["test:f1"] > 0.9
    answerer = malmoi.load(trained.bundles[0])
    assert answerer.manifest.kind == "answerer" and 0 < answerer.threshold < 1
    assert answerer.manifest.scores["test:f1"] == pytest.approx(trained.scores["test:f1"], abs=1e-4)
    card = (trained.bundles[0] / "README.md").read_text("utf-8")
    assert "malmoi.load" in card and "| unanswerable |" in card
    report = json.loads((trained.folder / "report.json").read_text("utf-8"))
    assert report["task"] == "answers"


@pytest.mark.parametrize("number", [0, 1])
def test_answers_have_places_in_the_text_as_given(trained: TrainedRun, number: int) -> None:
    answerer = malmoi.load(trained.bundles[number])
    text = "  배가   아파서 left 병원에서  DM 보았다"
    found = answerer.answer("was", text)
    assert found is not None and found.text == "DM" == text[found.start : found.end]
    assert answerer.answer("at", text) is None  # no harbour
    forced = answerer.answer("at", text, threshold=0)
    assert forced is not None and forced.score < answerer.threshold
    texts = ["left 배가", text, "", "보았다 DM"]
    best = answerer.answers("was", texts, k=3, threshold=0.0)
    assert {one.number for one in best[:2]} == {1, 3}
    assert [one.score for one in best] == sorted((one.score for one in best), reverse=True)
    assert answerer.answer_all([("was", text), ("at", text)])[1] is None
    assert answerer.answers("was", []) == [] and answerer.answer("was", " \n") is None


def test_an_answer_begins_where_a_word_does(trained: TrainedRun) -> None:
    answerer = malmoi.load(trained.bundles[0])
    text = "병원에서 배가아파서 harbour(DM) left보았다"
    starts = {
        text.index(word) for word in ("병원", "배가", "harbour", "(", "DM", ")", "left", "보았다")
    }
    for question in ("the", "was", "at"):
        found = answerer.answers(question, [text], k=4, threshold=0.0)
        assert found and {one.start for one in found} <= starts


def test_long_texts_are_read_by_windows(trained: TrainedRun) -> None:
    answerer = malmoi.load(trained.bundles[0])
    text = "배가 아파서 left 보았다 " * 60 + "병원에서 " + "left 보았다 " * 60
    found = answerer.answer("the", text)
    assert found is not None and text[found.start : found.end] == "병원에서"


def test_bad_questions_are_refused(trained: TrainedRun) -> None:
    answerer = malmoi.load(trained.bundles[0])
    with pytest.raises(TextError, match="the question is empty"):
        answerer.answer(" ", "배")
    with pytest.raises(TextError):
        answerer.answer("the", 3)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="threshold is 2"):
        answerer.answer("the", "배", threshold=2)
    with pytest.raises(OptionError, match="k is 0"):
        answerer.answers("the", ["배"], k=0)
    for odd in ("배" * 5000, "a\x00b\ud800c", "\u200b"):
        for one in answerer.answers(odd, [odd], threshold=0.0):
            assert odd[one.start : one.end] == one.text


def test_transformers_opens_it_too(trained: TrainedRun) -> None:
    from transformers import AutoModelForQuestionAnswering

    model = AutoModelForQuestionAnswering.from_pretrained(trained.bundles[0])
    assert model.qa_outputs.out_features == 2


def test_files_and_corpora_are_asked(
    trained: TrainedRun, tmp_path: Path, run_here: Run, run: Run
) -> None:
    model = trained.bundles[0]
    (tmp_path / "note.md").write_text("# 배가\n\nleft 병원에서 DM 보았다\n", "utf-8")
    done = run("answer", "was", "note.md", "--model", model)
    [row] = [json.loads(line) for line in done.stdout.splitlines()]
    assert row["answer"] == "DM" and row["document"] == "note.md" and 0 < row["score"] <= 1
    done = run_here("answer", "was", "note.md", "--model", model, "--threshold", "1")
    assert done.returncode == 0 and done.stdout == "" and "no answer" in done.stderr
    done = run_here("answer", "was", tmp_path, "--model", model)
    assert done.returncode == 1 and "malmoi index" in done.stderr
    done = run_here("answer", "was", "gone.txt", "--model", model)
    assert done.returncode == 1 and "there is no file gone.txt" in done.stderr
    done = run_here("answer", "was", "note.md", "--model", "ko-en-small")
    assert done.returncode == 1 and "encoder" in done.stderr

    with malmoi.Corpus.open(tmp_path / "docs.db", malmoi.load()) as corpus:
        corpus.add(
            [{"id": "a", "text": "left 병원에서 보았다"}, {"id": "b", "text": "was DM left"}]
        )
        answerer = malmoi.load(model)
        found = corpus.answer("was", 2, answerer=answerer)
        assert found[0].hit.id == "b" and found[0].answer.text == "DM"
    done = run_here("answer", "was", "docs.db", "--model", model, "-k", "1")
    assert json.loads(done.stdout)["document"] == "b"


def test_a_bundle_is_evaluated(trained: TrainedRun, folder: Path) -> None:
    answerer = malmoi.load(trained.bundles[0])
    report = evaluate(answerer, "answers", folder / "train.json", rounds=10)
    assert report.metrics["f1"].value == pytest.approx(trained.scores["test:f1"])
    with pytest.raises(OptionError, match="cannot answer"):
        evaluate(malmoi.load(), "answers", folder / "train.json", rounds=0)


def test_damaged_settings_are_refused(trained: TrainedRun, tmp_path: Path) -> None:
    from malmoi.heads.answerer import AnswerSettings

    (tmp_path / "answerer.json").write_text('{"stride": 0, "longest": 0, "threshold": 0}')
    with pytest.raises(BundleError, match="outside its range"):
        AnswerSettings.read(tmp_path)
    (tmp_path / "answerer.json").write_text("{}")
    with pytest.raises(BundleError, match="cannot be read"):
        AnswerSettings.read(tmp_path)


def test_questions_are_divided_by_text_and_asked_elsewhere(folder: Path) -> None:
    from malmoi.training.objectives.answering import AnswerObjective

    data = {"files": ["train.json"], "unrelated": 0.5, "train": [], "dev": [], "test": []}
    recipe = make_recipe(table(folder, data=data), where="the recipe")
    found = AnswerObjective().read(recipe, folder, strict=False)
    texts = [{one.context for one in found.parts[part]} for part in ("train", "dev", "test")]
    assert not texts[0] & texts[1] and not texts[0] & texts[2] and not texts[1] & texts[2]
    made = [one for one in found.parts["train"] if "/" in one.id]
    assert made and not any(one.answers for one in made)


def test_a_threshold_is_chosen_where_it_pays() -> None:
    from malmoi.heads.questions import AnswerSpan

    def answer(text: str, score: float) -> Answer:
        return Answer(text, 0, len(text), score)

    gold = [Question("1", "q", "x y", (AnswerSpan("x", 0),)), Question("2", "q", "x y")]
    assert choose_threshold(gold, [answer("x", 0.8), answer("y", 0.6)]) == (pytest.approx(0.7), 1)
    assert choose_threshold(gold[:1], [answer("x", 0.8)]) == (0.0, 1.0)
    # Nothing that was found is right: silence is better.
    assert choose_threshold(gold, [answer("y", 0.8), answer("y", 0.6)])[1] == 0.5


def test_bad_recipes_and_data_are_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="shares has no dev"):
        data = {"files": ["train.json"], "shares": {"test": 0.1}, "train": [], "dev": []}
        make_recipe(table(folder, data=data | {"test": []}), where="the recipe")
    with pytest.raises(OptionError, match="longest is 0"):
        make_recipe(table(folder, longest=0), where="the recipe")
    rows = [{"question": "the", "context": "배가", "answers": []}]
    (folder / "none.json").write_text(json.dumps(rows))
    with pytest.raises(DataError, match="train part has no question with an answer"):
        run(folder, data={"train": ["none.json"]}, output={"folder": str(tmp_path / "run")})


def test_every_form_of_file_is_read(tmp_path: Path) -> None:
    context = "대한민국의 수도는 서울이다."
    marked = {"text": "서울", "answer_start": context.index("서울")}
    squad = {"data": [{"paragraphs": [{"context": context, "qas": [
        {"id": "1", "question": "수도는?", "answers": [marked]},
        {"guid": "2", "question": "왕은?", "answers": [], "is_impossible": True},
    ]}]}]}  # fmt: skip
    korquad2 = {"data": [{"title": "한국", "context": context, "raw_html": "", "qas": [
        {"id": "1", "question": "수도는?", "answer": marked | {"html_answer_start": 3}},
    ]}]}  # fmt: skip
    rows = [{"id": 1, "question": "수도는?", "context": context,
             "answers": {"text": ["서울"], "answer_start": [0]}}]  # fmt: skip
    forms = {"squad.json": squad, "korquad2.json": korquad2, "rows.json": rows}
    for name, data in forms.items():
        (tmp_path / name).write_text(json.dumps(data, ensure_ascii=False), "utf-8")
        first, *rest = read_questions(tmp_path / name)
        assert (first.question, first.context) == ("수도는?", context)
        assert [(one.text, one.start) for one in first.answers] == [("서울", 10)]
        assert all(one.id == "2" and not one.answers for one in rest)
    lines = tmp_path / "rows.jsonl"
    lines.write_text(json.dumps(rows[0], ensure_ascii=False) + "\n", "utf-8")
    assert len(read_questions(lines)) == 1
    bad = rows[0] | {"answers": {"text": ["부산"], "answer_start": [0]}}
    (tmp_path / "bad.json").write_text(json.dumps([bad]), "utf-8")
    with pytest.raises(DataError, match="an answer that is not in its text"):
        read_questions(tmp_path / "bad.json", strict=True)
    with pytest.raises(DataError, match="no question that can be used"):
        read_questions(tmp_path / "bad.json")
    with pytest.raises(DataError, match="does not end in .json"):
        read_questions(tmp_path / "bad.txt")
    (tmp_path / "cut.json").write_text('{"data": [', "utf-8")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        read_questions(tmp_path / "cut.json")
