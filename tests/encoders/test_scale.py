"""What a model's cosines mean: the scale of pairs, and the commands that show it."""

import json

import numpy as np
import pytest

import malmoi
from malmoi.encoders import score_scale
from tests.support.graphs import Run


@pytest.mark.parametrize("model", ["ko-en-small", "ko-en-static"])
def test_pairs_of_one_meaning_score_higher(model: str) -> None:
    scale = score_scale(malmoi.load(model))
    quantiles = scale.quantiles()
    assert quantiles["same meaning"][1] > quantiles["unrelated"][4]  # the quarters hardly overlap
    found = scale.calibrated(np.linspace(-1, 1, 50, dtype=np.float32))
    assert (np.diff(found) >= 0).all() and found[0] < 0.01 and found[-1] > 0.99
    middle = scale.calibrated(np.array([scale.unrelated.mean(), scale.same.mean()]))
    assert middle[0] < 0.1 and middle[1] > 0.9


def test_the_scale_is_shown(run: Run) -> None:
    done = run("info")
    assert done.returncode == 0 and "unrelated" in done.stdout and "same meaning" in done.stdout
    pairs = "오늘은 날씨가 아주 좋다\t오늘 날씨가 정말 좋네요\n고양이가 잔다\t세금이 올랐다\n"
    done = run("similarity", "-", "--calibrated", stdin=pairs)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["same"] > 0.5 > rows[1]["same"]
    assert "same" not in json.loads(run("similarity", "-", stdin=pairs).stdout.splitlines()[0])
