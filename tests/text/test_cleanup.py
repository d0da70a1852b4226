"""Text clean-up: each step does its one thing, twice is the same as once, and nothing breaks it."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import malmoi.text.cleanup as clean_up
from malmoi.errors import OptionError, TextError
from malmoi.text.cleanup import spell_symbols, spellings
from tests.support import ROOT

# Everything, lone surrogates and unassigned code points included.
ANY = st.text(st.characters(exclude_categories=()), max_size=60)
KOREAN = st.text(
    st.sampled_from("가각힣배당뇨ㄱㄴㅏㅗㅋㅠ abAB12 ．ＡＢ\u200b\u1100\u1161\u11a8\uffa1\uffc2")
)


@pytest.mark.parametrize("step", sorted(clean_up.STEPS))
@settings(max_examples=300)
@given(text=ANY | KOREAN)
def test_a_step_done_twice_is_a_step_done_once(step: str, text: str) -> None:
    once = clean_up.STEPS[step](text)
    assert clean_up.STEPS[step](once) == once


@pytest.mark.parametrize(
    ("step", "given", "expected"),
    [
        ("surrogates", "a\ud83d\ude00b\ud800", "a😀b\ufffd"),
        ("compose", "\u1112\u1161\u11ab", "한"),
        ("invisible", "당\u200b뇨", "당뇨"),
        ("control", "a\x00b", "a b"),
        ("spaces", "  배가 \n 아프다 ", "배가 아프다"),
        ("lower", "COVID-19 검사", "covid-19 검사"),
    ],
)
def test_a_step_by_its_name(step: str, given: str, expected: str) -> None:
    assert clean_up.clean(given, [step]) == expected
    assert clean_up.is_whole(expected)


def test_half_a_surrogate_pair_is_not_whole() -> None:
    assert not clean_up.is_whole("\ud800")


@given(text=ANY | KOREAN)
def test_standard_clean_up_is_stable_and_encodable(text: str) -> None:
    once = clean_up.clean(text)
    assert clean_up.clean(once) == once
    once.encode("utf-8")


@given(text=ANY | KOREAN | st.text("가Ⅱ①㎎℃ㆍ▲😀 \u0301\u119e\u1112\u11ab\uff65"))
def test_spelling_goes_with_the_standard_steps(text: str) -> None:
    steps = ("surrogates", "narrow", "invisible", "control", "symbols", "compose", "spaces")
    once = clean_up.clean(text, steps)
    assert clean_up.clean(once, steps) == once
    assert unicodedata.normalize("NFC", once) == once


@given(text=ANY)
def test_mended_text_has_no_surrogate_and_keeps_the_rest(text: str) -> None:
    mended = clean_up.mend_surrogates(text)
    mended.encode("utf-8")
    assert [c for c in text if not "\ud800" <= c <= "\uffff"] == [
        c for c in mended if not "\ud800" <= c <= "\uffff" and c in text
    ]


@given(text=st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)))
def test_decomposed_hangul_comes_back(text: str) -> None:
    assert clean_up.compose(unicodedata.normalize("NFD", text)) == text


@given(text=st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3), min_size=1))
def test_syllables_typed_as_jamo_come_back(text: str) -> None:
    # What a keyboard without an input method gives: lead, vowel and tail, one after another. A
    # double tail before a vowel cannot be told from a tail and a lead, so those are left out.
    jamo = []
    for syllable in text:
        lead, rest = divmod(ord(syllable) - 0xAC00, 21 * 28)
        vowel, tail = divmod(rest, 28)
        jamo.append("ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"[lead] + chr(0x314F + vowel))
        if tail:
            jamo.append("ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ"[tail - 1])
    assert clean_up.join_jamo("".join(jamo)) == text


@given(text=st.text(st.characters(min_codepoint=0x21, max_codepoint=0x7E)))
def test_full_width_ascii_comes_back(text: str) -> None:
    wide = "".join(chr(ord(c) + 0xFEE0) for c in text)
    assert clean_up.narrow(wide) == text


@given(text=ANY)
def test_ordinary_words_keep_their_letters(text: str) -> None:
    letters = [c for c in text if c.isascii() and c.isalnum()]
    kept = clean_up.squeeze(clean_up.drop_control(clean_up.drop_invisible(text)))
    assert [c for c in kept if c.isascii() and c.isalnum()] == letters


@pytest.mark.parametrize(
    ("step", "given_", "expected"),
    [
        ("narrow", "ＣＯＶＩＤ－１９", "COVID-19"),
        ("narrow", "ﾡￂ", "ㄱㅏ"),
        ("narrow", "￦１０，０００", "₩10,000"),
        ("jamo", "ㅇㅏㄴㄴㅕㅇ", "안녕"),
        ("jamo", "ㅋㅋㅋ ㅠㅠ", "ㅋㅋㅋ ㅠㅠ"),
        ("jamo", "ㄱ", "ㄱ"),
        ("invisible", "\ufeff배\u200b가", "배가"),
        ("invisible", "👨‍👩‍👧", "👨‍👩‍👧"),
        ("control", "a\x00b\tc\nd", "a b\tc\nd"),
        ("spaces", "\u3000배 \u00a0 가 ", "배 가"),
        ("scripts", "환자는DM으로", "환자는 DM으로"),
        ("scripts", "DM nephropathy로 f/u 중", "DM nephropathy로 f/u 중"),
        ("lower", "DM 환자", "dm 환자"),
        ("symbols", "진통ㆍ소염 500㎎", "진통·소염 500mg"),
        ("hanja", "고지혈증 無, 男女와 女子", "고지혈증 무, 남녀와 여자"),
        ("hanja", "勞力 \uf90a", "노력 금"),
        ("hanja", "漢字 ABC 한글", "한자 ABC 한글"),
    ],
)
def test_steps_do_what_they_say(step: str, given_: str, expected: str) -> None:
    assert clean_up.STEPS[step](given_) == expected


def test_every_step_is_documented() -> None:
    guide = (ROOT / "docs/training.md").read_text("utf-8")
    assert all(f"| `{step}` |" in guide for step in clean_up.STEPS)


def test_an_unknown_step_is_named() -> None:
    with pytest.raises(OptionError, match=r"'stem' is not known; known are surrogates, compose"):
        clean_up.clean("a", ("stem",))


@pytest.mark.parametrize("value", [b"bytes", 3, None, ["a"]])
def test_what_is_not_text_is_said(value: object) -> None:
    with pytest.raises(TextError, match=f"is {type(value).__name__}; expected str"):
        clean_up.as_text(value)


SIGNS = "ㆍ‧∙․･・⋅∼˚℃㎎㎖㎡ℓⅡⅩⅳ①⑴⒈❶ⓐ㉠㉮㈜⅛ﬁ𝐀▲○→★😀👍\u200d\ufe0f\u119e"
MIXED = st.text(st.sampled_from(SIGNS + "가나힣한 aZ19½²×.,\u1112\u11ab\n"), max_size=40)
ANY = st.text(st.characters(exclude_categories=()), max_size=60)


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        # dots between words, whichever key or font they came from
        ("임신ㆍ수유기", "임신·수유기"),
        ("진통‧소염∙해열․항염･진정・항산ꞏ제산", "진통·소염·해열·항염·진정·항산·제산"),
        ("복통\u119e위통", "복통·위통"),
        # … but a vowel of old Korean is none
        ("\u1112\u119e\u11ab글", "\u1112\u119e\u11ab글"),
        ("4∼5일", "4~5일"),
        # units
        ("500㎎/5㎖", "500mg/5ml"),
        ("100㎡의 땅, 10㎥", "100m²의 땅, 10m³"),
        ("20㎍과 20\u00b5g", "20μg과 20μg"),
        ("5mℓ", "5ml"),
        ("25℃, 77℉, 25˚C", "25°C, 77°F, 25°C"),
        ("체중㎏당", "체중 kg당"),
        # numerals
        ("안지오텐신Ⅱ", "안지오텐신 II"),
        ("Ⅱ형 당뇨병", "II형 당뇨병"),
        ("ⅩⅠ장, ⅲ", "XI장, iii"),
        ("1⅛정", "1 1/8정"),
        # list numbers and words in a circle or brackets
        ("①25㎎", "(1)25mg"),
        ("⑴⒉❸ⓐ㉠㉮㈎㈀", "(1)(2)(3)(a)(ㄱ)(가)(가)(ㄱ)"),
        ("㈜한국제약 ㉾", "(주)한국제약 (우)"),
        # letters of another shape
        ("ﬁbrosis oﬃce 𝐁𝐌𝐈", "fibrosis office BMI"),
        # marks
        ("▲공시가격→인상", "▲ 공시가격 → 인상"),
        ("좋아요😀👍!", "좋아요 😀👍 !"),
        ("가족👨‍👩‍👧은 ☺️", "가족 👨‍👩‍👧 은 ☺️"),
        ("김○○ 님", "김 ○○ 님"),
        ("8⟶1", "8 ⟶ 1"),
        ("○\u0301", None),  # an accent stays on what it stands on
        ("cafe\u0301○", "cafe\u0301 ○"),
        # what vocabularies know stays
        ("½정, 10³, H₂O, 3×4 ±1 ≥65 α-β ™ “a” – … ※ ㅋㅋ 證", None),
        ("", None),
    ],
)
def test_signs_are_spelt(given_: str, expected: str | None) -> None:
    assert spell_symbols(given_) == (given_ if expected is None else expected)


@settings(deadline=None)
@given(text=ANY | MIXED)
def test_spelling_twice_is_spelling_once(text: str) -> None:
    once = spell_symbols(text)
    assert spell_symbols(once) == once


@settings(deadline=None)
@given(text=ANY | MIXED)
def test_what_is_no_sign_stays_in_its_order(text: str) -> None:
    spelt, rest, at = spell_symbols(text), [], 0
    for start, end, spelling in spellings(text):
        assert at <= start < end and spelling
        rest += [text[at:start], spelling]
        at = end
    assert "".join([*rest, text[at:]]) == spelt
    plain = [letter for letter in text if letter.isascii() or "가" <= letter <= "힣"]
    left = iter(spelt)
    assert all(letter in left for letter in plain)


@given(text=st.text(st.characters(min_codepoint=0xAC00, max_codepoint=0xD7A3)) | st.text("aZ 1."))
def test_hangul_and_ascii_are_given_back_as_they_are(text: str) -> None:
    assert spell_symbols(text) is text


def test_no_letter_of_a_script_is_touched() -> None:
    """Only signs, compatibility letters, and ㆍ ᆞ ꞏ, which are dots though Unicode says letters."""
    for code in range(sys.maxunicode + 1):
        letter = chr(code)
        if letter.isalpha() and spell_symbols(letter) != letter:
            assert unicodedata.decomposition(letter).startswith("<") or letter in "\u119eꞏ"
