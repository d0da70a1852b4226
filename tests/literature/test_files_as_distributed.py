"""KLUE, KorNLI, KorSTS and KorQuAD are read as they are distributed; other files get advice."""

import json
from pathlib import Path

import pytest

from malmoi.errors import DataError
from malmoi.evaluate import nli, sts
from malmoi.heads.questions import read_questions
from malmoi.io.tables import read_rows, read_texts


def write(path: Path, data: object) -> Path:
    path.write_text(json.dumps(data, ensure_ascii=False, indent=2), "utf-8")
    return path


def test_klue_json(tmp_path: Path) -> None:
    scores = [
        {"guid": f"klue-sts-v1_dev_{i}", "sentence1": f"가{i}", "sentence2": "나",
         "labels": {"label": score, "real-label": score + 0.014, "binary-label": 1}}
        for i, score in enumerate((3.7, 0.5))
    ]  # fmt: skip
    found = sts.read(write(tmp_path / "klue-sts-v1.1_dev.json", scores)).rows
    assert [row.score for row in found] == [3.714, 0.514]
    entails = [
        {"guid": "1", "premise": "비가 온다", "hypothesis": "날씨가 흐리다", "gold_label": label}
        for label in ("entailment", "neutral")
    ]
    rows = nli.read(write(tmp_path / "klue-nli-v1.1_dev.json", entails)).rows
    assert [row.label for row in rows] == ["entailment", "neutral"]
    titles = {"version": "1", "data": [{"title": "제목", "label": "정치"}]}
    path = write(tmp_path / "ynat.json", titles)
    assert list(read_texts(path, column="title")) == ["제목"]


def test_kornli_and_korsts_tables(tmp_path: Path) -> None:
    path = tmp_path / "xnli.dev.ko.tsv"
    path.write_text("sentence1\tsentence2\tgold_label\n가\t나\tneutral\n", "utf-8")
    assert nli.read(path).rows[0].label == "neutral"
    path = tmp_path / "sts-dev.tsv"
    lines = "genre\tfilename\tyear\tid\tscore\tsentence1\tsentence2\n"
    path.write_text(lines + "m\tf\t2012\t1\t5.000\t가\t나\nm\tf\t2012\t2\t1.0\t가\t다\n", "utf-8")
    assert [row.score for row in sts.read(path).rows] == [5.0, 1.0]


@pytest.mark.parametrize(
    "data",
    [
        {"data": ["x", {"paragraphs": ["y", {"context": 3, "qas": [1]}]}]},
        [{"question": "왜?", "context": "배", "answers": 3}, {"question": 1}],
        {"data": [{"paragraphs": {}, "qas": "no"}], "other": []},
    ],
)
def test_questions_of_another_shape_are_no_traceback(tmp_path: Path, data: object) -> None:
    path = write(tmp_path / "odd.json", data)
    try:
        found = read_questions(path)
    except DataError as error:
        assert "no question that can be used" in str(error)
    else:
        assert [(one.question, one.answers) for one in found] == [("왜?", ())]


def test_lists_and_lines_of_json(tmp_path: Path) -> None:
    rows = [{"text": "가"}, {"text": "나"}]
    assert list(read_rows(write(tmp_path / "a.json", rows))) == rows
    lines = tmp_path / "b.json"
    lines.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    assert list(read_rows(lines)) == rows


def test_what_cannot_be_read_gets_advice(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"ends in \.txt; expected a table: \.tsv"):
        list(read_rows(tmp_path / "a.txt"))
    with pytest.raises(DataError, match="holds no list of rows"):
        list(read_rows(write(tmp_path / "a.json", {"a": 1})))
    (tmp_path / "cut.json").write_text('[{"text": "가"},', "utf-8")
    with pytest.raises(DataError, match="cannot be read as JSON"):
        list(read_rows(tmp_path / "cut.json"))
    with pytest.raises(DataError, match="entry 1 of .* has no JSON object"):
        list(read_rows(write(tmp_path / "list.json", [1]), strict=True))
