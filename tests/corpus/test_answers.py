"""Answers without a model: the sentence, row or item that is nearest to a question."""

import json
from pathlib import Path

import pytest

import malmoi
from malmoi import Corpus
from malmoi.corpus.answers import answer_spans
from malmoi.corpus.samples import TemporaryCorpus
from malmoi.documents import Passage, read_documents
from malmoi.errors import OptionError
from tests.support import graphs
from tests.support.graphs import Run

NOTE = (
    "# 휴가\n\nthe cat sleeps. 배를 타고 바다 간다.\n\n| 일 | 수 |\n|---|---|\n| dog | 고양이 |\n"
)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> malmoi.Encoder:
    folder = tmp_path_factory.mktemp("answers") / "tiny"
    return malmoi.load(graphs.write_bundle(folder, states=True))  # type: ignore[return-value]


@pytest.mark.parametrize("late", [True, False])
def test_the_nearest_sentence_answers(tmp_path: Path, late: bool) -> None:
    encoder = malmoi.load(graphs.write_bundle(tmp_path / "tiny", states=late))
    with Corpus.open(tmp_path / "x.db", encoder, words="bigrams") as corpus:  # type: ignore[arg-type]
        corpus.add([{"id": "a", "text": "the cat sleeps. 배를 타고 바다 간다."}])
        corpus.add([{"id": "b", "text": "diabetes nephropathy. 당뇨 신증 있다."}])
        assert (corpus.token_encoder is not None) == late
        [found] = corpus.answer("cat", threshold=0)
        assert (found.hit.id, found.answer.text) == ("a", "the cat sleeps.")
        assert found.hit.text[found.answer.start : found.answer.end] == found.answer.text
        both = corpus.answer("바다", 2, threshold=0)
        assert {one.hit.id for one in both} == {"a", "b"}
        assert corpus.answer("cat", threshold=1) == []
        with pytest.raises(OptionError, match="k is 0"):
            corpus.answer("cat", 0)


def test_a_document_is_asked_as_it_was_read(tmp_path: Path, encoder: malmoi.Encoder) -> None:
    (tmp_path / "note.md").write_text(NOTE, "utf-8")
    with TemporaryCorpus.new(encoder) as corpus:
        folder = Path(corpus.store.path).parent  # type: ignore[attr-defined]
        assert corpus.add_sources(read_documents(tmp_path / "note.md")) == 1
        [found] = corpus.answer("dog", threshold=0)
        assert found.answer.text == "dog | 고양이"  # not the names of the columns
        assert found.hit.place == str(tmp_path / "note.md")
    assert not folder.exists()


def test_a_row_alone_is_no_header() -> None:
    assert answer_spans(Passage("a | b", sentences=((0, 5),))) == [(0, 5)]
    assert answer_spans(Passage("a")) == [(0, 1)]


def test_the_command_needs_no_model(tmp_path: Path, run: Run, run_here: Run) -> None:
    (tmp_path / "leave.md").write_text(
        "# 휴가 규정\n\n연차는 1년 동안 15일이다. 병가는 진단서를 내면 60일까지 쓸 수 있다.\n",
        "utf-8",
    )
    done = run("answer", "연차는 며칠이나 되나요?", "leave.md")
    assert done.returncode == 0, done.stderr
    row = json.loads(done.stdout)
    assert row["answer"] == "연차는 1년 동안 15일이다." and row["document"] == "leave.md"
    assert 0 < row["relevance"] <= 1 and row["place"] == "leave.md"
    done = run_here("answer", "코끼리는 무엇을 먹나요?", "leave.md")
    assert (done.returncode, done.stdout) == (0, "") and "no sentence answers" in done.stderr
    done = run_here("answer", "연차는 며칠이나 되나요?", "leave.md", "--table")
    assert done.stdout.startswith("연차는 1년 동안 15일이다.\n") and "█" in done.stdout
    done = run_here("answer", "비밀번호를 까먹었어요", "sample")
    assert "비밀번호" in json.loads(done.stdout)["metadata"]["answer"]


def test_the_old_order_of_arguments_is_one_line(tmp_path: Path, run: Run) -> None:
    done = run("answer", "runs/ko-qa/bundle", "복용 간격은?", "leaflet.pdf")
    assert done.returncode == 2 and done.stderr.count("\n") == 1
    assert 'malmoi answer "QUESTION" SOURCE --model MODEL' in done.stderr
