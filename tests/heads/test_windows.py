"""Windows of sentences and of tokens: nothing lost, offsets into the text as it was given."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from malmoi.heads.tagger import decode, make_labels
from malmoi.heads.windows import (
    Pieces,
    TextSpan,
    cut_pieces,
    sentence_windows,
    sentences,
    token_windows,
)

STEPS = ("surrogates", "narrow", "invisible", "compose", "spaces")
SPELT = ("surrogates", "narrow", "invisible", "symbols", "compose", "spaces")


def words(texts: list[str]) -> list[int]:
    return [len(text.split()) for text in texts]


def shown(text: str) -> list[str]:
    return [text[span.start : span.end] for span in sentences(text)]


def test_sentences_end_at_marks_and_lines() -> None:
    text = "열이 난다. 기침은 없다!\nNo fever. CXR상 pneumonia 의심?"
    assert shown(text) == ["열이 난다.", "기침은 없다!", "No fever.", "CXR상 pneumonia 의심?"]


def test_full_width_marks_need_no_space() -> None:
    assert shown("열이 난다。기침은 없다。") == ["열이 난다。", "기침은 없다。"]


@pytest.mark.parametrize(
    "text",
    [
        "Seen by Dr. Kim today.",
        "Dose of 3.5 mg was given.",
        "1. Chest pain on exertion.",
        "J. Smith was seen vs. placebo.",
    ],
)
def test_dots_inside_a_sentence_do_not_end_it(text: str) -> None:
    assert shown(text) == [text]


def test_windows_hold_whole_sentences() -> None:
    text = "a b c. d e. f g. h i j."
    spans = sentence_windows(text, words, size=5)
    assert [text[s.start : s.end] for s in spans] == ["a b c. d e.", "f g. h i j."]


def test_a_long_sentence_is_cut_at_white_space() -> None:
    text = "one two three four five six seven"
    spans = sentence_windows(text, words, size=3)
    assert all(len(text[s.start : s.end].split()) <= 3 for s in spans)
    assert " ".join(text[s.start : s.end] for s in spans) == text


def test_a_word_without_end_is_cut_anyway() -> None:
    text = "가" * 9001
    spans = sentence_windows(text, lambda texts: [len(text) for text in texts], size=500)
    assert all(s.end - s.start <= 500 for s in spans)
    assert "".join(text[s.start : s.end] for s in spans) == text


@pytest.mark.parametrize("text", ["", "  \n\t ", "\n\n"])
def test_an_empty_note_has_no_windows(text: str) -> None:
    assert sentence_windows(text, words, size=5) == []


def test_one_short_note_is_one_window() -> None:
    assert sentence_windows("pt는 DM으로 f/u 중", words, size=64) == [TextSpan(0, 14)]


@given(st.text(alphabet="가나 ab.\n!?。\t", max_size=300), st.integers(1, 12))
def test_every_visible_character_stands_in_one_window(text: str, size: int) -> None:
    spans = sentence_windows(text, lambda texts: [len(t) for t in texts], size=size)
    seen = [i for span in spans for i in range(span.start, span.end)]
    assert len(seen) == len(set(seen)) and seen == sorted(seen)
    assert {i for i, letter in enumerate(text) if not letter.isspace()} <= set(seen)


def wordpiece() -> Tokenizer:
    letters = [*"abcdefghijklmnopqrstuvwxyz가나다간암서울에/.-", "간암", "서울", "colon"]
    pieces = ["[UNK]", *letters, *(f"##{letter}" for letter in letters)]
    tokenizer = Tokenizer(models.WordPiece({p: i for i, p in enumerate(pieces)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.Sequence([normalizers.Lowercase()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return tokenizer


def byte_level() -> Tokenizer:
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE({p: i for i, p in enumerate(letters)}, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    return tokenizer


def unigram() -> Tokenizer:
    letters = [*"▁abcdefghijklmnopqrstuvwxyz가나다간암서울에/.-", "▁colon", "서울", "<unk>"]
    scores = [(piece, -10.0 / len(piece)) for piece in letters]
    tokenizer = Tokenizer(models.Unigram(scores, unk_id=len(letters) - 1))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return tokenizer


TOKENIZERS = {"wordpiece": wordpiece(), "bytes": byte_level(), "unigram": unigram()}


def units(
    text: str, *, unit: str = "word", kind: str = "wordpiece", steps: tuple[str, ...] = STEPS
) -> list[str]:
    pieces = cut_pieces(TOKENIZERS[kind], text, steps, unit=unit)
    return [text[s:e] for s, e in zip(pieces.starts, pieces.ends, strict=True)]


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_words_keep_their_places(kind: str) -> None:
    text = "  Colon  간암에\tｃｏｌｏｎ-a/b\u200b 가"
    words = units(text, kind=kind)
    assert words[:5] == ["Colon", "간암에", "ｃｏｌｏｎ", "-", "a"] and words[-1] == "가"


def test_pieces_are_units_where_words_are_too_large() -> None:
    assert units("서울에 Colon", unit="piece") == ["서울", "에", "Colon"]
    # A word whose clean-up changes its length is not taken apart.
    decomposed = "\u1100\u1161\u1102\u1161"  # 가나 in conjoining letters
    assert set(units(f"a {decomposed}", unit="piece")) <= {"a", decomposed}


@pytest.mark.parametrize("kind", TOKENIZERS)
def test_signs_that_are_spelt_keep_their_places(kind: str) -> None:
    text = "▲간암ㆍ서울에 a㎎ 간암Ⅱ에"
    words = ["▲", "간암", "ㆍ", "서울에", "a", "㎎", "간암", "Ⅱ", "에"]
    assert units(text, kind=kind, steps=SPELT) == words
    assert set("".join(units(text, kind=kind, unit="piece", steps=SPELT))) <= set(text)


@pytest.mark.parametrize("text", ["▲간암", "간암→서울", "간암ㆍ서울", "간암Ⅱ"])
def test_a_sign_costs_no_word_beside_it(text: str) -> None:
    tokenizer = TOKENIZERS["wordpiece"]
    ids = cut_pieces(tokenizer, text, SPELT, unit="word").ids
    pieces = [tokenizer.id_to_token(id) for id in ids]
    assert [piece for piece in ("간암", "서울") if piece in text and piece not in pieces] == []


def test_an_empty_text_has_no_units() -> None:
    for text in ("", "   \n", "\u200b"):
        assert units(text) == []
        assert token_windows(cut_pieces(wordpiece(), text, STEPS, unit="word"), 8) == []


@settings(max_examples=60, deadline=None)
@given(
    st.text(max_size=60) | st.text("간암 aㆍ℃Ⅱ①▲😀\u200b\u119e"),
    st.sampled_from(["word", "piece"]),
    st.sampled_from(sorted(TOKENIZERS)),
    st.sampled_from([STEPS, SPELT]),
)
def test_places_are_in_order_and_inside(
    text: str, unit: str, kind: str, steps: tuple[str, ...]
) -> None:
    text = text.encode("utf-8", "replace").decode("utf-8")
    pieces = cut_pieces(TOKENIZERS[kind], text, steps, unit=unit)
    assert np.all(pieces.starts < pieces.ends)
    assert np.all(np.diff(pieces.starts) >= 0) and np.all(pieces.ends <= len(text))
    assert np.all(pieces.heads < len(pieces.ids))


def plain(count: int, *, borders: list[int] | None = None) -> Pieces:
    places = np.arange(count)
    return Pieces(places, np.array(borders or places.tolist()), places, places, places + 1)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 40, 1000])
def test_windows_cover_everything_once(count: int) -> None:
    windows = token_windows(plain(count), 8)
    judged = [i for w in windows for i in range(w.first, w.last)]
    assert judged == list(range(count))
    for window in windows:
        assert window.begin <= window.first < window.last <= window.end
        assert window.end - window.begin <= 8
    # What is judged stands off every edge that is not the text's own.
    for one, two in pairwise(windows):
        assert one.end - one.last >= 1 and two.first - two.begin >= 1


def test_windows_end_between_words() -> None:
    windows = token_windows(plain(30, borders=[0, 3, 6, 10, 14, 19, 22, 25, 28]), 8)
    assert all(w.end in (6, 14, 10, 19, 22, 25, 28, 30) for w in windows)
    one_word = token_windows(plain(30, borders=[0]), 8)  # no border: cut anywhere, still all of it
    assert [i for w in one_word for i in range(w.first, w.last)] == list(range(30))


LABELS = make_labels(["X", "Y"])  # O B-X I-X B-Y I-Y


def shares(rows: list[dict[str, float]]) -> np.ndarray:
    table = np.full((len(rows), 5), 0.001, dtype=np.float32)
    for i, row in enumerate(rows):
        for label, value in row.items():
            table[i, LABELS.index(label)] = value
    return table / table.sum(axis=1, keepdims=True)


def test_the_likeliest_sequence_that_makes_sense() -> None:
    # By itself each unit would be O, I-X, I-X: no entity begins. Together they are one.
    found = decode(shares([{"O": 0.5, "B-X": 0.4}, {"I-X": 0.9}, {"I-X": 0.9}]), LABELS)
    assert [run[:3] for run in found] == [(0, 3, "X")]
    found = decode(shares([{"B-X": 0.9}, {"I-Y": 0.5, "I-X": 0.4}]), LABELS)
    assert [run[:3] for run in found] == [(0, 2, "X")]
    found = decode(shares([{"B-X": 1}, {"B-X": 1}, {"O": 1}, {"B-Y": 1}, {"I-Y": 1}]), LABELS)
    assert [run[:3] for run in found] == [
        (0, 1, "X"),
        (1, 2, "X"),
        (3, 5, "Y"),
    ]
    assert decode(shares([{"O": 1}] * 3), LABELS) == []
    assert decode(np.empty((0, 5), dtype=np.float32), LABELS) == []


def test_scores_are_the_mean_of_the_labels() -> None:
    [run] = decode(np.array([[0.1, 0.9, 0, 0, 0], [0.3, 0.1, 0.6, 0, 0]], np.float32), LABELS)
    assert run[3] == pytest.approx(0.75)
