"""A vocabulary made smaller keeps what the text needs, and the rows that belong to it."""

from pathlib import Path

import pytest

pytest.importorskip("torch")

from safetensors.torch import load_file
from transformers import AutoModel

from examples.shrink import shrink
from malmoi.errors import OptionError
from malmoi.export.tokenizer import open_spec, read_spec
from tests.support.tiny import tiny_transformer

TEXTS = ["the ship ship", "배가 아프다"]


def test_pieces_of_the_text_stay_with_their_rows(tmp_path: Path) -> None:
    base = tiny_transformer(tmp_path / "base")
    old = read_spec(base)["model"]["vocab"]
    size = len(old) - 2
    found = shrink(base, tmp_path / "small", TEXTS, pieces=size)
    assert (found.before, found.after) == (len(old), size)
    assert found.length_after >= found.length_before
    spec = read_spec(tmp_path / "small")
    new = spec["model"]["vocab"]
    assert sorted(new.values()) == list(range(size)) and "ship" in new
    before, after = (load_file(p / "model.safetensors") for p in (base, tmp_path / "small"))
    name = next(name for name in before if name.endswith("word_embeddings.weight"))
    for piece in ("ship", "[CLS]"):
        assert before[name][old[piece]].equal(after[name][new[piece]])
    ids = open_spec(spec).encode("ship").ids
    assert ids == [new["[CLS]"], new["ship"], new["[SEP]"]]
    assert AutoModel.from_pretrained(tmp_path / "small").config.vocab_size == size


def test_fewer_than_the_characters_are_refused(tmp_path: Path) -> None:
    base = tiny_transformer(tmp_path / "base")
    with pytest.raises(OptionError, match="single characters alone"):
        shrink(base, tmp_path / "small", TEXTS, pieces=3)
