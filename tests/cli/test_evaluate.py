"""`malmoi evaluate` and `malmoi data negatives`, each once in a process of its own."""

import csv
import io
import json
from pathlib import Path

import pytest

from tests.support import graphs
from tests.support.graphs import Run

PAIRS = [
    ("배를 타고", "boat sea", 4),
    ("고양이 잔다", "the cat sleeps", 5),
    ("강아지 잔다", "a dog sleeps", 5),
    ("당뇨 환자", "patient has diabetes", 3),
    ("배가 달다", "the cat sleeps", 0),
    ("바다", "nephropathy", 1),
    ("배가 아프다", "sweet pear", 0.5),
    ("당뇨 신증", "diabetes nephropathy", 4.5),
]


@pytest.fixture
def scores(tmp_path: Path) -> Path:
    rows = [f"{score}\t{a}\t{b}" for a, b, score in PAIRS]
    path = tmp_path / "sts.tsv"
    path.write_text("\n".join(["score\tko1\ten2", *rows]) + "\n", "utf-8")
    return path


def test_json_by_default_and_files_when_asked(run: Run, bundle: Path, scores: Path) -> None:
    done = run(
        *("evaluate", bundle, "--task", "sts", "--data", scores, "--sides", "ko-en"),
        *("--against", bundle, "--rounds", "50", "--out", "r.json", "--plot", "r.png"),
    )
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report == json.loads((scores.parent / "r.json").read_text("utf-8"))
    assert report["data"]["columns"] == {"a": "ko1", "b": "en2", "score": "score"}
    assert report["comparisons"][0]["differences"]["spearman"]["significant"] is False
    assert "8 rows with a=ko1, b=en2" in done.stderr
    assert "tiny and tiny (2) differ by 0.0000" in done.stderr
    assert (scores.parent / "r.png").read_bytes().startswith(b"\x89PNG")


def test_tables_and_csv(run_here: Run, bundle: Path, scores: Path) -> None:
    command = ["evaluate", bundle, "--task", "sts", "--data", scores, "--rounds", "10"]
    command += ["--columns", "a=ko1,b=en2"]
    assert "spearman_euclidean" in run_here(*command, "--table").stdout
    rows = list(csv.DictReader(io.StringIO(run_here(*command, "--csv").stdout)))
    assert rows[0]["metric"] == "spearman"
    assert float(rows[0]["low"]) <= float(rows[0]["value"]) <= float(rows[0]["high"])


def test_baselines_next_to_the_model(run_here: Run, bundle: Path, scores: Path) -> None:
    raw = graphs.write_foreign(scores.parent / "raw", steps=("pool",))
    command = ["evaluate", bundle, "--task", "sts", "--data", scores, "--sides", "ko-en"]
    refused = run_here(*command, "--baselines", raw)
    assert refused.returncode == 1
    assert "--layers all" in refused.stderr


def test_a_reranker_is_opened_as_one(run_here: Run, bundle: Path, scores: Path) -> None:
    reranker = graphs.write_reranker(scores.parent / "reranker")
    command = ["evaluate", reranker, "--data", scores, "--rounds", "10"]
    found = json.loads(run_here(*command, "--task", "sts", "--sides", "ko-en").stdout)
    assert set(found["metrics"]) == {"spearman", "pearson"}
    columns = ["--columns", "query=ko1,document=en2", "--k", "1,3"]
    done = run_here(*command, "--task", "rerank", "--encoder", bundle, *columns)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["comparisons"][0]["model"] == "tiny alone"
    refused = run_here(*command, "--task", "retrieval", *columns)
    assert refused.returncode == 1
    assert "has no encode" in refused.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["--data", "no.tsv"], 1, "there is no file no.tsv"),
        (["--data", "no.tsv", "--against", "nowhere"], 1, "there is no file no.tsv"),
        (["--data", "sts.tsv", "--train", "no.tsv"], 1, "there is no file no.tsv"),
        (["--data", "sts.tsv"], 1, "has the columns score, ko1, en2; it was not clear"),
        (["--data", "sts.tsv", "--columns", "a"], 2, "expected role=column"),
        (["--data", "sts.tsv", "--columns", "a=ko1,a=en2"], 2, "expected each role once"),
        (["--data", "sts.tsv", "--columns", "q=ko1"], 1, "this task knows a, b, score"),
        (["--data", "sts.tsv", "--sides", "ko-en", "--k", "x"], 2, "expected numbers"),
        (["--data", "sts.tsv", "--sides", "ko-en", "--plot", "x.bmp"], 1, "known are .png"),
        (["--data", "sts.tsv", "--against", "nowhere"], 1, "there is no folder nowhere"),
    ],
)
def test_what_goes_wrong_is_one_line(
    run_here: Run, bundle: Path, scores: Path, arguments: list[str], code: int, message: str
) -> None:
    done = run_here("evaluate", bundle, "--task", "sts", "--rounds", "10", *arguments)
    assert done.returncode == code
    assert message in done.stderr
    assert "Traceback" not in done.stderr


def test_negatives_become_triplets(run: Run, run_here: Run, bundle: Path, scores: Path) -> None:
    command = [
        "data",
        "negatives",
        scores,
        "-m",
        bundle,
        "--sides",
        "ko-en",
        "--relative-margin",
        "0",
    ]
    done = run(*command, "--out", "out.tsv", "--count", "2")
    assert done.returncode == 0, done.stderr
    assert "wrote 16 triplets to out.tsv" in done.stderr
    rows = (scores.parent / "out.tsv").read_text("utf-8").splitlines()
    assert rows[0].split("\t")[:3] == ["anchor", "positive", "negative"]
    lines = [json.loads(line) for line in run_here(*command, "--last", "3").stdout.splitlines()]
    assert len(lines) == 8
    assert all(row["negative"] != row["positive"] for row in lines)
    refused = run_here(*command, "--out", "out.txt")
    assert refused.returncode == 1
    assert "known are .tsv and .jsonl" in refused.stderr


def test_pairs_that_are_not_the_same_are_no_positives(run_here: Run, bundle: Path) -> None:
    stray = bundle.parent / "marked.tsv"
    rows = ["same\tquestion1\tquestion2", "1\t배\tboat", "0\t배\tdog", "1\t고양이\tcat"]
    stray.write_text("\n".join(rows), "utf-8")
    done = run_here("data", "negatives", stray, "-m", bundle, "--relative-margin", "0")
    assert "1 pair is not the same and was left out" in done.stderr
    assert len(done.stdout.splitlines()) == 2
