"""Runners and devices."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given
from hypothesis import strategies as st

import malmoi
from malmoi.errors import OptionError
from malmoi.runtime.runner import balance_batches
from malmoi.runtime.session import choose_device, free_memory, usable_devices
from malmoi.runtime.tokenizer import BUDGET, EVEN, Batch, TextTokenizer, TokenizedText
from tests.support import graphs


def batches_of(lengths: list[int]) -> list[Batch]:
    tokens = TextTokenizer(graphs.tiny_tokenizer(), max_tokens=512)
    pieces = [TokenizedText(i, [4] * length) for i, length in enumerate(lengths)]
    return list(tokens.batches(pieces, even=EVEN))


def test_two_paragraphs_share_a_batch_and_two_threads_share_two() -> None:
    assert [batch.ids.shape for batch in batches_of([200, 200])] == [(2, 200)]
    assert [batch.ids.shape for batch in balance_batches(batches_of([200] * 2), 2)] == [
        (1, 200)
    ] * 2
    assert [batch.ids.shape for batch in balance_batches(batches_of([200] * 2), 1)] == [(2, 200)]


def test_the_last_batches_are_the_smallest() -> None:
    shapes = [batch.ids.shape for batch in balance_batches(batches_of([200] * 64), 2)]
    assert shapes == [(2, 200)] * 30 + [(1, 200)] * 4


def test_a_few_short_texts_stay_together() -> None:
    assert len(balance_batches(batches_of([9] * 12), 2)) == 1


@given(
    lengths=st.lists(st.integers(1, 300), min_size=1, max_size=60),
    threads=st.integers(1, 8),
)
def test_every_row_is_there_once_with_its_ids(lengths: list[int], threads: int) -> None:
    shared = balance_batches(batches_of(lengths), threads)
    assert sorted(np.concatenate([batch.rows for batch in shared])) == list(range(len(lengths)))
    sizes = [batch.ids.size for batch in shared]
    assert max(sizes) <= BUDGET or len(shared[0].rows) == 1
    assert sizes[:-threads] == sorted(sizes[:-threads], reverse=True)
    for batch in shared:
        assert batch.ids.shape == batch.mask.shape == batch.types.shape
        found = batch.mask.sum(axis=1).tolist()
        assert found == [lengths[row] for row in batch.rows]


TEXTS = ["배를 타고", "The ship left the harbour.", "배"]

WITH_GPU = ["CUDAExecutionProvider", "OpenVINOExecutionProvider", "CPUExecutionProvider"]


def test_the_processor_is_used_unless_something_else_is_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: WITH_GPU)
    assert usable_devices() == ["cuda", "openvino", "cpu"]
    assert (choose_device(), choose_device("auto"), choose_device("openvino")) == (
        "cpu",
        "cuda",
        "openvino",
    )
    monkeypatch.setenv("MALMOI_DEVICE", "openvino")
    assert (choose_device(), choose_device("cpu")) == ("openvino", "cpu")
    with pytest.raises(OptionError, match="device is 'tpu'; known are cpu, cuda"):
        choose_device("tpu")
    with pytest.raises(OptionError, match=r"has cuda, openvino, cpu; .* onnxruntime-directml"):
        choose_device("directml")


def test_a_device_that_does_not_start_falls_back_and_says_so(
    bundle: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """onnxruntime knows CUDA and finds no driver: it runs on the processor."""
    usual = onnxruntime.InferenceSession
    asked: list[list[str]] = []

    def start(path: str, options: Any, *, providers: list[str], **more: Any) -> Any:
        asked.append(providers)
        return usual(path, options, providers=["CPUExecutionProvider"], **more)

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: WITH_GPU)
    monkeypatch.setattr(onnxruntime, "InferenceSession", start)
    monkeypatch.setattr(logging.getLogger("malmoi"), "propagate", True)
    with caplog.at_level(logging.WARNING):
        encoder: Any = malmoi.load(bundle, device="cuda")
    assert asked == [["CUDAExecutionProvider", "CPUExecutionProvider"]]
    assert "cuda cannot be used here; model.onnx runs on the cpu" in caplog.text
    assert encoder._session.device == "cpu"
    np.testing.assert_allclose(np.linalg.norm(encoder.encode("배를 타고")), 1, atol=1e-5)


def test_a_graph_that_a_device_cannot_compile_runs_on_the_processor(
    bundle: Path, run_here: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    usual = onnxruntime.InferenceSession

    def start(path: str, options: Any, *, providers: list[str], **more: Any) -> Any:
        if providers != ["CPUExecutionProvider"]:
            raise RuntimeError("Exception during initialization")
        return usual(path, options, providers=providers, **more)

    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: WITH_GPU)
    monkeypatch.setattr(onnxruntime, "InferenceSession", start)
    monkeypatch.setattr(logging.getLogger("malmoi"), "propagate", True)
    with caplog.at_level(logging.WARNING):
        encoder: Any = malmoi.load(bundle, device="openvino")
    said = "openvino cannot be used here; model.onnx runs on the cpu; a float32 graph for it:"
    assert said in caplog.text
    assert encoder._session.device == "cpu"
    monkeypatch.setenv("MALMOI_DEVICE", "openvino")
    shown = run_here("model", "info", bundle, "--table").stdout
    assert (
        "  runs on       cpu (openvino cannot run this graph; cuda too: malmoi --device)" in shown
    )


@pytest.mark.skipif(
    "OpenVINOExecutionProvider" not in onnxruntime.get_available_providers(),
    reason="the installed onnxruntime has no OpenVINO: pip install onnxruntime-openvino",
)
def test_openvino_gives_the_vectors_of_the_processor(
    bundle: Path, run_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where it is installed; the shipped graph of 8-bit weights falls back and says so."""
    there: Any = malmoi.load(bundle, device="openvino")
    assert there._session.device == "openvino"
    found, expected = there.encode(TEXTS), malmoi.load(bundle, device="cpu").encode(TEXTS)
    assert (found * expected).sum(axis=1).min() > 0.9999
    monkeypatch.setenv("MALMOI_DEVICE", "openvino")
    assert (
        "  runs on       openvino (cpu too: malmoi --device)"
        in run_here("model", "info", bundle, "--table").stdout
    )
    shown = run_here("model", "info", "ko-en-small", "--table").stdout
    assert "  runs on       cpu (openvino cannot run this graph)" in shown


def test_static_models_have_no_graph_to_place(tmp_path: Path) -> None:
    static = graphs.write_static(tmp_path / "static")
    assert malmoi.load(static, device="auto").encode("배").shape == (graphs.DIM,)
    with pytest.raises(OptionError, match="device is 'tpu'"):
        malmoi.load(static, device="tpu")


def test_the_command_line_names_the_device(
    bundle: Path, run_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MALMOI_DEVICE", "cpu")  # the command sets it for its process
    assert "  runs on       cpu" in run_here("model", "info", bundle, "--table").stdout
    failed = run_here("--device", "directml", "model", "info", bundle, "--table")
    assert failed.returncode == 1 and "onnxruntime-directml" in failed.stderr


def test_pages_of_files_are_free_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A container counts what was read from files as held, and gives it back when it is needed."""
    written = {
        "/proc/meminfo": "MemTotal: 9000 kB\nMemAvailable: 8000 kB\n",
        "/sys/fs/cgroup/memory.max": "5000000\n",
        "/sys/fs/cgroup/memory.current": "4000000\n",
        "/sys/fs/cgroup/memory.stat": "anon 900000\ninactive_file 2000000\nactive_file 1000000\n",
    }
    monkeypatch.setattr(Path, "read_text", lambda path, *_: written[str(path)])
    assert free_memory() == 4_000_000
    written["/sys/fs/cgroup/memory.max"] = "max\n"
    assert free_memory() == 8000 * 1024
