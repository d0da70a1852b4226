"""Fingerprints: hashes that stay the same, changed files found, stamps that fit or do not."""

import hashlib
import json
from pathlib import Path

import pytest

from malmoi.errors import BundleError, LexiconError
from malmoi.io import fingerprint


def test_hashes_are_plain_sha256(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes("배".encode())
    plain = hashlib.sha256("배".encode()).hexdigest()
    assert fingerprint.sha256(tmp_path / "a.txt") == fingerprint.hash_text("배") == plain
    assert fingerprint.hash_number("배") == int.from_bytes(bytes.fromhex(plain)[:8], "big")
    assert len(fingerprint.hash_text("half a pair \ud800")) == 64
    # Written into the markers of runs: another value would do finished stages again.
    assert fingerprint.hash_data(["", "words", {"b": 1, "a": "가"}]) == "eb2dcc52096ad681"


def test_a_stamp_must_hold_all_that_is_asked(tmp_path: Path) -> None:
    stamp = tmp_path / "stamp.json"
    assert fingerprint.read_stamp(stamp) == {}
    fingerprint.write_json(stamp, {"format": 1, "model": "가"}, indent=None)
    assert json.loads(stamp.read_text("utf-8")) == {"format": 1, "model": "가"}
    assert fingerprint.has_stamp(stamp, {"model": "가"})
    assert not fingerprint.has_stamp(stamp, {"model": "나"})
    assert not fingerprint.has_stamp(stamp, {"segment": None})
    for broken in ("[1]", "{", ""):
        stamp.write_text(broken)
        assert fingerprint.read_stamp(stamp) == {}
        assert not fingerprint.has_stamp(stamp, {"model": "가"})


def test_formats_of_another_time_are_refused() -> None:
    for data in ([], {}, {"format": "1"}):
        with pytest.raises(BundleError, match=r'x has no field "format"; expected 2\. Again\.'):
            fingerprint.check_format(data, 2, where="x", remedy="Again.", error=BundleError)
    with pytest.raises(LexiconError, match="x is of format 3; this malmoi reads up to 2"):
        fingerprint.check_format({"format": 3}, 2, where="x", remedy="", error=LexiconError)
    found = fingerprint.check_format({"format": 1}, 2, where="x", remedy="", error=LexiconError)
    assert found == {"format": 1}
