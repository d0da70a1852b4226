"""The joint run of ko-en-small starts, trains and resumes: tiny, in two languages made up here."""

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

from malmoi.errors import BundleError, DataError, OptionError  # noqa: E402
from malmoi.training.schema import parse_table  # noqa: E402
from research.ko_en_small.__main__ import check_base  # noqa: E402
from research.ko_en_small.joint import run  # noqa: E402
from research.ko_en_small.recipe import JointRecipe  # noqa: E402
from tests.support import ROOT  # noqa: E402

RECIPE = ROOT / "research/ko_en_small/recipe.toml"
NOUNS = ["cat", "dog", "ship", "moon", "house", "road", "tree", "river"]
KOREAN = ["고양이", "강아지", "커다란배", "달님", "집안", "길가", "나무", "강물"]
ENGLISH = [f"{a} {b} {c}" for a in NOUNS for b in NOUNS for c in ("sleeps", "runs") if a != b]


def korean(text: str) -> str:
    words = dict(zip(NOUNS, KOREAN, strict=True)) | {"sleeps": "잔다", "runs": "달린다"}
    return " ".join(words[word] for word in text.split())


def write(path: Path, header: str, rows: list[tuple[object, ...]]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = [header.replace(" ", "\t"), *("\t".join(map(str, row)) for row in rows)]
    path.write_text("\n".join(lines) + "\n", "utf-8")


def write_base(folder: Path) -> None:
    """A transformer of six layers whose tokens are the words of both languages."""
    words = [*NOUNS, *KOREAN, "sleeps", "runs", "잔다", "달린다", "큰", "law"]
    specials = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    vocabulary = {piece: i for i, piece in enumerate([*specials, *words])}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    names = {f"{name.strip('[]').lower()}_token": name for name in specials}
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **names).save_pretrained(
        folder
    )
    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=len(vocabulary), hidden_size=32, num_hidden_layers=6, num_attention_heads=4,
        intermediate_size=64, initializer_range=0.2,
    )  # fmt: skip
    transformers.BertModel(config).save_pretrained(folder)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The files that the joint run reads by name, and a base."""
    root = tmp_path_factory.mktemp("data")
    write_base(root / "base")
    both = [(e, korean(e)) for e in ENGLISH]
    write(root / "parallel/docs.tsv", "en ko", both)
    for name in ("transformers-docs", "godot", "debian-guide"):
        long = [(f"{e} {e}", korean(e)) for e in ENGLISH[:30]]
        write(root / f"parallel/{name}.tsv", "en ko", long)
    write(root / "text/kowiki-sentences.tsv", "text", [(k,) for _, k in both])
    laws = [(f"law {i % 8}", ". ".join(k for _, k in both[i : i + 4])) for i in range(60)]
    write(root / "text/assembly-bills.tsv", "law reason", laws)
    boolq = [("dev" if i % 4 == 0 else "train", e, k) for i, (e, k) in enumerate(both[:60])]
    write(root / "contrast/kobest-boolq.tsv", "split question paragraph", boolq)
    write(root / "faq/chatbot.tsv", "question answer", both[:30])
    senses = [(f"[{w}] {i}", f"큰 [{w}] {i}", w, i % 2 == 0, i % 3, i % 2)
              for w in KOREAN[:3] for i in range(12)]  # fmt: skip
    header = "SENTENCE1 SENTENCE2 Target ANSWER one two"
    write(root / "words/wic-dev.tsv", header, senses)
    write(root / "words/wic-train.tsv", header, senses)
    write(root / "sts.tsv", "score en1 en2", [(i % 5, ENGLISH[i], ENGLISH[-i]) for i in range(40)])
    return root


def table(root: Path, folder: Path) -> dict[str, Any]:
    """One task of each kind, and every match."""
    senses = {"a": "SENTENCE1", "b": "SENTENCE2", "target": "Target"}
    names = {"files": ["faq/chatbot.tsv"], "columns": {"group": "question", "text": "answer"}}
    matches = ("bills", "wiki", "documents", "answers", "chat", "translations")
    return {
        "name": "tiny",
        "objective": "distil",
        "base": str(root / "base"),
        "max_tokens": 32,
        "precision": "float32",
        "matryoshka": [16],
        "parallel": [{"name": "docs", "files": ["parallel/docs.tsv"]}],
        "text": [{"files": ["text/kowiki-sentences.tsv"], "columns": ["text"]}],
        "teachers": [{"model": str(root / "base")}],
        "distil": {"steps": 1, "longest": 16},
        "evaluation": [{"task": "sts", "file": "sts.tsv", "name": "sts",
                        "columns": {"a": "en1", "b": "en2", "score": "score"}}],
        "task": [
            {"kind": "scores", "name": "sts", "files": ["sts.tsv"], "teacher_share": 0.2,
             "columns": {"left": ["en1"], "right": ["en2"], "score": "score"}, "highest": 5},
            {"kind": "pairs", "name": "pairs", "files": ["faq/chatbot.tsv"], "size": 8,
             "columns": {"a": "question", "b": "answer"}},
            {"kind": "groups", "name": "groups", **names, "size": 8,
             "extra_files": [{**names, "columns": {"group": "question", "text": "question"}}]},
            {"kind": "senses", "name": "wic", "files": ["words/wic-train.tsv"], "layers": [1, 2],
             "columns": senses | {"sense_a": "one", "sense_b": "two"}, "size": 3},
            {"kind": "swaps", "neighbors": 2, "size": 8, "mixed": 0.5, "dropped": 0.1},
            {"kind": "neighbours", "per_entry_limit": {"docs": 40}, "neighbors": 9, "size": 4},
            {"kind": "teacher", "name": "goals", "tokens": 64},
        ],
        "joint": {
            "base_sha256": "0", "steps": 3, "evaluate_steps": 3, "layer": 1, "token_size": 8,
            "longest": 16, "match_size": 4, "warmup": 1, "documents": ["docs"],
            "translations": ["docs"], "checkpoint_minutes": 1e-9, "tasks_per_step": 6,
            "tasks": dict.fromkeys(("sts", "pairs", "groups", "wic", "swaps", "neighbours"), 1.0),
            "matches": dict.fromkeys(matches, 1.0),
        },
        "output": {"folder": str(folder)},
    }  # fmt: skip


def test_the_run_trains_every_task_and_resumes(root: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    recipe = parse_table(JointRecipe, table(root, folder), where="it")
    assert run(recipe, root, folder, threads=1, prepare=True) == {}
    assert (folder / "goals/goals.f16").is_file() and not (folder / "joint").exists()
    scores = run(recipe, root, folder, threads=1)
    assert {"sts", "boolq tokens", "bills one", "wic 3"} <= scores.keys()
    assert all(np.isfinite(score) for score in scores.values())
    assert (folder / "joint/best/weights.safetensors").is_file()
    assert run(recipe, root, folder, threads=1) == scores  # nothing is left to do
    hashes = json.loads((folder / "data.json").read_text("utf-8"))
    assert "words/wic-train.tsv" in hashes
    (folder / "data.json").write_text(json.dumps(hashes | {"sts.tsv": "0"}), "utf-8")
    with pytest.raises(DataError, match=r"sts.tsv changed since the run in .* began"):
        run(recipe, root, folder, threads=1)


def test_the_recipe_of_the_shipped_model_is_in_order() -> None:
    recipe = parse_table(JointRecipe, tomllib.loads(RECIPE.read_text("utf-8")), where=str(RECIPE))
    assert recipe.joint.schedule().steps == recipe.joint.steps > 0
    assert recipe.joint.shortened(2).schedule().evaluate_steps == 2
    assert {task.title for task in recipe.task} == {*recipe.joint.tasks, "goals"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"task": [{"kind": "score"}]}, "known are scores, pairs"),
        ({"task": [{"kind": "groups", "files": ["x"], "columns": {"group": "g"}}]}, "has no text"),
        ({"task": [{"kind": "teacher", "columns": {"x": "y"}}]}, "x is not a key"),
        ({"task": [{"kind": "teacher", "mixed": 2.0}]}, r"mixed is 2.0; expected 0 to 1"),
        ({"task": [{"kind": "teacher"}, {"kind": "teacher"}]}, "two .*task.* are called teacher"),
        ({"task": [{"kind": "swaps", "parallel": ["doc"]}]}, r"mean docs\?"),
        ({"joint": {"steps": 3, "base_sha256": "0", "tasks": {"st": 1.0}}}, r"mean sts\?"),
        ({"joint": {"steps": 3, "base_sha256": "0", "step": 1}}, r"mean joint.steps\?"),
    ],
)
def test_a_slip_in_the_recipe_is_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_table(JointRecipe, table(Path("x"), Path("y")) | changes, where="it")


def test_another_base_than_the_recipes_is_refused() -> None:
    with pytest.raises(BundleError, match="this recipe starts from 000000000000…"):
        check_base("ko-en-small", "0" * 64)
