"""A classifier of notes from recipe to decision: trained, exported, opened without torch."""

import dataclasses
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi.errors import BundleError, DataError, OptionError, TextError
from malmoi.evaluation import evaluate
from malmoi.heads.decision import Rule
from malmoi.training.recipe import load_recipe, make_recipe
from malmoi.training.run import train
from tests.support import ROOT
from tests.support.graphs import Run
from tests.support.logs import record_messages

PLAIN = ["배", "at", "dawn", "the", "갔다"]
COLUMNS = {"text": "text", "label": "kind", "patient": "patient"}


def write_notes(path: Path, *, patients: int = 48, seed: int = 0) -> Path:
    """Long notes of which the sick ones have one telling sentence somewhere."""
    rng = random.Random(seed)
    lines = []
    for i in range(patients):
        sick = i % 2 == 0
        sentences = [" ".join(rng.choices(PLAIN, k=8)) + "." for _ in range(rng.randint(2, 5))]
        if sick:
            sentences.insert(rng.randrange(len(sentences)), "ship ship ship ship nephropathy.")
        row = {"patient": f"p{i}", "kind": "sick" if sick else "well", "text": " ".join(sentences)}
        lines.append(json.dumps(row, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def table(folder: Path, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "objective": "note-classification",
        "name": "sickness",
        "base": str(folder / "base"),
        "max_tokens": 32,
        "data": {
            "files": ["notes.jsonl"],
            "columns": COLUMNS,
            "positive": ["sick"],
            "shares": {"dev": 0.25, "test": 0.25},
        },
        "schedule": {"epochs": 10, "batch_size": 16, "learning_rate": 2e-3},
        "output": {"folder": str(folder / "run")},
    }
    return made | changes


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.support.tiny import tiny_transformer

    root = tmp_path_factory.mktemp("notes")
    tiny_transformer(root / "base", "bert")
    write_notes(root / "notes.jsonl")
    return root


@pytest.fixture(scope="module")
def trained(folder: Path) -> Path:
    told = record_messages()
    done = train(make_recipe(table(folder)), data=folder)
    assert any(line.startswith("test: ") for line in told)
    assert done.scores["test:auroc"] > 0.9  # one telling sentence is easily learnt
    return done.bundles[0]


def test_a_decision_and_the_windows_that_made_it(trained: Path) -> None:
    model = malmoi.load(trained)
    note = " ".join(["at dawn the 배."] * 12 + ["ship ship ship ship nephropathy."])
    decision = model.classify(note, rule=Rule("max"))
    assert model.labels == ("no", "yes")
    assert decision.label == "yes"
    assert sum(decision.probabilities.values()) == pytest.approx(1.0)
    assert len(decision.windows) > 2
    [best] = decision.telling(model.labels, k=1)
    assert "ship" in note[best.start : best.end]


def test_the_bundle_says_how_it_was_made(trained: Path) -> None:
    manifest = malmoi.load(trained).manifest
    card = (trained / "README.md").read_text("utf-8")
    digest = manifest.training["data"]["notes.jsonl"]
    assert len(digest) == 64 and f"| notes.jsonl | {digest[:16]}… |" in card
    assert manifest.training["seed"] == 1 and "Seed 1, " in card and "- torch " in card
    assert any(name.startswith("test:") for name in manifest.scores)


def test_the_decision_is_the_rule_over_its_windows(trained: Path) -> None:
    model = malmoi.load(trained)
    model.pool = dataclasses.replace(model.pool, temperature=1.0)
    note = " ".join(["at dawn the 배."] * 20)
    decision = model.classify(note, rule=Rule("joint", 2.0))
    said = np.array([one.probabilities[1] for one in decision.windows])
    n = len(said)
    expected = (said.max() + said.mean() * n / 2) / (1 + n / 2)
    assert decision.probabilities["yes"] == pytest.approx(expected, abs=1e-6)


def test_several_notes_of_a_patient_decide_together(trained: Path) -> None:
    model = malmoi.load(trained)
    decision = model.classify(["at dawn.", " ", "ship ship ship ship nephropathy."])
    assert {one.note for one in decision.windows} == {0, 2}


@pytest.mark.parametrize("note", ["", " \n "])
def test_an_empty_note_is_one_clear_line(trained: Path, note: str) -> None:
    with pytest.raises(TextError, match="no text"):
        malmoi.load(trained).classify(note)


def test_a_very_long_note(trained: Path) -> None:
    model = malmoi.load(trained)
    note = "at dawn the 배. " * 5000
    assert len(model.classify(note).windows) > 500


def test_report_compares_the_rules(trained: Path, folder: Path) -> None:
    report = json.loads((trained.parent / "report.json").read_text("utf-8"))
    compared = {one["model"] for one in report["comparisons"]}
    assert compared == {
        "first window only",
        "max over windows",
        "mean over windows",
    }
    assert set(report["metrics"]) == {"auroc", "auprc", "recall_at_0.8", "accuracy"}
    assert report["settings"]["c"] > 0


def test_evaluate_on_a_file(trained: Path, tmp_path: Path) -> None:
    data = write_notes(tmp_path / "more.jsonl", seed=7)
    from malmoi.evaluation import Settings

    report = evaluate(malmoi.load(trained), "notes", data, settings=Settings(columns=COLUMNS))
    assert report.metrics["auroc"].value > 0.8
    assert len(report.comparisons) == 3


def test_the_command(trained: Path, tmp_path: Path, run: Run) -> None:
    (tmp_path / "note.txt").write_bytes("배. ship ship ship ship nephropathy.".encode("cp949"))
    done = run("classify", trained, "note.txt")
    assert done.returncode == 0, done.stderr
    assert "cp949" in done.stderr
    found = json.loads(done.stdout)
    assert found["label"] == "yes"
    assert found["deciding"][0]["text"] == "배. ship ship ship ship nephropathy."


def write_stays(path: Path, *, patients: int = 120) -> Path:
    """Notes whose words say how long the stay was and which of three diagnoses hold."""
    rng = random.Random(3)
    words = {
        "sea": "ship ship ship ship.",
        "kidney": "nephropathy nephropathy.",
        "sky": "dawn dawn.",
    }
    lines = []
    for i in range(patients):
        held = [name for name in words if rng.random() < 0.4]
        parts = [words[name] for name in held] + ["배 at the 갔다 배 at the 갔다."] * rng.randint(
            2, 4
        )
        rng.shuffle(parts)
        days = 2 + 5 * ("sea" in held) + 3 * ("kidney" in held)
        row = {"patient": f"p{i}", "days": days, "found": ";".join(held), "text": " ".join(parts)}
        lines.append(json.dumps(row | {"listed": held}, ensure_ascii=False))
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def stays(folder: Path, problem: str, column: str, name: str, **data: Any) -> dict[str, Any]:
    columns = {"text": "text", "label": column, "patient": "patient"}
    given = {"files": ["stays.jsonl"], "columns": columns, "shares": {"dev": 0.45, "test": 0.2}}
    return table(
        folder,
        problem_type=problem,
        data=given | data,
        output={"folder": str(folder / name)},
        schedule={"epochs": 15, "batch_size": 16, "learning_rate": 3e-3},
    )


@pytest.fixture(scope="module")
def several(folder: Path) -> Path:
    write_stays(folder / "stays.jsonl")
    done = train(
        make_recipe(stays(folder, "multi_label_classification", "found", "several")), data=folder
    )
    assert done.scores["test:auroc"] > 0.9 and done.scores["test:micro_f1"] > 0.7
    return done.bundles[0]


@pytest.fixture(scope="module")
def number(folder: Path) -> Path:
    write_stays(folder / "stays.jsonl")
    told = record_messages()
    done = train(make_recipe(stays(folder, "regression", "days", "number")), data=folder)
    assert any("days 2 to 10, mean" in line for line in told)
    assert done.scores["test:r2"] > 0.2 and done.scores["test:spearman"] > 0.6
    assert done.scores["test:mae"] < done.scores["test:rmse"] < 3
    return done.bundles[0]


def test_several_labels_of_one_note(several: Path, folder: Path) -> None:
    model = malmoi.load(several)
    assert model.labels == ("kidney", "sea", "sky") and model.manifest.activation == "sigmoid"
    both = model.classify("ship ship ship ship. nephropathy nephropathy.")
    assert {"kidney", "sea"} <= set(both.labels)
    assert sum(both.probabilities.values()) > 1.2  # each by itself
    [best] = both.telling(model.labels, k=1, label="sea")
    assert best.probabilities[model.labels.index("sea")] > 0.5
    report = json.loads((several.parent / "report.json").read_text("utf-8"))
    assert set(report["metrics"]) == {"auroc", "micro_f1", "macro_f1"}
    assert set(report["details"]["auroc"]) == set(model.labels)
    card = (several / "README.md").read_text("utf-8")
    assert "Finds which of kidney, sea, sky hold" in card and "threshold" in card
    with pytest.raises(OptionError, match="Call classify"):
        model.estimate("배")


def test_a_number_about_a_note(number: Path) -> None:
    model = malmoi.load(number)
    assert model.labels == ("days",) and model.manifest.activation == "identity"
    long = model.estimate("ship ship ship ship. nephropathy nephropathy.")
    short = model.estimate(["배 at the 갔다.", "배 at the 갔다."])
    assert long.name == "days" and long.number > short.number + 1
    assert len(short.windows) == 2 and 0 < short.windows[0].probabilities[0] < 8
    assert model.estimate("배 at the 갔다.", rule=Rule("mean")).number == pytest.approx(
        short.windows[0].probabilities[0], abs=1e-4
    )
    with pytest.raises(OptionError, match="Call estimate"):
        model.classify("배")


def test_both_are_evaluated_on_a_file(several: Path, number: Path, folder: Path) -> None:
    from malmoi.evaluation import Settings

    for bundle, column, main in ((several, "listed", "auroc"), (number, "days", "r2")):
        columns = {"text": "text", "label": column, "patient": "patient"}
        report = evaluate(
            malmoi.load(bundle),
            "notes",
            folder / "stays.jsonl",
            settings=Settings(columns=columns),
        )
        assert report.main == main and report.metrics[main].value > 0.25
        assert report.data.rows == 120
    by_first = [row for row in report.rows() if row["metric"] == "mae" and row["p"] != ""]
    for row in by_first:  # a smaller error is the better one
        assert row["ours is"] in ("not clear", "better" if row["difference"] < 0 else "worse")


def test_the_command_prints_labels_and_numbers(several: Path, number: Path, run: Run) -> None:
    note = "ship ship ship ship. nephropathy nephropathy."
    found = json.loads(run("classify", several, "-", "--windows", "1", stdin=note).stdout)
    assert set(found) == {"note", "labels", "probabilities", "windows", "deciding"}
    assert [one["label"] for one in found["deciding"]] == found["labels"]
    found = json.loads(run("classify", number, "-", "--windows", "1", stdin=note).stdout)
    assert found["label"] == "days" and found["number"] > 4
    assert found["deciding"][0]["text"] == note


def test_an_encoder_is_no_classifier(bundle: Path) -> None:
    with pytest.raises(BundleError, match="expected classifier"):
        malmoi.load(bundle, kind="classifier")


def test_dropout_is_that_of_the_recipe_everywhere(folder: Path) -> None:
    from torch import nn

    from malmoi.training.objectives.classification_task import NoteTask
    from malmoi.training.run import prepare

    recipe = make_recipe(table(folder, dropout=0.25))
    prepared = prepare(recipe, folder, strict=False)
    source, notes = prepared.source, prepared.data
    module = NoteTask(recipe, source, notes).module
    found = {one.p for one in module.modules() if isinstance(one, nn.Dropout)}
    assert found == {0.25}


def test_one_class_only(folder: Path, tmp_path: Path) -> None:
    write_notes(tmp_path / "notes.jsonl")
    text = (tmp_path / "notes.jsonl").read_text("utf-8").replace('"well"', '"sick"')
    (tmp_path / "notes.jsonl").write_text(text, "utf-8")
    made = table(folder, output={"folder": str(tmp_path / "run")})
    with pytest.raises(DataError, match="same label"):
        train(make_recipe(made), data=tmp_path)


def test_a_split_without_patients_is_the_same_wherever_the_data_lie(tmp_path: Path) -> None:
    from malmoi.training.objectives.classification import read_notes

    data = {"files": ["notes.jsonl"], "columns": {"text": "text", "label": "kind"}}
    found = []
    for name in ("here", "far/away"):
        (tmp_path / name).mkdir(parents=True)
        write_notes(tmp_path / name / "notes.jsonl")
        recipe = make_recipe(table(tmp_path, data=data))
        found.append(read_notes(recipe, tmp_path / name, strict=False))
    assert found[0].parts == found[1].parts
    assert all(found[0].parts.values())


def test_a_test_part_with_one_label_is_told_before_training(folder: Path) -> None:
    (folder / "well.jsonl").write_text('{"text": "at dawn", "kind": "well"}\n', "utf-8")
    files = {"train": ["notes.jsonl"], "dev": ["notes.jsonl"], "test": ["well.jsonl"]}
    data = files | {"columns": {"text": "text", "label": "kind"}}
    recipe = make_recipe(table(folder, data=data, output={"folder": str(folder / "no")}))
    with pytest.raises(DataError, match="the test part has 1 document of one label"):
        train(recipe, data=folder)
    assert not (folder / "no").exists()


def test_leakage_between_files_is_told(folder: Path, tmp_path: Path) -> None:
    from malmoi.training.objectives.classification import read_notes

    for name in ("train", "dev"):
        write_notes(tmp_path / f"{name}.jsonl")
    data = {"train": ["train.jsonl"], "dev": ["dev.jsonl"], "columns": COLUMNS}
    told = record_messages()
    notes = read_notes(make_recipe(table(folder, data=data)), tmp_path, strict=False)
    assert notes.leaked["patients of train and dev"] == 48
    assert any("leakage" in line for line in told)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rule": "median"}, 'rule is "median"'),
        ({"rulle": "max"}, "Did you mean rule"),
        ({"dropout": 1.0}, "dropout"),
        ({"problem_type": "regresion"}, "problem_type"),
        ({"problem_type": "regression"}, "data.positive is set with problem_type regression"),
        ({"problem_type": "multi_label_classification"}, "expected labels or largest"),
        ({"data": {"columns": COLUMNS}}, "no files"),
        ({"data": {"columns": {"text": "t"}, "files": ["a"]}}, "no label"),
        ({"data": {"columns": COLUMNS, "train": ["a"]}}, "data.dev is missing"),
        (
            {"data": {"columns": COLUMNS, "files": ["a"], "shares": {"dev": 0.6, "test": 0.5}}},
            "leave nothing",
        ),
    ],
)
def test_slips_in_a_recipe(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_recipe(table(folder, **changes))


def test_the_recipes_of_the_repository_are_sound() -> None:
    recipes = ROOT / "recipes"
    for name in ("mtsamples-surgery.toml", "mtsamples-specialties.toml"):
        assert load_recipe(recipes / name).to_json()["objective"] == "note-classification"
