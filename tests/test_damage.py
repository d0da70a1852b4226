"""Single bits flipped in files of every kind: told, made again, or without effect; never wrong."""

import random
import shutil
from pathlib import Path

import pytest

from bench.soak.flips import KINDS, outcome

FLIPS = {"index of names": 6}  # making it again takes longest


@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=pytest.mark.train if kind == "checkpoint" else ()) for kind in KINDS],
)
def test_flipped_bits_are_never_silently_wrong(kind: str, tmp_path: Path) -> None:
    chance, whole, copy = random.Random(7), tmp_path / "whole", tmp_path / "copy"
    use = KINDS[kind](whole)
    right = use(whole)
    files = [path for path in sorted(whole.rglob("*")) if path.is_file() and path.suffix != ".md"]
    for i in range(FLIPS.get(kind, 25)):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(whole, copy)
        file = copy / files[i % len(files)].relative_to(whole)  # each file has its turn
        data = bytearray(file.read_bytes() or b"\0")
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        file.write_bytes(data)
        found = outcome(use, copy, right)
        assert found in ("told", "harmless"), (kind, file.name, found)
