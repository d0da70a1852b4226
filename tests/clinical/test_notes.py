"""Notes end to end: what the marked notes say, files read and written, decisions, identifiers."""

import csv
import datetime
import json
import re
import subprocess
import sys
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from malmoi.clinical.batch import NoteText, ReaderSpec, find_notes, run_batch
from malmoi.clinical.context import ContextRules, NoteContext
from malmoi.clinical.corrections import (
    Correction,
    Corrections,
    LearnReport,
    learn,
    read_corrections,
    save_corrections,
)
from malmoi.clinical.mentions import definitions
from malmoi.clinical.output import form_of, html_page, mention_rows
from malmoi.clinical.reader import EVIDENCE_PRECISION, NoteReader
from malmoi.clinical.redact import Redactor, check_recall, shifted
from malmoi.clinical.rules import TABLES
from malmoi.clinical.senses import Patient, SenseTable
from malmoi.clinical.standards import fhir_bundle, omop_rows
from malmoi.errors import DataError, OptionError, OutputError
from malmoi.evaluation import Settings, evaluate
from malmoi.evaluation.tasks.note_mentions import (
    GoldMention,
    GoldNote,
    judge,
    outcome_of,
    read_notes,
)
from malmoi.io.many import Journal
from malmoi.terms import Lexicon, Linker, build_lexicon
from malmoi.terms.abbreviations import Abbreviations
from tests.support.graphs import Run
from tests.support.lexicons import HashingEncoder, open_lexicon

NOTES = Path(__file__).with_name("notes")
PUBLIC = Path(__file__).parents[2] / "bench" / "data" / "ko-clinical-status"
NOTE = "폐렴으로 입원. 기침(+), 발열 없음. 부: 위암"


@pytest.fixture(scope="module")
def lexicon(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = open_lexicon(tmp_path_factory.mktemp("notes")).folder
    assert folder is not None
    return folder


@pytest.fixture(scope="module")
def reader(lexicon: Path) -> NoteReader:
    return NoteReader(Linker(lexicon))


@pytest.mark.parametrize(
    ("file", "least", "most"),
    [
        ("dev.jsonl", 0.97, 0.06),
        ("held.jsonl", 0.85, 0.06),
        ("lookalikes.jsonl", 0.95, 0.06),
        ("regression-more.jsonl", 0.94, 0.06),
        ("regression-third.jsonl", 0.95, 0.06),
        ("regression-fourth.jsonl", 0.94, 0.06),
        # Written without sight of the rules; 4 and 5 never say a thing in the same way twice.
        ("set-1.jsonl", 0.92, 0.05),
        ("set-2.jsonl", 0.92, 0.05),
        ("set-3.jsonl", 0.9, 0.06),
        ("set-4.jsonl", 0.81, 0.12),
        ("set-5.jsonl", 0.83, 0.11),
        ("set-6.jsonl", 0.9, 0.05),
        ("set-7.jsonl", 0.88, 0.06),
    ],
)
def test_marked_mentions_have_their_status(file: str, least: float, most: float) -> None:
    """Spans and codes as people marked them: only what is said about them is judged."""
    rules = ContextRules.open()
    right = harm = unsafe = count = 0
    folder = PUBLIC if file.startswith("set-") else NOTES
    for note in read_notes(folder / file):
        gold = [one for one in note.mentions if one.codes]
        context = NoteContext.of(note.text, [(one.start, one.end) for one in gold], rules)
        for one in gold:
            chronic, symptom = rules.is_chronic(one.codes[0]), one.codes[0].startswith("R")
            said = context.assertion(one.start, one.end, chronic=chronic, symptom=symptom)
            count += 1
            right += said.status == one.status and said.experiencer == one.experiencer
            if not one.is_safe:
                unsafe += 1
                harm += (said.status, said.experiencer) == ("present", "patient")
    assert right >= least * count and harm <= most * unsafe


@pytest.mark.parametrize(
    ("note", "mention", "status", "experiencer"),
    [
        ("부: 췌장암, 모: 폐렴", "폐렴", "present", "family"),
        ("어머니와 함께 내원, 폐렴", "폐렴", "present", "patient"),
        ("mother reports pneumonia", "pneumonia", "present", "patient"),
        ("Brother was diagnosed with pneumonia.", "pneumonia", "present", "family"),
        ("같은 병실 환자 폐렴 확진", "폐렴", "present", "other"),
        ("산모 폐렴 있었음. 재태 33주", "폐렴", "present", "family"),
        ("32세 산모, 폐렴으로 입원", "폐렴", "present", "patient"),
        ("폐렴 無", "폐렴", "negated", "patient"),
        ("폐렴 배제", "폐렴", "negated", "patient"),
        ("폐렴 배제할 수 없음", "폐렴", "possible", "patient"),
        ("폐렴 완전히 배제는 어려움", "폐렴", "possible", "patient"),
        ("위암, 폐렴 배제", "위암", "negated", "patient"),
        ("위암, 폐렴 아님", "위암", "present", "patient"),
        ("위암, 폐렴 r/o", "위암", "present", "patient"),
        ("폐렴보다는 위암에 합당", "폐렴", "negated", "patient"),
        ("폐렴보다는 위암에 합당", "위암", "present", "patient"),
        ("폐렴을 시사하는 소견은 관찰되지 않았다", "폐렴", "negated", "patient"),
        ("RV not dilated, pneumonia", "pneumonia", "present", "patient"),
        ("폐렴 생기지 않도록 체위변경", "폐렴", "hypothetical", "patient"),
        ("사촌형 폐렴", "폐렴", "present", "family"),
        ("肺癌無, 胃癌 有", "胃癌", "present", "patient"),
        ("家族歷: 胃癌", "胃癌", "present", "family"),
        ("pneumonia r/o -> CT negative", "pneumonia", "negated", "patient"),
        ("폐렴 vs 위암", "위암", "possible", "patient"),
        ("DDx: 1) 위암 2) 폐렴", "폐렴", "possible", "patient"),
        ("폐렴 예방접종", "폐렴", "hypothetical", "patient"),
        ("pneumonia prophylaxis", "pneumonia", "hypothetical", "patient"),
        ("폐렴 발생시 재내원", "폐렴", "hypothetical", "patient"),
        ("If he develops pneumonia, call.", "pneumonia", "hypothetical", "patient"),
        ("고혈압, 폐렴 예방", "고혈압", "present", "patient"),
        ("폐렴 완치(2010)", "폐렴", "historical", "patient"),
        ("작년 폐렴으로 입원", "폐렴", "historical", "patient"),
        ("과거력: 고혈압, 폐렴", "고혈압", "present", "patient"),
        ("과거력: 고혈압, 폐렴", "폐렴", "historical", "patient"),
        ("가족력\n- 폐렴\n\n진단\n위암", "위암", "present", "patient"),
        ("가족력\n- 폐렴\n\n진단\n위암", "폐렴", "present", "family"),
        # Signs with spaces, crosses, boxes, letters: each is its own item's.
        ("위암 + / 폐렴 - / 고혈압 +", "폐렴", "negated", "patient"),
        ("위암 - 폐렴 - .", "위암", "negated", "patient"),
        ("폐렴 - 항생제 - 호전", "폐렴", "present", "patient"),
        ("폐렴× 위암×", "폐렴", "negated", "patient"),
        ("폐렴 3 / 위암(-)", "폐렴", "present", "patient"),
        ("☑ 위암  ☐ 폐렴", "폐렴", "negated", "patient"),
        ("위암 ☑ / 폐렴 ☐ / 고혈압 ☑", "폐렴", "negated", "patient"),
        ("[v] 위암  [ ] 폐렴", "폐렴", "negated", "patient"),
        ("■ 폐렴 없음", "폐렴", "negated", "patient"),
        ("위암 N / 폐렴 Y / 고혈압 N", "위암", "negated", "patient"),
        ("위암 | -\n폐렴 | +", "위암", "negated", "patient"),
        # Korean is spaced as one likes.
        ("폐렴 진단받은적 없음", "폐렴", "negated", "patient"),
        ("옆침대 환자 폐렴 확진", "폐렴", "present", "other"),
        # What people are told may come.
        ("위암, 폐렴 가능성 보호자에게 설명함", "위암", "hypothetical", "patient"),
        ("합병증 설명: 폐렴, 사망 가능", "폐렴", "hypothetical", "patient"),
        ("아래의 경우 바로 응급실로\n - 위암\n - 폐렴", "폐렴", "hypothetical", "patient"),
        ("폐렴 있어 항생제 시작, 위암 가능성 설명함", "폐렴", "present", "patient"),
        # Conditions, with what is to be done.
        ("폐렴이 다시 도지거든 오세요", "폐렴", "hypothetical", "patient"),
        ("38도 넘으면 폐렴 검사 필요", "폐렴", "hypothetical", "patient"),
        ("폐렴시 내원", "폐렴", "hypothetical", "patient"),
        ("肺炎 豫防", "肺炎", "hypothetical", "patient"),
        # Whose it is, over the whole sentence.
        ("시아버지도 기침 심했고 폐렴으로 돌아가심", "폐렴", "present", "family"),
        ("폐렴 가족력 : 친형(+)", "폐렴", "present", "family"),
        ("보호자(딸)가 어머니 예전에 폐렴 앓으셨다 함", "폐렴", "historical", "patient"),
        ("(주) 위암 (부) 폐렴", "폐렴", "present", "patient"),
        ("PATIENT'S SISTER REPORTEDLY HAS PNEUMONIA", "PNEUMONIA", "present", "family"),
        # A noun between a comma and the cue has the cue.
        ("폐렴, EKG peaked T wave 없음", "폐렴", "present", "patient"),
        ("no active lung lesion, pneumonia LLL", "pneumonia", "present", "patient"),
    ],
)
def test_status_and_experiencer(
    reader: NoteReader, note: str, mention: str, status: str, experiencer: str
) -> None:
    [found] = [one for one in reader.read(note) if one.text == mention]
    assert (found.status, found.experiencer) == (status, experiencer)


@pytest.mark.parametrize(
    ("note", "mention", "why"),
    [
        ("No pneumonia", "pneumonia", "negated: 'No' (cues.tsv row N), before it, same clause"),
        ("위암, 폐렴 배제", "위암", "negated: '배제' (cues.tsv row N), after it, over a list"),
        ("폐렴 배제", "폐렴", "negated: '배제' (cues.tsv row N), after it, same clause"),
        ("PMH: 폐렴", "폐렴", "historical: 'PMH' (sections.tsv row N), under this heading"),
        ("FHx: 위암", "위암", "family: 'FHx' (sections.tsv row N), under this heading"),
        ("큰누나가 폐렴", "폐렴",
         "family: '큰누나가' (persons.tsv row N), a person before it, same clause"),
        ("폐렴, 기침(-)", "기침", "negated: '(-)', its own sign"),
        ("폐렴 예방", "폐렴", "hypothetical: '예방' (cues.tsv row N), after it, same clause"),
        ("경고 증상: 폐렴", "폐렴",
         "hypothetical: '경고 증상' (sections.tsv row N), under this heading"),
        ("폐렴 추정", "폐렴", "possible: '추정' (cues.tsv row N), after it, same clause; "
         "probable: '추정' (grammar.tsv row N), next to it"),
        ("폐렴시 내원", "폐렴", "hypothetical: '시' (grammar.tsv row N), after it"),
        ("폐렴", "폐렴", ""),
    ],
)  # fmt: skip
def test_what_is_said_of_a_mention_names_its_cue(
    reader: NoteReader, note: str, mention: str, why: str
) -> None:
    [found] = [one for one in reader.read(note) if one.text == mention]
    reasons = [one for one in found.assertion.why if one.says != "disputed"]
    disputed = len(reasons) < len(found.assertion.why)
    assert disputed == (found.assertion.certainty == "disputed")
    assert re.sub(r"row \d+", "row N", "; ".join(map(str, reasons))) == why
    for one in reasons:
        assert note[one.start : one.end] == one.cue
        if one.source:
            table, _, line = one.source.partition(" row ")
            row = (TABLES / table).read_text("utf-8").splitlines()[int(line) - 1]
            assert one.cue.casefold()[:2] in row.casefold()


def test_a_date_before_the_next_mention_is_not_the_one_before(reader: NoteReader) -> None:
    note = "HTN으로 약 복용 중, 2015년 폐결핵 완치. 위암, 2019년 수술"
    dates = {one.text: one.assertion.date for one in reader.read(note)}
    assert dates["HTN"] == "" and dates["위암"] == "2019년"


def test_why_is_in_every_form(reader: NoteReader, lexicon: Path, tmp_path: Path, run: Run) -> None:
    [mention] = [one.to_json() for one in reader.read("No pneumonia")]
    text = mention["why"][0]["text"]
    record = {"id": "n", "text": "No pneumonia", "mentions": [mention], "cut": None}
    assert next(mention_rows([record]))["status_why"] == text
    _, entry = fhir_bundle(record)["entry"]
    assert entry["resource"]["note"] == [{"text": text}]
    assert "cues.tsv row" in "".join(html_page([record]))
    [decided] = Corrections(
        (Correction("pneumonia", "change", context="No pneumonia", status="present"),)
    ).apply("No pneumonia", reader.read("No pneumonia"), reader.linker)
    assert decided.assertion.why[0].source == "corrections.tsv"
    (tmp_path / "a.txt").write_text("폐렴 없음", "utf-8")
    options = ("--spelling", "--explain", "--table")
    done = run("notes", "read", lexicon, tmp_path / "a.txt", *options)
    assert "negated: '없음' (cues.tsv row" in done.stdout


def test_tables_of_your_own_extend_the_shipped_ones(lexicon: Path, tmp_path: Path) -> None:
    (tmp_path / "cues.tsv").write_text(
        "attribute\tdirection\tcue\nnegated\tafter\t글쎄요\n", "utf-8"
    )
    linker = Linker(lexicon)
    [plain] = NoteReader(linker).read("폐렴 글쎄요")
    [own] = NoteReader(linker, tables=tmp_path).read("폐렴 글쎄요")
    assert (plain.status, own.status) == ("present", "negated")
    (tmp_path / "grammar.tsv").write_text("name\twords\nclause_end\t아무튼\n", "utf-8")
    [own, _] = NoteReader(linker, tables=tmp_path).read("폐렴, 아무튼 기침 없음")
    assert own.status == "present"
    (tmp_path / "grammar.tsv").write_text("name\twords\nodd\tx\n", "utf-8")
    with pytest.raises(DataError, match="unknown name 'odd'; expected one of"):
        NoteReader(linker, tables=tmp_path)
    (tmp_path / "grammar.tsv").unlink()
    (tmp_path / "cues.tsv").write_text("attribute\tdirection\tcue\nodd\tafter\tx\n", "utf-8")
    with pytest.raises(DataError, match="unknown attribute 'odd'; expected one of"):
        NoteReader(linker, tables=tmp_path)
    with pytest.raises(OptionError, match="is no folder"):
        NoteReader(linker, tables=tmp_path / "none")


@pytest.mark.parametrize(
    ("note", "short", "meaning"),
    [
        ("ESRD on HD", "HD", "-"),
        ("HD#5 stable", "HD", "-"),
        ("chorea, CAG repeat 45: HD", "HD", "Huntington disease"),
        ("sat 88% RA", "RA", "-"),
        ("RA on MTX, joint pain", "RA", "rheumatoid arthritis"),
        ("LC, HBsAg(+), HCC", "LC", "liver cirrhosis"),
        ("severe MS, AF, TTE", "MS", "mitral stenosis"),
        ("MS contin 10mg", "MS", "-"),
        ("HBV DNA 2,300", "HBV", "-"),
        ("Donor: HBV (-)", "HBV", "chronic hepatitis B"),
        ("OD) VH(-), RD(-), IOP 14", "VH", "vitreous hemorrhage"),
        ("망상(-), AH/VH (-)", "VH", "visual hallucination"),
        ("PCI with DES x2", "DES", "-"),
        ("약 타러 오심.", "오심", "-"),
        ("오심, 구토 없음", "오심", "nausea"),
        ("룸메이트 옴 진단", "옴", "scabies"),
        ("모시고 옴", "옴", "-"),
        ("acute type A AD, Bentall op", "AD", "aortic dissection"),
    ],
)
def test_short_forms_are_read_by_their_context(note: str, short: str, meaning: str) -> None:
    table = SenseTable.open(Abbreviations.open())
    at = note.index(short)
    shares = table.weigh(short, note, at, at + len(short), lambda _: 0.0)
    assert shares[0].meaning == meaning and sum(one.share for one in shares) == pytest.approx(1)


def test_what_only_looks_like_a_name_is_none(reader: NoteReader) -> None:
    finder = reader._finder
    for text in ("RAI 100mCi", "4점", "독감 주사", "6 목", "처형이 간병", "수술 합병증"):
        assert "독감" in text or finder.find(text)[0] == []
    assert [one.text for one in finder.find("독감 주사")[0]] == ["독감"]
    assert definitions("심낭삼출 소견 없음(TTE), 심방세동(AF)") == {"AF": "심방세동"}
    # A dash between two spaces is between two names.
    assert {one.text for one in finder.find("기침 Rt - 폐렴")[0]} == {"기침", "폐렴"}


def test_headings_are_known_with_and_without_spaces() -> None:
    for note in ("이학적소견: 폐렴", "이학적 소견: 폐렴", "퇴원후계획: 폐렴"):
        at = note.index("폐렴")
        assert NoteContext.of(note, [(at, at + 2)]).assertion(at, at + 2).section


def test_the_name_of_korean_medicine_comes_second(tmp_path: Path) -> None:
    table = tmp_path / "t.tsv"
    rows = "U86.1\t울증\tDepressive disorder\nF32.9\t우울에피소드\tDepressive disorder\n"
    table.write_text(f"code\tko\ten\nI10\t고혈압\thypertension\n{rows}", "utf-8")
    build_lexicon([table], tmp_path / "u.lexicon")
    [found] = NoteReader(Linker(tmp_path / "u.lexicon")).read("Dx: depressive disorder")
    assert found.linked.best is not None and found.linked.best.code == "F32.9"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> NoteReader:
    rows = """K63.5\t용종\tpolyp
J33.9\t비강 용종\tnasal polyp
K31.7\t위 용종\tgastric polyp
N42.3\t전립선의 이형성\tdysplasia of prostate
N42.3\t저등급 이형성\tlow grade dysplasia
J43.9\t기종\temphysema
T79.7\t외상성 피하기종\ttraumatic subcutaneous emphysema
R50.9\t열\tfever
R50.2\t약물유발 열\tdrug-induced fever
R56.8\t경련\tseizure
P90\t신생아의 경련\tconvulsions of newborn
P90\t신생아 경련\tseizure
N41.9\t선염\tprostatis
N76.0\t선염\tprostatis
"""
    folder = tmp_path_factory.mktemp("places")
    (folder / "t.tsv").write_text(f"code\tko\ten\n{rows}", "utf-8")
    build_lexicon([folder / "t.tsv"], folder / "t.lexicon")
    return NoteReader(Linker(folder / "t.lexicon"))


@pytest.mark.parametrize(
    ("note", "code"),
    [
        ("polyp 있음", "K63.5"),
        ("nasal: septum deviation, polyp", "J33.9"),
        ("위내시경: 용종 2개", "K31.7"),
        ("polyp of the stomach", "K31.7"),
        ("위내시경 정상\n용종", "K63.5"),
        ("drug fever", "R50.2"),
        ("subcutaneous emphysema", "T79.7"),
        ("prostate, biopsy: low grade dysplasia", "N42.3"),
        ("nasal polyp. colon, biopsy: low grade dysplasia", "J33.9"),
        ("r/o drug 중단 후 fever", "R50.9"),
        # Of a man, of a woman, of a child that is no newborn any more.
        ("54/M 선염", "N41.9"),
        ("54세 여자, 선염", "N76.0"),
        ("30개월 여아, seizure", "R56.8"),
        ("3일 전 NICU 입원, DOL 3, 경련", "P90"),
        ("30개월 여아, DOL 3에 NICU 입원했었음. 경련", "R56.8"),
    ],
)
def test_a_code_fits_the_place_and_the_patient(places: NoteReader, note: str, code: str) -> None:
    found = places.read(note)[-1]
    assert found.linked.best is not None and found.linked.best.code == code


def test_a_code_that_the_patient_cannot_have_is_uncertain(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("code\tko\nC61\t전립선암\nI10\t고혈압\n", "utf-8")
    build_lexicon([tmp_path / "t.tsv"], tmp_path / "t.lexicon")
    reader = NoteReader(Linker(tmp_path / "t.lexicon"))
    assert [one.uncertain for one in reader.read("72/F 전립선암, 고혈압")] == [True, False]
    assert not reader.read("72/M 전립선암")[0].uncertain
    assert not reader.read("72/F 남편 전립선암")[0].uncertain


@pytest.mark.parametrize(
    ("note", "age", "sex"),
    [
        ("M/72 DM", 72, "M"), ("성명 박○○ (51세/남)", 51, "M"), ("30개월 여아", 2.5, "F"),
        ("A 34-year-old woman", 34, "F"), ("67F DLBCL", 67, "F"), ("BP 120/80, 형 6세", None, ""),
        ("산모 32/F 분만", None, ""), ("foley 16F", None, ""), ("3y 2m 남아", None, ""),
    ],
)  # fmt: skip
def test_age_and_sex_are_those_of_the_patient(note: str, age: float | None, sex: str) -> None:
    assert Patient.of(note) == Patient(age, sex)


def test_notes_are_judged(reader: NoteReader) -> None:
    note = GoldNote(
        "a",
        "폐렴 없음. 기침, 감기약",
        (
            GoldMention(0, 2, ("J18.9",), "negated"),
            GoldMention(7, 9, ("A00",)),
            GoldMention(11, 13),
        ),
    )
    outcome = outcome_of([judge(note, reader.read(note.text))])
    values = outcome.values()
    assert values["recall"] == values["precision"] == values["status"] == 1
    assert values["code"] == values["category"] == 0.5
    assert outcome.details["safety"]["given to the patient"] == 0
    assert "0 of 1 look-alikes" in outcome.notes[0]


def test_the_scorer_of_the_public_sets_counts_as_the_task_does(
    reader: NoteReader, tmp_path: Path
) -> None:
    path = PUBLIC / "set-6.jsonl"
    judged = []
    with (tmp_path / "found.jsonl").open("w", encoding="utf-8") as file:
        for note in read_notes(path):
            assert all(note.text[m.start : m.end].strip() for m in note.mentions)
            found = reader.read(note.text)
            judged.append(judge(note, found))
            row = {"id": note.id, "mentions": [one.to_json() for one in found]}
            file.write(json.dumps(row, ensure_ascii=False) + "\n")
    command = [sys.executable, "-I", PUBLIC / "score.py", path, tmp_path / "found.jsonl"]
    printed = subprocess.run([*command, "--json"], capture_output=True, check=True, text=True)
    scores, outcome = json.loads(printed.stdout), outcome_of(judged)
    for name, value in outcome.values().items():
        assert name == "code" or scores[name] == pytest.approx(value)
    safety = outcome.details["safety"]
    share = safety["given to the patient"] / safety["not the patient's"]
    assert scores["given to the patient wrongly"] == pytest.approx(share)
    shown = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert shown.startswith("36 notes, 0 of them") and "affirmed lost to negation" in shown


def test_the_task_reads_marked_notes(lexicon: Path, tmp_path: Path) -> None:
    data = tmp_path / "notes.jsonl"
    mention = {"start": 0, "end": 2, "code": "J18.9", "status": "negated"}
    data.write_text(json.dumps({"text": "폐렴 없음", "mentions": [mention]}) + "\n", "utf-8")
    settings = Settings(lexicon=lexicon)
    report = evaluate(HashingEncoder(), "notes", data, settings=settings, rounds=0)
    assert report.metrics["recall"].value == report.metrics["status"].value == 1
    data.write_text('{"text": "폐렴", "mentions": [{"start": 0, "end": 9}]}\n', "utf-8")
    with pytest.raises(DataError, match="line 1 .* outside of its text"):
        evaluate(HashingEncoder(), "notes", data, settings=settings)


def test_notes_are_found_in_files_folders_and_tables(tmp_path: Path) -> None:
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "b.txt").write_bytes("폐렴".encode("cp949"))
    (folder / "a.txt").write_bytes(b"\xef\xbb\xbf" + "기침".encode())
    (tmp_path / "t.csv").write_text("id,text\n7,폐렴\n8,\n", "utf-8")
    found = list(find_notes([folder, tmp_path / "t.csv"]))
    assert [(one.id, one.text) for one in found] == [
        ("a.txt", "기침"), ("b.txt", "폐렴"), ("7", "폐렴"), ("8", ""),
    ]  # fmt: skip
    with pytest.raises(DataError, match="no file or folder"):
        find_notes([tmp_path / "none.txt"])  # at once, before anything is read
    with pytest.raises(DataError, match="no column for the text"):
        list(find_notes([_table(tmp_path, "id,x\n1,폐렴\n")]))
    with pytest.raises(DataError, match="two notes have the same name"):
        list(find_notes([_table(tmp_path, "id,text\n1,폐렴\n1,기침\n")]))


def _table(folder: Path, text: str) -> Path:
    path = folder / "other.csv"
    path.write_text(text, "utf-8")
    return path


def test_an_interrupted_run_continues(lexicon: Path, tmp_path: Path) -> None:
    notes = [NoteText(str(i), NOTE) for i in range(6)]
    spec, out = ReaderSpec(str(lexicon), spelling=True), tmp_path / "out.jsonl"

    def breaking() -> object:
        yield from notes[:4]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_batch(breaking(), spec, out, "jsonl")  # type: ignore[arg-type]
    assert not out.exists() and Journal(out, "").path.exists()
    with Journal(out, "").path.open("ab") as file:
        file.write(b'{"id": "4", "ha')  # cut short
    assert run_batch(notes, spec, out, "jsonl") == (2, 4)
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["id"] for row in rows] == list("012345") and not Journal(out, "").path.exists()
    other = tmp_path / "two.jsonl"
    run_batch(notes, spec, other, "jsonl", processes=1)
    assert other.read_bytes() == out.read_bytes()


def test_records_take_every_form(reader: NoteReader) -> None:
    mentions = [one.to_json() for one in reader.read(NOTE)]
    record = {"id": "n/1", "text": NOTE, "mentions": mentions, "cut": None}
    rows = list(mention_rows([record]))
    assert (rows[0]["mention"], rows[0]["code"]) == ("폐렴", "J18.9")
    bundle = fhir_bundle(record, patient="p1")
    kinds = [entry["resource"]["resourceType"] for entry in bundle["entry"]]
    assert kinds.count("FamilyMemberHistory") == 1 and kinds.count("Condition") == len(rows) - 1
    first = bundle["entry"][1]["resource"]
    assert first["verificationStatus"]["coding"][0]["code"] == "confirmed"
    assert first["subject"] == {"reference": "Patient/p1"} and "/" not in first["id"]
    negated = [row["mention"] for row in rows if row["status"] == "negated"]
    conditions = [
        one["resource"] for one in bundle["entry"] if "verificationStatus" in one["resource"]
    ]
    assert negated == [
        one["code"]["text"]
        for one in conditions
        if one["verificationStatus"]["coding"][0]["code"] == "refuted"
    ]
    when = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    omop = {row["lexical_variant"]: row for row in omop_rows([record], when=when)}
    assert omop["폐렴"]["term_exists"] == "Y" and omop["위암"]["term_exists"] == "N"
    with pytest.raises(OptionError, match="not known"):
        form_of(Path("x.doc"), None)


def test_the_command_reads_many_notes(lexicon: Path, tmp_path: Path, run: Run) -> None:
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text(NOTE, "utf-8")
    out = tmp_path / "out.csv"
    done = run(
        "notes", "read", str(lexicon), str(tmp_path / "a.txt"), str(tmp_path / "b.txt"),
        "--spelling", "--out", str(out),
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    rows = list(csv.DictReader(out.read_text("utf-8-sig").splitlines()))
    assert {row["note"] for row in rows} == {"a.txt", "b.txt"}
    assert {row["experiencer"] for row in rows} == {"patient", "family"}


def test_decisions_take_effect_where_they_fit(lexicon: Path) -> None:
    rows = (
        Correction("폐렴", "change", code="C16"),
        Correction("기침", "reject"),
        Correction("위암", "change", context="부: 위암", experiencer="patient"),
    )
    reader = NoteReader(Linker(lexicon), corrections=Corrections(rows))
    found = {one.text: one for one in reader.read(NOTE)}
    assert found["폐렴"].linked.candidates[0].code == "C16" and "기침" not in found
    assert found["위암"].experiencer == "patient"
    assert {one.text: one for one in reader.read("모: 위암")}["위암"].experiencer == "family"


def test_decisions_are_kept_and_checked(tmp_path: Path) -> None:
    lexicon = open_lexicon(tmp_path)
    save_corrections(lexicon, [Correction("폐렴", "accept")])
    path = save_corrections(lexicon, [Correction("기침", "reject")])
    assert [row.mention for row in read_corrections(path)] == ["폐렴", "기침"]
    path.write_text("mention\tstatus\n폐렴\tnegated\n", "utf-8")
    with pytest.raises(DataError, match="line 2 of .* a status without a context"):
        read_corrections(path)
    with pytest.raises(OutputError, match="part of the installation"):
        save_corrections(Lexicon.open("sample"), [])


def test_learning_reports_on_a_held_part(lexicon: Path) -> None:
    linker = Linker(lexicon)
    codes = ("J18.9", "I10", "C16", "R05")
    names = [name.text for code in codes for name in linker.lexicon.concept(code).names]
    rows = [Correction(name, "accept") for name in names]
    rows += [Correction(f"{name} 아닌 것", "reject") for name in names]
    learnt, report = learn(rows, linker.link, EVIDENCE_PRECISION, threshold=0.6)
    assert report.learnt + report.held == len(rows) and report.held > 0
    assert report.error_after <= report.error_before
    assert learnt.trust.keys() >= EVIDENCE_PRECISION.keys() and 0 < learnt.threshold < 1
    with pytest.raises(DataError, match="can be learnt from"):
        learn(rows[:1], linker.link, EVIDENCE_PRECISION, threshold=0.6)


def test_what_was_learnt_and_does_worse_is_not_stored(
    lexicon: Path, tmp_path: Path, run_here: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    worse = LearnReport(8, 4, 0.9, 0.8, 0.01, 0.02, 0.5, {})
    assert worse.worse and not replace(worse, right_after=0.95, error_after=0.01).worse

    def fit(*args: object, **options: object) -> tuple[None, LearnReport]:
        return None, worse

    monkeypatch.setattr("malmoi.clinical.corrections.learn", fit)
    monkeypatch.setattr("malmoi.clinical.corrections.read_corrections", lambda path: [])
    done = run_here("notes", "learn", lexicon, tmp_path / "x.tsv", "--spelling")
    assert done.returncode == 1 and "Nothing was stored" in done.stderr


def test_identifiers_are_hidden_and_offsets_stay() -> None:
    note = (
        "환자명: 홍길동 (M/54)\n등록번호 12345678, 010-1234-5678, 700101-1234567, 2024-03-05 고혈압"
    )
    done = Redactor().redact(note)
    assert len(done.text) == len(note) and done.text.endswith("고혈압")
    assert {one.kind for one in done.spans} == {"name", "number", "phone", "resident", "date"}
    assert not any(part in done.text for part in ("홍길동", "12345678", "5678", "1234567", "03-05"))
    assert "2024-03-05" in Redactor(dates="keep").redact(note).text
    assert "2024-03-15" in Redactor(dates="shift", shift=10).redact(note).text
    assert shifted("2024-02-30", 1) == "*" * 10
    clean = "정상 소견. 우측 하지 부종, BP 120/80, 임신 20주, 이상 없음. 주치의 상담"
    assert Redactor().redact(clean).text == clean
    with pytest.raises(OptionError, match="expected one of mask"):
        Redactor(dates="drop")


@pytest.mark.parametrize(
    ("note", "hidden"),
    [
        ("조인성 45/M\n폐렴 의심", "조인성"),
        ("보호자(아들 김철수)에게 설명함", "김철수"),
        (
            "판독의: 박서준\n병리번호 S24-10233 수검번호: 884213\n회신의 이도현",
            "박서준 S24-10233 884213 이도현",
        ),
        ("담당: 한지민, 최우식", "한지민 최우식"),
        ("Surgeon: Hong GD / 1st Asst: K.H. Lee\nAnesthesiologist Park", "Hong GD K.H. Lee Park"),
        ("면허 123456 내선 4021 chart 10023341", "123456 4021 10023341"),
        ("3/12 내원, 12/3 수술 예정", "3/12 12/3"),
        ("작성자: 김민수\n...\n김민수는 다음 날 전화함", "김민수"),
        ("[bed 3] 장하준 — ARDS, 곽나은 (88년생), TPI by 윤정민", "장하준 곽나은 윤정민"),
        ("성명: 연정우\n친구들은 정우가 착하다 함. 곽채린도 내원", "연정우 정우 곽채린"),
        ("어머니 이순자 씨 동반. 김암수 교수님 협진\nR2 김민수", "이순자 김암수 김민수"),
    ],
)
def test_names_and_numbers_are_found_by_where_they_stand(note: str, hidden: str) -> None:
    done = Redactor().redact(note).text
    assert not [part for part in hidden.split() if len(part) > 1 and part in done], done


@pytest.mark.parametrize(
    "note",
    [
        "폐렴 배제 못함. 이상 소견 없음. 조영제 투여, 심전도 정상, 고지혈증 약 복용",
        "72세 남자로 금일 오전 내원. 48세 여자분. 상기 81세 남환은 평소 건강",
        "주소: 발열, 기침\n현병력: BP 120/80, motor 5/5, 1/2T bid, PID 2003",
        "12세 이하의 소아, 유방암 환자, 신장애 환자, 신부전 환자에게 투여",
        "담당의 상담 후 결정, 간호사 확인, 주치의 보고, 보호자 동의",
        "Op name: Laparoscopic appendectomy. Father: Tb. Dx: pneumonia",
    ],
)
def test_nothing_that_is_a_cue_or_a_term_is_hidden(note: str) -> None:
    assert Redactor().redact(note).text == note


@pytest.mark.parametrize(
    ("file", "every", "names", "numbers"),
    [
        ("identifiers.jsonl", 0.97, 0.95, 0.98),
        # Terse notes with rare names; rules were worked on with every second one only.
        ("identifiers-2.jsonl", 0.78, 0.7, 0.96),
    ],
)
def test_the_regression_sets_of_marked_identifiers(
    file: str, every: float, names: float, numbers: float
) -> None:
    """Made-up notes, with which the rules were worked on (docs/terms.md)."""
    lines = (NOTES / file).read_text("utf-8").splitlines()
    there, found, wrong, words = Counter[str](), Counter[str](), 0, 0
    for note in map(json.loads, lines):
        text, marks = note["text"], note["identifiers"]
        words += len(text.split())
        spans = Redactor().find(text)
        hidden = {at for one in spans for at in range(one.start, one.end)}
        marked = {at for one in marks for at in range(one["start"], one["end"])}
        wrong += sum(marked.isdisjoint(range(one.start, one.end)) for one in spans)
        for one in marks:
            letters = [at for at in range(one["start"], one["end"]) if text[at].isalnum()]
            there[one["kind"]] += 1
            found[one["kind"]] += hidden.issuperset(letters)
    assert found.total() >= every * there.total()
    assert found["name"] >= names * there["name"]
    assert found["number"] >= numbers * there["number"]
    assert wrong <= max(words / 1000, 3)


def test_the_recall_on_synthetic_notes() -> None:
    counts = check_recall()
    assert sum(found for found, _ in counts.values()) >= 0.95 * sum(n for _, n in counts.values())


@pytest.mark.parametrize(
    "note",
    [
        "", " \n\t", "\x00\x01", "ㅁㄴㅇㄹ" * 500, "{\\rtf1\\ansi 폐렴\\par}",
        "a\tb\tc\n폐렴\t없음\t",
        "(((((" * 2000, "폐렴 " * 3000, "no " * 3000 + "fever", "?" * 5000,
    ],
)  # fmt: skip
def test_odd_notes_are_read(reader: NoteReader, note: str) -> None:
    for one in reader.read(note):
        assert note[one.start : one.end] == one.text
