"""Pieces learnt from a handful of sentences, added to tokenizers built here."""

import json
import re
from collections import Counter

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from malmoi.errors import DataError, OptionError
from malmoi.train.distil import vocabulary as v
from malmoi.train.distil.pieces import ParticleSplitter, count_words, fits

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


def splitter() -> ParticleSplitter:
    return ParticleSplitter.from_counts(count_words(TEXTS))


def pieces(kind: str = "wordpiece") -> dict[str, float]:
    counts = count_words(TEXTS)
    syllables = sorted({s for word in counts for s in word})
    return v.learn_pieces(
        counts, 200, kind=kind, split=splitter().split, syllables=syllables, fewest=1
    )


def test_particles_are_cut_off_and_nouns_left_whole() -> None:
    split = splitter().split
    assert split("배를") == ("배", "를") and split("바다가") == ("바다", "가")
    assert split("고양이") == ("고양이",) and split("고양이를") == ("고양이", "를")
    assert split("나간다") == ("나간다",)


@pytest.mark.parametrize(
    ("stem", "suffix", "fit"),
    [("집", "을", True), ("집", "를", False), ("길", "로", True), ("길", "으로", False)],
)
def test_particles_follow_the_last_sound(stem: str, suffix: str, fit: bool) -> None:
    assert fits(stem, suffix) is fit


def test_bert_keeps_hangul_whole_once_mended() -> None:
    before = v.open_spec(bert_spec())
    assert "[UNK]" in before.encode("배를", add_special_tokens=False).tokens
    after = v.extend_tokenizer(bert_spec(), pieces()).tokenizer()
    assert after.encode("배를 The ships", add_special_tokens=False).tokens == [
        "배",
        "##를",
        "the",
        "ship",
        "##s",
    ]
    # Decomposed input (as macOS file names have it) meets the same pieces.
    assert after.encode("\u1107\u1162\u1105\u1173\u11af", add_special_tokens=False).tokens == [
        "배",
        "##를",
    ]


def test_old_pieces_keep_their_rows_and_unused_ones_are_taken() -> None:
    spec = bert_spec()
    extended = v.extend_tokenizer(spec, pieces(), reuse=re.compile(r"\[unused\d+\]"))
    vocab = extended.spec["model"]["vocab"]
    assert vocab["ship"] == spec["model"]["vocab"]["ship"]
    assert {1, 2} <= set(extended.rows.values()) and "[unused0]" not in vocab
    assert sorted(vocab.values()) == list(range(extended.size))
    assert spec["model"]["vocab"]["[unused0]"] == 1  # what was given is not changed


def test_unigram_takes_pieces_behind_the_mask() -> None:
    extended = v.extend_tokenizer(xlmr_spec(), pieces("unigram"))
    tokenizer = extended.tokenizer()
    assert tokenizer.token_to_id("<mask>") == 7 and min(extended.rows.values()) == 8
    assert tokenizer.encode("바다 ships", add_special_tokens=False).tokens == [
        "▁바다",
        "▁ship",
        "s",
    ]


def test_no_piece_reaches_over_a_cut() -> None:
    split = splitter().split
    assert all(len(split(p)) == 1 for p in pieces() if not p.startswith("##"))


def test_fertility_falls() -> None:
    extended = v.extend_tokenizer(bert_spec(), pieces())
    assert v.fertility(v.open_spec(bert_spec()), TEXTS)[1] > 0.5
    after, unknown = v.fertility(extended.tokenizer(), TEXTS)
    assert 1 <= after < 3 and unknown == 0


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
    with pytest.raises(OptionError, match="mean and random"):
        v.grow_table(
            np.zeros((2, 2), np.float32), v.Extended({}, {}, 2), v.open_spec(bert_spec()), init="x"
        )


@pytest.mark.parametrize("spec", [bert_spec(), xlmr_spec()], ids=["wordpiece", "unigram"])
def test_no_syllable_and_no_letter_is_unknown(spec: v.Spec) -> None:
    kind = v.kind_of(spec)
    learnt = v.extend_tokenizer(spec, pieces(kind))
    made = v.add_rare_syllables(learnt.spec, learnt.size)
    read = [*map(chr, range(0xAC00, 0xD7A4)), *map(chr, range(0x3131, 0x318F))]
    tokenizer = made.tokenizer()
    unknown = tokenizer.token_to_id("[UNK]" if kind == "wordpiece" else "<unk>")
    texts = [*read, *("배" + one for one in read)]
    found = tokenizer.encode_batch(texts, add_special_tokens=False)
    assert not [text for text, one in zip(texts, found, strict=True) if unknown in one.ids]
    assert max(id for one in found for id in one.ids) < made.size
    assert min(made.rows.values()) >= learnt.size  # what was learnt keeps its rows
    same = tokenizer.encode("배를", add_special_tokens=False).ids
    assert same == learnt.tokenizer().encode("배를", add_special_tokens=False).ids


def test_rare_syllables_share_rows_that_start_at_their_like() -> None:
    learnt = v.extend_tokenizer(bert_spec(), {"쇼": -1.0, "숍": -1.0, "##쇼": -1.0})
    made = v.add_rare_syllables(learnt.spec, learnt.size)
    vocab = made.spec["model"]["vocab"]
    assert vocab["쇽"] == vocab["숃"] == made.rows["쇼*"] != vocab["##쇽"]
    assert made.size - learnt.size == len(made.rows) == 2 * (19 * 21 + 51)
    assert vocab["ㆍ"] == vocab["ㅏ"]  # an old letter
    table = np.random.default_rng(0).standard_normal((made.size, 4)).astype(np.float32)
    v.start_rare(table, made.rows, made.spec)
    np.testing.assert_allclose(table[vocab["쇽"]], table[[vocab["쇼"], vocab["숍"]]].mean(0))
    np.testing.assert_allclose(table[vocab["됬"]], table[: learnt.size].mean(0), rtol=1e-5)
