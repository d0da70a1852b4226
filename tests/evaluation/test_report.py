"""Reports: intervals, comparisons, JSON there and back, figures, and the raw baselines."""

import json
import warnings
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

import malmoi
from malmoi.errors import BundleError, DataError, MissingExtra, OptionError
from malmoi.evaluation import Report, Settings, evaluate, load_baselines
from malmoi.mining import figures as plots
from tests.support import graphs
from tests.support.fakes import Constant, Letters, Noise, Shared
from tests.support.logs import record_messages


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Pairs whose score is the share of letters they have in common."""
    random = np.random.default_rng(0)
    lines = ["a\tb\tscore"]
    for _ in range(150):
        a, b = ("".join(random.choice(list("가나다라마바사아"), size=6)) for _ in range(2))
        lines.append(f"{a}\t{b}\t{len(set(a) & set(b)) / len(set(a) | set(b)):.4f}")
    path = tmp_path / "scores.tsv"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_a_report_holds_values_intervals_and_their_origin(data: Path) -> None:
    report = evaluate(Letters(), "sts", data, rounds=200)
    assert (report.task, report.model, report.main) == ("sts", "letters", "spearman")
    metric = report.metrics["spearman"]
    assert 0.5 < metric.low < metric.value < metric.high < 1
    assert report.data.file == "scores.tsv"
    assert (report.data.rows, len(report.data.sha256)) == (150, 64)
    assert report.settings == {"rounds": 200, "seed": 0, "level": 0.95}
    assert evaluate(Letters(), "sts", data, rounds=200) == report  # the same seed, the same numbers


def test_two_models_are_compared_on_the_same_draws(data: Path) -> None:
    report = evaluate(Letters(), "sts", data, against=[Noise(), Letters(), Shared()], rounds=300)
    noise, same, shared = (c.differences["spearman"] for c in report.comparisons)
    assert (noise.significant, noise.verdict) == (True, "better")
    assert noise.p < 0.01
    assert noise.difference.low > 0
    assert (same.significant, same.difference.value, same.p) == (False, 0, 1)
    assert (shared.significant, shared.verdict) == (True, "worse")
    assert [sentence.split(" by")[0] for sentence in report.verdicts()] == [
        "letters is better than noise",
        "letters and letters (2) differ",
        "letters is worse than shared",
    ]
    # A reranker has one score, so only what both have is compared.
    assert set(report.comparisons[2].differences) == {"spearman", "pearson"}
    assert {row["model"] for row in report.rows()} == {"letters", "noise", "letters (2)", "shared"}


def test_models_that_differ_by_chance_alone_are_seldom_told_apart(tmp_path: Path) -> None:
    class Seeded:
        def __init__(self, seed: int) -> None:
            self.seed = seed

        def encode(self, texts: list[str]) -> np.ndarray:
            return np.random.default_rng(self.seed).standard_normal((len(texts), 16))

    path = tmp_path / "noise.tsv"
    rows = [f"{i}\t{i + 1000}\t{(i * 7919) % 100}" for i in range(120)]
    path.write_text("\n".join(["a\tb\tscore", *rows]), "utf-8")
    told_apart = 0
    for seed in range(40):
        report = evaluate(Seeded(seed), "sts", path, against=[Seeded(seed + 1000)], rounds=200)
        told_apart += report.comparisons[0].differences["spearman"].significant
    assert told_apart <= 7  # 2 are to be expected


def test_json_there_and_back(data: Path, tmp_path: Path) -> None:
    report = evaluate(Letters(), "sts", data, against=[Noise()], rounds=50)
    report.save(tmp_path / "report.json")
    assert Report.load(tmp_path / "report.json") == report
    shown = json.loads((tmp_path / "report.json").read_text("utf-8"))
    assert shown["comparisons"][0]["differences"]["spearman"]["significant"] is True
    (tmp_path / "other.json").write_text('{"task": "sts"}')
    with pytest.raises(DataError, match="not a report"):
        Report.load(tmp_path / "other.json")
    with pytest.raises(DataError, match="cannot read"):
        Report.load(tmp_path / "missing.json")


def test_what_is_undefined_is_null_and_said(data: Path) -> None:
    told = record_messages()
    report = evaluate(Constant(), "sts", data, against=[Letters()], rounds=20)
    shown = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert shown["metrics"]["spearman"] == {"value": None, "low": None, "high": None}
    assert any("undefined, since the model gives every example the same score" in t for t in told)
    assert "cannot be compared" in report.verdicts()[0]
    assert "undefined" in str(report)
    loaded = Report.from_json(shown)
    assert np.isnan(loaded.metrics["spearman"].value)


def test_no_rounds_leave_intervals_out(data: Path) -> None:
    report = evaluate(Letters(), "sts", data, against=[Noise()], rounds=0)
    assert np.isnan(report.metrics["spearman"].low)
    assert "no rounds" in report.verdicts()[0]
    with pytest.raises(OptionError, match="rounds is -1"):
        evaluate(Letters(), "sts", data, rounds=-1)


def test_unknown_tasks_and_missing_encoders_are_told(data: Path) -> None:
    with pytest.raises(OptionError, match="task is 'stss'; known are sts, pairs"):
        evaluate(Letters(), "stss", data)
    with pytest.raises(OptionError, match="no encoder was named"):
        evaluate(Shared(), "rerank", data)


def test_reranking_is_compared_with_the_encoder_alone(tmp_path: Path) -> None:
    path = tmp_path / "faq.tsv"
    words = ["boat", "ship", "harbour", "pear", "apple", "snow", "cat", "dogs", "sleep"]
    path.write_text("\n".join(["question\tanswer", *(f"{w}\t{w[::-1]}" for w in words)]))
    settings = Settings(encoder=Noise(), top=9, ks=(1, 3))
    report = evaluate(Shared(), "rerank", path, settings=settings, rounds=50)
    assert [comparison.model for comparison in report.comparisons] == ["noise alone"]
    assert report.settings["encoder"] == "noise"


@pytest.mark.parametrize("ending", [".png", ".svg", ".pdf"])
def test_figures_are_drawn(data: Path, tmp_path: Path, ending: str) -> None:
    report = evaluate(Letters(), "sts", data, against=[Constant()], rounds=20)
    path = tmp_path / f"figure{ending}"
    plots.plot_report(report, path)
    assert path.stat().st_size > 2000


def test_figures_have_korean_without_boxes(data: Path, tmp_path: Path) -> None:
    class Korean(Letters):
        name = "한국어 $모델$ 뷁"

    report = evaluate(Korean(), "sts", data, rounds=10)
    with warnings.catch_warnings(record=True) as boxes:
        plots.plot_report(report, tmp_path / "a.png")
    assert not boxes
    assert plots.label(Korean.name) == r"한국어 \$모델\$ 뷁"


def test_figures_need_a_known_ending_and_matplotlib(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OptionError, match=r"ends in \.bmp; known are \.png"):
        plots.check_figure(tmp_path / "a.bmp")
    monkeypatch.setitem(__import__("sys").modules, "matplotlib", None)
    with pytest.raises(MissingExtra, match=r"malmoi\[plots\]"):
        plots.check_figure(tmp_path / "a.png")


def test_baselines_come_from_token_states_and_word_vectors(tmp_path: Path) -> None:
    folder = graphs.write_foreign(tmp_path / "raw", steps=("pool",))
    table = graphs.embedding_table()
    weights = {"embeddings.word_embeddings.weight": table * 2}
    safetensors.numpy.save_file(weights, folder / "model.safetensors")
    cls, mean, words = load_baselines(folder)
    assert [encoder.name for encoder in (cls, mean, words)] == [
        "raw (raw CLS)",
        "raw (raw mean)",
        "raw (word vectors)",
    ]
    # The tiny graph only looks tokens up: [CLS] 배를 타고 [SEP] are rows 2, 6, 7 and 3.
    text = ["배를 타고", ""]
    assert cls.encode(text) == pytest.approx(table[[2, 2]])
    assert mean.encode(text)[0] == pytest.approx(table[[2, 6, 7, 3]].mean(axis=0), abs=1e-6)
    assert words.encode(text)[0] == pytest.approx(table[[6, 7]].mean(axis=0) * 2, abs=1e-6)
    assert np.isfinite(words.encode(text)[1]).all()
    with pytest.raises(OptionError, match="baselines know only"):
        cls.encode(text, on_long="windows")


def test_baselines_need_token_states(bundle: Path, tmp_path: Path) -> None:
    with pytest.raises(BundleError, match=r"gives only sentence_embedding; .*--layers all"):
        load_baselines(bundle)
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch/config.json").write_text("{}", "utf-8")
    with pytest.raises(BundleError, match=r"has no graph; .*--layers all"):
        load_baselines(tmp_path / "torch")
    bare = graphs.write_foreign(tmp_path / "bare", steps=("pool",))
    with pytest.raises(BundleError, match=r"neither model\.safetensors with word vectors"):
        load_baselines(bare)


def test_a_bundle_is_measured_like_any_encoder(encoder: malmoi.TextEncoder, data: Path) -> None:
    assert evaluate(encoder, "sts", data, rounds=10).model == "tiny"
