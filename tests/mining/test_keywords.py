"""Keywords: noun phrases without dangling particles, in Korean, English and both."""

from pathlib import Path

import pytest

import malmoi
from malmoi.errors import DataError, OptionError
from malmoi.mining.keywords import STOPWORDS, candidates, keywords, read_stopwords
from tests.support.graphs import Run

pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")

KOREAN = (
    "당뇨병 환자의 혈당 조절은 합병증을 막는 데 중요하다. 혈당 조절이 되지 않으면 신장 기능이 "
    "떨어지고, 당뇨병성 신병증이 생긴다. 환자는 식이 요법과 운동을 함께 해야 한다."
)
ENGLISH = (
    "Vector databases store embeddings and answer nearest neighbour queries. An approximate index "
    "trades recall for speed, and the database must rebuild the index when vectors change."
)
MIXED = "pt는 DM nephropathy로 f/u 중이며 혈당 조절을 위해 insulin therapy를 시작했다."


@pytest.fixture(scope="module")
def encoder() -> malmoi.TextEncoder:
    return malmoi.load("ko-en-small")


def test_korean_keywords_have_no_particles(encoder: malmoi.TextEncoder) -> None:
    found = [word.text for word in keywords(encoder, KOREAN, top=5)]
    assert any("당뇨병" in word for word in found)
    assert any("혈당" in word for word in candidates(KOREAN))
    for word in candidates(KOREAN):
        assert word[-1] not in "은는을를의가" or word in ("합병증",)


def test_english_and_mixed_documents(encoder: malmoi.TextEncoder) -> None:
    assert "Vector databases" in candidates(ENGLISH)
    assert "approximate index" in candidates(ENGLISH)
    assert len(keywords(encoder, ENGLISH, top=3)) == 3
    mixed = candidates(MIXED)
    assert "DM nephropathy" in mixed and "혈당 조절" in mixed and "insulin therapy" in mixed


def test_scores_and_diversity(encoder: malmoi.TextEncoder) -> None:
    plain = keywords(encoder, KOREAN, top=4, diversity=0)
    assert [word.score for word in plain] == sorted((word.score for word in plain), reverse=True)
    varied = keywords(encoder, KOREAN, top=4, diversity=0.9)
    assert varied[0] == plain[0] and [w.text for w in varied] != [w.text for w in plain]


def test_stop_words_can_be_edited(tmp_path: Path) -> None:
    path = tmp_path / "stop.txt"
    path.write_text("# mine\n혈당\n-the\n", "utf-8")
    words = read_stopwords(path)
    assert "혈당" in words and "the" not in words and "것" in words
    assert "혈당" not in candidates("혈당을 쟀다", stopwords=words)
    assert read_stopwords(None) == STOPWORDS


def test_documents_without_nouns_and_bad_options(encoder: malmoi.TextEncoder) -> None:
    assert keywords(encoder, "...!?") == []
    assert keywords(encoder, "가고 오고 했다") == []
    with pytest.raises(DataError, match="empty"):
        keywords(encoder, " \n")
    with pytest.raises(OptionError, match="diversity"):
        keywords(encoder, KOREAN, diversity=2)
    with pytest.raises(OptionError, match="top is 0"):
        keywords(encoder, KOREAN, top=0)
    with pytest.raises(OptionError, match="max_sum is 3, and 4 keywords are wanted"):
        keywords(encoder, KOREAN, top=4, max_sum=3)
    with pytest.raises(OptionError, match="can be chosen in .* ways; expected at most"):
        keywords(encoder, KOREAN, max_sum=40)


def test_the_command(run: Run, run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(KOREAN, "utf-8")
    done = run("text", "keywords", "a.txt", "--top", "3", "--table")
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 4
    done = run_here("text", "keywords", "-", "--lines", stdin=f"{KOREAN}\n\n{ENGLISH}\n")
    assert done.returncode == 0 and '"document": 3' in done.stdout
    done = run_here("text", "keywords", "-", stdin="\n\n")
    assert done.returncode == 1 and "no text" in done.stderr and "Traceback" not in done.stderr
