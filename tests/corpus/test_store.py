"""One suite over every store of documents: what is written is there, whole, and can be found."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from malmoi.corpus import (
    Corpus,
    Document,
    Filter,
    PassageKey,
    Progress,
    Store,
    StoredDocument,
    StoreInfo,
    SyncedFile,
)
from malmoi.corpus.filters import GroupFilter
from malmoi.corpus.groups import GroupStore
from malmoi.corpus.milvus import MilvusStore
from malmoi.corpus.sqlite import SqliteStore
from malmoi.corpus.store import PassageVectors, passage_digest
from malmoi.documents import Passage
from malmoi.errors import DataError, OptionError

DIM = 32
# A store joins the suite by a line here: a function from a folder and its About to an open store.
STORES: dict[str, Callable[[Path, StoreInfo], Store]] = {
    "sqlite": lambda folder, about: SqliteStore(folder / "x.malmoi", create=lambda: about),
    "sqlite-hnsw": lambda folder, about: SqliteStore(
        folder / "x.malmoi", create=lambda: about, engine="hnsw"
    ),
    "milvus-lite": lambda folder, about: MilvusStore(f"milvus:{folder}/x.db", create=lambda: about),
}
MILVUS = find_spec("pymilvus") and find_spec("milvus_lite")
MARKS = {
    "milvus-lite": (
        pytest.mark.cluster,
        pytest.mark.skipif(not MILVUS, reason="milvus-lite is not installed"),
    )
}
Make = Callable[..., Store]


@pytest.fixture(params=[pytest.param(name, marks=MARKS.get(name, ())) for name in STORES])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Make]:
    """Open the store of this test's folder; again, if it has been opened before."""
    if request.param == "milvus-lite":
        request.getfixturevalue("impatient_milvus")
    opened: list[Store] = []

    def call(**fields: object) -> Store:
        about = StoreInfo(**{"model": "none", "dimension": DIM, "words": "bigrams"} | fields)  # type: ignore[arg-type]
        opened.append(STORES[request.param](tmp_path, about))
        return opened[-1]

    yield call
    for store in opened:
        store.close()


def unit(seed: int) -> NDArray[np.float32]:
    drawn = np.random.default_rng(seed).standard_normal(DIM)
    made: NDArray[np.float32] = (drawn / np.linalg.norm(drawn)).astype(np.float32)
    return made


def stored(id: str, text: str, seed: int, **metadata: object) -> StoredDocument:
    return StoredDocument(Document(id, text, metadata), unit(seed))  # type: ignore[arg-type]


def some() -> list[StoredDocument]:
    return [
        stored("a", "배송은 언제 되나요", 1, year=2023, tags=["배송", "시간"]),
        stored("b", "비밀번호를 잊었어요", 2, year=2024, kind="account"),
        stored("c", "When will the parcels arrive?", 3, year="2024"),
        stored("d", "배송지를 바꾸고 싶어요", 4),
    ]


def ids(found: list[object]) -> list[str]:
    return [one.id for one in found]  # type: ignore[attr-defined]


def test_what_is_written_is_there(make: Make) -> None:
    store = make()
    store.write(some())
    assert len(store) == 4
    found = store.get(["b", "none", "a"])
    assert found["a"] == some()[0].document
    assert set(found) == {"a", "b"}
    assert ids(store.vector_search(unit(3), 2))[0] == "c"
    assert store.vector_search(unit(3), 1)[0].score == pytest.approx(1, abs=1e-5)
    assert ids(store.keyword_search(["배송"], 9)) in (["a", "d"], ["d", "a"])
    assert [one.document.id for one in store.scan()] == ["a", "b", "c", "d"]
    assert store.fields() == ["kind", "tags", "year"]
    assert len(store.sample(3)) == 3


def test_keyword_candidates_are_those_of_the_search(make: Make) -> None:
    store = make()
    store.write([stored(f"d{i}", "배송 " + "안내 " * i, i) for i in range(6)])
    every = store.keyword_search(["배송"], 9)
    assert len(every) == 6
    keys = {every[4].key, every[5].key, PassageKey("none", 0)}
    found = store.keyword_candidates(["배송"], 2, keys, depth=5)
    assert found == [*every[:2], every[4]]
    assert store.keyword_candidates(["없다"], 2, keys, depth=5) == []


def test_english_words_are_stemmed(make: Make) -> None:
    store = make()
    store.write(some())
    assert ids(store.keyword_search(["parcel"], 5)) == ["c"]
    assert ids(store.keyword_search(["arriving"], 5)) == ["c"]
    assert store.keyword_search([], 5) == []
    assert store.keyword_search(['"', "NEAR", "*"], 5) == []


def test_replaced_and_deleted(make: Make) -> None:
    store = make()
    store.write(some())
    store.write([stored("a", "환불 규정", 9, year=2030)])
    assert len(store) == 4
    assert ids(store.keyword_search(["환불"], 5)) == ["a"]
    assert ids(store.keyword_search(["배송"], 5)) == ["d"]
    assert (
        "a" not in ids(store.vector_search(unit(1), 1))
        or store.vector_search(unit(1), 1)[0].score < 0.9
    )
    assert ids(store.vector_search(unit(9), 1)) == ["a"]
    assert store.vector_search(unit(9), 4, filters=[Filter("year", "=", 2023)]) == []
    assert store.delete(["a", "none"]) == 1
    assert len(store) == 3
    assert store.keyword_search(["환불"], 5) == []
    assert "a" not in ids(store.vector_search(unit(9), 4))


def test_write_modes(make: Make) -> None:
    store = make()
    store.write(some()[:2], mode="insert")
    with pytest.raises(DataError, match="1 of 2 ids is in the corpus already"):
        store.write([some()[1], some()[2]], mode="insert")
    with pytest.raises(DataError, match="1 of 2 ids is not in the corpus"):
        store.write([some()[1], some()[2]], mode="update")
    with pytest.raises(DataError, match="1 different id;"):
        store.write([some()[2], some()[2]], mode="insert")
    assert len(store) == 2
    store.write([some()[2], stored("c", "나중 것", 8)])
    assert store.get(["c"])["c"].text == "나중 것"


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        (["year=2024"], "bc"),
        (["year>=2024"], "bc"),
        (["year<2024"], "a"),
        (["year!=2024"], "ad"),
        (["tags=시간"], "a"),
        (["year=2024", "kind=account"], "b"),
        (["kind=nothing"], ""),
        (["kind>a"], "b"),
    ],
)
def test_filters(make: Make, conditions: list[str], expected: str) -> None:
    store = make()
    store.write(some())
    filters = [Filter.parse(one) for one in conditions]
    assert sorted(ids(store.vector_search(unit(1), 9, filters=filters))) == list(expected)
    assert sorted(ids(store.vector_search(unit(1), 9, filters=filters, exact=True))) == list(
        expected
    )
    fitting = {
        one.document.id for one in some() if all(f.fits(one.document.metadata) for f in filters)
    }
    assert fitting == set(expected)
    words = {"배송", "비밀", "parcel"} & {"배송", "비밀", "parcel"}
    assert set(ids(store.keyword_search(sorted(words), 9, filters=filters))) == set(expected)


def test_unknown_fields_are_refused_by_the_corpus(make: Make) -> None:
    store = make()
    store.write(some())
    with pytest.raises(OptionError, match="'jahr'; the documents have kind, tags, year"):
        Corpus(store).search("배송", mode="keyword", filter="jahr=2024")
    filters = [Filter("jahr", "=", 2024)]  # a store itself just finds no document that has it
    assert store.vector_search(unit(1), 3, filters=filters) == []
    assert store.keyword_search(["배송"], 3, filters=filters) == []


def test_vectors_of_known_texts(make: Make) -> None:
    store = make()
    store.write(some())
    known, new = (passage_digest("", Passage(text)) for text in ("배송은 언제 되나요", "nothing"))
    found = store.vectors_for([known, new])
    assert list(found) == [known]
    assert np.allclose(found[known].vectors, unit(1))


def test_token_vectors_last(make: Make) -> None:
    about = "layer_4 64 " + "x" * 70_000  # longer than one text of Milvus
    store = make(tokens=about)
    packed = bytes(range(256))
    two = passages("a", "배송 안내", "환불 규정").with_vectors(
        [PassageVectors(unit(1)[None], packed), PassageVectors(unit(2)[None], b"")]
    )
    store.write([two])
    store.close()
    again = make(tokens=about)
    assert again.about.tokens == about
    keys = [PassageKey("a", 0), PassageKey("a", 1), PassageKey("none")]
    assert again.tokens_of(keys) == {keys[0]: packed, keys[1]: b""}
    [scanned] = again.scan()
    assert scanned.tokens == (packed, b"")
    [known] = again.vectors_for([two.passage_digests[0]]).values()
    assert known.tokens == packed
    again.delete(["a"])
    assert again.tokens_of(keys) == {}


@pytest.mark.parametrize("precision", ["float32", "int8", "binary"])
def test_it_lasts(make: Make, precision: str) -> None:
    from malmoi.runtime.pooling import to_precision

    store = make(precision=precision)
    batch = [
        StoredDocument(Document(str(i), f"문서 {i}"), to_precision(unit(i)[None], precision)[0])
        for i in range(300)
    ]
    store.write(batch, progress=Progress("x.txt", "f", 300))
    store.flush()
    store.delete(["7"])
    store.close()
    again = make(precision=precision)
    assert again.about.precision == precision
    assert len(again) == 299
    assert ids(again.vector_search(unit(8), 1)) == ["8"]
    assert "7" not in ids(again.vector_search(unit(7), 20))
    if again.progress("x.txt") is not None:
        assert again.progress("x.txt") == Progress("x.txt", "f", 300)
    assert again.progress("y.txt") is None


def test_two_at_once_see_each_other(make: Make) -> None:
    writer, reader = make(), make()
    for i in range(30):
        writer.write([stored(str(i), f"문서{i}", i)])
        assert ids(reader.vector_search(unit(i), 1)) == [str(i)]
        assert len(reader) == i + 1
    writer.delete(["3"])
    assert "3" not in ids(reader.vector_search(unit(3), 30))


def test_an_empty_store_finds_nothing(make: Make) -> None:
    store = make()
    assert store.vector_search(unit(1), 3) == []
    assert store.keyword_search(["배송"], 3) == []
    assert list(store.scan()) == []
    store.write([])
    store.flush()
    assert len(store) == 0


def passages(
    id: str, *texts: str, seed: int = 0, file: str = "/f", digest: str = ""
) -> StoredDocument:
    """A document of several passages, each with its own vector and one of a sentence."""
    own = tuple(
        Passage(text, ("Top", f"part {i}"), i + 1, ((0, len(text)),))
        for i, text in enumerate(texts)
    )
    vectors = tuple(
        np.stack([unit(seed + 2 * i), unit(seed + 2 * i + 1)]) for i in range(len(texts))
    )
    document = Document(id, "", {"year": 2024}, "Title", f"docs/{id}", "pdf", 12.5)
    return StoredDocument(document, own, vectors, file, digest)


def test_passages_of_a_document(make: Make) -> None:
    store = make()
    store.write([passages("hr/a.pdf", "배송 안내", "환불 규정", seed=10), *some()[1:]])
    assert (len(store), store.passage_count()) == (4, 5)
    [best, *_] = store.vector_search(unit(13), 2)
    # The second passage by its sentence: half of the score is its own vector's.
    assert (best.id, best.number, best.best) == ("hr/a.pdf", 1, 1)
    assert best.score == pytest.approx((1 + float(unit(12) @ unit(13))) / 2, abs=1e-5)
    assert store.vector_scores(unit(13), [best.key, PassageKey("none", 3)]) == [best]
    assert [one.key for one in store.keyword_search(["환불"], 5)] == [("hr/a.pdf", 1)]
    found = store.passages([PassageKey("hr/a.pdf", 1), PassageKey("hr/a.pdf", 7)])
    [(key, one)] = found.items()
    assert key == ("hr/a.pdf", 1)
    assert one.passage == Passage("환불 규정", ("Top", "part 1"), 2, ((0, 5),))
    assert (one.document.title, one.document.source, one.document.modified) == (
        "Title",
        "docs/hr/a.pdf",
        12.5,
    )
    assert store.get(["hr/a.pdf"])["hr/a.pdf"].text == "배송 안내\n\n환불 규정"
    assert [(one.document.id, one.passages) for one in store.documents()] == [
        ("b", 1),
        ("c", 1),
        ("d", 1),
        ("hr/a.pdf", 2),
    ]
    assert [one.document.id for one in store.documents(after="b", limit=2)] == ["c", "d"]
    # What files are filtered by, besides their metadata.
    for condition in ("type=pdf", "folder=hr", "year=2024"):
        filters = [Filter.parse(condition)]
        assert "hr/a.pdf" in ids(store.vector_search(unit(10), 9, filters=filters))
        assert ids(store.keyword_search(["배송", "환불"], 9, filters=filters)) == ["hr/a.pdf"] * 2
    again = make()
    assert [len(one.passages) for one in again.scan()] == [2, 1, 1, 1]


def test_replaced_by_fewer_passages(make: Make) -> None:
    store = make()
    store.write([passages("a", "하나", "둘은", "셋은", seed=10)])
    store.write([passages("a", "하나", seed=50)])
    assert store.passage_count() == 1
    assert store.keyword_search(["둘은", "셋은"], 9) == []
    assert [one.key for one in store.vector_search(unit(12), 9)] == [("a", 0)]
    assert store.delete(["a"]) == 1 and store.passage_count() == 0
    assert store.check() == []


def test_files_and_their_documents(make: Make) -> None:
    store = make()
    file = SyncedFile("/docs/t.csv", "/docs", "t.csv", "12 34")
    rows = [passages(f"t.csv#{i}", f"행 {i}", file=file.path, digest=f"d{i}") for i in range(3)]
    store.write(rows, files=[file])
    store.write([passages("other", "다른")])
    assert store.files() == {file.path: file}
    assert store.file_documents(file.path) == {f"t.csv#{i}": f"d{i}" for i in range(3)}
    assert store.digests(["t.csv#1", "none"]) == {"t.csv#1": "d1"}
    store.write([rows[0]], delete=["t.csv#2"], files=[replace(file, fingerprint="new")])
    assert store.files()[file.path].fingerprint == "new"
    assert set(store.file_documents(file.path)) == {"t.csv#0", "t.csv#1"}
    assert store.remove_files([file.path, "/none"]) == 2
    assert (len(store), store.files()) == (1, {})


def test_the_best_keyword_score_is_not_reached(make: Make) -> None:
    store = make()
    store.write(some())
    words = ["배송", "비밀", "없는"]
    [best, *_] = store.keyword_search(words, 1)
    assert 0 < best.score < store.best_keyword_score(words)
    assert store.best_keyword_score([]) == 0


def test_a_code_decides_whatever_stands_around_it(tmp_path: Path) -> None:
    about = StoreInfo("none", DIM, words="bigrams")
    with contextlib.closing(SqliteStore(tmp_path / "x", create=lambda: about)) as store:
        store.write([*some(), stored("e", "내선 4410 번호", 5)])
        alone = store.best_keyword_score(["4410"])
        assert store.best_keyword_score(["없는", "4410", "배송"]) == alone > 0
        assert store.best_keyword_score(["없는", "9999", "배송"]) > alone


def test_groups_see_their_documents_and_those_of_nobody(make: Make) -> None:
    """Whatever is asked of a store of some groups, what others may see is not there."""
    store, rng = make(), np.random.default_rng(0)
    names = ["hr", "board", "2024"]
    documents = [
        stored(f"d{i}", f"연차 규정 boat {i}", i, year=i % 3)
        if not (own := [name for name in names if rng.random() < 0.3])
        else stored(f"d{i}", f"연차 규정 boat {i}", i, year=i % 3, groups=own, secret=own[0])
        for i in range(60)
    ]
    store.write(documents)
    words, more = store.query_terms("boat 규정")
    for groups in ([], ["hr"], ["board", "2024"], ["nobody"]):
        seen = GroupStore(store, GroupFilter.of(groups))
        own = {
            one.document.id
            for one in documents
            if not one.document.metadata.get("groups")
            or {*one.document.metadata["groups"]} & {*groups}  # type: ignore[misc]
        }
        keys = [PassageKey(f"d{i}") for i in range(60)]
        assert len(seen) == seen.passage_count() == len(own)
        assert {one.document.id for one in seen.documents()} == own
        assert {one.document.id for one in seen.scan()} == own
        assert {*seen.get([f"d{i}" for i in range(60)])} == own
        assert {*seen.digests([f"d{i}" for i in range(60)])} == own
        assert {key.document for key in seen.passages(keys)} == own
        assert {one.id for one in seen.vector_search(unit(7), 60)} == own
        assert {one.id for one in seen.vector_scores(unit(7), keys)} == own
        assert {one.id for one in seen.keyword_search([*words, *more], 60)} == own
        found = seen.keyword_candidates([*words, *more], 60, keys, depth=60)
        assert {one.id for one in found} == own
        year = [Filter("year", "=", 1)]
        both = {id for id in own if int(id[1:]) % 3 == 1}
        assert {one.id for one in seen.vector_search(unit(7), 60, filters=year)} == both
        assert seen.count(year) == (len(both), len(both))
        assert ("secret" in seen.fields()) == any(
            "secret" in one.document.metadata for one in documents if one.document.id in own
        )
        assert len(seen.sample(99)) == len(own) and not seen.files()
    hidden = next(one.document.id for one in documents if "groups" in one.document.metadata)
    with pytest.raises(DataError, match="ids are taken"):
        GroupStore(store, GroupFilter.of([])).write([stored(hidden, "mine", 1)])
    writer = GroupStore(store, GroupFilter.of(["hr"]))
    writer.write([stored("new", "새 글", 99)])
    assert store.get(["new"])["new"].metadata == {"groups": ["hr"]}
    assert not GroupStore(store, GroupFilter.of(["board"])).get(["new"])
