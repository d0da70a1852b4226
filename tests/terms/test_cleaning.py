"""What is taken off names, what is mended, and that nothing else is touched."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.terms import language_of
from malmoi.terms.cleaning import STEPS, clean_name, repair


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("살모넬라 골수염(M90.2*)", "살모넬라 골수염"),
        ("헤르페스바이러스 간염† (K77.0*)", "헤르페스바이러스 간염"),
        ("대장균감염(A04.0-A04.4)", "대장균감염"),
        ("조기선천 매독눈병증 NEC(A50.0+)", "조기선천 매독눈병증"),
        ("한타바이러스(심장)-폐증후군(B33.4† J17.1*)", "한타바이러스(심장)-폐증후군"),
        ("당뇨병(4단위 및 5단위 숫자 .51에 해당되는 E10-E14†)의 괴저", "당뇨병의 괴저"),
        ("우울병이며(F32.0 또는 F32.1) 과거에", "우울병이며 과거에"),
        ("Burkholderia NEC", "Burkholderia"),
        ("Other diseases, N.E.C.", "Other diseases"),
        ("노채(勞瘵)", "노채"),
        ("당뇨　병ＡＢ", "당뇨 병AB"),
        ("Vitamin B12 deficiency", "Vitamin B12 deficiency"),
        ("Rh+ 혈액형", "Rh+ 혈액형"),
        ("Ⅰ형 점액다당류증", "Ⅰ형 점액다당류증"),
        ("NOS", "NOS"),
        ("(A00-B99)", "(A00-B99)"),
    ],
)
def test_names_are_cleaned(text: str, cleaned: str) -> None:
    assert clean_name(text).text == cleaned


def test_chapter_numbers_go_only_from_chapters() -> None:
    assert clean_name("Ⅱ. 신생물(C00-D48)", code="C00-D48").text == "신생물"
    assert clean_name("V. cholerae infection", code="A00").text == "V. cholerae infection"


def test_korean_that_was_decoded_wrongly_comes_back() -> None:
    text = "급성 심근경색증"
    assert repair(text.encode().decode("latin-1")) == text
    assert repair("당뇨병성 신장병증".encode("cp949").decode("latin-1")) == "당뇨병성 신장병증"
    halfway = "만성 콩팥병".encode().decode("cp949", "replace")
    assert "\ufffd" not in halfway or repair(halfway) is None
    assert clean_name("당뇨병".encode().decode("latin-1")).steps == ("encoding",)
    for right in ("Sjögren’s syndrome", "Ménétrier병", "콩팥", "É", "naïve Ångström"):
        assert repair(right) is None


@given(st.text())
def test_any_text_is_cleaned_once(text: str) -> None:
    cleaned = clean_name(text, code="A00-B99")
    assert set(cleaned.steps) <= set(STEPS)
    assert bool(cleaned.text) == bool(text) or not text.strip()
    for extra, kind in cleaned.extras:
        assert extra and kind in ("synonym", "abbreviation")


@given(st.text(), st.sampled_from(["ko", "en", None]))
def test_every_text_has_a_language(text: str, declared: str | None) -> None:
    assert language_of(text, declared) in ("ko", "en", "mixed", "other")
