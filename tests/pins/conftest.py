"""Markers of the pins, so that a quick run can leave the slow ones out."""

import pytest


def pytest_configure(config: pytest.Config) -> None:
    for line in (
        "slow: takes seconds rather than milliseconds",
        "train: needs torch",
        "server: starts a server",
    ):
        config.addinivalue_line("markers", line)
