"""Many notes that were read: whose mention a code, with which status, and where."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import DataError, OptionError
from ..io.files import read_lines

_RANGE = re.compile(r"([A-Za-z]\d\d)\s*-\s*([A-Za-z]\d\d)")


@dataclass(frozen=True)
class CodeQuery:
    """Codes by their beginning, or categories from one to another."""

    starts: tuple[str, ...] = ()
    ranges: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, text: str) -> "CodeQuery":
        """Read E11-E14, I10 or several with commas.

        >>> CodeQuery.of("E11-E14, I10").fits("E14.9")
        True
        """
        parts = [part.strip().upper() for part in text.split(",") if part.strip()]
        ranges = [found.groups() for part in parts if (found := _RANGE.fullmatch(part))]
        if not parts or any(first > last for first, last in ranges):
            raise OptionError(
                f"the codes {text!r} name none; expected E11, E11-E14 or several with commas. "
                "Write them so: --code E11-E14,I10"
            )
        starts = tuple(part for part in parts if not _RANGE.fullmatch(part))
        return cls(starts, tuple((first, last) for first, last in ranges))

    def fits(self, code: str) -> bool:
        """Tell whether a code is among them."""
        inside = any(first <= code[:3] <= last for first, last in self.ranges)
        return inside or code.startswith(self.starts or ("\0",))


def read_records(path: Path) -> Iterator[Mapping[str, Any]]:
    """Give the records of a file that `malmoi notes read --format jsonl` has written."""
    for number, line in enumerate(read_lines(path), start=1):
        try:
            record = json.loads(line)
            record["id"], [one["candidates"] for one in record["mentions"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"line {number} of {path} is no note that was read; expected JSON lines with id "
                "and mentions. Make them with: malmoi notes read LEXICON NOTES --out FILE.jsonl"
            ) from error
        yield record


def find_mentions(
    records: Iterable[Mapping[str, Any]],
    query: CodeQuery,
    *,
    status: Sequence[str] = ("present",),
    experiencer: str = "patient",
    texts: Mapping[str, str] | None = None,
) -> Iterator[dict[str, Any]]:
    """Give a row for each mention that fits, with the line that shows it where texts are given."""
    for record in records:
        for one in record["mentions"]:
            code = one["candidates"][0]["code"] if one["candidates"] else ""
            if one["status"] in status and one["experiencer"] == experiencer and query.fits(code):
                text = (texts or {}).get(record["id"], "")
                begin = text.rfind("\n", 0, one["start"]) + 1
                line = text[begin:].partition("\n")[0].strip()
                yield {
                    "patient": record.get("patient", ""),
                    "note": record["id"],
                    "mention": one["mention"],
                    "code": code,
                    "status": one["status"],
                    "certainty": one["certainty"],
                    "date": one["date"],
                    "line": line,
                }
