"""Names of the shipped tables beside a lexicon's own, and where derived files are kept."""

import os
from pathlib import Path

import numpy as np
import pytest

from malmoi.terms import Lexicon, Linker, build_lexicon, lay_names
from malmoi.terms.cache import NO_CACHE, DerivedCache, cache_folder, cache_of
from malmoi.terms.lay_names import add_lay_names
from malmoi.terms.normalize import Normalizer, Variants
from tests.support.lexicons import HashingEncoder, open_lexicon, write_lexicon

KCD = """code\tkind\tko\ten
A05\theadword\t달리 분류되지 않은 기타 세균성 음식매개중독\tOther bacterial foodborne intoxications
A05.9\theadword\t상세불명의 세균성 음식매개중독\tBacterial foodborne intoxication, unspecified
A00\theadword\t콜레라\tCholera
G12.2\theadword\t운동신경세포병\tMotor neuron disease
M75.0\theadword\t어깨의 유착성 관절낭염\tAdhesive capsulitis of shoulder
J18\theadword\t상세불명 병원체의 폐렴\tPneumonia, organism unspecified
J18.9\theadword\t상세불명의 폐렴\tPneumonia, unspecified
I10\theadword\t본태성(원발성) 고혈압\tEssential(primary) hypertension
"""
OTHER = "code\tko\nA05\t의자\nA00\t책상\nG12.2\t창문\nI10\t전화기\n"


@pytest.fixture(autouse=True)
def _cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def built(folder: Path, table: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "table.tsv").write_text(table, "utf-8")
    build_lexicon([folder / "table.tsv"], folder / "own.lexicon")
    return folder / "own.lexicon"


@pytest.fixture(scope="module")
def kcd(tmp_path_factory: pytest.TempPathFactory) -> Linker:
    return Linker(built(tmp_path_factory.mktemp("kcd"), KCD))


def normal() -> Normalizer:
    return Normalizer(Variants.open())


@pytest.mark.parametrize(
    ("mention", "code"),
    [
        ("식중독", "A05"),
        ("루게릭병", "G12.2"),
        ("루게릭병증", "G12.2"),  # near such a name
        ("오십견", "M75.0"),
        ("호열자", "A00"),
        ("근위축측삭경화증", "G12.2"),
        (
            "근 위축 측삭 경화증",
            "G12.2",
        ),  # spaces decide which endings are taken off, not what is meant
        ("폐렴", "J18.9"),  # the table's own word for it
    ],
)
def test_what_people_say_is_found_in_a_table_that_lacks_it(
    kcd: Linker, mention: str, code: str
) -> None:
    first = kcd.link(mention).best
    assert first is not None and first.code == code


def test_another_spelling_of_shock_is_the_same_word() -> None:
    for one, other in (("심장성 쇽", "심장성 쇼크"), ("아나필락시스쇽", "아나필락시스쇼크")):
        assert normal().form(one).core == normal().form(other).core


def test_the_lexicon_itself_stays_as_it_is(kcd: Linker) -> None:
    assert kcd.lexicon.folder is not None
    assert len(kcd.names) > len(kcd.lexicon) == len(Lexicon.open(kcd.lexicon.folder))
    kcd.lexicon.verify()
    assert not kcd.lexicon.find("식중독") and kcd.names.find("식중독")
    shown = kcd.link("식중독").best
    assert shown is not None and shown.ko == "달리 분류되지 않은 기타 세균성 음식매개중독"


def test_codes_of_another_kind_are_not_taken_for_icd(tmp_path: Path) -> None:
    linker = Linker(built(tmp_path, OTHER))
    assert linker.names is linker.lexicon


def test_a_table_of_the_users_own_leaves_the_shipped_names_out(tmp_path: Path) -> None:
    (tmp_path / "own.tsv").write_text("물병\t콜레라\n", "utf-8")
    linker = Linker(built(tmp_path, KCD), synonyms=tmp_path / "own.tsv")
    assert linker.names is linker.lexicon
    first = linker.link("물병").best
    assert first is not None and first.code == "A00"


def test_the_second_start_opens_what_the_first_has_kept(tmp_path: Path) -> None:
    folder = built(tmp_path, KCD)
    first = Linker(folder, HashingEncoder())
    made = {p: p.stat().st_mtime_ns for p in (folder / "linking").rglob("*") if p.is_file()}
    again = Linker(folder, HashingEncoder())
    assert made == {p: p.stat().st_mtime_ns for p in (folder / "linking").rglob("*") if p.is_file()}
    assert again.link("식중독") == first.link("식중독")
    assert again.names.segments[-1].folder == folder / "linking" / "companion"


def test_nothing_is_written_without_leave(tmp_path: Path) -> None:
    folder = built(tmp_path, KCD)
    assert Linker(folder, HashingEncoder(), keep=False).link("오십견").best
    assert not (folder / "linking").exists() and not (tmp_path / "cache").joinpath("x").exists()


def test_the_shipped_sample_is_kept_in_the_cache_for_every_model(tmp_path: Path) -> None:
    for name, size in (("words", 64), ("other", 32)):
        Linker("sample", HashingEncoder(name, size))
    kept = list((tmp_path / "cache" / "malmoi" / "linking").rglob("codes.npy"))
    assert sorted(np.load(path).shape[1] for path in kept) == [32, 64]
    times = [path.stat().st_mtime_ns for path in kept]
    Linker("sample", HashingEncoder())
    assert times == [path.stat().st_mtime_ns for path in kept]


def test_a_closed_folder_is_read_and_the_cache_written(tmp_path: Path) -> None:
    folder = tmp_path / "lexicon" / "linking"
    cache = DerivedCache(folder, tmp_path / "cache", writable=False)
    cache.store("vectors", {"a": 1}, lambda folder: None, cached="vectors-x")
    assert cache.find("vectors", {"a": 1}, cached="vectors-x") == tmp_path / "cache" / "vectors-x"
    assert not folder.exists()
    DerivedCache(folder, None, writable=True).store(
        "vectors", {"a": 1, "b": 2}, lambda folder: None
    )
    assert cache.find("vectors", {"a": 1}, cached="vectors-x") == folder / "vectors"
    assert cache.find("vectors", {"a": 2}, cached="vectors-x") is None


def test_where_nothing_can_be_kept_nothing_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    NO_CACHE.store("x", {}, lambda folder: pytest.fail("written"))
    (tmp_path / "file").write_text("no folder")
    DerivedCache(tmp_path / "file", None, writable=True).store("x", {}, lambda folder: None)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert os.name == "nt" or cache_folder() is None
    monkeypatch.setenv("XDG_CACHE_HOME", "here")
    assert os.name == "nt" or cache_folder() is None


def test_names_in_memory_have_no_place(tmp_path: Path) -> None:
    lexicon = open_lexicon(tmp_path)
    memory = Lexicon(lexicon.segments, manifest=lexicon.manifest)
    assert cache_of(memory) == NO_CACHE
    assert len(add_lay_names(memory, normal(), NO_CACHE)) > len(memory)


def test_after_an_edited_table_only_new_names_are_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []

    class Counting(HashingEncoder):
        def encode(self, texts: list[str], **options: object) -> object:
            encoded.extend(texts)
            return super().encode(texts, **options)

    folder = write_lexicon(tmp_path)
    before = Linker(folder, Counting())
    assert set(encoded) == {text for one in before.indexes for text in one.segment.texts}
    table = tmp_path / "clinical.tsv"
    table.write_text("code\tnames\nJ18.9\t폐에 난 염증\n", "utf-8")
    monkeypatch.setattr(lay_names, "_TABLES", (*lay_names._TABLES, table))
    encoded.clear()
    after = Linker(folder, Counting())
    assert set(encoded) == {"폐에 난 염증"} and len(after.names) > len(before.names)
    for one, other in zip(before.indexes, after.indexes, strict=True):
        texts, vectors = list(other.segment.texts), other.vectors
        assert one.vectors is not None and vectors is not None
        rows = [texts.index(text) for text in one.segment.texts]
        assert (vectors.codes[rows] == one.vectors.codes).all()
    encoded.clear()
    Linker(folder, Counting(), rebuild=True)
    assert len(encoded) == len(after.names)
