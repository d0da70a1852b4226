"""Files written whole or not at all, and text read in any encoding that is usual in Korea."""

import codecs
import contextlib
import errno
import io
import json
import logging
import os
import secrets
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, cast

from ..errors import DataError, MalmoiError, OutputError, counted

logger = logging.getLogger(__name__)

# A line longer than this is no sentence, and reading it whole could fill the memory.
LONGEST_LINE = 64 * 1024 * 1024
_BLOCK = 1024 * 1024
_MARKS = {codecs.BOM_UTF8: "utf-8"}
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16-le", codecs.BOM_UTF16_BE: "utf-16-be"}


@contextlib.contextmanager
def writing(path: str | Path) -> Iterator[BinaryIO]:
    """Open a temporary file next to `path`, which gets its name when the block ends without error.

    The data are on the disk before the name is. On any error, Ctrl-C included, the temporary file
    is removed and whatever was at `path` before is untouched.
    """
    path = Path(path)
    # The process id alone would not do where several machines write into one folder.
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.part")
    try:
        with temporary.open("wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except OSError as error:
        _remove(temporary)
        raise _renamed(error, path) from error
    except BaseException:
        _remove(temporary)
        raise


def _remove(temporary: Path) -> None:
    """Delete a file if it is there; a read-only place says EROFS even if it is not."""
    with contextlib.suppress(OSError):
        temporary.unlink()


def parse_json(text: str | bytes) -> Any:
    """Parse JSON; everything that is wrong with it is a ValueError, also when it is too deep."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("nested too deeply") from None


@contextlib.contextmanager
def writing_folder(path: str | Path, *, replace: bool = False) -> Iterator[Path]:
    """Give an empty folder next to `path` that gets its name when the block ends without error."""
    path = Path(path)
    if path.exists() and not replace and (not path.is_dir() or any(path.iterdir())):
        raise OutputError(
            f"{path} exists already and is not empty; expected a new folder. "
            "Name another one, or remove it first."
        )
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}.", suffix=".part", dir=path.parent))
    except OSError as error:
        raise _renamed(error, path) from error
    try:
        temporary.chmod(0o755)  # mkdtemp makes 0700; a model folder is read by others too
        yield temporary
        for file in temporary.rglob("*"):
            if file.is_file():
                with file.open("rb") as written:
                    os.fsync(written.fileno())
        _swap(temporary, path)
        _sync_folder(path.parent)
    except OutputError as error:
        # A file in the folder could not be written; the temporary folder is gone by now.
        raise OutputError(str(error).replace(str(temporary), str(path))) from error
    except OSError as error:
        if isinstance(error, MalmoiError):  # BundleNotFound is an OSError too
            raise
        raise _renamed(error, path) from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _swap(temporary: Path, path: Path) -> None:
    """Rename the temporary folder, keeping the old one until the new one has its name."""
    if not path.exists():
        temporary.rename(path)
        return
    old = temporary.with_suffix(".old")
    path.rename(old)
    try:
        temporary.rename(path)
    except OSError:
        old.rename(path)
        raise
    shutil.rmtree(old, ignore_errors=True)


def _sync_folder(path: Path) -> None:
    # Not every file system lets a folder be opened; the rename itself has happened by now.
    with contextlib.suppress(OSError):
        number = os.open(path, os.O_RDONLY)
        try:
            os.fsync(number)
        finally:
            os.close(number)


def _renamed(error: OSError, path: Path) -> OutputError:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        reason = "the disk is full; nothing was changed. Free some space, or write elsewhere."
    elif error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        reason = "you have no permission to write there. Choose a folder that you can write to."
    elif error.errno == errno.ENOENT:
        reason = f"the folder {path.parent} does not exist. Make it first."
    else:
        reason = f"{error.strerror or error}. Choose another folder."
    return OutputError(f"cannot write {path}: {reason}")


def read_lines(path: str | Path, *, mixed: bool = False) -> Iterator[str]:
    """Yield the lines of a text file (or of stdin for "-") without their ends, as they are read.

    UTF-8 with or without BOM, UTF-16 with BOM and cp949 are recognised by the first block that
    is not ASCII; anything but UTF-8 is logged. Broken bytes become U+FFFD and are logged
    once, with the number of the first such line. A file of a binary form is refused.

    mixed  decode each line by itself, as UTF-8 or cp949: tables that were put together from the
           exports of many years hold both. What was found is logged at the end of the file.
    """
    name = str(path) if str(path) != "-" else "stdin"
    with opening(path) as file:
        yield from _decoded_each(file, name) if mixed else _decoded(file, name)


def read_text(path: str | Path, *, longest: int = LONGEST_LINE) -> str:
    """Give a whole text file (or stdin for "-"), its line ends as they are.

    Encodings are recognised as in `read_lines`, over the whole file. A file of more than
    `longest` bytes is refused, and so is one of a binary form.
    """
    name = str(path) if str(path) != "-" else "stdin"
    with opening(path) as file:
        data = file.read(longest + 1)
    if len(data) > longest:
        raise DataError(
            f"{name} is longer than {longest // 2**20} MiB; expected one document. "
            "Is this a text file? Break it into several first."
        )
    check_text(data, name)
    encoding, mark = sniff(data)
    if not data.isascii():
        _log_encoding(encoding, mark, name)
    text = data[mark:].decode(encoding, "replace")
    if "\ufffd" in text and "\ufffd".encode(encoding, "replace") not in data:
        logger.warning(f"{name} has bytes that are not {encoding}; broken characters became U+FFFD")
    return text


def decode_lines(data: bytes, name: str) -> str:
    """Decode bytes line by line, as UTF-8 or cp949; `name` is what messages call them."""
    return "\n".join(_decoded_each(io.BufferedReader(io.BytesIO(data)), name))


@contextlib.contextmanager
def opening(path: str | Path) -> Iterator[io.BufferedReader]:
    """Open a file for reading bytes; "-" is stdin."""
    if str(path) == "-":
        yield cast(io.BufferedReader, sys.stdin.buffer)
        return
    try:
        file = Path(path).open("rb")  # noqa: SIM115
    except FileNotFoundError as error:
        raise DataError(f"there is no file {path}; expected text. Check the name.") from error
    except IsADirectoryError as error:
        raise DataError(f"{path} is a folder; expected a text file. Name a file in it.") from error
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}. Check its permissions.") from error
    with file:
        yield file


def sniff(head: bytes) -> tuple[str, int]:
    """Find a text's encoding and the length of its byte-order mark from its first bytes.

    >>> sniff("당뇨".encode("cp949"))
    ('cp949', 0)
    """
    for mark, name in _MARKS.items():
        if head.startswith(mark):
            return name, len(mark)
    if not _decodes(head, "utf-8") and _decodes(head, "cp949"):
        return "cp949", 0
    return "utf-8", 0  # if it is broken, the broken places are marked and counted


def _decodes(head: bytes, encoding: str) -> bool:
    try:
        # Not final: the last character may have been cut by the end of what was read.
        codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return False
    return True


def _decoded(file: io.BufferedReader, name: str) -> Iterator[str]:
    first_broken = broken = 0
    for number, (raw, encoding) in enumerate(_raw_lines(file, name), start=1):
        line = raw.decode(encoding, "replace")
        if "\ufffd" in line and "\ufffd".encode(encoding, "replace") not in raw:
            broken += 1
            first_broken = first_broken or number
        yield line
    if broken:
        logger.warning(
            f"{name} has {counted(broken, 'line that is', 'lines that are')} not {encoding} "
            f"(the first is line {first_broken}); their broken characters became U+FFFD"
        )


def _decoded_each(file: io.BufferedReader, name: str) -> Iterator[str]:
    """Decode lines one by one; the encoding of most lines of the file is tried first."""
    seen: Counter[str] = Counter()
    first: dict[str, int] = {}
    for number, (raw, likely) in enumerate(_raw_lines(file, name, mixed=True), start=1):
        line, encoding = _decode(raw, likely)
        seen[encoding] += 1
        first.setdefault(encoding, number)
        yield line
    if seen["cp949"] and seen["utf-8"]:
        fewer = min(("utf-8", "cp949"), key=lambda encoding: seen[encoding])
        logger.info(
            f"{name} mixes encodings: {counted(seen['utf-8'], 'line is', 'lines are')} UTF-8, "
            f"{seen['cp949']:,} cp949 "
            f"(the first {fewer} line is {first[fewer]}); each was read as what it is"
        )
    elif seen["cp949"]:
        _log_encoding("cp949", 0, name)
    if seen["broken"]:
        logger.info(
            f"{name} has {counted(seen['broken'], 'line that is', 'lines that are')} neither UTF-8 "
            f"nor cp949 (the first is line {first['broken']}); broken characters became U+FFFD"
        )


def _decode(raw: bytes, likely: str) -> tuple[str, str]:
    """Decode a line, and say as what: its likely encoding, the other one, or "broken"."""
    if raw.isascii() and not likely.startswith("utf-16"):
        return raw.decode("ascii"), "ascii"
    other = () if likely.startswith("utf-16") else ("utf-8" if likely == "cp949" else "cp949",)
    for encoding in (likely, *other):
        try:
            return raw.decode(encoding), encoding
        except UnicodeDecodeError:
            continue
    return raw.decode(likely, "replace"), "broken"


def _raw_lines(
    file: io.BufferedReader, name: str, *, mixed: bool = False
) -> Iterator[tuple[bytes, str]]:
    """Split bytes at line ends, with a bound on one line; gives each line's encoding with it."""
    rest, encoding, number, first = b"", "ascii", 1, True
    # read1 gives what is there, so that lines of a slow pipe are not delayed, and Ctrl-C is seen
    # between two reads.
    while block := file.read1(_BLOCK):
        if first:
            check_text(block, name)
            first = False
        if encoding == "ascii" and not block.isascii():
            encoding, mark = sniff(block)
            block = block[mark:]
            if mixed and not encoding.startswith("utf-16"):
                votes = Counter(_decode(line, "utf-8")[1] for line in block.splitlines()[:-1])
                if votes:  # else there is one line, and it has been sniffed
                    encoding = "cp949" if votes["cp949"] > votes["utf-8"] else "utf-8"
            else:
                _log_encoding(encoding, mark, name)
        parts = _split(rest + block, "\n".encode(encoding))
        rest = parts.pop()
        number += len(parts)
        yield from ((part.removesuffix("\r".encode(encoding)), encoding) for part in parts)
        if len(rest) > LONGEST_LINE:
            raise DataError(
                f"line {number} of {name} is longer than {LONGEST_LINE // 2**20} MiB; "
                "expected one text a line. Is this a text file? Break it into lines first."
            )
    if rest:
        yield rest.removesuffix("\r".encode(encoding)), encoding


def _log_encoding(encoding: str, mark: int, name: str) -> None:
    if encoding != "utf-8":
        logger.info(f"{name} is {encoding}, not UTF-8; reading it as {encoding}")
    elif mark:
        logger.info(f"{name} begins with a byte-order mark; reading it as UTF-8 without it")


def _split(data: bytes, end: bytes) -> list[bytes]:
    """Split at `end` where it is at the start of a character (UTF-16 has two-byte ones)."""
    if len(end) == 1:
        return data.split(end)
    parts, start, at = [], 0, data.find(end)
    while at != -1:
        if at % 2 == 0:
            parts.append(data[start:at])
            start = at + 2
        at = data.find(end, at + 1)
    return [*parts, data[start:]]


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
_WIDE_MARKS = (b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")
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
    if head.startswith(_WIDE_MARKS):
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
