"""PDFs: Korean of every encoding, the order of reading, joined words, and files that harm."""

import os
import zlib
from pathlib import Path

import pytest

from malmoi.documents import Block, DocumentError, read_documents
from malmoi.documents import pdf as loader
from malmoi.documents.pdf import Line, Page, WordBreaks, join_lines, page_blocks
from tests.documents import samples
from tests.documents.samples import pdf

pytest.importorskip("pypdfium2")
TEXT = "이 규정은 회사의 출장 업무를 효율적으로 수행하기 위하여 필요한 사항을 정함을 목적으로 한다."


def read(folder: Path, data: bytes) -> tuple[Block, ...]:
    path = folder / "a.pdf"
    path.write_bytes(data)
    [document] = read_documents(path)
    return document.blocks


@pytest.mark.parametrize(
    ("encoding", "codec"),
    [
        ("UniKS-UTF16-H", "utf-16-be"),
        ("UniKS-UCS2-H", "utf-16-be"),
        ("KSCms-UHC-H", "cp949"),
        ("KSC-EUC-H", "euc-kr"),
    ],
)
def test_korean_without_an_embedded_font(tmp_path: Path, encoding: str, codec: str) -> None:
    data = pdf([[(60, 700, 12, "당뇨병 환자의 식사 요법")]], encoding=encoding, codec=codec)
    assert read(tmp_path, data)[0].text == "당뇨병 환자의 식사 요법"


def test_headings_pages_and_what_every_page_repeats(tmp_path: Path) -> None:
    pages = []
    for number in range(1, 4):
        lines = [(60, 810, 8, "주식회사 말모이 규정집"), (290, 30, 8, f"- {number} -")]
        lines += [(60, 740, 16, f"제{number}장 출장")]
        lines += [(60, 700, 10, TEXT), (60, 660, 10, f"다른 문단은 {number}이다.")]
        pages.append(lines)
    (tmp_path / "a.pdf").write_bytes(pdf(pages, title="출장 규정"))
    [document] = read_documents(tmp_path / "a.pdf")
    assert document.title == "출장 규정"
    assert [(one.kind, one.page, one.text) for one in document.blocks[:3]] == [
        ("heading", 1, "제1장 출장"),
        ("paragraph", 1, TEXT),
        ("paragraph", 1, "다른 문단은 1이다."),
    ]
    assert [one.page for one in document.blocks] == [1, 1, 1, 2, 2, 2, 3, 3, 3]


def test_a_single_page_keeps_its_margins(tmp_path: Path) -> None:
    blocks = read(tmp_path, pdf([[(60, 810, 12, "수신: 인사팀"), (60, 700, 12, TEXT)]]))
    assert [one.text for one in blocks] == ["수신: 인사팀", TEXT]


def test_a_number_at_the_foot_of_a_table_is_no_page_number(tmp_path: Path) -> None:
    pages = []
    for number in range(3):
        rows = [(60, 110 - 15 * at, 10, f"{at} | {number}") for at in range(3)]
        pages.append([*rows, (60, 62 - number, 10, str(10 + number)), (300, 30, 8, str(number))])
    blocks = read(tmp_path, pdf(pages))
    text = "\n".join(one.text for one in blocks)
    assert all(str(10 + number) in text for number in range(3))


def test_lists_and_tables(tmp_path: Path) -> None:
    lines = [
        (60, 700, 10, TEXT),
        (60, 680, 10, TEXT),
        (60, 640, 10, "- 여권"),
        (60, 625, 10, "- 돈"),
    ]
    for row, cells in enumerate(
        [("구분", "국내", "해외"), ("숙박", "팔만", "이백"), ("식비", "삼만", "육십")]
    ):
        lines += [(60 + 150 * at, 580 - 15 * row, 10, cell) for at, cell in enumerate(cells)]
    blocks = read(tmp_path, pdf([lines]))
    assert [(one.kind, one.text) for one in blocks[1:]] == [
        ("list", "- 여권\n- 돈"),
        ("table", "구분 | 국내 | 해외\n숙박 | 팔만 | 이백\n식비 | 삼만 | 육십"),
    ]


def _column(x: float, texts: list[str]) -> list[Line]:
    return [Line(text, x, x + 200, 700 - 15 * at, 10, False) for at, text in enumerate(texts)]


def test_columns_that_a_file_has_line_by_line_are_read_one_after_the_other() -> None:
    left = [f"왼쪽 단의 문장은 {n}번째이며 이렇게 길게" for n in range(8)]
    right = [f"오른쪽 단의 문장은 {n}번째이며 이렇게 길게" for n in range(8)]
    rows = zip(_column(50, left), _column(300, right), strict=True)
    head = Line("두 단에 걸친 제목이 위에 있다", 50, 500, 760, 18, False)
    lines = [head, *(line for row in rows for line in row)]
    blocks = page_blocks([Page(1, 842, lines)])
    text = "\n".join(one.text for one in blocks)
    assert blocks[0] == Block(head.text, "heading", 1, 1)
    assert text.index("왼쪽 단의 문장은 7번째") < text.index("오른쪽 단의 문장은 0번째")
    assert all(sum(part in line for part in ("왼쪽", "오른쪽")) < 2 for line in text.split("이며"))


def test_a_paragraph_goes_on_over_the_end_of_a_page() -> None:
    first = Line(
        "숙박비는 하루 팔만 원을 넘지 못하며 영수증을 반드시 회사에 내야", 50, 500, 100, 10, False
    )
    second = Line("하고, 없으면 지급하지 않는다.", 50, 300, 780, 10, False)
    [block] = page_blocks([Page(1, 842, [first]), Page(2, 842, [second])])
    assert block.text.replace(" ", "").endswith("내야하고,없으면지급하지않는다.")
    assert block.page == 1


def test_words_broken_at_the_end_of_a_line_are_joined() -> None:
    lines = [f"그 {word} 늘 {word} 있다" for word in ("출장비는", "숙박비를", "규정에서")] * 3
    breaks = WordBreaks(lines)
    assert join_lines("이 출장", "비는 크다", breaks) == "이 출장비는 크다"
    assert join_lines("모든 규정에서", "숙박비를 본다", breaks) == "모든 규정에서 숙박비를 본다"
    assert join_lines("interna\u00ad", "tional", breaks) == "international"
    assert join_lines("interna-", "tional", breaks) == "international"
    assert join_lines("seven days", "of returning", breaks) == "seven days of returning"
    assert join_lines("끝이다.", "다음은", breaks) == "끝이다. 다음은"


def test_a_line_with_room_for_another_syllable_was_broken_between_words() -> None:
    texts = ["가나다 라마바사 아자차카 타파하", "가나다라 마바사아자 차카타파하 가", "끝이다"]
    ends = (470.0, 500.0, 100.0)
    lines = [
        Line(text, 50, end, 700 - 15 * at, 10, False)
        for at, (text, end) in enumerate(zip(texts, ends, strict=True))
    ]
    [block] = page_blocks([Page(1, 842, lines)])
    assert block.text.startswith("가나다 라마바사 아자차카 타파하 가나다라 ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (pdf([[(60, 700, 12, "가")]], encrypted=True), "is encrypted. Save it without a password"),
        (pdf([[]], drawing="0 0 100 100 re f\n"), "has only images on its 1 page, as scans have"),
        (pdf([[], []]), "has nothing on its 2 pages, as scans have; expected text. Run OCR"),
        (pdf([[(60, 700, 12, "가")]])[:200], "is damaged .*; expected a whole PDF"),
        (b"%PDF-1.7\n" + b"x" * 3000, "is damaged"),
    ],
)
def test_what_cannot_be_read_is_said_in_one_line(tmp_path: Path, data: bytes, message: str) -> None:
    with pytest.raises(DocumentError, match=message) as raised:
        read(tmp_path, data)
    assert "\n" not in str(raised.value)
    assert read(tmp_path, pdf([[(60, 700, 12, "다음 것은 읽는다.")]]))


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("import time\ntime.sleep(60)", "was not read within 0 seconds"),
        ("import os\nos.abort()", "made its reader stop"),
        ('print(\'{"error": "memory"}\')', "1.5 GiB"),
    ],
)
def test_a_file_that_harms_its_reader_does_not_harm_us(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, message: str
) -> None:
    (tmp_path / "worker.py").write_text(script)
    data = pdf([[(60, 700, 12, "본문이다.")]])
    with monkeypatch.context() as patch:
        patch.setattr(loader.pdf_worker, "__file__", str(tmp_path / "worker.py"))
        patch.setattr(loader, "PAGE_TIME", 0.4 if "sleep" in script else 30.0)
        with pytest.raises(DocumentError, match=message):
            read(tmp_path, data)
    assert read(tmp_path, data)[0].text == "본문이다."


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="memory is limited on POSIX only")
def test_a_page_that_unpacks_to_gigabytes_is_refused(tmp_path: Path) -> None:
    chunk = b"BT /L 12 Tf 60 700 Td (hello) Tj ET\n" * 30_000
    packer = zlib.compressobj(9)
    packed = b"".join(packer.compress(chunk) for _ in range(150)) + packer.flush()
    head = b"<</Length %d/Filter/FlateDecode>>stream\n" % len(packed)
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[5 0 R]/Count 1>>",
        b"<</Font<</L <</Type/Font/Subtype/Type1/BaseFont/Helvetica>>>>>>",
        b"<<>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 9 9]/Resources 3 0 R/Contents 6 0 R>>",
        head + packed + b"\nendstream",
    ]
    with pytest.raises(DocumentError, match=r"made its reader stop|memory|damaged|not read within"):
        read(tmp_path, samples._pdf_file(objects, False))
