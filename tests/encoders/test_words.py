"""Words in their sentence: layers, merges, special tokens, offsets, and the two kinds of 배."""

import time
import unicodedata

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import malmoi
from malmoi.encoders.words import MERGES, find, layer_names, occurrences, similarity
from malmoi.errors import BundleError, CutWarning, DataError, OptionError, TextError
from tests.support.graphs import write_foreign

TEXT = "배를 타고 서울대학교병원에서 여행을 떠났다."


@pytest.fixture(scope="module")
def encoder() -> malmoi.TextEncoder:
    return malmoi.load("ko-en-small")


def vector(
    encoder: malmoi.TextEncoder, layers: object
) -> "np.ndarray[tuple[int], np.dtype[np.float32]]":
    return encoder.words(TEXT, layers=layers)[0].vector  # type: ignore[arg-type,return-value]


def test_words_stand_where_they_say(encoder: malmoi.TextEncoder) -> None:
    words = encoder.words(TEXT)
    assert [word.text for word in words] == TEXT.split()
    for word in words:
        assert TEXT[word.start : word.end] == word.text
        assert word.vector.shape == (encoder.dimension,)
        assert word.pieces == tuple(token.text for token in word.tokens)
        assert all(token.vector.shape == word.vector.shape for token in word.tokens)
    assert len(words[2].pieces) > 1  # not in the vocabulary: the merge of its pieces


def test_layers_are_what_their_names_say(encoder: malmoi.TextEncoder) -> None:
    single = [vector(encoder, number) for number in range(7)]
    np.testing.assert_array_equal(vector(encoder, "last"), single[6])
    np.testing.assert_array_equal(vector(encoder, -1), single[6])
    np.testing.assert_array_equal(vector(encoder, "second-to-last"), single[5])
    np.testing.assert_allclose(vector(encoder, "sum-last-4"), sum(single[3:]), atol=1e-5)
    np.testing.assert_allclose(vector(encoder, "mean-all"), np.mean(single, axis=0), atol=1e-5)
    np.testing.assert_array_equal(vector(encoder, "concat-last-4"), np.concatenate(single[3:]))
    np.testing.assert_array_equal(vector(encoder, [1, 4]), np.concatenate([single[1], single[4]]))
    for layers in layer_names(7):
        assert np.isfinite(vector(encoder, layers)).all()


@pytest.mark.parametrize("merge", list(MERGES))
def test_a_word_is_the_merge_of_its_pieces(encoder: malmoi.TextEncoder, merge: str) -> None:
    expected = {
        "mean": np.mean,
        "first": lambda states, axis: states[0],
        "last": lambda states, axis: states[-1],
        "max": np.max,
        "sum": np.sum,
    }[merge]
    word = encoder.words(TEXT, merge=merge)[2]  # type: ignore[arg-type]
    states = np.stack([token.vector for token in word.tokens])
    np.testing.assert_allclose(word.vector, expected(states, axis=0), atol=1e-5)


def test_special_tokens_come_on_request(encoder: malmoi.TextEncoder) -> None:
    words = encoder.words("배가 왔다", special=True)
    assert [word.text for word in words] == ["[CLS]", "배가", "왔다", "[SEP]"]
    assert words[0].tokens[0].special and not words[1].tokens[0].special
    assert encoder.words("", special=True)[0].text == "[CLS]"


def test_sentence_vectors_come_from_any_layers(encoder: malmoi.TextEncoder) -> None:
    texts = ["배가 항구에 들어왔다", "The ship came in.", ""]
    last = encoder.encode_layers(texts)
    np.testing.assert_allclose((last * encoder.encode(texts)).sum(axis=1), 1, atol=1e-3)
    assert encoder.encode_layers(texts, layers="concat-last-4").shape == (3, 4 * encoder.dimension)
    assert not np.allclose(encoder.encode_layers(texts, pooling="cls"), last)
    with pytest.raises(OptionError, match="known are cls"):
        encoder.encode_layers(texts, pooling="median")


def test_nouns_are_shared_by_morphemes(encoder: malmoi.TextEncoder) -> None:
    pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
    left = encoder.words("배가 아프다", by="morphemes")
    right = encoder.words("배를 탔다", by="morphemes")
    assert left[0].text == right[0].text == "배"
    assert left[0].pieces == right[0].pieces
    joined = encoder.words("서울대학교병원에서 3명을 검사했다.", by="morphemes")
    assert " ".join(word.text for word in joined) == "서울대학교병원 에서 3 명 을 검사 했다 ."
    for word in joined:
        assert "".join(piece.removeprefix("##") for piece in word.pieces) == word.text


def test_offsets_hold_in_text_that_needs_cleaning(encoder: malmoi.TextEncoder) -> None:
    plain = "배가 ＤＭ\u200b  왔다"
    for text in (plain, unicodedata.normalize("NFD", plain)):
        words = encoder.words(text)
        assert [text[word.start : word.end] for word in words] == text.split()
        assert words[0].pieces[0].startswith("배")


SIGNS = "▲약 25℃에서 진통ㆍ소염 5㎎, 안지오텐신Ⅱ로 좋아요😀끝"


def test_offsets_hold_where_signs_are_spelt(encoder: malmoi.TextEncoder) -> None:
    words = encoder.words(SIGNS)
    assert [SIGNS[word.start : word.end] for word in words] == SIGNS.split()
    for word in words:
        assert word.start == word.tokens[0].start and word.end == word.tokens[-1].end
    tokens = [token for word in words for token in word.tokens]
    unknown = [SIGNS[token.start : token.end] for token in tokens if token.text == "[UNK]"]
    assert unknown == ["▲", "😀"]  # which cost no word beside them
    degrees = [token for token in words[1].tokens if SIGNS[token.start : token.end] == "℃"]
    assert [token.text for token in degrees] == ["##°", "##c"]


def test_a_sign_that_is_spelt_is_not_cut(encoder: malmoi.TextEncoder) -> None:
    at = SIGNS.index("℃")
    [word] = encoder.words(SIGNS, by=[(at, at + 1)])
    assert (word.text, word.pieces) == ("℃", ("##°", "##c"))
    [grams] = encoder.words("체중 5㎎을", by=[(4, 5)])
    assert (grams.text, grams.pieces) == ("㎎", ("##mg",))


def test_morphemes_around_signs(encoder: malmoi.TextEncoder) -> None:
    pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
    text = "25℃에서 5㎎을 안지오텐신Ⅱ로"
    words = encoder.words(text, by="morphemes")
    assert [text[word.start : word.end] for word in words] == [word.text for word in words]
    assert "".join(word.text for word in words) == text.replace(" ", "")
    pieces = {word.text: word.pieces for word in words}
    assert pieces["에서"] == ("##에서",) and pieces["을"] == ("##을",)
    assert "[UNK]" not in {piece for word in words for piece in word.pieces}


def test_spans_of_ones_own(encoder: malmoi.TextEncoder) -> None:
    [word] = encoder.words("바짓단이 뜯어졌다", by=[(2, 3)])
    assert (word.text, word.start, word.end) == ("단", 2, 3)
    assert word.pieces == ("##단",)
    with pytest.raises(OptionError, match="outside the text of 2"):
        encoder.words("배가", by=[(1, 9)])


def test_words_without_cuts_see_what_encode_sees(encoder: malmoi.TextEncoder) -> None:
    [alone] = encoder.words("배", by="spaces")
    [spanned] = encoder.words("배", by=[(0, 1)])
    np.testing.assert_array_equal(alone.vector, spanned.vector)


def test_many_texts_are_as_one_by_one(encoder: malmoi.TextEncoder) -> None:
    texts = [f"배가 {i}번 왔다" for i in range(150)]
    many = list(encoder.words_of(texts, by="spaces"))
    assert len(many) == 150
    for i in (0, 77, 149):
        for left, right in zip(many[i], encoder.words(texts[i]), strict=True):
            np.testing.assert_allclose(left.vector, right.vector, atol=2e-2)


def test_a_long_text_keeps_the_words_that_fit(encoder: malmoi.TextEncoder) -> None:
    with pytest.warns(CutWarning, match="512 tokens"):
        words = encoder.words("배 " * 1000)
    assert len(words) == 510
    with pytest.warns(CutWarning, match="512 tokens"):
        words = encoder.words("배를 " * 1000, by=[(0, 1)])
    assert words[0].text == "배"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"layers": "first"}, '"concat-last-4"'),
        ({"layers": 7}, "layers 0 to 6"),
        ({"layers": []}, "layers 0 to 6"),
        ({"layers": "sum-last-9"}, "layers 0 to 6"),
        ({"layers": "sum-last-999999"}, "layers 0 to 6"),
        ({"layers": "sum-last-99999999999999999999"}, '"concat-last-4"'),
        ({"layers": 10**30}, "layers 0 to 6"),
        ({"merge": "median"}, "mean, first, last"),
        ({"by": "letters"}, '"morphemes"'),
    ],
)
def test_options_out_of_range_are_told(
    encoder: malmoi.TextEncoder, options: dict[str, object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        encoder.words("배가 왔다", **options)  # type: ignore[arg-type]


def test_what_is_not_text_is_told(encoder: malmoi.TextEncoder) -> None:
    with pytest.raises(TextError, match="int"):
        encoder.words(3)  # type: ignore[arg-type]


def test_a_bundle_without_layers_names_the_export_option(tmp_path: object, bundle: object) -> None:
    for name in (bundle, "ko-en-static"):
        with pytest.raises(BundleError, match="--layers all"):
            malmoi.load(name).words("배가 왔다")  # type: ignore[arg-type]


def test_a_foreign_graph_has_its_last_layer(tmp_path: "object") -> None:
    folder = write_foreign(tmp_path / "st", steps=("pool",))  # type: ignore[operator]
    encoder = malmoi.load(folder)
    assert [word.text for word in encoder.words("배가 아프다")] == ["배가", "아프다"]
    with pytest.raises(BundleError, match="--layers all"):
        encoder.words("배가 아프다", layers=0)


def test_a_word_that_is_not_there_says_what_is(encoder: malmoi.TextEncoder) -> None:
    texts = ["배가 왔다", "고양이가 잔다"]
    words = list(encoder.words_of(texts))
    with pytest.raises(DataError, match="text 2 has no word '배'; it has 고양이가, 잔다"):
        occurrences(texts, words, "배")
    assert [found.owner for found in occurrences(texts[:1], words[:1], "배")] == [0]
    assert find(words[0], "배")[0].text == "배가"


@settings(max_examples=30, deadline=None)
@given(text=st.text(max_size=60))
def test_any_text_gives_finite_words_in_order(text: str) -> None:
    words = malmoi_encoder().words(text)
    last = 0
    for word in words:
        assert last <= word.start < word.end <= len(text)
        assert np.isfinite(word.vector).all()
        last = word.end


def malmoi_encoder(kept: list[malmoi.TextEncoder] = []) -> malmoi.TextEncoder:  # noqa: B006
    """One encoder for all of hypothesis' examples, which fixtures cannot serve."""
    if not kept:
        kept.append(malmoi.load("ko-en-small"))
    return kept[0]


def test_a_string_is_one_text(encoder: malmoi.TextEncoder) -> None:
    text = "배를 타고 여행을 간다"
    np.testing.assert_array_equal(encoder.encode_layers(text), encoder.encode_layers([text])[0])
    [words] = encoder.words_of(text)
    assert [word.text for word in words] == text.split()
    assert [encoder.token_ids(text)] == encoder.token_ids([text])
    [vector] = encoder.encode_iter(text)
    assert vector.shape == (encoder.dimension,)
    for model in (encoder, malmoi.load("ko-en-static")):
        assert [model.count_tokens(text)] == model.count_tokens([text])


def test_all_layers_are_one_array(encoder: malmoi.TextEncoder) -> None:
    found = encoder.hidden_states("배가 왔다")
    assert found.states.shape == (7, len(found.tokens), encoder.dimension)
    assert found.tokens[0] == "[CLS]" and found.tokens[-1] == "[SEP]"
    assert list(found.ids) == encoder.token_ids("배가 왔다")
    words = encoder.words("배가 왔다", layers="concat-all")
    of_word = words[0].tokens[0].vector.reshape(7, -1)
    np.testing.assert_allclose(found.states[:, 1], of_word, atol=1e-5)
    with pytest.raises(BundleError, match="--layers all"):
        malmoi.load("ko-en-static").hidden_states("배가 왔다")


def test_tokens_have_ids_and_segments(encoder: malmoi.TextEncoder) -> None:
    alone = encoder.tokens("배가 왔다")
    assert [token.id for token in alone] == encoder.token_ids("배가 왔다")
    assert {token.segment for token in alone} == {0}
    joined = encoder.tokens("배가 왔다", "사과를 먹다")
    assert [token.text for token in joined].count("[SEP]") == 2
    segments = [token.segment for token in joined]
    assert segments == sorted(segments) and set(segments) == {0, 1}


def test_centred_similarity_leaves_out_what_all_share(encoder: malmoi.TextEncoder) -> None:
    texts = [
        "배를 타고 바다에 나간다",
        "배가 항구에 들어왔다",
        "배가 달고 맛있다",
        "배를 깎아 먹었다",
    ]
    own = [encoder.words(text, layers=5, by=[(0, 1)])[0] for text in texts]
    plain, centred = similarity(own), similarity(own, centred=True)
    np.testing.assert_allclose(np.diag(centred), 1, atol=1e-5)
    same, other = [(0, 1), (2, 3)], [(0, 2), (0, 3), (1, 2), (1, 3)]

    def gap(scores: "np.ndarray[tuple[int, int], np.dtype[np.float32]]") -> float:
        means = [np.mean([scores[pair] for pair in pairs]) for pairs in (same, other)]
        return float(means[0] - means[1])

    assert gap(centred) > gap(plain) > 0
    np.testing.assert_allclose(
        similarity(own[:2], own[2:], centred=True), centred[:2, 2:], atol=1e-5
    )
    assert similarity([], centred=True).shape == (0, 0)


def test_a_long_text_takes_no_longer_than_what_is_read_of_it(encoder: malmoi.TextEncoder) -> None:
    pytest.importorskip("kiwipiepy")
    text = "배를 타고 바다를 건넜다. " * 12_000
    with pytest.warns(CutWarning):
        encoder.words("배를 타고", by="morphemes"), encoder.words(text[:100_000], by="morphemes")
    began = time.process_time()
    with pytest.warns(CutWarning):
        assert encoder.words(text, by="morphemes")[0].text == "배"
    assert time.process_time() - began < 2
