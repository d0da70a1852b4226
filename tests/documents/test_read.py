"""Loaders: what each format becomes, and which format a file has."""

import datetime
import json
from email.message import EmailMessage
from pathlib import Path
from typing import Any

import pytest

from malmoi.documents import (
    Block,
    DocumentError,
    RowColumns,
    SourceDocument,
    read_documents,
    supported_types,
)
from malmoi.errors import MissingExtra
from tests.documents.samples import hwp, hwpx, pdf
from tests.support.logs import record_messages


def read(path: Path, data: str | bytes = "", **options: Any) -> SourceDocument:
    [document] = rows(path, data, **options)
    return document


def rows(path: Path, data: str | bytes = "", **options: Any) -> list[SourceDocument]:
    if data:
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
    return list(read_documents(path, **options))


def shown(document: SourceDocument) -> list[tuple[Any, ...]]:
    """Blocks as short tuples: kind, then the level of a heading, then the text."""
    return [
        (one.kind, one.level, one.text) if one.kind == "heading" else (one.kind, one.text)
        for one in document.blocks
    ]


def test_every_type_has_a_loader(tmp_path: Path) -> None:
    from malmoi.documents.files import _LOADERS

    assert _LOADERS.keys() == supported_types().keys()


def test_plain_text(tmp_path: Path) -> None:
    text = """출장 규정
=========

이 규정은 회사의 출장 업무를 효율적으로 수행하기 위하여
필요한 사항을 정한다. 모든 임직원에게 적용하고, 따로 정하지
않은 것은 관례에 따른다.

1. 적용 범위

본사와 지사에 적용한다.
준비물:
- 여권
- 영수증

주소
서울시 중구
"""
    document = read(tmp_path / "규정.txt", text)
    assert (document.id, document.title, document.type) == ("규정.txt", "출장 규정", "txt")
    assert document.source == str(tmp_path / "규정.txt")
    assert document.modified == (tmp_path / "규정.txt").stat().st_mtime
    assert shown(document) == [
        ("heading", 1, "출장 규정"),
        (
            "paragraph",
            "이 규정은 회사의 출장 업무를 효율적으로 수행하기 위하여 필요한 사항을 정한다. "
            "모든 임직원에게 적용하고, 따로 정하지 않은 것은 관례에 따른다.",
        ),
        ("heading", 2, "1. 적용 범위"),
        ("paragraph", "본사와 지사에 적용한다.\n준비물:"),
        ("list", "- 여권\n- 영수증"),
        ("paragraph", "주소\n서울시 중구"),
    ]


def test_numbered_lines_that_follow_one_another_are_a_list(tmp_path: Path) -> None:
    document = read(tmp_path / "a.txt", "1. 사과\n2. 배\n3. 귤\n")
    assert shown(document) == [("list", "1. 사과\n2. 배\n3. 귤")]
    assert document.title == "a"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "cp949", "utf-16"])
def test_encodings(tmp_path: Path, encoding: str) -> None:
    assert read(tmp_path / "a.txt", "똠방각하의 글".encode(encoding)).blocks == (
        Block("똠방각하의 글"),
    )
    page = f"<html><head><meta charset={encoding}></head><p>똠방각하의 글</p></html>"
    assert read(tmp_path / "a.html", page.encode(encoding)).blocks == (Block("똠방각하의 글"),)


def test_several_encodings_in_one_file(tmp_path: Path) -> None:
    data = "첫째 줄은 이렇다.\n\n".encode() + "둘째 줄은 다르다.\n".encode("cp949")
    assert [one.text for one in read(tmp_path / "a.txt", data).blocks] == [
        "첫째 줄은 이렇다.",
        "둘째 줄은 다르다.",
    ]


def test_markdown(tmp_path: Path) -> None:
    text = """---
title: "설치 안내"
---
# 설치

**두** 줄에
걸친 [링크](http://a.b) 글과 `코드`.

1. 받기
   - 안에
2. 풀기

| 이름 | 값 |
|---|---|
| `a` | 1 |

```python
# 제목이 아님
x = 1
```

<div><b>굵은</b> 글<script>x()</script></div>

> 인용한 글
"""
    document = read(tmp_path / "a.md", text)
    assert document.title == "설치 안내"
    assert shown(document) == [
        ("heading", 1, "설치"),
        ("paragraph", "두 줄에 걸친 링크 글과 코드."),
        ("list", "1. 받기\n  - 안에\n2. 풀기"),
        ("table", "이름 | 값\na | 1"),
        ("code", "# 제목이 아님\nx = 1"),
        ("paragraph", "굵은  글"),
        ("paragraph", "인용한 글"),
    ]


def test_html(tmp_path: Path) -> None:
    text = """<!doctype html><title>환불 &amp; 교환</title><style>p{}</style>
<body><nav>처음 > 고객센터</nav><script>alert("x")</script>
<div>첫 줄<br>둘째 <b>줄</b><p>문단</p>뒤</div>
<h2>기간 <small>안내</small></h2>
<ul><li>7일<ul><li>예외</li></ul></li><li><p>끝</p></li></ul>
<table><caption>요금</caption><tr><th>구분<th>값<tr><td>가<td>1</table>
<pre>if x:
  y</pre><p style="display:none" hidden>숨은 글</p><footer>저작권</footer></body>"""
    document = read(tmp_path / "a.html", text)
    assert document.title == "환불 & 교환"
    assert shown(document) == [
        ("paragraph", "첫 줄\n둘째 줄"),
        ("paragraph", "문단"),
        ("paragraph", "뒤"),
        ("heading", 2, "기간 안내"),
        ("list", "- 7일\n  - 예외\n- 끝"),
        ("paragraph", "요금"),
        ("table", "구분 | 값\n가 | 1"),
        ("code", "if x:\n  y"),
    ]


def test_html_whose_tables_and_line_breaks_arrange_the_page(tmp_path: Path) -> None:
    text = "<html><table><tr><td>첫 줄<br>둘째 줄<br><br>다음 문단</td></tr></table></html>"
    assert shown(read(tmp_path / "a.html", text)) == [
        ("paragraph", "첫 줄\n둘째 줄"),
        ("paragraph", "다음 문단"),
    ]


def test_html_in_which_elements_are_very_deep(tmp_path: Path) -> None:
    text = "<div>" * 3000 + "깊은 글" + "<ul><li>" * 1000 + "항목"
    document = read(tmp_path / "a.html", f"<html>{text}</html>")
    assert "깊은 글" in document.blocks[0].text
    assert "항목" in " ".join(one.text for one in document.blocks)


def test_word(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    word = docx.Document()
    word.core_properties.author = "인사팀"
    word.add_heading("출장 규정", 0)
    word.add_heading("목적", 1)
    word.add_paragraph("이 규정은 출장을 정한다.")
    for text in ("교통비", "숙박비"):
        word.add_paragraph(text, style="List Bullet")
    table = word.add_table(2, 2)
    for at, text in enumerate(["구분", "국내", "숙박비", "80,000원"]):
        table.cell(at // 2, at % 2).text = text
    frame = word.add_table(1, 1)
    frame.cell(0, 0).text = "상자 안의 글"
    word.add_paragraph("끝.")
    word.save(str(tmp_path / "a.docx"))
    document = read(tmp_path / "a.docx")
    assert (document.title, document.metadata) == ("출장 규정", {"author": "인사팀"})
    assert shown(document) == [
        ("heading", 1, "출장 규정"),
        ("heading", 1, "목적"),
        ("paragraph", "이 규정은 출장을 정한다."),
        ("list", "- 교통비\n- 숙박비"),
        ("table", "구분 | 국내\n숙박비 | 80,000원"),
        ("paragraph", "상자 안의 글"),
        ("paragraph", "끝."),
    ]


def test_word_without_styles_has_headings_by_their_numbers(tmp_path: Path) -> None:
    docx = pytest.importorskip("docx")
    word = docx.Document()
    for text in (
        "1. 배경",
        "배경은 이러하다.",
        "2. 계획",
        "계획은 이러하다.",
        "(1) 준비",
        "(2) 시작",
    ):
        word.add_paragraph(text)
    word.save(str(tmp_path / "보고서.docx"))
    document = read(tmp_path / "보고서.docx")
    headings = [one.text for one in document.blocks if one.kind == "heading"]
    assert headings == ["1. 배경", "2. 계획"]
    assert document.title == "보고서"


def test_presentation(tmp_path: Path) -> None:
    pptx = pytest.importorskip("pptx")
    show = pptx.Presentation()
    slide = show.slides.add_slide(show.slide_layouts[1])
    slide.shapes.title.text = "3분기 실적"
    slide.placeholders[1].text = "매출 증가\n비용 감소"
    slide.notes_slide.notes_text_frame.text = "천천히 말한다"
    slide = show.slides.add_slide(show.slide_layouts[5])
    slide.shapes.title.text = "표"
    table = slide.shapes.add_table(1, 2, 0, 0, 100, 100).table
    table.cell(0, 0).text, table.cell(0, 1).text = "가", "나"
    show.save(str(tmp_path / "a.pptx"))
    assert [(one.page, one.text) for one in read(tmp_path / "a.pptx").blocks] == [
        (1, "3분기 실적"),
        (1, "- 매출 증가\n- 비용 감소"),
        (1, "천천히 말한다"),
        (2, "표"),
        (2, "가 | 나"),
    ]


def test_workbook(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "출장비"
    for row in (
        ["2024년 기준표"],
        [],
        ["구분", "국내", "적용일"],
        ["숙박비", 80000, datetime.datetime(2024, 3, 1)],
        ["할인", 0.125, None],
        [],
        ["식비", 30000.0, None],
        [],
        ["담당", "전화"],
        ["홍길동", "1234"],
    ):
        sheet.append(row)
    sheet["B4"].number_format = "#,##0"
    sheet["B5"].number_format = "0.0%"
    other = book.create_sheet("명단")
    other["C3"], other["D3"], other["C4"], other["D4"] = "이름", "나이", "김", 30
    book.create_sheet("빈 것")
    book.save(tmp_path / "표.xlsx")
    document = read(tmp_path / "표.xlsx")
    assert document.title == "표"
    assert shown(document) == [
        ("heading", 1, "출장비"),
        ("paragraph", "2024년 기준표"),
        ("table", "구분 | 국내 | 적용일\n숙박비 | 80,000 | 2024-03-01\n할인 | 12.5%\n식비 | 30000"),
        ("table", "담당 | 전화\n홍길동 | 1234"),
        ("heading", 1, "명단"),
        ("table", "이름 | 나이\n김 | 30"),
    ]


def test_a_large_sheet_comes_in_parts_with_its_header(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    monkeypatch.setattr("malmoi.documents.office.LONGEST_PART", 3000)
    monkeypatch.setattr("malmoi.documents.office._LONGEST_TABLE", 1000)
    book = openpyxl.Workbook()
    book.active.append(["이름", "값"])
    for number in range(1000):
        book.active.append([f"이름{number}", number])
    book.save(tmp_path / "a.xlsx")
    parts = rows(tmp_path / "a.xlsx")
    assert [one.id for one in parts[:2]] == ["a.xlsx", "a.xlsx#2"]
    blocks = [block for part in parts for block in part.blocks]
    assert all(block.text.startswith("이름 | 값\n") for block in blocks)
    lines = [line for block in blocks for line in block.text.split("\n")[1:]]
    assert lines == [f"이름{number} | {number}" for number in range(1000)]


def test_rows_have_their_columns_by_their_names(tmp_path: Path) -> None:
    table = '번호,질문,답변,분류\n1,환불은 언제?,"7일 안에\n됩니다.",결제\n2,비자는?,네,여행\n,,,\n'
    first, second = rows(tmp_path / "faq.csv", table.encode("cp949"))
    assert (first.id, first.title, second.id) == ("faq.csv#1", "환불은 언제?", "faq.csv#2")
    assert shown(first) == [("heading", 1, "환불은 언제?"), ("paragraph", "7일 안에\n됩니다.")]
    assert first.metadata == {"번호": "1", "분류": "결제"}
    lines = [{"title": "가", "body": ["하나", "둘"], "tag": ["x"]}, {"title": "나", "body": None}]
    data = "\n".join(json.dumps(line, ensure_ascii=False) for line in lines)
    first, second = rows(tmp_path / "a.jsonl", data)
    assert (first.id, shown(first)[1]) == ("a.jsonl#1", ("paragraph", "하나\n둘"))
    assert first.metadata == {"tag": ["x"]}
    assert shown(second) == [("heading", 1, "나")]


def test_columns_can_be_named(tmp_path: Path) -> None:
    path, table = tmp_path / "a.tsv", "code\tko\ten\nA1\t감기\tcold\n"
    columns = RowColumns(text=("ko", "en"), id="code", fields=())
    document = read(path, table, columns=columns)
    assert (document.id, document.metadata) == ("a.tsv#A1", {})
    assert shown(document) == [("paragraph", "감기"), ("paragraph", "cold")]
    with pytest.raises(DocumentError, match="has no column 'x'; it has"):
        rows(path, columns=RowColumns(text=("x",)))


def test_rows_of_unknown_columns_keep_their_names(tmp_path: Path) -> None:
    [apple, pear] = rows(tmp_path / "a.csv", "품목;가격\n사과;1000\n배;2000;특가\n")
    assert shown(apple) == [("paragraph", "품목: 사과\n가격: 1000")]
    assert shown(pear) == [("paragraph", "품목: 배\n가격: 2000, 특가")]
    [first, _] = rows(tmp_path / "b.tsv", "배가 아픈 사람이 왔다.\t3\n머리가 아프다고 한다.\t4\n")
    assert shown(first) == [("paragraph", "배가 아픈 사람이 왔다.\n3")]


def test_an_id_that_comes_twice_gives_two_documents(tmp_path: Path) -> None:
    documents = rows(tmp_path / "a.csv", "id,text\n7,가\n7,나\n")
    assert [one.id for one in documents] == ["a.csv#7", "a.csv#7~2"]


def test_mail_with_attachments(tmp_path: Path) -> None:
    mail = EmailMessage()
    mail["Subject"], mail["From"], mail["To"] = "회의록 송부", "kim@example.com", "lee@example.com"
    mail.set_content("안녕하세요.\n\n> 지난 글입니다.\n")
    mail.add_attachment("# 안건\n\n예산".encode(), maintype="text", subtype="x", filename="안건.md")
    mail.add_attachment(b"\x89PNG\r\n", maintype="image", subtype="png", filename="그림.png")
    mail.add_attachment(b"%PDF-1.4 x", maintype="application", subtype="pdf", filename="깨진.pdf")
    messages = record_messages()
    letter, attached = rows(tmp_path / "a.eml", bytes(mail))
    assert (letter.title, letter.metadata["from"]) == ("회의록 송부", "kim@example.com")
    assert [one.text for one in letter.blocks] == [
        "회의록 송부",
        "안녕하세요.",
        "지난 글입니다.",
        "- 안건.md\n- 그림.png\n- 깨진.pdf",
    ]
    assert (attached.id, attached.title, attached.type) == ("a.eml#안건.md", "안건", "md")
    assert attached.source == letter.source
    assert len(messages) == 1
    assert messages[0].startswith("깨진.pdf in ")


def test_mail_in_old_encodings(tmp_path: Path) -> None:
    head = b"Subject: =?ks_c_5601-1987?B?yLjAx7fP?=\r\nFrom: \xb1\xe8 <a@b.c>\r\n"
    kind = b"Content-Type: text/html; charset=ks_c_5601-1987\r\n\r\n"
    document = read(tmp_path / "a.eml", head + kind + "<p>회의는 <b>3시</b></p>".encode("cp949"))
    assert [one.text for one in document.blocks] == ["회의록", "회의는 3시"]
    assert document.metadata["from"] == "김 <a@b.c>"


def test_hangul_documents(tmp_path: Path) -> None:
    body = [("출장 규정", 1), ("이 규정은 출장을 정한다.", 0), ("숙박", 2), ("8만 원이다.", 0)]
    table = [["구분", "금액"], ["숙박비", "80,000"]]
    expected = [
        ("heading", 1, "출장 규정"),
        ("paragraph", "이 규정은 출장을 정한다."),
        ("heading", 2, "숙박"),
        ("paragraph", "8만 원이다."),
        ("table", "구분 | 금액\n숙박비 | 80,000"),
    ]
    assert shown(read(tmp_path / "a.hwp", hwp(body, table))) == expected
    assert shown(read(tmp_path / "b.hwp", hwp(body, table, flags=0))) == expected
    cells = "".join(
        "<hp:tr>" + "".join(f"<hp:tc><hp:subList>{_p(cell)}</hp:subList></hp:tc>" for cell in row)
        + "</hp:tr>"
        for row in table
    )  # fmt: skip
    section = "".join(_p(text, style) for text, style in body)
    section += f"<hp:p><hp:run><hp:tbl>{cells}</hp:tbl></hp:run></hp:p>"
    document = read(hwpx(tmp_path / "c.hwpx", section, title="규정집"))
    assert shown(document) == expected
    assert (document.title, document.metadata) == ("규정집", {"author": "인사팀"})


def _p(text: str, style: int = 0) -> str:
    run = f"<hp:run><hp:t>{text}</hp:t></hp:run>"
    return f'<hp:p paraPrIDRef="0" styleIDRef="{style}">{run}</hp:p>'


def test_text_of_hangul_without_the_controls_in_it(tmp_path: Path) -> None:
    drawing = "\x0b" + "abcdefg"  # a control character with the seven places it fills
    document = read(tmp_path / "a.hwp", hwp([(f"앞{drawing}뒤\n다음", 0)]))
    assert document.blocks == (Block("앞뒤\n다음"),)


def test_content_decides_before_the_name(tmp_path: Path) -> None:
    data = pdf([[(60, 700, 12, "본문이다.")]])
    document = read(tmp_path / "실은 PDF.txt", data)
    assert (document.type, document.blocks[0].text) == ("pdf", "본문이다.")
    page = "<html><body><table><tr><td>가<td>나<tr><td>1<td>2</table></body></html>"
    document = read(tmp_path / "내보낸 표.xls", page)
    assert (document.type, document.blocks) == ("html", (Block("가 | 나\n1 | 2", "table"),))
    assert read(tmp_path / "README", "이름에 끝이 없다.").type == "txt"
    assert read(tmp_path / "a.py", "x = 1").type == "txt"


def test_a_missing_library_is_named_with_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib

    real = importlib.import_module

    def missing(name: str, package: str | None = None) -> Any:
        if name.split(".")[0] in ("pypdfium2", "olefile"):
            raise ModuleNotFoundError(name=name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", missing)
    for name, data in (("a.pdf", b"%PDF-1.5\n"), ("a.hwp", hwp([("가", 0)]))):
        with pytest.raises(MissingExtra, match=r"pip install 'malmoi\[documents\]'"):
            rows(tmp_path / name, data)
    assert rows(tmp_path / "a.csv", "text\n가\n")


def test_dates_are_iso_dates_in_every_format(tmp_path: Path) -> None:
    mail = "From: a@b.c\nSubject: hi\nDate: Tue, 05 Mar 2030 23:10:00 +0900\n\nText.\n"
    assert read(tmp_path / "a.eml", mail).metadata["date"] == "2030-03-05"
    page = '<html><head><meta property="article:published_time" content="2030-03-05T23:10:00Z">'
    html = read(tmp_path / "a.html", page + "<title>Untitled</title></head><h1>Trips</h1><p>x</p>")
    assert (html.metadata, html.title) == ({"date": "2030-03-05"}, "Trips")
    html = read(tmp_path / "b.html", "<html><body><p><time datetime='2030-03-05'>x</time></p>")
    assert html.metadata == {"date": "2030-03-05"}
    docx = pytest.importorskip("docx")
    word = docx.Document()
    word.add_heading("출장", 1)
    word.core_properties.title = "Microsoft Word - a.doc"
    word.core_properties.comments = ""
    word.core_properties.modified = datetime.datetime(2030, 3, 5, 23)
    word.save(str(tmp_path / "a.docx"))
    document = read(tmp_path / "a.docx")
    assert (document.metadata["date"], document.title) == ("2030-03-05", "출장")


def test_front_matter_keeps_its_fields(tmp_path: Path) -> None:
    text = (
        "---\ntitle: '휴가'\ndate: 2030/3/5  # draft\n"
        'tags: [hr, "a b"]\nowners:\n  - kim\n  - lee\n'
        "about: >\n  two\n  lines\n---\n# 다른 제목\n\n글\n"
    )
    document = read(tmp_path / "a.md", text)
    assert document.title == "휴가"
    assert document.metadata == {
        "date": "2030-03-05",
        "tags": ["hr", "a b"],
        "owners": ["kim", "lee"],
        "about": "two lines",
    }
    assert read(tmp_path / "b.md", "---\ntitle: untitled\n---\n# 이름\n\n글\n").title == "이름"
