"""The reader of notes: mentions, offsets, deadlines, the command."""

import html
import json
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from malmoi.clinical import mentions as deadline
from malmoi.clinical.mentions import MentionSpan, definitions, longest, note_parts
from malmoi.clinical.reader import NoteReader, to_html
from malmoi.errors import CutWarning, OptionError
from malmoi.terms import Linker, build_lexicon
from tests.support.graphs import Run
from tests.support.lexicons import open_lexicon


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> NoteReader:
    return NoteReader(Linker(open_lexicon(tmp_path_factory.mktemp("notes"))))


@pytest.fixture(scope="module")
def sample() -> NoteReader:
    return NoteReader(Linker("sample"))


def found(reader: NoteReader, note: str) -> dict[str, tuple[str, tuple[str, ...]]]:
    mentions = reader.read(note)
    for mention in mentions:
        assert note[mention.start : mention.end] == mention.text
    return {
        mention.text: (mention.linked.candidates[0].code, mention.attributes)
        for mention in mentions
    }


def test_a_mixed_note_is_read(reader: NoteReader) -> None:
    assert found(reader, "pt는 HTN, DM 있으며 CXR상 pneumonia 의심") == {
        "HTN": ("I10", ()),
        "DM": ("E14", ()),
        "pneumonia": ("J18.9", ("uncertain",)),
    }


@pytest.mark.parametrize(
    ("note", "mention", "attributes"),
    [
        ("no fever", "fever", ("negated",)),
        ("no fever or cough", "cough", ("negated",)),
        ("denies fever, cough", "cough", ("negated",)),
        ("발열, 기침 없음", "기침", ("negated",)),
        ("기침은 부인함", "기침", ("negated",)),
        ("기침(-)", "기침", ("negated",)),
        ("폐렴 의심", "폐렴", ("uncertain",)),
        ("r/o pneumonia", "pneumonia", ("uncertain",)),
        ("pneumonia?", "pneumonia", ("uncertain",)),
        ("FHx: 위암(+)", "위암", ("family",)),
        ("어머니 위암", "위암", ("family",)),
        ("폐렴으로 f/u 중, 가족력상 위암", "위암", ("family",)),
        ("폐렴으로 f/u 중, 가족력상 위암", "폐렴", ()),
        ("위암 가족력 있음", "위암", ("family",)),
        ("father had pneumonia", "pneumonia", ("family",)),
        ("family history of cough", "cough", ("family",)),
        ("h/o CHF", "CHF", ()),
        ("고혈압 과거력", "고혈압", ()),
        ("폐렴 과거력", "폐렴", ("history",)),
        ("기침 있으며 열 없음", "기침", ()),
        ("no fever but cough", "cough", ()),
        ("no fever.\ncough for 3 days", "cough", ()),
        ("not only fever, 기침 있음", "기침", ()),
    ],
)
def test_cues_in_both_languages(
    reader: NoteReader, note: str, mention: str, attributes: tuple[str, ...]
) -> None:
    assert found(reader, note)[mention][1] == attributes


@pytest.mark.parametrize(
    ("note", "mention", "attributes"),
    [
        ("HBsAg(+), anti-HCV(-)", "HBsAg", ()),
        ("HBs Ag: negative", "HBs Ag", ("negated",)),
        ("HBsAg(-), 기침(+)", "HBsAg", ("negated",)),
        ("HBsAg 음성", "HBsAg", ("negated",)),
        ("HBsAg 양성, RPR 음성", "HBsAg 양성", ()),
        ("HBsAg 양성 아님", "HBsAg 양성", ("negated",)),
        ("HBsAg/anti-HBs/anti-HCV (-/+/-)", "HBsAg", ("negated",)),
        ("HBsAg/anti-HBs/anti-HCV (+/-/-)", "HBsAg", ()),
    ],
)
def test_results_of_tests_are_linked_as_what_they_show(
    sample: NoteReader, note: str, mention: str, attributes: tuple[str, ...]
) -> None:
    assert found(sample, note)[mention] == ("B18.1", attributes)


@pytest.mark.parametrize(
    "note", ["HBsAg 검사 예정", "HbA1c 9.2%", "anti-HCV 검사", "VDRL(+)", "anti-HBs(+), HBsAb 양성"]
)
def test_a_test_alone_is_no_finding_nor_one_the_lexicon_lacks(
    sample: NoteReader, note: str
) -> None:
    assert not sample.read(note)


@pytest.mark.parametrize("note", ["홍역(M) 의심, 72/M", "72/M 홍역 의심", "홍역(M/72) 의심, M/72"])
def test_a_sex_beside_an_age_is_no_abbreviation(tmp_path: Path, note: str) -> None:
    (tmp_path / "own.tsv").write_text("code\tko\nB05.9\t홍역\n", "utf-8")
    build_lexicon([tmp_path / "own.tsv"], tmp_path / "own.lexicon")
    found = NoteReader(Linker(tmp_path / "own.lexicon")).read(note)
    assert [one.text for one in found] == ["홍역"]


@pytest.mark.parametrize(
    "note", ["결핵은 배제됨", "결핵 배제됨.", "폐결핵은 배제됨(IGRA 음성), 3HP 예정"]
)
def test_what_is_ruled_out_is_negated(tmp_path: Path, note: str) -> None:
    (tmp_path / "own.tsv").write_text("code\tko\nA16.9\t결핵\nA16.2\t폐결핵\n", "utf-8")
    build_lexicon([tmp_path / "own.tsv"], tmp_path / "own.lexicon")
    [mention] = NoteReader(Linker(tmp_path / "own.lexicon")).read(note)
    assert mention.status == "negated"


def test_results_are_names_of_the_lexicon_too(tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("code\tko\nR76.1\tPPD 양성\nD24\t유방 혹 양성\n", "utf-8")
    build_lexicon([tmp_path / "own.tsv"], tmp_path / "own.lexicon")
    reader = NoteReader(Linker(tmp_path / "own.lexicon"))
    [mention] = reader.read("PPD(-), 유방 혹(+)")
    assert mention.to_json() | {"candidates": [], "score": 0.0} == {
        "mention": "PPD",
        "start": 0,
        "end": 3,
        "attributes": ["negated"],
        "status": "negated",
        "experiencer": "patient",
        "certainty": "certain",
        "otherwise": "",
        "section": "",
        "laterality": "",
        "severity": "",
        "stage": "",
        "date": "",
        "why": [
            {
                "says": "negated",
                "cue": "(-)",
                "start": 3,
                "end": 6,
                "source": "",
                "rule": "its own sign",
                "text": "negated: '(-)', its own sign",
            }
        ],
        "score": 0.0,
        "uncertain": False,
        "by": "result",
        "candidates": [],
    }
    assert mention.linked.mention == "PPD" and mention.linked.candidates[0].code == "R76.1"


def test_the_longest_name_wins_and_particles_stay_outside(reader: NoteReader) -> None:
    assert set(found(reader, "바이러스폐렴으로 입원, 위암의 전이")) == {"바이러스폐렴", "위암"}


def test_a_note_explains_its_own_abbreviations(reader: NoteReader) -> None:
    note = "congestive heart failure (CoHF) 있음. CoHF 악화"
    assert definitions(note) == {"CoHF": "congestive heart failure"}
    assert found(reader, note)["CoHF"][0] == "I50.0"


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_offsets_are_those_of_the_note_as_it_is(reader: NoteReader, form: str) -> None:
    note = unicodedata.normalize(form, "😀 ＨＴＮ\r\n\r\n폐렴은  의심, 위암\u200b 없음")
    mentions = reader.read(note)
    assert [m.linked.candidates[0].code for m in mentions] == ["I10", "J18.9", "C16"]
    for mention in mentions:
        assert note[mention.start : mention.end] == mention.text


PIECES = ["폐렴", "HTN", "no ", "의심", "\r\n", "😀", "Ｄ", "Ｍ", "은 ", "위암", " ", "\x00", "é"]

PIECES += ["\u1100", "\u1161", "\ud800", "e\u0301"]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=4)), max_size=20).map("".join))
def test_any_note_gives_true_offsets(note: str) -> None:
    if not hasattr(test_any_note_gives_true_offsets, "reader"):
        test_any_note_gives_true_offsets.reader = NoteReader(Linker("sample"))  # type: ignore[attr-defined]
    last = 0
    for mention in test_any_note_gives_true_offsets.reader.read(note):  # type: ignore[attr-defined]
        assert note[mention.start : mention.end] == mention.text
        assert last <= mention.start < mention.end
        last = mention.end


@dataclass(frozen=True)
class Entity:
    text: str
    start: int
    end: int
    type: str = "Disease"
    score: float = 0.9


class Tagger:
    def tag(self, text: str) -> list[Entity]:
        return [
            Entity(m.group(), m.start(), m.end())
            for m in re.finditer("severe viral pneumonia|coughing fits", text)
        ]


def test_a_tagger_adds_mentions_and_longer_ones_win(reader: NoteReader) -> None:
    both = NoteReader(reader.linker, tagger=Tagger())
    mentions = both.read("severe viral pneumonia with coughing fits, fever")
    assert [(m.text, m.by) for m in mentions] == [
        ("severe viral pneumonia", "tagger"),
        ("coughing fits", "tagger"),
        ("fever", "dictionary"),
    ]


def test_what_only_leads_up_to_a_name_is_not_taken_from_a_tagger(reader: NoteReader) -> None:
    class Greedy:
        def tag(self, text: str) -> list[Entity]:
            return [
                Entity(m.group(), m.start(), m.end()) for m in re.finditer(r"\S+ pneumonia", text)
            ]

    both = NoteReader(reader.linker, tagger=Greedy())
    assert [m.text for m in both.read("CXR상 pneumonia 의심")] == ["pneumonia"]
    assert [m.text for m in both.read("severe pneumonia")] == ["severe pneumonia"]


def test_the_page_escapes_and_keeps_the_text(reader: NoteReader) -> None:
    note = '<script>alert("폐렴")</script> & no fever'
    page = to_html(note, reader.read(note), title="<b>")
    assert "<script>" not in page and "<title>&lt;b&gt;" in page
    body = re.sub(r"<sub>.*?</sub>|<[^>]+>", "", page.split("<body>")[1])
    assert html.unescape(body) == note + "\n"
    assert 'class="negated"' in page


def test_the_command_reads_a_note(run: Run, run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_bytes("폐렴 의심\r\nno fever".encode("cp949"))
    done = run("notes", "read", "sample", "note.txt", "--spelling", "-f", "mentions")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [(r["mention"], r["start"], r["end"], r["attributes"]) for r in rows] == [
        ("폐렴", 0, 2, ["uncertain"]),
        ("fever", 10, 15, ["negated"]),
    ]
    read = ("notes", "read", "sample", "note.txt", "--spelling")
    assert "<mark" in run_here(*read, "--format", "html").stdout
    shown = run_here(*read, "--table").stdout.splitlines()
    assert shown[0] == "note.txt" and shown[2].split()[:4] == ["?", "폐렴", "possible", "J18.9"]


NONSENSE = "가a나b다c라d" * 6_250  # 50,000 letters without a space: every one begins a word

PORTION = 10_000  # letters that may be looked up between two looks at the clock


@pytest.fixture
def ticking(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """A clock that goes on by a second whenever it is looked at; gives the times it showed."""
    shown: list[float] = []

    def now() -> float:
        shown.append(len(shown))
        return shown[-1]

    monkeypatch.setattr(deadline, "now", now)
    return shown


@pytest.fixture
def looked_up(reader: NoteReader, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The texts whose forms were asked for."""
    asked: list[str] = []
    form = reader.linker.normalizer.form

    def counted(text: str) -> object:
        asked.append(text)
        return form(text)

    monkeypatch.setattr(reader.linker.normalizer, "form", counted)
    return asked


@pytest.mark.parametrize("note", [NONSENSE, " ".join(["x" * 390] * 500), "폐렴 " * 50_000])
def test_no_more_is_done_than_until_the_deadline(
    reader: NoteReader, ticking: list[float], looked_up: list[str], note: str
) -> None:
    found = reader.scan(note, within=12)
    assert found.cut is not None and found.cut < len(note) / 4
    assert all(mention.start < found.cut for mention in found.mentions)
    assert sum(map(len, looked_up)) <= len(ticking) * PORTION
    assert len(ticking) < 20


@pytest.mark.slow
def test_the_more_time_the_more_is_read(reader: NoteReader, ticking: list[float]) -> None:
    note = "폐렴 의심, 기침 없음. " * 1_500
    cuts = [reader.scan(note, within=seconds).cut for seconds in (8, 40, 100)]
    assert None not in cuts and cuts == sorted(cuts) and cuts[0] < cuts[-1]  # type: ignore[type-var, operator]
    found = reader.scan(note, within=40)
    assert found.mentions and found.mentions == [
        mention for mention in reader.scan(note).mentions if mention.start < found.mentions[-1].end
    ]


def test_time_enough_reads_all(reader: NoteReader) -> None:
    note = "폐렴 의심, 기침 없음. " * 10
    assert reader.scan(note, within=3600) == reader.scan(note)
    assert reader.scan(note).cut is None and len(reader.read(note, within=3600)) == 20


def test_a_cut_is_told(reader: NoteReader, ticking: list[float]) -> None:
    with pytest.warns(CutWarning, match=r"up to character [\d,]+ of 50,000.*within"):
        reader.read(NONSENSE, within=5)


def test_a_time_is_above_zero(reader: NoteReader) -> None:
    with pytest.raises(OptionError, match="within is 0"):
        reader.read("폐렴", within=0)


def test_the_work_of_a_whole_note_grows_with_its_length(
    reader: NoteReader, looked_up: list[str]
) -> None:
    def work(note: str) -> int:
        looked_up.clear()
        NoteReader(reader.linker).scan(note)  # which remembers nothing yet
        return sum(map(len, looked_up))

    small, large = work(NONSENSE[:2_000]), work(NONSENSE[:8_000])
    assert large < 4.2 * small


def test_a_text_is_linked_once_a_note(reader: NoteReader, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    link: Callable[..., object] = reader.linker.link

    def counted(mentions: list[str], **options: object) -> object:
        asked.extend(mentions)
        return link(mentions, **options)

    monkeypatch.setattr(reader.linker, "link", counted)
    new = NoteReader(reader.linker)
    mentions = new.read("폐렴, 기침. " * 500)
    assert len(mentions) == 1_000 and sorted(asked) == ["기침", "폐렴"]
    new.read("기침, 폐렴")
    assert len(asked) == 2  # and once for all notes


def test_names_are_found_whole_where_a_long_note_is_cut_into_note_parts(reader: NoteReader) -> None:
    note = "congestive heart failure 있음. 바이러스 폐렴 없음.\n" * 400
    found = [mention.text for mention in reader.read(note)]
    assert found == ["congestive heart failure", "바이러스 폐렴"] * 400


@given(st.text("가a .\n", max_size=12_000))
def test_pieces_are_the_note(note: str) -> None:
    parts = list(note_parts(note))
    assert "".join(part for _, part in parts) == note
    assert all(note.startswith(part, at) for at, part in parts)


@given(st.lists(st.tuples(st.integers(0, 30), st.integers(1, 9)), max_size=20))
def test_the_longest_are_kept_as_if_compared_in_pairs(places: list[tuple[int, int]]) -> None:
    spans = [MentionSpan(start, start + length, "", "") for start, length in places]
    kept: list[MentionSpan] = []
    for one in sorted(spans, key=lambda one: (one.start - one.end, one.start)):
        if all(one.end <= other.start or other.end <= one.start for other in kept):
            kept.append(one)
    assert longest(spans, 40) == sorted(kept, key=lambda one: one.start)


def test_the_command_says_where_it_stopped(run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "note.txt").write_text("폐렴 의심. " * 20_000, "utf-8")
    done = run_here(
        "notes", "read", "sample", "note.txt", "--spelling", "--within", "1ms", "-f", "mentions"
    )
    assert done.returncode == 0 and "read up to character" in done.stderr
    assert "of 140,000" in done.stderr and "--within" in done.stderr
    assert all(json.loads(line)["mention"] == "폐렴" for line in done.stdout.splitlines())
