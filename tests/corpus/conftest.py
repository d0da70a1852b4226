"""Milvus without its pauses."""

import time
from types import SimpleNamespace

import pytest


@pytest.fixture
def impatient_milvus(monkeypatch: pytest.MonkeyPatch) -> None:
    """Milvus's client asks every half second whether an index is ready; here every 10 ms."""
    try:
        from pymilvus.client import grpc_handler
    except ImportError:  # another version; its pauses cost time and nothing else
        return
    clock = SimpleNamespace(time=time.time, sleep=lambda seconds: time.sleep(min(seconds, 0.01)))
    monkeypatch.setattr(grpc_handler, "time", clock)
