"""Signs are spelt: every word around them keeps its letters, and spelling twice changes nothing."""

import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.text.symbols import spell_symbols, spellings

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
