"""Dates as mail, PDF, Office files, web pages and people write them, as ISO dates."""

import datetime
import email.utils
import re

_DIGITS = re.compile(r"(?:D:)?(\d{4})(\d{2})(\d{2})(?:\D|\d{4,6}|$)")
_PARTS = re.compile(r"(\d{4})\s*[-./년]\s*(\d{1,2})\s*[-./월]\s*(\d{1,2})(?!\d)")
_ISO = re.compile(r"\d{4}-\d{2}-\d{2}")


def iso_date(value: object) -> str:
    """The day of a date as YYYY-MM-DD, in the time zone in which it is written; empty for none.

    >>> iso_date("Tue, 05 Mar 2030 23:10:00 +0900"), iso_date("D:20300305231000+09'00'")
    ('2030-03-05', '2030-03-05')
    >>> iso_date("2030년 3월 5일"), iso_date("2030-03-05T23:10:00Z"), iso_date("soon")
    ('2030-03-05', '2030-03-05', '')
    """
    if isinstance(value, datetime.date):  # a datetime is one
        return value.isoformat()[:10]
    text = str(value or "").strip()
    found = _PARTS.match(text) or _DIGITS.match(text)
    try:
        if found:
            return datetime.date(*map(int, found.groups())).isoformat()
        return email.utils.parsedate_to_datetime(text).date().isoformat()
    except (ValueError, TypeError, IndexError):
        return ""


def is_iso_date(value: object) -> bool:
    """Whether a value is a date as `iso_date` gives it, perhaps with a time after it."""
    return isinstance(value, str) and bool(_ISO.match(value))
