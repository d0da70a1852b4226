"""`malmoi text words`: tables, figures and complaints."""

import json
from pathlib import Path

import pytest

from tests.support.graphs import Run

# Split at spaces: loading the morphological analyser takes longer than all figures.
BOATS = ["배 타고 바다에 나간다", "배 한 척이 항구에 들어왔다", "배 하나가 달고 맛있다"]


def test_a_word_is_compared_and_drawn(run_here: Run, tmp_path: Path) -> None:
    plots = ["--plot", "a.png", "--layers-plot", "b.png", "--hist", "c.svg"]
    done = run_here(
        "text", "words", *BOATS, "--word", "배", "--by", "spaces", "--layers", "3", *plots
    )
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["word"] for row in rows] == ["배"] * 3
    assert rows[0]["similarity"][0] == pytest.approx(1, abs=1e-3)
    assert rows[0]["similarity"][1] > rows[0]["similarity"][2]
    assert {path.name for path in tmp_path.iterdir()} == {"a.png", "b.png", "c.svg"}


def test_words_are_listed_with_their_pieces(run: Run) -> None:
    done = run(
        "text", "words", "-", "--by", "spaces", "--special", "--table", stdin="배가 왔다\n\n"
    )
    assert done.returncode == 0, done.stderr
    assert "1 empty text was left out" in done.stderr
    assert [line.split()[1] for line in done.stdout.splitlines()[1:]] == [
        "[CLS]",
        "배가",
        "왔다",
        "[SEP]",
    ]


def test_two_texts_make_a_heat_map(run_here: Run, tmp_path: Path) -> None:
    done = run_here("text", "words", "배가 왔다", "the boat came", "--heat", "heat.png", "--csv")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "heat.png").stat().st_size > 2000


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["고양이가 잔다", "--word", "배"], 1, "has no word '배'; it has 고양이"),
        (["배가", "--word", "배", "-m", "ko-en-static"], 1, "--layers all"),
        (["배가", "--word", "배", "--plot", "a.png"], 1, "two or more"),
        (["배가", "--word", "배", "--layers-plot", "a.png"], 1, "two or more"),
        (["배가", "--word", "배", "--plot", "a.gif"], 1, "ends in .gif"),
        (["배가", "--plot", "a.png"], 2, "--word"),
        (["배가", "--heat", "a.png"], 2, "two texts"),
        (["", "--word", "배"], 1, "there is no text"),
        (["배가", "--layers", "9"], 1, "layers 0 to 6"),
    ],
)
def test_bad_input_is_reported(
    run_here: Run, tmp_path: Path, args: list[str], code: int, message: str
) -> None:
    done = run_here("text", "words", *args)
    assert (done.returncode, message in " ".join(done.stderr.split())) == (code, True), done.stderr
    assert "Traceback" not in done.stderr and not list(tmp_path.iterdir())


def test_tokens_are_printed_with_ids_and_segments(run: Run) -> None:
    done = run("text", "words", "배가 왔다", "배를 먹다", "--ids", "--pair")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert {row["segment"] for row in rows} == {0, 1} and {row["text"] for row in rows} == {1}
    found = run("model", "vocabulary", "--grep", f"^{rows[1]['token']}$")
    assert json.loads(found.stdout) == {"id": rows[1]["id"], "token": rows[1]["token"]}
    alone = run("text", "words", "배가 왔다", "배를 먹다", "--ids", "--csv").stdout.splitlines()
    assert alone[0] == "text,token,id,segment" and alone[-1].startswith("2,[SEP],")


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        (["text", "words", "배가", "--pair"], 2, "--pair needs --ids"),
        (["text", "words", "배가", "--ids", "--pair"], 2, "two texts"),
        (["text", "words", "배가", "--ids", "-m", "ko-en-static"], 1, "--layers all"),
        (["model", "vocabulary", "--grep", "("], 2, "regular expression"),
        (["model", "vocabulary", "no-such-model"], 1, "no shipped model"),
    ],
)
def test_bad_questions_about_tokens(run: Run, args: list[str], code: int, message: str) -> None:
    done = run(*args)
    assert done.returncode == code
    assert message in done.stderr
