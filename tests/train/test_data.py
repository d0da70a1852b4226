"""Files → examples, and every way in which a file can be bad."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from malmoi import DataError
from malmoi.train.data import Examples, count_repeated, read_examples
from malmoi.train.recipe import Data

HEADER = "a\tb\tscore\tlabel\n"
GOOD = HEADER + "배\t선박\t5\tyes\nship\t배\t0\tno\n"


def read(
    folder: Path, text: str | bytes, *, strict: bool = False, **changes: Any
) -> tuple[Examples, list[str]]:
    raw = text if isinstance(text, bytes) else text.encode()
    (folder / "x.tsv").write_bytes(raw)
    columns = {"a": "a", "b": "b", "score": "score"}
    entry = {"files": ("x.tsv",), "columns": columns, "objective": "cosent", "range": (0.0, 5.0)}
    told: list[str] = []
    return read_examples(Data(**entry | changes), folder, tell=told.append, strict=strict), told


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


def test_cp949_is_read_and_told(tmp_path: Path) -> None:
    examples, told = read(tmp_path, GOOD.encode("cp949"))
    assert examples.texts[:2] == ["배", "선박"]
    assert "cp949" in told[0]


def test_rows_are_chosen_and_limited(tmp_path: Path) -> None:
    columns = {"a": "a", "b": "b"}
    only, _ = read(tmp_path, GOOD, objective="in-batch", columns=columns, where={"label": "yes"})
    assert only.texts == ["배", "선박"]
    assert only.labels is None
    assert len(read(tmp_path, GOOD, objective="in-batch", columns=columns, limit=1)[0]) == 1


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
    examples = Examples(["x", "y", "z"], np.array([[0, 1], [1, 2]], dtype=np.int32))
    assert count_repeated([("y ", "x"), ("x", "z")], [examples]) == 1
