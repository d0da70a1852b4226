"""Pieces learnt from a handful of sentences, added to tokenizers built here."""

import json
from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from malmoi.errors import DataError, OptionError
from malmoi.training import vocabulary as v

TEXTS = [
    "배를 타고 바다에 나간다",
    "배가 항구에 들어왔다",
    "배는 크고 배의 돛은 희다",
    "배도 바다도 배와 항구도 배에서 보인다",
    "바다가 깊고 바다는 푸르며 바다를 본다",
    "고양이가 고양이를 고양이는 고양이의 고양이와",
]


def bert_spec() -> v.Spec:
    pieces = ["[PAD]", "[unused0]", "[unused1]", "[UNK]", "the", "ship", "##s", "b", "##a", "é"]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.enable_truncation(4)
    spec: v.Spec = json.loads(tokenizer.to_str())
    return spec


def xlmr_spec() -> v.Spec:
    pieces = [
        ("<s>", 0.0),
        ("<pad>", 0.0),
        ("</s>", 0.0),
        ("<unk>", 0.0),
        ("▁", -5.0),
        ("▁ship", -6.0),
        ("s", -4.0),
    ]
    tokenizer = Tokenizer(models.Unigram(pieces, unk_id=3))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.add_special_tokens(["<mask>"])
    spec: v.Spec = json.loads(tokenizer.to_str())
    return spec


def pieces(kind: str = "wordpiece") -> dict[str, float]:
    counts = Counter(word for text in TEXTS for word in text.split())
    return v.learn_pieces(counts, 200, kind=kind)


def test_bert_keeps_hangul_whole_once_extended() -> None:
    before = v.open_spec(bert_spec())
    assert "[UNK]" in before.encode("배를", add_special_tokens=False).tokens
    after = v.extend_tokenizer(bert_spec(), {"배": -1.0, "##를": -1.0}).tokenizer()
    found = after.encode("배를 The ships", add_special_tokens=False).tokens
    assert found == ["배", "##를", "the", "ship", "##s"]
    # Decomposed input (as macOS file names have it) meets the same pieces.
    decomposed = "\u1107\u1162\u1105\u1173\u11af"
    assert after.encode(decomposed, add_special_tokens=False).tokens == ["배", "##를"]


def test_old_pieces_keep_their_rows() -> None:
    spec = bert_spec()
    extended = v.extend_tokenizer(spec, pieces())
    vocab = extended.spec["model"]["vocab"]
    assert vocab["ship"] == spec["model"]["vocab"]["ship"]
    assert sorted(vocab.values()) == list(range(extended.size))
    assert len(spec["model"]["vocab"]) == 10  # what was given is not changed


def test_unigram_takes_pieces_behind_the_mask() -> None:
    extended = v.extend_tokenizer(xlmr_spec(), pieces("unigram") | {"▁바다": -1.0})
    tokenizer = extended.tokenizer()
    assert tokenizer.token_to_id("<mask>") == 7 and min(extended.rows.values()) == 8
    found = tokenizer.encode("바다 ships", add_special_tokens=False).tokens
    assert found == ["▁바다", "▁ship", "s"]


def test_pieces_that_words_share_are_learnt() -> None:
    learnt = pieces()
    assert "고양이" in learnt and all(score < 0 for score in learnt.values())
    assert any(piece.startswith("##") for piece in learnt)
    assert not any(piece.startswith("##") for piece in pieces("unigram"))


def test_term_words_that_break_are_offered() -> None:
    found = v.term_pieces(bert_spec(), ["Baaa ships", "baaa", "the ship"])
    assert list(found) == ["baaa"]
    extended = v.extend_tokenizer(bert_spec(), found)
    assert extended.tokenizer().encode("Baaa", add_special_tokens=False).tokens == ["baaa"]


def test_table_grows_by_one_row_a_piece() -> None:
    table = np.random.default_rng(0).standard_normal((10, 8)).astype(np.float32)
    extended = v.extend_tokenizer(bert_spec(), {"baa": -1.0, "고래": -1.0})
    grown = v.grow_table(table, extended, v.open_spec(bert_spec()))
    assert grown.shape == (12, 8) and np.array_equal(grown[:10], table)
    ids = v.open_spec(bert_spec()).encode("baa").ids
    assert np.abs(grown[extended.rows["baa"]] - table[ids].mean(0)).max() < 0.5


def test_bad_input_is_named() -> None:
    with pytest.raises(OptionError, match="wordpiece and unigram"):
        v.learn_pieces(Counter({"배": 1}), 10, kind="bpe")
    with pytest.raises(DataError, match="no word"):
        v.learn_pieces(Counter(), 10)
