"""A reranker trained from a recipe: files in, a bundle that tells pairs apart out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import malmoi
from malmoi.bundle.bundle import Manifest
from malmoi.errors import BundleError, DataError, OptionError
from malmoi.training.objectives.cross_encoder import CrossEncoderTask
from malmoi.training.recipe import make_recipe
from malmoi.training.run import prepare, train
from tests.support.cross_encoders import load_cross_encoder
from tests.support.tiny import tiny_transformer

WORDS = ["ship", "배", "병원", "the"]
PAIRS = [(a, b) for a in WORDS for b in WORDS]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Keep torch's threads from waiting for each other over matrices this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def table(tmp_path: Path) -> dict[str, Any]:
    """A recipe over pairs of words, with a score from 0 to 5 and a label, beside its base."""
    tiny_transformer(tmp_path / "base")
    rows = ["one\ttwo\tscore\tkind"]
    for a, b in PAIRS:
        same = a == b
        line = f"{a}\t{b}\t{5 if same else 0}\t{'same' if same else 'other'}"
        rows += [line] * (3 if same else 1)
    (tmp_path / "pairs.tsv").write_text("\n".join(rows), "utf-8")
    return {
        "name": "tiny-reranker",
        "kind": "reranker",
        "base": str(tmp_path / "base"),
        "dropout": 0.0,
        "layers": 1,
        "objective": "regression",
        "data": [
            {
                "files": ["pairs.tsv"],
                "columns": {"a": "one", "b": "two", "score": "score"},
                "range": [0.0, 5.0],
            }
        ],
        "evaluation": [
            {
                "task": "sts",
                "file": "pairs.tsv",
                "columns": {"a": "one", "b": "two", "score": "score"},
            }
        ],
        "schedule": {"epochs": 30, "batch_size": 12, "learning_rate": 5e-3},
        "output": {"folder": str(tmp_path / "run")},
    }


def with_labels(table: dict[str, Any]) -> dict[str, Any]:
    """The same, learning labels instead of scores."""
    columns = {"a": "one", "b": "two", "label": "kind"}
    data = [{"files": ["pairs.tsv"], "columns": columns, "labels": ["other", "same"]}]
    return table | {"objective": "cross-encoder-classification", "data": data}


@pytest.mark.parametrize("labels", [False, True])
def test_a_recipe_makes_a_reranker(table: dict[str, Any], tmp_path: Path, labels: bool) -> None:
    recipe = make_recipe(with_labels(table) if labels else table)
    trained = train(recipe, data=tmp_path)
    [bundle] = trained.bundles
    reranker = malmoi.load(bundle)
    scores = reranker.score(PAIRS)
    same = np.array([a == b for a, b in PAIRS])
    assert scores[same].mean() > scores[~same].mean() + 0.25
    assert reranker.labels == (("other", "same") if labels else ())
    manifest = Manifest.read(bundle)
    assert manifest.training["recipe"]["layers"] == 1 and manifest.scores
    card = (bundle / "README.md").read_text("utf-8")
    assert "malmoi.load" in card and "1 of its layers" in card
    assert load_cross_encoder(bundle)[0].model.config.num_hidden_layers == 1


def test_lists_teach_the_order_of_a_query_s_texts(table: dict[str, Any], tmp_path: Path) -> None:
    schedule = {"epochs": 40, "batch_tokens": 64, "learning_rate": 5e-3}
    recipe = make_recipe(table | {"objective": "listwise", "schedule": schedule})
    prepared = prepare(recipe, tmp_path)
    task = CrossEncoderTask(recipe, prepared.source, prepared.examples)
    plan = task.plan(0)
    assert sorted(np.concatenate([step.rows for step in plan])) == [0, 1, 2, 3]  # the queries
    [bundle] = train(recipe, data=tmp_path).bundles
    reranker = malmoi.load(bundle)
    assert [reranker.rank(word, WORDS, k=1)[0].text for word in WORDS] == WORDS


def test_the_task_scores_as_its_bundle_does(table: dict[str, Any], tmp_path: Path) -> None:
    recipe = make_recipe(table | {"schedule": {"epochs": 1, "batch_size": 12}})
    prepared = prepare(recipe, tmp_path)
    task = CrossEncoderTask(recipe, prepared.source, prepared.examples, prepared.measures)
    task.module.eval()
    (tmp_path / "saved").mkdir()
    task.save(tmp_path / "saved")
    judge = load_cross_encoder(tmp_path / "saved")
    expected = judge.predict(PAIRS, show_progress_bar=False)
    np.testing.assert_allclose(task.score(PAIRS), expected, atol=1e-6)
    step = task.plan(0)[0]
    rows = [prepared.examples[0].columns[row] for row in step.rows]
    texts = prepared.examples[0].texts
    scores = judge.predict([(texts[a], texts[b]) for a, b in rows], show_progress_bar=False)
    goals = prepared.examples[0].labels[step.rows]
    by_hand = -(goals * np.log(scores) + (1 - goals) * np.log(1 - scores)).mean()
    assert task.loss(step).item() == pytest.approx(by_hand, rel=1e-5)


def test_data_with_different_labels_are_told(table: dict[str, Any], tmp_path: Path) -> None:
    both = [table["data"][0] | {"objective": "regression"}]
    both += [with_labels(table)["data"][0] | {"objective": "cross-encoder-classification"}]
    recipe = make_recipe(table | {"data": both})
    with pytest.raises(OptionError, match="different labels: scores; other, same"):
        train(recipe, data=tmp_path)


@pytest.mark.parametrize(
    ("change", "told"),
    [({"kind": "encoder"}, "for reranker"), ({"objective": "cosine"}, "for encoder")],
)
def test_objectives_of_the_other_kind_are_told(
    table: dict[str, Any], change: dict[str, Any], told: str
) -> None:
    with pytest.raises(OptionError, match=told):
        make_recipe({key: value for key, value in table.items() if key != "layers"} | change)


def first_state(table: dict[str, Any], root: Path) -> dict[str, torch.Tensor]:
    """The parameters that a recipe starts from."""
    recipe = make_recipe(table)
    prepared = prepare(recipe, root)
    task = CrossEncoderTask(recipe, prepared.source, prepared.examples, prepared.measures)
    return task.module.state_dict()


@pytest.mark.parametrize("folder", ["best", "bundle"])
def test_a_reranker_is_trained_on_from_a_reranker(
    table: dict[str, Any], tmp_path: Path, folder: str
) -> None:
    train(make_recipe(table | {"schedule": {"epochs": 2, "batch_size": 12}}), data=tmp_path)
    learnt = load_cross_encoder(tmp_path / "run" / folder).state_dict()
    again = {key: value for key, value in table.items() if key != "layers"}
    again |= {"base": str(tmp_path / "run" / folder), "seed": 2}
    again["output"] = {"folder": str(tmp_path / "again")}
    begun = first_state(again, tmp_path)
    assert begun.keys() == learnt.keys()
    assert all(torch.equal(begun[name], value) for name, value in learnt.items())
    [bundle] = train(make_recipe(again), data=tmp_path).bundles
    assert malmoi.load(bundle).score(PAIRS).std() > 0.1


def test_a_head_of_other_labels_is_begun_anew(table: dict[str, Any], tmp_path: Path) -> None:
    labelled = with_labels(table) | {"schedule": {"epochs": 1, "batch_size": 12}}
    train(make_recipe(labelled), data=tmp_path)
    learnt = load_cross_encoder(tmp_path / "run/bundle").state_dict()
    begun = first_state(table | {"base": str(tmp_path / "run/bundle")}, tmp_path)
    assert all(torch.equal(begun[name], learnt[name]) for name in begun if name.startswith("0."))
    assert begun["4.linear.weight"].shape[0] == 1 and learnt["4.linear.weight"].shape[0] == 2


def test_an_encoder_is_not_trained_from_a_reranker(table: dict[str, Any], tmp_path: Path) -> None:
    train(make_recipe(table | {"schedule": {"epochs": 1, "batch_size": 12}}), data=tmp_path)
    encoder = table | {"kind": "encoder", "objective": "cosine", "layers": 0}
    encoder["output"] = {"folder": str(tmp_path / "encoder")}
    with pytest.raises(BundleError, match="of kind 'reranker'; expected an encoder to start"):
        train(make_recipe(encoder | {"base": str(tmp_path / "run/bundle")}), data=tmp_path)


def test_an_evaluation_by_labels_needs_those_of_the_data(
    table: dict[str, Any], tmp_path: Path
) -> None:
    measure = {"task": "nli", "file": "pairs.tsv"}
    columns = {"a": "one", "b": "two", "label": "kind"}
    entries = {"evaluation": [measure | {"columns": columns}]}
    with pytest.raises(OptionError, match="the reranker gives one score and no labels"):
        train(make_recipe(table | entries), data=tmp_path)
    entries = {"evaluation": [measure | {"columns": columns | {"label": "score"}}]}
    with pytest.raises(DataError, match=r"does not know \(2 of 2\); it knows other, same"):
        train(make_recipe(with_labels(table) | entries), data=tmp_path)
    assert not (tmp_path / "run").exists()
