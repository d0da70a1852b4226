"""Where a graph runs: what is asked for, what onnxruntime has, and what it falls back to."""

import logging
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import malmoi
from malmoi.errors import OptionError
from malmoi.runtime.session import choose_device, usable_devices
from tests.support import graphs

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
    bundle: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
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
    assert "openvino cannot be used here; model.onnx runs on the cpu" in caplog.text
    assert encoder._session.device == "cpu"


def test_static_models_have_no_graph_to_place(tmp_path: Path) -> None:
    static = graphs.write_static(tmp_path / "static")
    assert malmoi.load(static, device="auto").encode("배").shape == (graphs.DIM,)
    with pytest.raises(OptionError, match="device is 'tpu'"):
        malmoi.load(static, device="tpu")


def test_the_command_line_names_the_device(
    bundle: Path, run_here: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MALMOI_DEVICE", "cpu")  # the command sets it for its process
    assert "  runs on       cpu" in run_here("info", bundle).stdout
    failed = run_here("--device", "directml", "info", bundle)
    assert failed.returncode == 1 and "onnxruntime-directml" in failed.stderr
