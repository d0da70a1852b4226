"""Readers of code tables: forms, cleaning, the sample, public tables."""

import re
import sys
from collections.abc import Callable
from itertools import islice
from pathlib import Path

import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.errors import DataError, MissingExtra, OptionError
from malmoi.terms import BuildReport, Lexicon, build_lexicon, language_of, memory_lexicon
from malmoi.terms.cleaning import STEPS, clean_name, repair
from malmoi.terms.readers import form_of
from malmoi.terms.segment import SHIPPED
from tests.support.logs import record_messages

MASTER = """표제어구분\t분류\t질병분류코드\t검별표\t주석\t한글명칭\t영문명칭
1\t중\tA15-A19\t\t\t결핵(A15-A19)\tTuberculosis(A15-A19)
1\t소\tA18\t\t\t기타 기관의 결핵\tTuberculosis of other organs
1\t세\tA183\t+\t\t장의 결핵\tTuberculosis of intestines
\t\t\t\t\t결핵성 장염 NOS\tTuberculous enteritis NOS
\t\tA183\t\t포함\t장간막 결핵\tMesenteric tuberculosis
\t\tA18\t\t제외\t폐결핵(A15.0†)\tPulmonary tuberculosis(A15.0†)
\t\tA18\t\t주\t다음 세분류를 쓴다.\t
"""

KOSTOM = (
    "T1\tC1\tdiabetes mellitus\t당뇨병\tC0011849\tx\n"
    "T2\tC1\tDM\t진성당뇨\tC0011849\tx\n"
    "T3\tC9\tgrip strength test\t악력검사\t\tx\n"
    "T4\tC8\t\t낙상위험\t\tx\n"
)

MRCONSO = """C0011849|ENG|P|L1|PF|S1|Y|A1||M1||MSH|MH|D003920|Diabetes Mellitus|0|N||
C0011849|ENG|S|L2|PF|S2|Y|A2||M2||MSH|AB|D003920|DM|0|N||
C0011849|KOR|P|L3|PF|S3|Y|A3||M3||KCD5|PT|E14|당뇨병|0|N||
C0011849|FRE|P|L4|PF|S4|Y|A4||M4||MSHFRE|MH|D003920|Diabète|0|N||
C0011849|ENG|S|L5|PF|S5|Y|A5||M5||MSH|MH|D003920|Old name|0|O||
"""


def build(
    tmp_path: Path, name: str, data: str | bytes, **options: object
) -> tuple[Lexicon, BuildReport]:
    path = tmp_path / name
    path.write_bytes(data if isinstance(data, bytes) else data.encode("utf-8"))
    out = tmp_path / "x.lexicon"
    report = build_lexicon([path], out, **options)  # type: ignore[arg-type]
    return Lexicon.open(out), report


def test_a_kcd_master(tmp_path: Path) -> None:
    lexicon, report = build(tmp_path, "master.tsv", MASTER)
    assert list(lexicon.codes) == ["A15-A19", "A18", "A18.3"]
    concept = lexicon.concept("A18.3")
    assert (concept.ko, concept.en) == ("장의 결핵", "Tuberculosis of intestines")
    found = {name.text: name for name in concept.names}
    assert found["결핵성 장염"].kind == "narrower" and found["결핵성 장염"].original.endswith("NOS")
    assert found["Mesenteric tuberculosis"].language == "en"
    ko, en = lexicon.exclusions()
    assert (ko.text, ko.concept, ko.belongs_to) == ("폐결핵", "A18", "A15.0")
    assert en.language == "en"
    assert report.tables[0]["passed"] == {"a note": 1}
    assert report.cleaned["codes"].count == 2 and report.cleaned["NOS/NEC"].count == 2


def test_kostom_in_cp949_keeps_rows_without_a_cui(tmp_path: Path) -> None:
    notices = record_messages()
    lexicon, _ = build(tmp_path, "kostom.txt", KOSTOM.encode("cp949"))
    assert form_of(tmp_path / "kostom.txt") == "kostom"
    assert any("cp949" in notice for notice in notices)
    diabetes = lexicon.concept("C0011849")
    assert (diabetes.ko, diabetes.en) == ("당뇨병", "diabetes mellitus")
    assert {name.text for name in diabetes.names} == {
        "당뇨병",
        "diabetes mellitus",
        "진성당뇨",
        "DM",
    }
    pair = lexicon.concept("KOSTOM:T3/C9")
    assert (pair.ko, pair.en) == ("악력검사", "grip strength test")
    assert lexicon.concept("KOSTOM:T4/C8").en is None


def test_kostom_with_a_header(tmp_path: Path) -> None:
    header = "ID\tID2\tEnglish name\tKorean name\tUMLS CUI\tx\n"
    lexicon, _ = build(tmp_path, "kostom.txt", header + KOSTOM, form="kostom")
    assert "C0011849" in lexicon and len(lexicon.codes) == 3


def test_mrconso(tmp_path: Path) -> None:
    lexicon, report = build(tmp_path, "MRCONSO.RRF", MRCONSO)
    names = {name.text: name for name in lexicon.concept("C0011849").names}
    assert set(names) == {"Diabetes Mellitus", "DM", "당뇨병"}
    assert names["DM"].kind == "abbreviation" and names["당뇨병"].source == "KCD5"
    assert report.tables[0]["passed"] == {"another language": 1, "suppressed": 1}
    (tmp_path / "MRCONSO.RRF").write_text(MRCONSO, "utf-8")
    build_lexicon(
        [tmp_path / "MRCONSO.RRF"], tmp_path / "c.lexicon", form="mrconso", columns={"code": "CODE"}
    )
    assert "E14" in Lexicon.open(tmp_path / "c.lexicon")


def test_code_bar_bar_name(tmp_path: Path) -> None:
    lexicon, report = build(tmp_path, "d.txt", "D003920||diabetes\nD1|D2||two ids\nbad line\n")
    assert lexicon.concept("D1|D2").ids == ("D1", "D2")
    assert report.tables[0]["passed"] == {"no code||name": 1}


def test_dictionaries_with_a_name_a_row(tmp_path: Path) -> None:
    rows = "code\tlang\tname\tsource\tkind\nA00\tko\t콜레라\tKCD9\theadword\n"
    rows += "A00\ten\tCholeras\tMEDIC\tsynonym\nA00\ten\tCholera\tKCD9\theadword\n"
    lexicon, _ = build(tmp_path, "names.tsv", rows)
    assert [name.source for name in lexicon.concept("A00").names] == ["KCD9", "KCD9", "MEDIC"]
    assert lexicon.concept("A00").en == "Cholera"


def test_named_columns_of_a_csv(tmp_path: Path) -> None:
    text = '목록,,\n질환기호,한국 이름,"별명 1",별명2\nE14,"당뇨병, 상세불명",당뇨,소갈;DM\n'
    columns = {"code": "질환기호", "ko": "한국 이름", "synonyms": "별명 1+별명2"}
    lexicon, _ = build(tmp_path, "t.csv", text, columns=columns)
    texts = {name.text for name in lexicon.concept("E14").names}
    assert texts == {"당뇨병, 상세불명", "당뇨", "소갈", "DM"}


def test_a_workbook_with_a_title_above(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    rows = [
        ["2026년 상병 목록"],
        [],
        ["코드", "한글명", "영문명"],
        ["I10", "고혈압", "Hypertension"],
    ]
    for row in [*rows, [250.0, "숫자 코드", None]]:
        book.active.append(row)
    book.save(tmp_path / "t.xlsx")
    build_lexicon([tmp_path / "t.xlsx"], tmp_path / "x.lexicon")
    lexicon = Lexicon.open(tmp_path / "x.lexicon")
    assert lexicon.concept("I10").en == "Hypertension" and "250" in lexicon


def test_a_workbook_without_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.xlsx").write_bytes(b"PK")
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra, match=r"malmoi\[xlsx\]"):
        build_lexicon([tmp_path / "t.xlsx"], tmp_path / "x.lexicon")


def test_lines_of_two_encodings(tmp_path: Path) -> None:
    lines = [b"code\tko\ten\n"]
    lines += [f"A{i:02}\t콜레라 {i}\tcholera\n".encode() for i in range(9)]
    lines.insert(4, "B00\t헤르페스\therpes\n".encode("cp949"))
    lines.append(b"B01\t\xff\xfe\x81 x\tbroken\n")
    notices = record_messages()
    lexicon, report = build(tmp_path, "t.tsv", b"".join(lines))
    assert lexicon.concept("B00").ko == "헤르페스" and lexicon.concept("A08").ko == "콜레라 8"
    assert "the first cp949 line is 5" in notices[0] and "neither UTF-8 nor cp949" in notices[1]
    assert report.broken.count == 1 and "line 12" in report.broken.examples[0]


def test_rows_that_bring_nothing_are_counted(tmp_path: Path) -> None:
    rows = "code\tko\ten\tkind\n\t이름만\t\t\nA00\t\t\t\nA01\t장티푸스\t\tblue\n"
    rows += "A02\t살모넬라\t\t\ttoo many\nA03\t이질\nA04\t \t \t\n"
    lexicon, report = build(tmp_path, "t.tsv", rows)
    assert list(lexicon.texts()) == ["이질"]
    assert report.tables[0]["passed"] == {
        "no code": 1,
        "empty names": 2,
        "a kind that is not known": 1,
        "more cells than the header": 1,
    }


def test_rows_without_a_code_may_be_kept(tmp_path: Path) -> None:
    lexicon, _ = build(
        tmp_path, "drugs.tsv", "ko\ten\tcode\n아스피린\taspirin\t\n", keep_uncoded=True
    )
    assert lexicon.concept("drugs:2").en == "aspirin"


def test_a_lexicon_is_a_table_too(tmp_path: Path) -> None:
    build(tmp_path, "master.tsv", MASTER)
    (tmp_path / "own.tsv").write_text("code\tko\tlay\nA18.3\t장의 결핵\t속 결핵\n", "utf-8")
    build_lexicon([tmp_path / "x.lexicon", tmp_path / "own.tsv"], tmp_path / "y.lexicon")
    first, both = Lexicon.open(tmp_path / "x.lexicon"), Lexicon.open(tmp_path / "y.lexicon")
    assert len(both) == len(first) + 1
    assert both.concept("A18.3").ko == "장의 결핵"
    assert list(both.exclusions()) == list(first.exclusions())


def test_the_sample_is_a_table_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.tsv").write_text("code\tko\nK74.6\t간의 경변증\nX\t" + "가" * 3000 + "\n", "utf-8")
    report = build_lexicon(["t.tsv", "sample"], "x.lexicon")
    concept = Lexicon.open("x.lexicon").concept("K74.6")
    assert concept.ko == "간의 경변증" and "간경화" in {name.text for name in concept.names}
    assert report.too_long.count == 1


def test_names_as_they_are(tmp_path: Path) -> None:
    lexicon, report = build(tmp_path, "master.tsv", MASTER, cleaning=False)
    assert "결핵(A15-A19)" in set(lexicon.texts()) and not report.cleaned
    assert len(list(lexicon.exclusions())) == 2


@pytest.mark.parametrize(
    ("name", "data", "options", "message"),
    [
        ("t.tsv", "a\tb\n1\t2\n", {}, "has the columns a, b; expected one of codes"),
        ("t.tsv", "", {}, "is empty"),
        ("t.tsv", "code\tko\n\t\n", {}, "no names were found"),
        ("t.tsv", "code\tko\nA\t가\n", {"columns": {"code": "x", "ko": "ko"}}, "no column 'x'"),
        ("t.csv", 'code,ko\nA,"가\n', {}, "cannot be read as a table"),
        ("t.xlsx", "no zip", {}, "cannot be read as .xlsx"),
        ("t.xls", "x", {}, "Excel's old form"),
        ("t.rrf", "a|b\n", {"form": "mrconso"}, "no names were found"),
    ],
)
def test_bad_tables(
    tmp_path: Path, name: str, data: str, options: dict[str, object], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        build(tmp_path, name, data, **options)
    assert not (tmp_path / "x.lexicon").exists()


def test_bad_options(tmp_path: Path) -> None:
    for options, message in (
        ({"form": "blue"}, "form 'blue' is not known"),
        ({"columns": {"code": "a"}}, "at least one of ko, en and name"),
        ({"columns": {"code": "a", "ko": "b", "size": "c"}}, "the part 'size'"),
    ):
        with pytest.raises(OptionError, match=message):
            build(tmp_path, "t.tsv", "a\tb\tc\n1\t2\t3\n", **options)
    with pytest.raises(DataError, match="cannot come from stdin"):
        build_lexicon(["-"], tmp_path / "x.lexicon")
    with pytest.raises(DataError, match="there is no file"):
        build_lexicon([tmp_path / "none.tsv"], tmp_path / "x.lexicon")


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


def test_it_is_what_its_table_says() -> None:
    lexicon = Lexicon.open("sample")
    lexicon.verify()
    # After an edit: malmoi lexicon build src/malmoi/data/sample.tsv
    #                    --out src/malmoi/data/sample.lexicon --replace
    assert lexicon.identity == memory_lexicon([SHIPPED / "sample.tsv"]).identity


def test_it_covers_common_conditions_in_both_languages() -> None:
    lexicon = Lexicon.open("sample")
    assert len(lexicon.codes) > 1000
    for number, code in enumerate(lexicon.codes):
        assert re.fullmatch(r"[A-Z]\d{2}(\.\d)?", code)
        assert None not in lexicon.shown(number), code
    for text, code in (
        ("당뇨", "E14"),
        ("간경화", "K74.6"),
        ("liver cirrhosis", "K74.6"),
        ("간암", "C22.0"),
        ("HTN", "I10"),
        ("맹장염", "K35.8"),
        ("pneumonia", "J18.9"),
    ):
        assert code in {lexicon.concept_of(row) for row in lexicon.find(text)}, text


def test_tables_merge(tmp_path: Path, public_data: Callable[[str], Path]) -> None:
    tables = []
    for name in ("kcd9-rows", "names", "medic", "drugs", "kcd9-morphology"):
        with public_data(f"terms/{name}.tsv").open(encoding="utf-8") as file:
            (tmp_path / f"{name}.tsv").write_text("".join(islice(file, 400)), "utf-8")
        tables.append(tmp_path / f"{name}.tsv")
    report = build_lexicon(tables, tmp_path / "x.lexicon", keep_uncoded=True)
    lexicon = Lexicon.open(tmp_path / "x.lexicon")
    assert lexicon.concept("A00").ko == "콜레라"
    assert lexicon.concept("A00-B99").ko == "특정 감염성 및 기생충성 질환"
    assert report.exclusions > 10 and report.cleaned["codes"].count > 10
    assert report.broken.count == 0 and "encoding" not in report.cleaned
    assert set(report.sources) >= {"kcd9-rows", "DOID", "medic", "drugs", "kcd9-morphology"}
