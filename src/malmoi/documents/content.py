"""Which form a file has, by its content first, then by its name; and limits for archives."""

import zipfile
from collections.abc import Mapping
from os.path import splitext
from pathlib import Path, PurePath
from typing import BinaryIO

from ..errors import DocumentError
from ..io.files import HEAD, binary_form

# The loaders with the endings of their files.
TYPES: Mapping[str, tuple[str, ...]] = {
    "txt": (".txt", ".text", ".log", ".rst", ".adoc"),
    "md": (".md", ".markdown"),
    "html": (".html", ".htm", ".xhtml"),
    "pdf": (".pdf",),
    "docx": (".docx", ".docm"),
    "pptx": (".pptx", ".pptm", ".ppsx"),
    "xlsx": (".xlsx", ".xlsm"),
    "csv": (".csv",),
    "tsv": (".tsv",),
    "jsonl": (".jsonl", ".ndjson"),
    "eml": (".eml",),
    "hwpx": (".hwpx",),
    "hwp": (".hwp",),
}
TEXT_TYPES = ("txt", "md", "html", "csv", "tsv", "jsonl", "eml")
# Documents that no loader reads: they are named in a line each, not passed over in silence.
ARCHIVE = "zip"  # no type of a document: its members have theirs
_ADVICE = {
    ".doc": "Save it as .docx.",
    ".rtf": "Save it as .docx.",
    ".odt": "Save it as .docx.",
    ".xls": "Save it as .xlsx.",
    ".xlsb": "Save it as .xlsx.",
    ".ods": "Save it as .xlsx.",
    ".ppt": "Save it as .pptx.",
    ".odp": "Save it as .pptx.",
    ".msg": "Save it as .eml.",
    ".mht": "Save it as .html.",
    ".mhtml": "Save it as .html.",
    ".pages": "Save it as .docx or .pdf.",
    ".epub": "Save it as .html or .pdf.",
}
_BY_SUFFIX = {suffix: type for type, suffixes in TYPES.items() for suffix in suffixes}
_ZIPPED = {
    "word/document.xml": "docx",
    "ppt/presentation.xml": "pptx",
    "xl/workbook.xml": "xlsx",
    "Contents/content.hpf": "hwpx",
}
_OLE = {  # names of streams in files of OLE, and what they are a sign of
    "EncryptedPackage": "an encrypted Office document",
    "WordDocument": "a document of Word's old form",
    "Workbook": "a workbook of Excel's old form",
    "PowerPoint Document": "a presentation of PowerPoint's old form",
    "__properties_version1.0": "a message of Outlook",
}
# A report of a thousand pages has some 20 MiB of text inside. Readers that hold a part as a tree
# need ten times its size in memory.
_MOST_ENTRIES = 20_000
_LARGEST_XML = 128 * 2**20
_LARGEST_TOTAL = 2**30
_HIGHEST_RATIO = 200  # of unpacked to packed; text and tables stay under 50
_SMALL_ENOUGH = 16 * 2**20  # unpacked; a high ratio does no harm below


def supported_types() -> dict[str, tuple[str, ...]]:
    """Give the types of documents that can be read, with the endings of their files."""
    return dict(TYPES)


def is_readable_name(name: str) -> bool:
    """Say whether a file of a folder is a document by its ending, readable or to be told."""
    suffix = splitext(name)[1].lower()  # noqa: PTH122 (a path object takes ten times as long)
    return suffix in _BY_SUFFIX or suffix in _ADVICE or suffix in ("", ".zip")


def find_type(file: BinaryIO, name: str) -> str:
    """Say which loader reads a file; raise a DocumentError if none does."""
    head = file.read(HEAD)
    file.seek(0)
    suffix = PurePath(name).suffix.lower()
    if not head:
        raise DocumentError(f"{name} is empty; expected text. Check the file.")
    form = binary_form(head)
    if form is None:
        return _text_type(head, suffix, name)
    if b"%PDF-" in head[:1024]:  # some writers put a few bytes before it
        return "pdf"
    if head.startswith(b"PK"):
        return _zip_type(file, suffix, name)
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return _ole_type(file, suffix, name)
    raise _refusal(name, form, suffix)


def _text_type(head: bytes, suffix: str, name: str) -> str:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")[:200].lower()
    is_html = start.startswith((b"<!doctype html", b"<html"))
    type = _BY_SUFFIX.get(suffix, "txt")
    if is_html and type not in ("md", "eml"):
        return "html"  # web pages are saved under many names, tables as .xls among them
    if type in TEXT_TYPES and suffix not in _ADVICE:
        return type
    raise _refusal(name, "plain text", suffix)


def _zip_type(file: BinaryIO, suffix: str, name: str) -> str:
    try:
        names = set(zipfile.ZipFile(file).namelist())
    except Exception as error:  # a damaged archive shows itself in many ways
        raise DocumentError(
            f"{name} is damaged: its list of contents cannot be read ({type(error).__name__}). "
            "Open and save it again, or take a new copy."
        ) from error
    finally:
        file.seek(0)
    for part, type_ in _ZIPPED.items():
        if part in names:
            return type_
    if suffix == ".zip":
        return ARCHIVE
    raise _refusal(name, "a ZIP archive of another kind", suffix)


def _ole_type(file: BinaryIO, suffix: str, name: str) -> str:
    data = file.read(64 * 2**20)
    file.seek(0)
    if _utf16("HwpSummaryInformation") in data or _utf16("BodyText") in data:
        return "hwp"
    for stream, form in _OLE.items():
        if _utf16(stream) in data:
            if stream == "EncryptedPackage":
                raise DocumentError(f"{name} is encrypted. Save it without a password.")
            raise _refusal(name, form, suffix)
    raise _refusal(name, "a document of an old Office form", suffix)


def _utf16(text: str) -> bytes:
    return text.encode("utf-16-le")


def _refusal(name: str, form: str, suffix: str) -> DocumentError:
    expected = f"a {_BY_SUFFIX[suffix]} file" if suffix in _BY_SUFFIX else "a document"
    if "Hangul" in form:
        return DocumentError(f"{name} is {form}; expected version 5. Save it as .hwpx.")
    advice = _ADVICE.get(suffix, "Save it in one of the forms: " + ", ".join(TYPES) + ".")
    return DocumentError(f"{name} is {form}; expected {expected}. {advice}")


def check_archive(path: Path, *, largest_xml: int = _LARGEST_XML) -> None:
    """Raise a DocumentError if an archive is damaged or would unpack to more than a document has.

    Sizes are those of the archive's own list, and reading an entry never gives more than that.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
    except zipfile.BadZipFile as error:
        raise damaged(path, error) from error
    total = sum(entry.file_size for entry in entries)
    packed = sum(entry.compress_size for entry in entries) or 1
    xml = max((one.file_size for one in entries if _is_xml(one.filename)), default=0)
    if any(entry.flag_bits & 1 for entry in entries):
        raise DocumentError(f"{path} is encrypted. Save it without a password.")
    found = ""
    if len(entries) > _MOST_ENTRIES:
        found = f"{len(entries):,} files inside; expected at most {_MOST_ENTRIES:,}"
    elif total > _SMALL_ENOUGH and total > _HIGHEST_RATIO * packed:
        found = f"contents packed to 1/{total // packed}; expected at most 1/{_HIGHEST_RATIO}"
    elif total > _LARGEST_TOTAL:
        found = f"{total // 2**20:,} MiB unpacked; expected at most {_LARGEST_TOTAL // 2**20:,}"
    elif xml > largest_xml:
        found = f"{xml // 2**20:,} MiB in one part; expected at most {largest_xml // 2**20:,}"
    if found:
        raise DocumentError(
            f"{path} has {found}. Break it into several, or check where it is from."
        )


def damaged(path: Path, error: BaseException) -> DocumentError:
    """Word the failure of a library that reads a format; its own text may quote the document."""
    return DocumentError(
        f"{path} is damaged ({type(error).__name__}); expected a whole file. Open and save it "
        "again, or take a new copy."
    )


def _is_xml(name: str) -> bool:
    return name.endswith((".xml", ".rels"))
