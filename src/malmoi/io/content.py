"""What a file holds, by its first bytes: text, or which of the usual binary forms."""

from pathlib import Path

from ..errors import DataError

HEAD = 8192  # bytes that are looked at

_SIGNS = {
    b"%PDF-": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (as .docx, .xlsx, .pptx and .hwpx files are)",
    b"PK\x05\x06": "an empty ZIP archive",
    b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1": "a document of an old Office or Hangul form",
    b"HWP Document File": "a document of Hangul's version 3",
    b"{\\rtf": "an RTF document",
    b"\x89PNG\r\n": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"RIFF": "a sound, film or WebP image",
    b"\x1f\x8b": "a gzip archive",
    b"BZh": "a bzip2 archive",
    b"\xfd7zXZ\x00": "an xz archive",
    b"7z\xbc\xaf\x27\x1c": "a 7z archive",
    b"(\xb5/\xfd": "a zstd archive",
    b"SQLite format 3\x00": "an SQLite database (as a corpus is)",
    b"PAR1": "a Parquet table",
    b"ARROW1": "an Arrow table",
    b"\x93NUMPY": "a NumPy array",
    b"\x7fELF": "a program",
    b"MZ\x90\x00": "a program",
}
_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
# What no text holds: control characters but tab, line ends, form feed, backspace, escape and
# Ctrl-Z, which old editors of DOS put at the end.
_CONTROL = bytes(set(range(32)) - {8, 9, 10, 11, 12, 13, 26, 27}) + b"\x7f"
_MOST_CONTROL = 0.02  # of the bytes; compressed data have a tenth, texts with stray ones far less


def binary_form(head: bytes) -> str | None:
    """Say in words what binary form a file has, by its first bytes; None for text.

    >>> binary_form(b"%PDF-1.7"), binary_form("당뇨".encode("cp949"))
    ('a PDF document', None)
    """
    start = head[:HEAD]
    control = len(start) - len(start.translate(None, _CONTROL))
    for sign, name in _SIGNS.items():
        # A text may start with words such as RIFF too, but has no control characters.
        if head.startswith(sign) and (control or sign in (b"%PDF-", b"{\\rtf")):
            return name
    if head.startswith(_MARKS):
        return None
    # One stray NUL in a line or two is a slip of some export; it is cleaned up later.
    return "binary data" if control > 2 and control > _MOST_CONTROL * len(start) else None


def check_text(head: bytes, name: str | Path) -> None:
    """Raise a DataError if a file that is to be read as text is of a binary form."""
    form = binary_form(head)
    if form is None:
        return
    if form == "binary data" and head[:HEAD].count(0) > 0.2 * len(head[:HEAD]):
        form = "binary data, or UTF-16 without a byte-order mark"
    raise DataError(
        f"{name} is {form}, not text; expected UTF-8, UTF-16 or cp949. Save it as text, or "
        "search documents such as PDF, Word and Excel files with: malmoi index"
    )
