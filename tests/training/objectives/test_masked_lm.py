"""`objective = "pretrain"`: text in, an encoder out that other recipes start from."""

import importlib.util
import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from malmoi.errors import DataError, OptionError
from malmoi.runtime.tokenizer import read_tokenizer
from malmoi.text.morphemes import available
from malmoi.training.objectives.masked_lm import (
    LeaveOut,
    Packed,
    TextData,
    TextDocument,
    TextFiles,
    is_held_out,
    pack,
    read_documents,
)
from malmoi.training.objectives.masked_lm_task import NOTHING, blocks, mask, segment_pairs
from malmoi.training.recipe import make_recipe
from malmoi.training.run import TrainedRun, train
from tests.support import runs
from tests.support import tiny as tiny_models
from tests.support.logs import record_messages


def write_text(path: Path, *, documents: int = 60) -> Path:
    rng = random.Random(5)
    lines = []
    for _ in range(documents):
        lines += [f"{runs.sentence(rng)}." for _ in range(rng.randint(2, 6))] + [""]
    path.write_text("\n".join(lines), "utf-8")
    return path


def table(folder: Path, **changes: Any) -> dict[str, Any]:
    made: dict[str, Any] = {
        "name": "tiny-lm",
        "objective": "pretrain",
        "base": str(folder / "base"),
        "max_tokens": 32,
        "dropout": 0.0,
        "data": {"files": ["text.txt"], "held_out": 0.2},
        "schedule": {"epochs": 4, "batch_size": 8, "learning_rate": 3e-3},
        "output": {"folder": str(folder / "run")},
    }
    for key, value in changes.items():
        made[key] = made[key] | value if isinstance(made.get(key), dict) else value
    return made


def run(folder: Path, *, resume: bool = False, **changes: Any) -> TrainedRun:
    recipe = make_recipe(table(folder, **changes), where="the recipe")
    return train(recipe, data=folder, threads=1, resume=resume)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = runs.prepare(tmp_path_factory.mktemp("pretrain"))
    write_text(made / "text.txt")
    return made


def test_perplexity_falls_and_the_encoder_starts_another_recipe(folder: Path) -> None:
    done = run(folder, masking={"next_sentence": True}, head_steps=4, schedule={"epochs": 3})
    assert done.scores["perplexity:after"] < 0.67 * done.scores["perplexity:before"]
    assert 0 <= done.scores["held-out:next-sentence"] <= 1
    report = json.loads((done.folder / "report.json").read_text("utf-8"))
    assert report["data"].keys() == {"text.txt"} and report["steps"] == done.steps
    assert report["seed"] == 1
    if importlib.util.find_spec("matplotlib"):
        assert (done.folder / "training.png").read_bytes().startswith(b"\x89PNG")
    next_one = runs.table(folder, schedule={"epochs": 1}, base=str(done.bundles[0]))
    next_one["output"] = {"folder": str(folder / "next")}
    assert train(make_recipe(next_one), data=folder, threads=1).bundles


def test_next_sentences_need_documents_of_several(folder: Path) -> None:
    lines = (folder / "text.txt").read_text("utf-8").split()
    (folder / "lines.txt").write_text("\n\n".join(lines), "utf-8")
    with pytest.raises(DataError, match="no document has two sentences"):
        run(
            folder,
            data={"files": ["lines.txt"]},
            masking={"next_sentence": True},
            output={"folder": str(folder / "single")},
        )


@pytest.mark.parametrize("architecture", ["roberta", "xlm-roberta"])
def test_masked_words_alone_with_other_encoders(tmp_path: Path, architecture: str) -> None:
    tiny_models.tiny_transformer(tmp_path / "base", architecture)
    write_text(tmp_path / "text.txt")
    done = run(tmp_path, schedule={"epochs": 1})
    assert done.scores["perplexity:after"] < done.scores["perplexity:before"]


def test_from_scratch_with_a_tokenizer_of_its_own(tmp_path: Path) -> None:
    write_text(tmp_path / "text.txt")
    scratch = {"layers": 1, "hidden": 32, "heads": 2, "vocabulary": 120}
    done = run(tmp_path, base="", scratch=scratch, schedule={"epochs": 2})
    tokenizer = read_tokenizer(done.bundles[0] / "tokenizer.json")
    assert "병원에" in tokenizer.get_vocab()  # Hangul in syllables, not in letters
    config = json.loads((done.bundles[0] / "config.json").read_text("utf-8"))
    assert config["num_hidden_layers"] == 1 and config["vocab_size"] <= 120
    assert done.scores["perplexity:after"] < done.scores["perplexity:before"]


def test_a_base_learns_new_pieces(folder: Path) -> None:
    done = run(
        folder, extend=12, schedule={"epochs": 1}, output={"folder": str(folder / "extended")}
    )
    old = read_tokenizer(folder / "base" / "tokenizer.json").get_vocab()
    new = read_tokenizer(done.bundles[0] / "tokenizer.json").get_vocab()
    assert set(old) < set(new)
    weights = load_file(done.bundles[0] / "model.safetensors")
    [rows] = [w for name, w in weights.items() if name.endswith("word_embeddings.weight")]
    assert len(rows) == len(new)


def test_a_stopped_run_goes_on_to_the_same_weights(folder: Path) -> None:
    changes: dict[str, Any] = {"schedule": {"epochs": 2}, "head_steps": 3}
    whole = run(folder, output={"folder": str(folder / "whole")}, **changes)
    changes["output"] = {"folder": str(folder / "half"), "checkpoint_steps": 2}
    with runs.stopping_at(6):
        run(folder, **changes)
    again = run(folder, resume=True, **changes)
    one, two = (load_file(done.bundles[0] / "model.safetensors") for done in (whole, again))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert again.scores == whole.scores


def test_documents_of_test_sets_are_left_out(tmp_path: Path) -> None:
    rows = [
        {"pmid": str(i), "title": f"Title {i}.", "abstract": f"Text {i} here."} for i in range(6)
    ]
    lines = "\n".join(json.dumps(row) for row in rows)
    (tmp_path / "abstracts.jsonl").write_text(lines + "\n", "utf-8")
    (tmp_path / "test.jsonl").write_text(json.dumps({"pmid": "2"}) + "\n", "utf-8")
    # The same abstract under no id, in other letters and spaces.
    same = json.dumps({"title": "TITLE 4.", "abstract": "Text  4 here."})
    (tmp_path / "texts.jsonl").write_text(same + "\n", "utf-8")
    data = TextData(
        files=("abstracts.jsonl",),
        columns=("title", "abstract"),
        id="pmid",
        leave_out=(
            LeaveOut(files=("test.jsonl",), id="pmid"),
            LeaveOut(files=("texts.jsonl",), columns=("title", "abstract")),
        ),
    )
    told = record_messages()
    found = list(read_documents(data, tmp_path, strict=False))
    assert [document.id for document in found] == ["0", "1", "3", "5"]
    assert told == ["2 documents are left out, 4 are learnt from"]


def test_lines_are_sentences_and_blank_lines_part_documents(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("하나.\n둘.\n\n\n셋.\n", "utf-8")
    found = list(read_documents(TextData(files=("a.txt",)), tmp_path, strict=False))
    assert [document.sentences for document in found] == [["하나.", "둘."], ["셋."]]


def test_files_of_several_forms(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"n": "1", "title": "가나. 다라."}\n', "utf-8")
    (tmp_path / "b.tsv").write_text("body\n마바사\n", "utf-8")
    (tmp_path / "c.txt").write_text("one\ntwo\n\nthree\n", "utf-8")
    data = TextData(
        files=("a.jsonl",),
        columns=("title",),
        id="n",
        also=(
            TextFiles(files=("b.tsv",), columns=("body",)),
            TextFiles(files=("c.txt",), lines=True),
        ),
    )
    found = list(read_documents(data, tmp_path, strict=False))
    assert [one.sentences for one in found] == [
        ["가나.", "다라."],
        ["마바사"],
        ["one"],
        ["two"],
        ["three"],
    ]
    assert [one.id for one in found] == ["1", "", "", "", ""]


def packed(
    folder: Path, base: Path, documents: list[list[str]], words: str = "whitespace"
) -> Packed:
    tokenizer = read_tokenizer(base / "tokenizer.json")
    tokenizer.no_padding()
    made = [TextDocument("", sentences) for sentences in documents]
    pack(iter(made), folder, tokenizer, (), words=words, held_out=0.3, seed=1)
    return Packed.open(folder / "train")


@pytest.fixture(scope="module")
def corpus(folder: Path) -> Packed:
    rng = random.Random(2)
    documents = [[runs.sentence(rng) for _ in range(rng.randint(1, 7))] for _ in range(50)]
    return packed(folder / "corpus", folder / "base", documents)


def test_packed_text_is_whole(folder: Path, corpus: Packed) -> None:
    assert corpus.sentences[-1] == len(corpus.ids) == len(corpus.begins)
    assert corpus.documents[-1] == len(corpus.sentences) - 1
    assert isinstance(corpus.ids, np.memmap)  # on disk, not in memory


def test_blocks_are_full_and_take_every_piece_once(corpus: Packed) -> None:
    for epoch in (0, 1):
        spans = blocks(corpus, 20, seed=1, epoch=epoch).spans
        lengths = spans[:, 1] - spans[:, 0]
        assert (lengths[1:-1] == 20).all() and lengths.max() <= 20
        assert lengths.sum() >= len(corpus.ids) - 2
    one, two = (blocks(corpus, 20, seed=1, epoch=1).spans for _ in range(2))
    assert np.array_equal(one, two)


def test_half_of_the_segments_come_from_elsewhere(corpus: Packed) -> None:
    pairs = segment_pairs(corpus, 30, seed=1, epoch=0)
    assert 0.25 < pairs.follows.mean() < 0.75
    owner = np.searchsorted(corpus.sentences[corpus.documents], pairs.spans, side="right") - 1
    same = owner[:, 0] == owner[:, 2]
    assert np.array_equal(same, pairs.follows)
    a0, a1, b0, b1 = pairs.spans.T
    assert ((a1 - a0) + (b1 - b0) <= 30).all() and (a1 > a0).all() and (b1 > b0).all()
    assert (b0[pairs.follows] >= a1[pairs.follows]).all()
    other = segment_pairs(corpus, 30, seed=1, epoch=1)
    assert not np.array_equal(other.spans, pairs.spans)  # dynamic: each epoch anew


def test_whole_words_are_masked() -> None:
    rng = np.random.default_rng(0)
    ids = rng.integers(10, 50, (200, 22))
    real = np.zeros(ids.shape, dtype=bool)
    real[:, 1:21] = True
    begins = np.zeros(ids.shape, dtype=bool)
    begins[:, 1::2] = True  # words of two pieces
    found = mask(ids, begins, real, share=0.2, mask_id=3, vocabulary=60, rng=rng)
    chosen = found.targets != NOTHING
    assert not chosen[~real].any()
    assert np.array_equal(chosen[:, 1:21:2], chosen[:, 2:21:2])  # both pieces or none
    assert chosen[:, 1:21].mean() == pytest.approx(0.2, abs=0.02)
    assert (found.targets[chosen] == ids[chosen]).all()
    assert (found.ids[chosen] == 3).mean() == pytest.approx(0.8, abs=0.05)
    assert (found.ids[~chosen] == ids[~chosen]).all()
    kept = (found.ids[chosen] == ids[chosen]).mean()
    assert kept == pytest.approx(0.12, abs=0.05)


@pytest.mark.skipif(not available(), reason="kiwipiepy is not installed")
def test_words_begin_at_morphemes_or_after_spaces(tmp_path: Path, folder: Path) -> None:
    texts = [[f"배가 아파서 {i}", f"병원에 갔다 {i}"] for i in range(24)]
    spaces = packed(tmp_path / "a", folder / "base", texts)
    morphemes = packed(tmp_path / "b", folder / "base", texts, "morphemes")
    pieces = packed(tmp_path / "c", folder / "base", texts, "pieces")
    assert spaces.begins.sum() < morphemes.begins.sum() <= pieces.begins.sum()


def test_held_out_documents_are_the_same_whatever_else_is_read() -> None:
    documents = [TextDocument("", [f"a {i}", f"b {i}"]) for i in range(400)]
    held = [is_held_out(document, 0.1, 1) for document in documents]
    assert 20 < sum(held) < 60
    assert held == [is_held_out(document, 0.1, 1) for document in documents]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"masking": {"words": "letters"}}, "masking.words"),
        ({"masking": {"share": 1.5}}, "masking.share"),
        ({"data": {"held_out": 0.0}}, "held_out"),
        ({"data": {"files": []}}, "data.files is empty"),
        ({"data": {"leave_out": [{"files": ["x"]}]}}, "leave_out"),
        ({"scratch": {"hidden": 30, "heads": 4}}, "scratch.heads"),
        ({"scratch": {"heads": 0}}, "scratch.heads is 0"),
        ({"scratch": {"layers": 0}}, "scratch.layers is 0"),
        ({"schedule": {"learning_rate": -1.0}}, "learning_rate is -1.0"),
    ],
)
def test_recipes_that_make_no_sense(folder: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        make_recipe(table(folder, **changes), where="the recipe")


def test_files_without_text(folder: Path) -> None:
    (folder / "empty.txt").write_text("\n\n", "utf-8")
    with pytest.raises(DataError, match="no text"):
        run(folder, data={"files": ["empty.txt"]}, output={"folder": str(folder / "none")})
    with pytest.raises(DataError, match="there is no file"):
        run(folder, data={"files": ["gone.txt"]}, output={"folder": str(folder / "none")})
    (folder / "one.txt").write_text("the ship\n", "utf-8")
    with pytest.raises(DataError, match="part has no text"):
        run(folder, data={"files": ["one.txt"]}, output={"folder": str(folder / "none")})
    assert not (folder / "none").exists()


def test_test_sets_without_the_column_are_told(folder: Path) -> None:
    left = [{"files": ["pairs.tsv"], "id": "pmid"}]
    with pytest.raises(DataError, match="no column pmid; it has a, b, other, score, label"):
        run(folder, data={"leave_out": left}, output={"folder": str(folder / "none")})


def test_an_encoder_whose_head_is_in_parts(tmp_path: Path) -> None:
    tiny_models.tiny_transformer(tmp_path / "base", "distilbert")
    write_text(tmp_path / "text.txt", documents=20)
    with pytest.raises(OptionError, match="parts; expected one"):
        run(tmp_path)
