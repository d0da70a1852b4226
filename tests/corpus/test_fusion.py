"""Both sides of a search together are no worse than the better one, on documents of a company."""

from collections import Counter

import pytest

import malmoi
from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.corpus.corpus import MODES
from tests.support.company import QUESTIONS, Question, write_folder

pytestmark = pytest.mark.skipif(
    DEFAULT not in shipped_models(), reason=f"the model {DEFAULT} is not in this checkout"
)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> malmoi.Corpus:
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
    assert of["hybrid"] > max(of["dense"], of["keyword"])
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
