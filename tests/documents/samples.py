"""Documents made in code: PDFs, Hangul documents and the OLE files that they are in."""

import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path

SECTOR = 512
_FREE, _END, _FAT = 0xFFFFFFFF, 0xFFFFFFFE, 0xFFFFFFFD

PdfLine = tuple[float, float, float, str]  # x, y, size, text


def pdf(
    pages: Sequence[Sequence[PdfLine]],
    *,
    encoding: str = "UniKS-UTF16-H",
    codec: str = "utf-16-be",
    title: str = "",
    encrypted: bool = False,
    drawing: str = "",
) -> bytes:
    """Write a PDF with a Korean font that is not embedded, as old office programs do."""
    font = (
        f"<</Type/Font/Subtype/Type0/BaseFont/HYSMyeongJo-Medium/Encoding/{encoding}"
        "/DescendantFonts["
        "<</Type/Font/Subtype/CIDFontType0/BaseFont/HYSMyeongJo-Medium/CIDSystemInfo"
        "<</Registry(Adobe)/Ordering(Korea1)/Supplement 1>>/DW 1000/W[1[500 94 500]]"
        "/FontDescriptor<</Type/FontDescriptor/FontName/HYSMyeongJo-Medium/Flags 4/FontBBox"
        "[0 -120 1000 880]/ItalicAngle 0/Ascent 880/Descent -120/CapHeight 720/StemV 60>>>>]>>"
    )
    latin = "<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    kids = " ".join(f"{5 + 2 * at} 0 R" for at in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Kids[{kids}]/Count {len(pages)}>>".encode(),
        f"<</Font<</K {font}/L {latin}>>>>".encode(),
        b"<</Title<feff" + title.encode("utf-16-be").hex().encode() + b">>>",
    ]
    for lines in pages:
        stream = drawing.encode()
        for x, y, size, text in lines:
            name, data = (
                ("L", text.encode("latin-1")) if text.isascii() else ("K", text.encode(codec))
            )
            stream += f"BT /{name} {size} Tf {x} {y} Td <{data.hex()}> Tj ET\n".encode()
        contents = len(objects) + 2
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources 3 0 R"
            f"/Contents {contents} 0 R>>".encode()
        )
        packed = zlib.compress(stream)
        head = f"<</Length {len(packed)}/Filter/FlateDecode>>stream\n".encode()
        objects.append(head + packed + b"\nendstream")
    return _pdf_file(objects, encrypted)


def _pdf_file(objects: Sequence[bytes], encrypted: bool) -> bytes:
    data, places = b"%PDF-1.5\n", []
    for number, one in enumerate(objects, start=1):
        places.append(len(data))
        data += f"{number} 0 obj\n".encode() + one + b"\nendobj\n"
    start = len(data)
    data += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    data += b"".join(f"{place:010d} 00000 n \n".encode() for place in places)
    lock = ""
    if encrypted:
        lock = f"/ID[<{'00' * 16}><{'00' * 16}>]/Encrypt<</Filter/Standard/V 1/R 2/P -4"
        lock += f"/O<{'01' * 32}>/U<{'02' * 32}>>>"
    trailer = f"trailer<</Size {len(objects) + 1}/Root 1 0 R/Info 4 0 R{lock}>>"
    return data + f"{trailer}\nstartxref\n{start}\n%%EOF".encode()


def hwpx(path: Path, section: str, *, title: str = "", encrypted: bool = False) -> Path:
    """Write a .hwpx document whose section has these paragraphs (XML)."""
    spaces = "".join(
        f' xmlns:{name}="http://www.hancom.co.kr/hwpml/2011/{full}"'
        for name, full in (("hp", "paragraph"), ("hs", "section"), ("hh", "head"))
    )
    styles = "".join(
        f'<hh:style id="{at}" type="PARA" name="{name}" engName="{english}" paraPrIDRef="0"/>'
        for at, (name, english) in enumerate(
            [("바탕글", "Normal"), ("개요 1", "Outline 1"), ("개요 2", "Outline 2")]
        )
    )
    package = (
        '<opf:package xmlns:opf="http://www.idpf.org/2007/opf/"><opf:metadata><opf:title>'
        f'{title}</opf:title><opf:meta name="creator" content="text">인사팀</opf:meta>'
        '</opf:metadata><opf:manifest><opf:item id="s0" href="Contents/section0.xml"/>'
        '</opf:manifest><opf:spine><opf:itemref idref="s0"/></opf:spine></opf:package>'
    )
    lock = "<odf:encryption-data/>" if encrypted else ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("mimetype", "application/hwp+zip")
        archive.writestr("Contents/content.hpf", package)
        archive.writestr(
            "Contents/header.xml", f"<hh:head{spaces}><hh:styles>{styles}</hh:styles></hh:head>"
        )
        archive.writestr("Contents/section0.xml", f"<hs:sec{spaces}>{section}</hs:sec>")
        archive.writestr(
            "META-INF/manifest.xml",
            f'<odf:manifest xmlns:odf="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">{lock}'
            "</odf:manifest>",
        )
    return path


def hwp(
    paragraphs: Sequence[tuple[str, int]],
    table: Sequence[Sequence[str]] = (),
    *,
    flags: int = 1,
    styles: Sequence[str] = ("바탕글", "개요 1", "개요 2"),
) -> bytes:
    """Write a .hwp document of version 5: paragraphs with the numbers of their styles, a table."""
    body = b"".join(_hwp_paragraph(text, style, 0) for text, style in paragraphs)
    if table:
        body += _record(66, 0, struct.pack("<IIHB", 9, 0x800, 0, 0) + bytes(11))
        body += _record(
            67, 1, struct.pack("<H", 11) + b" lbt" + bytes(8) + struct.pack("<HH", 11, 13)
        )
        body += _record(71, 1, b" lbt" + bytes(40))
        body += _record(77, 2, bytes(18))
        for row, cells in enumerate(table):
            for column, text in enumerate(cells):
                place = struct.pack("<HHIHHHH", 1, 0, 0, column, row, 1, 1)
                body += _record(72, 2, place + bytes(26))
                body += _hwp_paragraph(text, 0, 2)
    info = b"".join(
        _record(26, 0, struct.pack("<H", len(name)) + name.encode("utf-16-le") + bytes(12))
        for name in styles
    )
    header = b"HWP Document File".ljust(32, b"\0") + struct.pack("<II", 0x05010000, flags)
    streams = {"FileHeader": header.ljust(256, b"\0"), "DocInfo": info, "BodyText/Section0": body}
    if flags & 1:
        for name in ("DocInfo", "BodyText/Section0"):
            streams[name] = zlib.compress(streams[name], 9)[2:-4]
    return ole(streams)


def _record(tag: int, level: int, data: bytes) -> bytes:
    if len(data) < 0xFFF:
        return struct.pack("<I", tag | level << 10 | len(data) << 20) + data
    return struct.pack("<II", tag | level << 10 | 0xFFF << 20, len(data)) + data


def _hwp_paragraph(text: str, style: int, level: int) -> bytes:
    units = (text + "\r").encode("utf-16-le")
    head = struct.pack("<IIHB", len(units) // 2, 0, 0, style) + bytes(11)
    return _record(66, level, head) + _record(67, level + 1, units)


def ole(streams: dict[str, bytes]) -> bytes:
    """Write an OLE file (version 3): streams in the root, or in one storage ("Folder/Name")."""
    folders = sorted({name.split("/")[0] for name in streams if "/" in name})
    names = [*(name for name in streams if "/" not in name), *folders]
    entries = ["Root Entry", *names, *(name for name in streams if "/" in name)]
    mini, mini_fat, large = b"", [], b""
    places: dict[str, int] = {}
    for name, data in streams.items():
        if len(data) < 4096:
            places[name] = len(mini) // 64
            count = -(-len(data) // 64) or 1
            mini_fat += [*range(places[name] + 1, places[name] + count), _END]
            mini += data.ljust(64 * count, b"\0")
        else:
            places[name] = len(large) // SECTOR
            large += data + bytes(-len(data) % SECTOR)
    fat: list[int] = []
    for data in streams.values():
        if len(data) >= 4096:
            count = -(-len(data) // SECTOR)
            fat += [*range(len(fat) + 1, len(fat) + count), _END]
    body, starts = large, []
    mini_table = struct.pack(f"<{len(mini_fat)}I", *mini_fat)
    for part in (mini, mini_table, bytes(128 * len(entries))):
        count = -(-len(part) // SECTOR) or 1
        starts.append(len(fat))
        fat += [*range(len(fat) + 1, len(fat) + count), _END]
        body += part.ljust(SECTOR * count, b"\xff" if part is mini_table else b"\0")
    directory = b""
    for at, name in enumerate(entries):
        short = name.split("/")[-1]
        is_folder = name in folders or at == 0
        inner = [one for one in entries if one.startswith(f"{name}/")]
        siblings = [*names] if name in names else [one for one in entries if "/" in one]
        place = siblings.index(name) if at else 0
        right = entries.index(siblings[place + 1]) if at and place + 1 < len(siblings) else _FREE
        child = 1 if at == 0 else entries.index(inner[0]) if inner else _FREE
        start = starts[0] if at == 0 else places.get(name, 0)
        size = len(mini) if at == 0 else len(streams.get(name, b""))
        raw = (short + "\0").encode("utf-16-le")
        directory += raw.ljust(64, b"\0") + struct.pack(
            "<HBBIII16sIQQIQ", len(raw), 5 if at == 0 else 1 if is_folder else 2, 1,
            _FREE, right, child, bytes(16), 0, 0, 0, start, size,
        )  # fmt: skip
    at = SECTOR * starts[2]
    body = body[:at] + directory + body[at + len(directory) :]
    fat.append(_FAT)
    table = struct.pack(f"<{len(fat)}I", *fat).ljust(SECTOR, b"\xff")
    assert len(fat) <= 128, "one sector of the table is enough for tests"
    header = struct.pack(
        "<8s16sHHHHH6xIIIIIIIII", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", bytes(16), 0x3E, 3, 0xFFFE,
        9, 6, 0, 1, starts[2], 0, 4096, starts[1], -(-len(mini_table) // SECTOR) or 1, _END, 0,
    )  # fmt: skip
    header += struct.pack("<I", len(fat) - 1).ljust(436, b"\xff")
    return header + body + table
