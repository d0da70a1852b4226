"""Late interaction: token vectors of passages are stored, searched and explained."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi import Corpus
from malmoi.corpus.ingest import copy_corpus, upgrade_corpus
from malmoi.corpus.sqlite import SqliteStore
from malmoi.corpus.store import PassageKey
from malmoi.encoders.token_vectors import TokenEncoder, TokenMap, interact, pack, unpack
from malmoi.errors import CorpusError, OptionError
from tests.support import graphs

TEXTS = ["배를 타고 바다", "고양이 잔다", "the cat sleeps", "diabetes nephropathy", "당뇨 신증"]


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> malmoi.Encoder:
    folder = tmp_path_factory.mktemp("late") / "tiny"
    return malmoi.load(graphs.write_bundle(folder, states=True))  # type: ignore[return-value]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "x.malmoi"


@pytest.fixture
def corpus(path: Path, encoder: malmoi.Encoder) -> Iterator[Corpus]:
    with Corpus.open(path, encoder, words="bigrams") as opened:
        opened.add({"id": str(i), "text": text, "n": i} for i, text in enumerate(TEXTS))
        yield opened


def test_passages_keep_the_tokens_that_mean_something(corpus: Corpus) -> None:
    tokens = corpus.token_encoder
    assert tokens is not None
    kept = corpus.store.tokens_of([PassageKey(str(i)) for i in range(9)])
    assert len(kept) == 5
    assert len(kept[PassageKey("2")]) == 3 * tokens.size // 2
    [vector] = corpus.vectors_of([TEXTS[2]], query=False)
    [stored] = [one for one in corpus.store.scan() if one.document.id == "2"]
    assert np.allclose(stored.vector, vector, atol=1e-6)
    assert len(stored.vectors[0]) == 1  # none of sentences


def test_search_compares_words_and_says_which_met(corpus: Corpus) -> None:
    [hit] = corpus.search("cat", 1)
    assert hit.id == "2"
    assert set(hit.scores) == {"dense", "keyword", "late", "fused"}
    assert hit.scores["late"] == pytest.approx(1, abs=0.05)
    [match] = hit.matches
    assert "cat"[slice(*match.query)] == hit.text[slice(*match.passage)] == "cat"
    assert corpus.search("cat", 1, mode="dense")[0].score == hit.scores["late"]
    assert not corpus.search("cat", 1, mode="keyword")[0].matches
    [plain] = corpus.search("cat", 1, late=False)
    assert (plain.id, plain.matches) == ("2", ())
    assert "late" not in plain.scores
    assert not corpus.search("cat", 1, explain=False)[0].matches
    [group] = corpus.search_documents("cat", 1)
    assert group.hits[0].matches == hit.matches


def test_matches_are_places_in_the_text_as_it_is_stored(
    path: Path, encoder: malmoi.Encoder
) -> None:
    with Corpus.open(path, encoder, words="bigrams") as corpus:
        corpus.add([{"id": "a", "text": "the\u200b  ＣＡＴ cat", "title": "dog"}])
        [hit] = corpus.search("cat dog", 1)
        assert [hit.text[slice(*one.passage)] for one in hit.matches] == ["cat"]


def test_windows_cover_what_is_longer_than_the_model_reads(encoder: malmoi.Encoder) -> None:
    tokens = TokenEncoder.fit(encoder, TEXTS)
    assert tokens is not None
    text = " ".join(["cat", "dog", "sea", "boat"] * 10)
    [vector], [found] = tokens.encode_both([text])
    assert [text[slice(*span)] for span in found.spans] == text.split()
    assert np.allclose(vector, encoder.encode(text, on_long="windows"), atol=1e-6)
    assert tokens.spans([text]) == [list(found.spans)]


def test_signs_alone_are_kept(encoder: malmoi.Encoder) -> None:
    tokens = TokenEncoder.fit(encoder, TEXTS)
    assert tokens is not None
    assert tokens.encode([""])[0].vectors.shape == (0, tokens.size)
    assert TokenMap.from_text(tokens.map.to_text()).size == tokens.size


def test_a_map_that_cannot_be_read() -> None:
    with pytest.raises(CorpusError.__mro__[1], match="map of token vectors"):
        TokenMap.from_text("layer_4 64 abc")


def test_packed_vectors_score_as_they_were() -> None:
    drawn = np.random.default_rng(0).standard_normal((9, 64)).astype(np.float32)
    unit = drawn / np.linalg.norm(drawn, axis=1, keepdims=True)
    met = interact(unit[:2], [pack(unit[:4]), pack(unit[4:])])
    exact = interact(unit[:2], [pack(unit[:4]), pack(unit[4:])])
    assert np.allclose(met.scores, exact.scores)
    assert met.best[:, 0] == pytest.approx([1, 1], abs=0.02)
    assert (unpack(pack(unit)) * unit).sum(axis=1).min() > 0.98


def test_deleted_and_copied_with_their_documents(corpus: Corpus, path: Path) -> None:
    corpus.delete("2")
    assert PassageKey("2") not in corpus.store.tokens_of([PassageKey("2"), PassageKey("1")])
    copy_corpus(path, path.with_name("y.malmoi"))
    with Corpus.open(path.with_name("y.malmoi"), corpus.encoder) as copy:
        key = PassageKey("1")
        assert copy.store.tokens_of([key]) == corpus.store.tokens_of([key])
        assert copy.search("고양이", 1)[0].scores["late"] > 0.9


def test_damage_is_found_and_repaired(corpus: Corpus, path: Path) -> None:
    corpus.close()
    connection = sqlite3.connect(path)
    connection.execute("UPDATE tokens SET tokens = zeroblob(length(tokens)) WHERE row = 3")
    connection.commit()
    connection.close()
    with Corpus.open(path, corpus.encoder) as opened, pytest.raises(CorpusError, match="damaged"):
        opened.search("cat")
    store = SqliteStore(path)
    assert store.check() == ["vectors of 1 passages are not as they were written"]
    done = store.repair(lambda some: Corpus(store, corpus.encoder).encode_passages(some))
    assert (done.documents, done.encoded) == (5, 1)
    with Corpus.open(path, corpus.encoder) as opened:
        assert opened.search("cat", 1)[0].scores["late"] > 0.9
        assert opened.store.check() == []


def test_passages_without_tokens_are_searched_by_their_vectors(corpus: Corpus) -> None:
    corpus.store._connection.execute("DELETE FROM tokens WHERE row = 3")  # type: ignore[attr-defined]
    found = corpus.search("the cat sleeps", 5)
    assert found[0].id == "2"
    assert "late" not in found[0].scores
    corpus.store._connection.execute("DELETE FROM tokens")  # type: ignore[attr-defined]
    assert corpus.search("cat", 1, mode="dense")[0].id == "2"


def test_an_earlier_corpus_is_upgraded(
    path: Path, encoder: malmoi.Encoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr("malmoi.corpus.writer.token_map", lambda encoder: "")
        with Corpus.open(path, encoder, words="bigrams") as corpus:
            corpus.add({"id": str(i), "text": text} for i, text in enumerate(TEXTS))
            assert "late" not in corpus.search("cat", 1)[0].scores
    assert _version(path) == 3
    assert upgrade_corpus(path, encoder) == 5
    assert _version(path) == 4
    assert upgrade_corpus(path, encoder) == 0
    with Corpus.open(path, encoder) as corpus:
        assert corpus.search("cat", 1)[0].scores["late"] > 0.9
        corpus.add([{"id": "new", "text": "the dog"}])
        assert corpus.search("dog", 1)[0].scores["late"] > 0.9
        assert corpus.store.check() == []


def test_only_what_has_states_is_upgraded(path: Path, tmp_path: Path) -> None:
    pooled = malmoi.load(graphs.write_bundle(tmp_path / "pooled"))
    Corpus.open(path, pooled, words="bigrams").close()
    with pytest.raises(CorpusError, match="no states of tokens"):
        upgrade_corpus(path, pooled)


def _version(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        [[version]] = connection.execute("PRAGMA user_version")
    return int(version)


def test_relevance_is_a_share(corpus: Corpus) -> None:
    for options in ({}, {"late": False}, {"mode": "keyword"}, {"mode": "dense"}):
        hits = corpus.search("the cat sleeps", 5, **options)  # type: ignore[arg-type]
        assert hits[0].id == "2"
        assert all(0 < hit.relevance < 1 for hit in hits)
        assert hits[0].relevance == max(hit.relevance for hit in hits)
        few = corpus.search("the cat sleeps", min_relevance=hits[0].relevance, **options)  # type: ignore[arg-type]
        assert [hit.id for hit in few] == ["2"]
    assert corpus.search("cat", min_relevance=1) == []
    with pytest.raises(OptionError, match="min_relevance is 2"):
        corpus.search("cat", min_relevance=2)


def test_the_only_passage_has_a_relevance(path: Path, encoder: malmoi.Encoder) -> None:
    with Corpus.open(path, encoder, words="bigrams") as corpus:
        assert corpus.search("cat") == []
        corpus.add([{"id": "a", "text": "the cat"}])
        assert 0 < corpus.search("cat")[0].relevance < 1


def test_an_encoder_without_states_has_none(path: Path, tmp_path: Path) -> None:
    pooled = malmoi.load(graphs.write_bundle(tmp_path / "pooled"))
    with Corpus.open(path, pooled, words="bigrams") as corpus:
        corpus.add([{"id": "a", "text": "the cat"}])
        assert corpus.store.about.tokens == ""
        assert set(corpus.search("cat", 1)[0].scores) == {"dense", "keyword", "fused"}
        assert corpus.explain("cat", corpus.search("cat", 1))
