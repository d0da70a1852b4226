"""Fusion of keyword and vector search, and both on the documents of a company."""

from collections import Counter

import pytest

import malmoi
from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.corpus.corpus import MODES
from malmoi.corpus.ranking import fuse
from malmoi.corpus.store import ScoredPassage
from malmoi.errors import OptionError
from tests.support.company import QUESTIONS, Question, write_folder


def test_fusion_adds_scores_not_ranks() -> None:
    dense = [
        ScoredPassage("a", 0.61),
        ScoredPassage("b", 0.60),
        ScoredPassage("c", 0.2),
        ScoredPassage("d", 0.2),
    ]
    found = fuse("고양이", dense, [ScoredPassage("b", 3.0), ScoredPassage("c", 0.5)], best=5.0)
    assert [one.id for one in found[:2]] == ["b", "a"]
    # Words that hardly cover the query do not count.
    found = fuse("고양이", dense, [ScoredPassage("b", 3.0), ScoredPassage("c", 0.5)], best=50.0)
    assert [one.id for one in found[:2]] == ["a", "b"]
    assert fuse("고양이", [], [], best=0) == []
    with pytest.raises(OptionError):
        fuse("고양이", dense, [], {"dense": 0}, best=1.0)


def test_one_passage_that_has_the_identifier_wins() -> None:
    dense = [ScoredPassage(str(i), 0.6 - i / 1000, hangul=90) for i in range(100)]
    [first, *_] = fuse("PAY-5031이 나와요", dense, [ScoredPassage("77", 9.0)], best=20.0)
    assert first.id == "77"


def test_a_passage_in_the_other_language_has_no_words_to_share() -> None:
    korean = [ScoredPassage(str(i), 0.3 + i / 100, hangul=95) for i in range(20)]
    words = [ScoredPassage("18", 4.0), ScoredPassage("3", 1.0)]
    for hangul, first in ((0, "right"), (95, "18")):
        # In the query's language the right passage would have had its words.
        right = ScoredPassage("right", 0.55, hangul=hangul)
        assert fuse("비밀번호 길이", [*korean, right], words, best=10.0)[0].id == first


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> malmoi.Corpus:
    if DEFAULT not in shipped_models():
        pytest.skip(f"the model {DEFAULT} is not in this checkout")
    folder = tmp_path_factory.mktemp("company")
    corpus = malmoi.Corpus.open(folder / "x.malmoi", malmoi.load())
    report = corpus.sync(write_folder(folder / "docs"))
    assert (report.written, report.failed) == (24, ())
    return corpus


def is_right(corpus: malmoi.Corpus, question: Question, mode: str) -> bool:
    hits = corpus.search(question.text, 1, mode=mode)  # type: ignore[arg-type]
    return bool(hits) and hits[0].document == question.file and question.answer in hits[0].text


def test_hybrid_is_not_behind_either_side(corpus: malmoi.Corpus) -> None:
    right: Counter[tuple[str, str]] = Counter()
    for question in QUESTIONS:
        for mode in MODES:
            right[mode, question.kind] += is_right(corpus, question, mode)
    of = {mode: sum(n for (own, _), n in right.items() if own == mode) for mode in MODES}
    assert of["hybrid"] >= max(of["dense"], of["keyword"])  # dense compares token vectors too
    # A question more or less is chance.
    for kind in dict.fromkeys(question.kind for question in QUESTIONS):
        better = max(right["dense", kind], right["keyword", kind])
        assert right["hybrid", kind] >= better - 1, kind


def test_compounds_whose_parts_stand_apart(corpus: malmoi.Corpus) -> None:
    for query, file in (
        ("택시비", "재무/경비 처리.md"),
        ("호텔비", "출장/해외 출장.md"),
        ("방수등급 IP65", "제품/MX-420 사양.md"),
        ("비자", "출장/해외 출장.md"),
    ):
        assert corpus.search(query, 1)[0].document == file
        assert file in {hit.document for hit in corpus.search(query, 3, mode="keyword")}
