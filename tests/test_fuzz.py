"""What nobody wrote by hand: damaged documents, recipes, manifests and tables are read or refused.

A target draws bytes that are nearly a good file. The outcome is what the file says or one line of
a MalmoiError, within seconds. MALMOI_FUZZ=50 runs fifty times as many; the bodies of HTTP requests
are drawn in tests/serve/test_bounds.py, bits of binary files flipped in tests/test_damage.py.
"""

import io
import json
import os
import re
import time
import zipfile
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from malmoi.bundle.manifest import Manifest
from malmoi.clinical.rules import ContextRules
from malmoi.documents import read_documents
from malmoi.errors import MalmoiError
from malmoi.io.tables import read_rows
from malmoi.terms import build_lexicon
from malmoi.training.recipe import load_recipe
from tests.documents.samples import hwp, hwpx, pdf
from tests.support import ROOT, graphs

TIMES = int(os.environ.get("MALMOI_FUZZ", "1"))
LONGEST = 20.0  # seconds of processor time for one small file; a loop without end takes more
PAGE = (
    "<html><head><title>연차 규정</title></head><body><h1>연차</h1><ul><li>여권<ul><li>사진"
    "</ul></ul><table><tr><td rowspan=2>항목<td>금액<tr><td>1,000원</table><p>쓰지 않은 연차</p>"
)
PIECES = [
    *(b"\0", b"\xff\xfe", b"\xef\xbb\xbf", "\ud55c".encode()[:2], b"\xb0\xa1", b"<", b"</"),
    *(b'"', b"'''", b"\t", b"\r", b"\n\n", b",", b"{", b"[" * 300, b"]", b"\\", b"&#x0;", b"1e999"),
    *(b"99999999999999999999", b"nan", b"0 R", b"/Kids[2 0 R]", b"Content-Type: multipart/mixed\n"),
]  # fmt: skip


@st.composite
def nearly(draw: st.DrawFn, good: bytes) -> bytes:
    """Good bytes with some pieces put in, cut out, doubled or changed."""
    data = bytearray(good)
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, max(0, len(data) - 1)))
        until = at + draw(st.integers(0, 40))
        piece = draw(st.sampled_from(PIECES) | st.binary(max_size=6))
        how = draw(st.sampled_from(("in", "out", "twice", "over")))
        own = bytes(data[at:until])
        data[at : at if how == "in" else until] = (
            piece if how in ("in", "over") else b"" if how == "out" else own * 3
        )
    return bytes(data)


def fuzz(good: bytes, use: Callable[[bytes], object], times: int = 60) -> None:
    """Use bytes that are nearly good; anything but an answer or a refusal of one line fails."""

    @settings(
        max_examples=times * TIMES,
        deadline=None,
        database=None,
        derandomize=TIMES == 1,
        suppress_health_check=list(HealthCheck),
    )
    @given(nearly(good))
    def attempt(data: bytes) -> None:
        began = time.process_time()
        try:
            use(data)
        except MalmoiError as error:
            assert str(error) and "\n" not in str(error) and len(str(error)) < 1500
        assert time.process_time() - began < LONGEST

    attempt()


def office(kind: str) -> bytes:
    """A small file of an office program."""
    out = io.BytesIO()
    if kind == "docx":
        import docx

        word = docx.Document()
        word.add_heading("연차 규정", 1)
        word.add_paragraph("쓰지 않은 연차는 다음 해 3월까지 쓸 수 있다.")
        word.add_table(2, 2).cell(0, 0).text = "항목"
        word.save(out)
    elif kind == "pptx":
        import pptx

        show: Any = pptx.Presentation()
        show.slides.add_slide(show.slide_layouts[0]).shapes.title.text = "분기 보고"
        show.save(out)
    else:
        import openpyxl

        book: Any = openpyxl.Workbook()
        book.active.append(["질문", "답"])
        book.active.append(["연차?", 15])
        book.save(out)
    return out.getvalue()


def mail() -> bytes:
    message = EmailMessage()
    message["Subject"], message["Date"] = "연차 규정", "Thu, 19 Nov 2026 09:00:00 +0900"
    message.set_content("쓰지 않은 연차는 다음 해에 쓴다.")
    message.add_alternative(PAGE, subtype="html")
    message.add_attachment(b"a,b\n1,2\n", maintype="text", subtype="csv", filename="표.csv")
    return message.as_bytes()


PLAIN = {
    "txt": "출장 규정\n====\n\n1. 적용 범위\n\n- 여권\n- 사진\n".encode("cp949"),
    "md": "---\ntitle: 연차\ntags: [a]\n---\n# 연차\n\n| a | b |\n|---|---|\n| 1 | 2 |\n".encode(),
    "html": PAGE.encode(),
    "csv": "id,text,year\n1,\"연차, 휴가\",2024\n2,출장,2025\n".encode(),
    "tsv": "id\ttext\n1\t연차\n2\t출장\n".encode(),
    "jsonl": b'{"id": "1", "text": "leave", "year": 2024}\n{"id": "2", "text": "trip"}\n',
    "eml": mail(),
    "pdf": pdf([[(60, 780, 20, "연차 규정"), (60, 740, 11, "쓰지 않은 연차는 다음 해에 쓴다.")]]),
    "hwp": hwp([("연차 규정", 1), ("다음 해에 쓴다.", 0)], [["항목", "금액"]]),
}  # fmt: skip


@pytest.mark.parametrize("kind", PLAIN)
def test_damaged_documents(kind: str, tmp_path: Path) -> None:
    def use(data: bytes) -> object:
        path = tmp_path / f"x.{kind}"
        path.write_bytes(data)
        return list(read_documents(path))

    assert use(PLAIN[kind])
    fuzz(PLAIN[kind], use, 12 if kind == "pdf" else 60)  # a process reads PDFs


@pytest.mark.parametrize("kind", ["docx", "pptx", "xlsx", "hwpx", "zip"])
def test_damaged_parts_of_archives(kind: str, tmp_path: Path) -> None:
    """The parts are damaged, not the archive around them: that is refused at once."""
    section = "<hp:p><hp:run><hp:t>쓰지 않은 연차는 다음 해에 쓴다.</hp:t></hp:run></hp:p>"
    if kind == "hwpx":
        good = hwpx(tmp_path / "good.hwpx", section).read_bytes()
    elif kind == "zip":
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            archive.writestr("규정/연차.md", PLAIN["md"])
        good = out.getvalue()
    else:
        good = office(kind)
    with zipfile.ZipFile(io.BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    texts = [name for name in parts if re.search(r"document|slide1\.|sheet1\.|section0|\.md", name)]
    biggest = max(texts, key=lambda name: len(parts[name]))

    def use(data: bytes) -> object:
        path = tmp_path / f"x.{kind}"
        with zipfile.ZipFile(path, "w") as archive:
            for name, part in parts.items():
                archive.writestr(name, data if name == biggest else part)
        return list(read_documents(path))

    assert use(parts[biggest])
    fuzz(parts[biggest], use, 40)


def test_damaged_manifests(tmp_path: Path) -> None:
    good = (graphs.write_bundle(tmp_path / "bundle") / "malmoi.json").read_bytes()
    fuzz(good, lambda data: Manifest.from_json(json_of(data), where="x"), 200)


def json_of(data: bytes) -> object:
    """Parsed JSON, or a refusal in place of the reader's own."""
    try:
        return json.loads(data)
    except ValueError as error:
        raise MalmoiError(f"x cannot be read ({type(error).__name__}). Copy it again.") from error


def test_damaged_tables(tmp_path: Path) -> None:
    """Of a lexicon, of pairs, and of the rules that notes are read by."""
    table = (ROOT / "src/malmoi/data/sample.tsv").read_bytes()[:900].rpartition(b"\n")[0] + b"\n"
    path, out, cues = tmp_path / "x.tsv", tmp_path / "x.lexicon", tmp_path / "tables"
    cues.mkdir()

    def lexicon(data: bytes) -> object:
        path.write_bytes(data)
        return build_lexicon([path], out, replace=True)

    def rows(data: bytes) -> object:
        path.write_bytes(data)
        return list(read_rows(path))

    def rules(data: bytes) -> object:
        (cues / "cues.tsv").write_bytes(data)
        return ContextRules.open(cues)

    fuzz(table, lexicon, 40)
    fuzz(table, rows)
    fuzz("attribute\tdirection\tcue\nnegated\tafter\t없음\n".encode(), rules)


def test_damaged_recipes(tmp_path: Path) -> None:
    path = tmp_path / "x.toml"

    def use(data: bytes) -> object:
        path.write_bytes(data)
        return load_recipe(path)

    fuzz((ROOT / "recipes/sts-cosent.toml").read_bytes(), use, 150)
