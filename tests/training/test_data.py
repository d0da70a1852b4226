"""Files → examples, and every way in which a file can be bad."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from malmoi.errors import DataError, OptionError
from malmoi.training.data import is_held, read_measure
from malmoi.training.objectives.pairs import TrainingExamples, count_repeated, read_examples
from malmoi.training.recipe import Data
from malmoi.training.schema import Evaluation, HeldRows, parse_table
from tests.support.logs import record_messages

HEADER = "a\tb\tscore\tlabel\n"
GOOD = HEADER + "배\t선박\t5\tyes\nship\t배\t0\tno\n"


def read(
    folder: Path, text: str | bytes, *, strict: bool = False, **changes: Any
) -> tuple[TrainingExamples, list[str]]:
    raw = text if isinstance(text, bytes) else text.encode()
    (folder / "x.tsv").write_bytes(raw)
    columns = {"a": "a", "b": "b", "score": "score"}
    entry = {"files": ("x.tsv",), "columns": columns, "objective": "cosent", "range": (0.0, 5.0)}
    told = record_messages()
    return read_examples(Data(**entry | changes), folder, strict=strict), told


def test_scores_are_scaled_and_texts_numbered_once(tmp_path: Path) -> None:
    examples, told = read(tmp_path, GOOD)
    assert examples.texts == ["배", "선박", "ship"]
    assert examples.columns.tolist() == [[0, 1], [2, 0]]
    assert examples.labels is not None
    assert examples.labels.tolist() == [1.0, 0.0]
    assert told == []


def test_classes_are_numbered_in_order(tmp_path: Path) -> None:
    columns = {"a": "a", "b": "b", "label": "label"}
    examples, _ = read(tmp_path, GOOD, columns=columns, objective="softmax")
    assert examples.classes == ("no", "yes")
    assert examples.labels is not None
    assert examples.labels.tolist() == [1, 0]
    with pytest.raises(DataError, match="line 2 .* has a label that is none of no, maybe"):
        read(tmp_path, GOOD, columns=columns, objective="softmax", labels=("no", "maybe"))


def test_rows_that_do_not_fit_are_counted_with_their_lines(tmp_path: Path) -> None:
    text = GOOD + "ragged\n" + "a\tb\tnan\tno\n" + "a\tb\tmany\tno\n" + " \tb\t1\tno\n"
    examples, told = read(tmp_path, text)
    assert len(examples) == 2
    assert "1 row passed over (line 4)" in told[0]
    assert "3 rows passed over (lines 5, 6, 7)" in told[1]
    with pytest.raises(DataError, match="line 4 .* 1 field; expected 4"):
        read(tmp_path, text, strict=True)
    with pytest.raises(DataError, match="line 4 .* no number in score"):
        read(tmp_path, GOOD + "a\tb\tnan\tno\n", strict=True)


@pytest.mark.parametrize(
    ("text", "changes", "message"),
    [
        ("", {}, "is empty"),
        (HEADER, {}, "give no examples"),
        (GOOD + "a\tb\t7\tno\n", {}, "line 4 .* score 7; expected 0 to 5"),
        (GOOD, {"range": None}, "score 5; expected 0 to 1"),
        (HEADER + "a\tb\t1\tno\nc\td\t1\tno\n", {}, "one score only"),
        (
            HEADER + "a\tb\t1\tno\n",
            {"objective": "softmax", "columns": {"a": "a", "b": "b", "label": "label"}},
            "one label only",
        ),
        (GOOD, {"columns": {"a": "a", "b": "c", "score": "score"}}, "no column c; it has a, b"),
        (GOOD, {"where": {"label": "maybe"}}, "give no examples.*where label is maybe"),
    ],
)
def test_files_that_cannot_be_learnt_from(
    tmp_path: Path, text: str, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(DataError, match=message):
        read(tmp_path, text, **changes)


def test_a_file_without_a_header_is_said_without_its_text(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no column a; it has 3 columns of no known name") as raised:
        read(tmp_path, "환자 김철수 배가 아프다\t복통이 있다\t4.5\n배고프다\t허기지다\t3\n")
    assert "김철수" not in str(raised.value)


def test_a_column_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="columns 1 and 3 .* the same name"):
        read(tmp_path, "a\tb\ta\tscore\n배\t선박\t사과\t5\nx\ty\tz\t1\n")


def test_nothing_is_learnt_from_a_json_null(tmp_path: Path) -> None:
    rows = [{"a": "배", "b": "선박", "score": 5}, {"a": "배", "b": None, "score": 0}]
    rows += [{"a": "배", "score": 1}, {"a": "배", "b": "ship", "score": 1}]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    examples, told = read(tmp_path, GOOD, files=("x.jsonl",))
    assert examples.texts == ["배", "선박", "ship"]
    assert told == [f"{tmp_path / 'x.jsonl'}: 2 rows passed over (lines 2, 3)"]


def test_a_label_with_half_a_character_is_passed_over(tmp_path: Path) -> None:
    rows = [{"a": "배", "b": "선박", "label": label} for label in ("x", "\ud800", "y")]
    (tmp_path / "x.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    columns = {"a": "a", "b": "b", "label": "label"}
    examples, told = read(
        tmp_path, GOOD, files=("x.jsonl",), columns=columns, objective="softmax", range=None
    )
    assert examples.classes == ("x", "y")
    assert told == [f"{tmp_path / 'x.jsonl'}: 1 row passed over (line 2)"]


def test_a_second_file_without_rows_is_told(tmp_path: Path) -> None:
    (tmp_path / "y.tsv").write_text(HEADER, "utf-8")
    examples, told = read(tmp_path, GOOD, files=("x.tsv", "y.tsv"))
    assert len(examples) == 2
    assert told == [f"{tmp_path / 'y.tsv'} has no rows"]


def test_texts_taken_for_labels_are_refused(tmp_path: Path) -> None:
    rows = "".join(f"배 {i}\t선박\t1\tno\n" for i in range(101))
    columns = {"a": "a", "b": "b", "label": "a"}
    with pytest.raises(DataError, match="101 different labels in 101 rows"):
        read(tmp_path, HEADER + rows, columns=columns, objective="softmax")


def test_cp949_is_read_and_told(tmp_path: Path) -> None:
    examples, told = read(tmp_path, GOOD.encode("cp949"))
    assert examples.texts[:2] == ["배", "선박"]
    assert "cp949" in told[0]


def test_rows_are_chosen_and_limited(tmp_path: Path) -> None:
    columns = {"a": "a", "b": "b"}
    only, _ = read(tmp_path, GOOD, objective="contrastive", columns=columns, where={"label": "yes"})
    assert only.texts == ["배", "선박"]
    assert only.labels is None
    assert len(read(tmp_path, GOOD, objective="contrastive", columns=columns, limit=1)[0]) == 1


def test_triplets_are_joined_by_their_first_text(tmp_path: Path) -> None:
    rows = "p\tyes 1\t\tE\np\tno 1\t\tC\np\tno 2\t\tC\nq\tyes 2\t\tE\n"
    columns = {"a": "a", "b": "b", "label": "label"}
    labels = {"positive": "E", "negative": "C"}
    examples, _ = read(
        tmp_path, HEADER + rows, objective="triplet", columns=columns, triplets=labels
    )
    texts = [[examples.texts[i] for i in row] for row in examples.columns]
    assert texts == [["p", "yes 1", "no 1"], ["p", "yes 1", "no 2"]]
    with pytest.raises(DataError, match="both a X and a C row"):
        read(
            tmp_path,
            HEADER + rows,
            objective="triplet",
            columns=columns,
            triplets={"positive": "X", "negative": "C"},
        )


def test_pairs_that_are_trained_on_are_counted_either_way_round() -> None:
    examples = TrainingExamples(["x", "y", "z"], np.array([[0, 1], [1, 2]], dtype=np.int32))
    assert count_repeated([("y ", "x"), ("x", "z")], [examples]) == 1


PAGES = "split\tquestion\tpage\n" + "".join(
    f"{'dev' if i % 2 else 'train'}\tquestion {i}\tpage {i // 4}\n" for i in range(40)
)


class Exact:
    """An encoder to which texts with the same number are the same."""

    def encode(self, texts: list[str], **options: object) -> np.ndarray:
        rows = [int(text.split()[1]) // (4 if "question" in text else 1) for text in texts]
        return np.eye(40, dtype=np.float32)[rows]


def test_an_evaluation_asks_only_the_rows_of_its_part(tmp_path: Path) -> None:
    (tmp_path / "pages.tsv").write_text(PAGES)
    columns = {"query": "question", "document": "page"}
    entry = Evaluation(
        task="retrieval", file="pages.tsv", columns=columns, where={"split": "dev"}, measure="hit@1"
    )
    measure = read_measure(entry, tmp_path)
    assert measure.data.queries == [f"question {i}" for i in range(1, 40, 2)]
    assert measure.data.documents == [f"page {i}" for i in range(10)]  # each once
    assert measure(Exact()) == 1.0
    held = HeldRows(by="question", one_in=2)
    asked = read_measure(entry.model_copy(update={"held_out": held}), tmp_path).data.queries
    assert asked and asked == [one for one in measure.data.queries if is_held(one, held)]


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        ({"where": {"part": "dev"}}, DataError, "has no column part; it has"),
        ({"where": {"split": "test"}}, DataError, "no row that can be used.*Check where"),
        ({"measure": "hit@10"}, DataError, "10 documents, too few for hit@10"),
        ({"measure": "hit@3"}, OptionError, "known are .*hit@1"),
        ({"task": "sts", "measure": "hit@1"}, OptionError, "measure is hit@1 and task is sts"),
        ({"task": "concepts", "where": {"a": "b"}}, OptionError, "expected hold_out"),
    ],
)
def test_an_evaluation_that_does_not_fit_is_told(
    tmp_path: Path, changes: dict[str, object], error: type[Exception], message: str
) -> None:
    (tmp_path / "pages.tsv").write_text(PAGES)
    table = {"task": "retrieval", "file": "pages.tsv"} | changes
    if table["task"] == "retrieval":
        table["columns"] = {"query": "question", "document": "page"}
    with pytest.raises(error, match=message):
        read_measure(parse_table(Evaluation, table, where="evaluation"), tmp_path)
