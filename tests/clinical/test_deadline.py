"""Long notes: work grows with their length, a deadline is kept, and an answer says it was cut."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from malmoi.clinical import mentions as deadline
from malmoi.clinical.mentions import MentionSpan, longest, note_parts
from malmoi.clinical.reader import NoteReader
from malmoi.errors import CutWarning, OptionError
from malmoi.terms import Linker
from tests.support.graphs import Run
from tests.support.lexicons import open_lexicon

NONSENSE = "가a나b다c라d" * 6_250  # 50,000 letters without a space: every one begins a word
PORTION = 10_000  # letters that may be looked up between two looks at the clock


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> NoteReader:
    return NoteReader(Linker(open_lexicon(tmp_path_factory.mktemp("deadline"))))


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
    done = run_here("link", "sample", "--note", "note.txt", "--spelling", "--within", "1ms")
    assert done.returncode == 0 and "read up to character" in done.stderr
    assert "of 140,000" in done.stderr and "--within" in done.stderr
    assert all(json.loads(line)["mention"] == "폐렴" for line in done.stdout.splitlines())
