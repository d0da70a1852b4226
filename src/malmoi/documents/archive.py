"""Limits for documents that are ZIP archives, checked before anything is unpacked."""

import zipfile
from pathlib import Path

from ..errors import DocumentError

# A report of a thousand pages has some 20 MiB of text inside. Readers that hold a part as a tree
# need ten times its size in memory.
_MOST_ENTRIES = 20_000
_LARGEST_XML = 128 * 2**20
_LARGEST_TOTAL = 2**30
_HIGHEST_RATIO = 200  # of unpacked to packed; text and tables stay under 50
_SMALL_ENOUGH = 16 * 2**20  # unpacked; a high ratio does no harm below


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
