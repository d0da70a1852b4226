"""Names with concepts: pairs drawn, look-alikes found, batches laid, an encoder aligned."""

import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import malmoi
from malmoi.errors import DataError, OptionError
from malmoi.evaluation import concepts
from malmoi.evaluation.tasks.concepts import is_held_out, rank
from malmoi.training.batching import Sizes, plan_epoch
from malmoi.training.objectives.pairs import TrainingExamples, read_examples
from malmoi.training.recipe import Data, make_recipe
from malmoi.training.run import prepare, train
from malmoi.training.sampler import BatchClusters
from malmoi.training.terms import draw, fold
from tests.support import runs
from tests.support import tiny as tiny_models
from tests.support.logs import record_messages

TERMS = """code\tname\tsource
K74\t간경변\tKCD
K74\t간경화\tlocal
K74\tLiver  cirrhosis\tKCD
K74\tliver cirrhosis\tWHO
K70\t알코올성 간질환\tKCD
K70\tAlcoholic liver disease\tKCD
C22\t간암\tKCD
C22\tLiver cancer\tKCD
B18\tHepatitis\tKCD
C22.0\tHepatitis\tKCD
C22.0\t간세포암\tKCD
B18\t간염\tKCD
E11\tlonely\tKCD
"""
EXCLUDED = """code\tnote\tko
K74\t제외\t알코올성 간경변(K70.-)
K74\t제외\t문맥성 고혈압
K74\t포함\t간암(C22)
C22\t제외\t간경화
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "terms.tsv").write_text(TERMS, "utf-8")
    (tmp_path / "rows.tsv").write_text(EXCLUDED, "utf-8")
    return tmp_path


def entry(**changes: Any) -> Data:
    table: dict[str, Any] = {
        "files": ("terms.tsv",),
        "columns": {"name": "name", "concept": "code"},
        "objective": "term-alignment",
    }
    return Data(**table | changes)


def pairs_of(part: TrainingExamples) -> set[frozenset[str]]:
    return {frozenset(part.texts[i] for i in row) for row in part.columns}


def test_names_of_a_concept_become_pairs(folder: Path) -> None:
    part = read_examples(entry(), folder)
    found = pairs_of(part)
    assert frozenset({"간경변", "간경화"}) in found
    assert frozenset({"간경화", "Liver  cirrhosis"}) in found
    assert (
        frozenset({"간염", "Hepatitis"}) in found and frozenset({"간세포암", "Hepatitis"}) in found
    )
    assert len(part) == 3 + 1 + 1 + 1 + 1  # case and spacing make no second name
    assert "lonely" not in part.texts
    assert part.labels is not None and len(set(part.labels.tolist())) == 5


def test_where_and_without_choose_rows(folder: Path) -> None:
    part = read_examples(entry(without={"source": ("local", "WHO")}), folder)
    assert "간경화" not in part.texts and "간경변" in part.texts


def test_at_most_so_many_pairs_the_same_ones_for_a_seed(folder: Path) -> None:
    part = read_examples(entry(options={"pairs": 1}), folder)
    assert len(part) == 5
    assert pairs_of(part) == pairs_of(read_examples(entry(options={"pairs": 1}), folder))
    names = [f"name {i}" for i in range(60)]
    one, two, other = (draw(names, 50, "K74", seed) for seed in (1, 1, 2))
    assert len(set(one)) == 50 and one == two and one != other
    assert all(a != b for a, b in one)
    many = draw([f"n{i}" for i in range(1000)], 50, "K74", 1)
    assert len(set(many)) == 50 and many == draw([f"n{i}" for i in range(1000)], 50, "K74", 1)


def test_strict_pairs_are_meanings_of_their_own(tmp_path: Path) -> None:
    text = "code\tko\ten\nA00\t콜레라\tCholera\nA00\t고전적 콜레라\tClassical cholera\n"
    (tmp_path / "pairs.tsv").write_text(text + "A01\t장티푸스\tTyphoid fever\n", "utf-8")
    columns = {"name": "ko", "synonym": "en", "concept": "code"}
    part = read_examples(entry(files=("pairs.tsv",), columns=columns), tmp_path)
    assert part.labels is not None and part.labels.tolist() == [0, 1, 2]
    [first, *rest] = batches(part, size=3)
    # Both rows of A00 are neither the same nor opposites: they never meet.
    assert len(first) == 2 and rest == []


def batches(
    part: TrainingExamples, *, size: int, epoch: int = 0, tokens: int = 0
) -> list[list[int]]:
    lengths = np.full(len(part), 5)
    steps = plan_epoch(
        [lengths],
        [1.0],
        [None],
        Sizes(size, tokens),
        seed=1,
        epoch=epoch,
        clusters=[part.clusters],
    )
    return [step.rows.tolist() for step in steps]


def beside(part: TrainingExamples, name: str) -> set[str]:
    """The names that stand under the look-alikes of a name's concept."""
    clusters = part.clusters
    assert clusters is not None
    [row, *_] = [i for i, pair in enumerate(part.columns) if part.texts.index(name) in pair]
    others = set(clusters.confused_with[clusters.concepts[row]])
    rows = [i for i, concept in enumerate(clusters.concepts) if int(concept) in others]
    return {part.texts[number] for row in rows for number in part.columns[row]}


def test_exclusions_and_siblings_are_look_alikes(folder: Path) -> None:
    rows = {"files": ("rows.tsv",), "columns": {"a": "code", "b": "ko"}, "where": {"note": "제외"}}
    table = runs.table(folder, objective="term-alignment")
    table["data"][0] |= {
        "files": ["terms.tsv"],
        "columns": {"name": "name", "concept": "code"},
        "negatives": [{key: list(v) if key == "files" else v for key, v in rows.items()}],
        "options": {"siblings": 3},
    }
    part = read_examples(make_recipe(table).data[0], folder)
    near = beside(part, "간경변")
    assert "알코올성 간질환" in near  # the code in brackets
    assert "문맥성 고혈압" in near  # a name that is in no table stands for itself
    assert "간암" in near  # C22 excludes 간경화, which is K74
    assert beside(part, "간세포암") == {"간암", "Liver cancer"}  # a sibling code


def test_mined_neighbours_are_look_alikes(folder: Path) -> None:
    mined = "anchor\tpositive\tnegative\nliver cirrhosis\t간경변\tLiver CANCER\n"
    (folder / "mined.tsv").write_text(mined, "utf-8")
    table = runs.table(folder, objective="term-alignment")
    negatives = {"files": ["mined.tsv"], "columns": {"a": "anchor", "b": "negative"}}
    table["data"][0] |= {
        "files": ["terms.tsv"],
        "columns": {"name": "name", "concept": "code"},
        "negatives": [negatives],
    }
    part = read_examples(make_recipe(table).data[0], folder)
    assert beside(part, "간경변") == {"간암", "Liver cancer"}


def large(*, concepts: int = 40, names: int = 4) -> BatchClusters:
    """Concepts of several names each; the neighbour of an even one is the next."""
    rows = [(c, a, b) for c in range(concepts) for a in range(names) for b in range(a)]
    numbers = np.array([[c * names + a, c * names + b] for c, a, b in rows])
    labels = np.array([c for c, *_ in rows])
    others = [[c + 1] if c % 2 == 0 else [c - 1] for c in range(concepts)]
    return BatchClusters(labels, labels, numbers, others, together=3, neighbours=1)


def test_batches_hold_several_names_of_a_concept_and_its_look_alike() -> None:
    clusters = large()
    part = TrainingExamples(
        [str(i) for i in range(160)],
        clusters.names.astype(np.int32),
        clusters.labels,
        clusters=clusters,
    )
    found = batches(part, size=12)
    assert sorted(row for batch in found for row in batch) == list(range(len(part)))
    assert max(map(len, found)) == 12
    counted = [Counter(clusters.labels[batch].tolist()) for batch in found]
    full = [count for count, batch in zip(counted, found, strict=True) if len(batch) == 12]
    assert np.mean([max(count.values()) for count in full]) >= 3
    both = [c for count in full for c in count if (c ^ 1) in count]
    assert len(both) >= 0.8 * sum(len(count) for count in full)
    assert found == batches(part, size=12) != batches(part, size=12, epoch=1)
    assert all(len(batch) * 5 <= 40 for batch in batches(part, size=99, tokens=40))


def test_a_name_never_meets_itself_under_another_concept(folder: Path) -> None:
    part = read_examples(entry(options={"siblings": 1, "neighbours": 5, "together": 5}), folder)
    clusters = part.clusters
    assert clusters is not None and part.labels is not None
    for epoch in range(20):
        for batch in batches(part, size=7, epoch=epoch):
            seen: dict[int, set[int]] = {}
            for row in batch:
                for name in clusters.names[row]:
                    seen.setdefault(int(name), set()).add(int(part.labels[row]))
            assert all(len(labels) == 1 for labels in seen.values())


def test_held_out_concepts_are_not_learnt_and_are_asked(folder: Path) -> None:
    held = {c for c in ("K74", "K70", "C22", "B18", "C22.0") if is_held_out(c, 0.5)}
    assert 0 < len(held) < 5
    told = record_messages()
    part = read_examples(entry(hold_out=0.5), folder)
    names = concepts.read(
        folder / "terms.tsv", columns={"name": "name", "concept": "code"}, hold_out=0.5
    ).rows
    assert {c for term in names.asked for c in term.concepts} - {"E11"} == held
    learnt = set(map(fold, part.texts))
    assert any("held out" in line for line in told)
    others = {fold(term.name) for term in names.dictionary if not term.concepts & held}
    assert learnt <= others


class Letters:
    """A model that counts letters: names of the same letters are alike."""

    def encode(self, texts: list[str]) -> np.ndarray:
        return np.array([[t.count("a") + 0.01, t.count("b"), t.count("c")] for t in texts])


def test_concept_accuracy_counts_concepts(tmp_path: Path) -> None:
    (tmp_path / "asked.tsv").write_text("name\tconcept\nab\tX\naab\tZ\nccb\tY|W\n", "utf-8")
    listed = "name\tconcept\nba\tX\nba\tQ\nabab\tX\nbb\tP\na\tR\ncbc\tY\n"
    (tmp_path / "listed.tsv").write_text(listed, "utf-8")
    names = concepts.read(tmp_path / "asked.tsv", dictionary=tmp_path / "listed.tsv").rows
    # "ba" is a name of X and Q: right for X. Z is not in the dictionary. Y is one of the two.
    assert rank(Letters(), names) == [1, 6, 1]
    values = concepts.measure(Letters(), names).values()
    assert values["accuracy@1"] == pytest.approx(2 / 3)
    assert values["mrr"] == pytest.approx((1 + 1 / 6 + 1) / 3)


def test_a_tie_is_no_knowledge(tmp_path: Path) -> None:
    (tmp_path / "asked.tsv").write_text("name\tconcept\nab\tX\n", "utf-8")
    (tmp_path / "listed.tsv").write_text("name\tconcept\nba\tX\nb-a\tQ\n", "utf-8")
    names = concepts.read(tmp_path / "asked.tsv", dictionary=tmp_path / "listed.tsv").rows
    assert rank(Letters(), names) == [2]


def test_without_a_dictionary_names_look_among_each_other(tmp_path: Path) -> None:
    text = "name\tconcept\nab\tX\nba\tX\nbb\tP\nbbb\tP\n"
    (tmp_path / "terms.tsv").write_text(text, "utf-8")
    assert rank(Letters(), concepts.read(tmp_path / "terms.tsv").rows) == [1, 1, 1, 1]


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("code\tname\nA\tone\nB\ttwo\n", {}, "no concept with two names"),
        ("code\tterm\nA\tone\n", {}, "no column name"),
        ("", {}, "no"),
    ],
)
def test_files_that_teach_nothing(
    tmp_path: Path, text: str, changes: dict[str, Any], message: str
) -> None:
    (tmp_path / "terms.tsv").write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        read_examples(entry(**changes), tmp_path)


def test_recipes_that_make_no_sense(folder: Path) -> None:
    table = runs.table(folder)
    table["data"][0]["hold_out"] = 0.1
    with pytest.raises(OptionError, match="for names with concepts"):
        make_recipe(table)
    table = aligned(folder)
    table["data"][0]["negatives"] = [{"files": ["x.tsv"], "columns": {"a": "code"}}]
    with pytest.raises(OptionError, match="columns a and b"):
        make_recipe(table)
    table = aligned(folder)
    table["data"][0]["options"] = {"margin": 1.0}
    with pytest.raises(OptionError, match="epsilon"):
        make_recipe(table)


def write_terms(path: Path, *, concepts: int = 24) -> None:
    rng = random.Random(3)
    lines = ["code\tname"]
    for i in range(concepts):
        words = rng.sample(runs.WORDS, 3)
        lines += [f"C{i:02d}\t{' '.join(rng.sample(words, 3))} {j}" for j in range(3)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def aligned(folder: Path, **changes: Any) -> dict[str, Any]:
    table = runs.table(folder, objective="term-alignment", **changes)
    table["data"][0] |= {
        "files": ["names.tsv"],
        "columns": {"name": "name", "concept": "code"},
        "options": {"siblings": 2},
    }
    table["evaluation"] = [{"task": "concepts", "file": "names.tsv", "name": "concepts"}]
    table["max_tokens"] = 25
    return table


def test_held_out_concepts_that_nothing_measures_are_named(tmp_path: Path) -> None:
    tiny_models.tiny_transformer(tmp_path / "base")
    write_terms(tmp_path / "names.tsv")
    table = aligned(tmp_path)
    table["data"][0]["hold_out"] = 0.2
    told = record_messages()
    prepare(make_recipe(table), tmp_path)
    assert any("names.tsv: hold_out leaves rows out and nothing is measured" in t for t in told)
    table["evaluation"][0]["hold_out"] = 0.2
    told.clear()
    prepare(make_recipe(table), tmp_path)
    assert not any("nothing is measured" in line for line in told)


@pytest.mark.parametrize("architecture", ["bert", "roberta", "xlm-roberta"])
def test_any_encoder_is_aligned(tmp_path: Path, architecture: str) -> None:
    tiny_models.tiny_transformer(tmp_path / "base", architecture)
    write_terms(tmp_path / "names.tsv")
    table = aligned(tmp_path, schedule={"epochs": 3, "evaluate_steps": 4})
    table["pooling"] = "cls"
    done = train(make_recipe(table), data=tmp_path, threads=1)
    assert 0 < done.scores["concepts"] <= 1
    encoder = malmoi.load(done.bundles[0])
    assert encoder.encode(["배가 아파서"]).shape == (1, 32)
    rows = (done.folder / "log.csv").read_text("utf-8").splitlines()
    assert sum(line.split(",")[-1] != "" for line in rows[1:]) >= 4  # dev accuracy every n steps


def test_alignment_learns(tmp_path: Path) -> None:
    tiny_models.tiny_transformer(tmp_path / "base")
    write_terms(tmp_path / "names.tsv")
    table = aligned(tmp_path, schedule={"epochs": 8, "evaluate_steps": 0})
    recipe = make_recipe(table)
    whole = train(recipe, data=tmp_path, threads=1)
    log = (whole.folder / "log.csv").read_text("utf-8").splitlines()
    losses = [float(cell) for line in log[1:] if (cell := line.split(",")[2])]
    assert np.mean(losses[-8:]) < 0.8 * np.mean(losses[:8])
