"""Senses: thresholds found on some rows and tried on others, for every choice of layers."""

from pathlib import Path

import pytest

import malmoi
from malmoi import BundleError, DataError, OptionError
from malmoi.evaluate import Settings, evaluate, senses
from malmoi.evaluate.tasks.similarity import find_brackets
from tests.support.logs import record_messages

BOAT = ["[배]를 타고 바다에 나간다", "[배]가 항구에 들어왔다", "섬으로 가는 [배]가 끊겼다"]
PEAR = ["[배]가 달고 맛있다", "과수원에서 [배]를 땄다", "사과와 [배]를 깎아 먹었다"]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    pairs = [(a, b, "True") for group in (BOAT, PEAR) for a in group for b in group if a != b]
    pairs += [(a, b, "False") for a in BOAT for b in PEAR]
    path = tmp_path / "wic.tsv"
    lines = ["SENTENCE1\tSENTENCE2\tANSWER", *("\t".join(pair) for pair in pairs)]
    path.write_text("\n".join([*lines, "낱말이 없다\t[배]가 왔다\tTrue"]), "utf-8")
    return path


def test_every_choice_of_layers_is_reported_with_its_interval(data: Path) -> None:
    told = record_messages()
    settings = Settings(train=data)
    encoder = malmoi.load("ko-en-small")
    report = evaluate(encoder, "senses", data, settings=settings, rounds=50)
    assert {"layer 0", "layer 6", "sum-last-4", "mean-all + sentence"} <= set(report.metrics)
    assert len(report.metrics) == 20
    best = report.metrics[report.main]
    assert 0.6 < best.value <= 1 and best.low <= best.value <= best.high
    assert report.data.rows == 21
    assert any("1 row passed over (line 23)" in line for line in told)
    assert report.details["train_accuracy"][report.main] == pytest.approx(best.value)


def test_brackets_come_off() -> None:
    place = find_brackets("냉동 [대구]를 쓰면 [대구]탕의 제맛을 못 낸다")
    assert place is not None and place.word == "대구" and "[" not in place.text
    assert find_brackets("대구") is None


def test_what_is_missing_is_told(data: Path, bundle: Path) -> None:
    with pytest.raises(OptionError, match="--train"):
        evaluate(malmoi.load("ko-en-small"), "senses", data)
    with pytest.raises(BundleError, match="--layers all"):
        evaluate(malmoi.load(bundle), "senses", data, settings=Settings(train=data))
    with pytest.raises(OptionError, match="no word vectors"):
        evaluate(object(), "senses", data, settings=Settings(train=data))
    with pytest.raises(DataError, match="brackets"):
        senses.read(data, strict=True)
