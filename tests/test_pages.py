"""Large pages: what is asked for, and that a refusal changes nothing."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import graphs
import malmoi
from malmoi import pages, session

PAGE = 2 << 20


def large() -> int:
    """How much of this process lies in large pages, in bytes."""
    told = Path("/proc/self/smaps_rollup").read_text()
    return 1024 * int(re.findall(r"AnonHugePages:\s+(\d+)", told)[0])


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked")
def test_memory_that_came_later_is_asked_for() -> None:
    growth = pages.Growth()
    later = b"\1" * (16 * PAGE)  # numpy would have asked by itself
    had = large()
    got = growth.ask()
    if got:  # a machine may refuse all of them
        assert large() >= had + PAGE
    assert later.count(1) == len(later)


def test_what_the_map_says(tmp_path: Path) -> None:
    path = tmp_path / "maps"
    path.write_text(
        "00400000-00600000 r-xp 00000000 08:01 1  /usr/bin/python\n"
        "00600000-00a00000 rw-p 00000000 00:00 0  [heap]\n"
        "7f0000000000-7f0000400000 rw-p 00000000 00:00 0 \n"
        "7f0000400000-7f0000500000 rw-p 00000000 08:01 2  /a file with spaces\n"
    )
    found = list(pages._regions(path)) if sys.platform == "linux" else []
    if sys.platform == "linux":
        assert found == [(0x600000, 0xA00000), (0x7F0000000000, 0x7F0000400000)]
    assert list(pages._regions(tmp_path / "none")) == []


@pytest.mark.parametrize(
    ("region", "whole"), [((1, 3 * PAGE), (PAGE, 3 * PAGE)), ((5, 9), (PAGE, PAGE))]
)
def test_only_whole_pages(region: tuple[int, int], whole: tuple[int, int]) -> None:
    assert pages._whole(region) == whole


def test_a_session_asks_once_when_much_was_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []
    monkeypatch.setattr(session.Growth, "ask", lambda growth: asked.append(growth))
    monkeypatch.setattr(session, "_MUCH", 60)
    encoder = malmoi.load(graphs.write_bundle(tmp_path / "encoder"))
    first = encoder.encode(["배가 아파요"])
    assert asked == []
    for _ in range(30):
        encoder.encode(["배가 아파요", "My stomach hurts", "배를 타고 섬에 갔다"])
    assert len(asked) == 1
    assert np.array_equal(encoder.encode(["배가 아파요"]), first)


def test_elsewhere_nothing_is_asked() -> None:
    code = (
        "import sys; sys.platform = 'darwin'\n"
        "from malmoi.pages import Growth\n"
        "assert Growth().ask() == 0"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
