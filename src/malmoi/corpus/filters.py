"""Conditions on metadata: `year=2024`, `year>=2020`, `kind!=draft`."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..documents.dates import is_iso_date
from ..errors import DataError, OptionError
from ..text.cleanup import mend_surrogates

Atom = str | float | int
OPERATORS = ("<=", ">=", "!=", "=", "<", ">")
_OPERATOR = re.compile(r"!?[<>=]{1,9}")
_LONGEST = 10_000  # characters of a condition
_DEEPEST = 32  # lists and objects within each other in a field


@dataclass(frozen=True)
class Filter:
    """One condition; all of several must hold.

    Numbers compare as numbers, however they are written. A field that holds a list fits when one
    of its values does; a document without the field fits only "!=".
    """

    field: str
    operator: str
    value: Atom

    def fits(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a document's metadata meet the condition."""
        values = atoms(metadata.get(self.field))
        if self.operator == "!=":
            return self.value not in values
        return any(_holds(value, self.operator, self.value) for value in values)

    @classmethod
    def parse(cls, text: str) -> "Filter":
        """Read a condition as it is written on the command line.

        >>> Filter.parse("year>=2020")
        Filter(field='year', operator='>=', value=2020)

        A doubled "==" means "=". Write a space before a value that begins with such a sign.
        """
        if len(text) > _LONGEST:
            raise OptionError(
                f"a filter has {len(text):,} characters; expected at most {_LONGEST:,}. Shorten it."
            )
        found = _OPERATOR.search(text.lstrip(), 1)
        if not found:
            raise OptionError(
                "a filter has no comparison in it; expected a field, one of "
                f"{' '.join(OPERATORS)} and a value, as in year=2024."
            )
        operator = "=" if found[0] == "==" else found[0]
        if operator not in OPERATORS:
            raise OptionError(
                f"a filter compares by {found[0]}; known are {' '.join(OPERATORS)}. Write one of "
                "these, and a space before a value that begins with such a sign."
            )
        field, value = found.string[: found.start()], found.string[found.end() :]
        return cls(field.strip(), operator, atom(value.strip()))


@dataclass(frozen=True)
class GroupFilter(Filter):
    """Documents that name no groups, and those that name one of these."""

    field: str = "groups"
    operator: str = "groups"
    value: Atom = ""  # there are several
    groups: tuple[Atom, ...] = ()

    @classmethod
    def of(cls, names: Iterable[str]) -> "GroupFilter":
        """Make one of the groups' names.

        >>> GroupFilter.of(["hr"]).fits({"groups": ["hr", "board"]}), GroupFilter.of([]).fits({})
        (True, True)
        """
        return cls(groups=tuple(atom(name) for name in names))

    def fits(self, metadata: Mapping[str, Any]) -> bool:
        """Whether a document may be seen by these groups."""
        own = atoms(metadata.get(self.field))
        return not own or any(one in self.groups for one in own)


def as_filters(given: Mapping[str, Any] | Iterable[str | Filter] | str | None) -> list[Filter]:
    """Make filters of a mapping (all equal), of texts, or of filters.

    >>> as_filters({"year": "2024"}) == as_filters("year=2024")
    True
    """
    if given is None:
        return []
    if isinstance(given, str):
        given = [given]
    if isinstance(given, Mapping):
        return [_equal(name, value) for name, value in given.items()]
    return [one if isinstance(one, Filter) else Filter.parse(one) for one in given]


def check_fields(filters: Sequence[Filter], known: Sequence[str]) -> None:
    """Raise for a field that no document has ever had."""
    for one in filters:
        if one.field not in known:
            raise OptionError(
                f"a filter names the field {one.field!r}; the documents have "
                f"{', '.join(known) or 'no fields'}. Name one of these."
            )


def check_dates(filters: Sequence[Filter], documents: Iterable[Mapping[str, Any]]) -> None:
    """Raise for a date that is compared with a field without dates, and the other way round.

    `documents` are the fields of some documents.
    """
    asked = {one.field: one for one in filters if one.operator not in ("=", "!=")}
    if not asked:
        return
    values: dict[str, list[bool]] = {name: [] for name in asked}
    for fields in documents:
        for name, known in values.items():
            known += [is_iso_date(value) for value in atoms(fields.get(name))]
    for name, known in values.items():
        if known and is_iso_date(asked[name].value) and not any(known):
            raise OptionError(
                f"a filter compares the field {name!r} with a date, and its values are no dates; "
                "expected dates as 2030-01-31. Compare another field, or write dates so and index "
                "again."
            )
        if known and all(known) and not is_iso_date(asked[name].value):
            raise OptionError(
                f"a filter compares the dates of the field {name!r} with something else; expected "
                f"a date. Write it as {name}>=2030-01-31."
            )


def atom(value: object) -> Atom:
    """Convert a value into the form in which it is compared: a number where it reads as one.

    >>> atom("2024"), atom(" 02"), atom(True), atom("서울")
    (2024, ' 02', 'true', '서울')
    """
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        if isinstance(value, float) or abs(value) < 2**63:
            return value
        # SQLite's integers end at 64 bits; beyond, a float is near enough to compare.
        try:
            return float(value)
        except OverflowError:
            raise DataError(
                "a field or filter holds a whole number of more than 308 digits; expected one that "
                "can be compared. Write it as text, in quotes."
            ) from None
    text = mend_surrogates(str(value))
    if re.fullmatch(r"-?(0|[1-9]\d{0,17})", text):
        return int(text)
    if re.fullmatch(r"-?(0|[1-9]\d*)\.\d+", text):
        return float(text)
    return text


def atoms(value: object) -> list[Atom]:
    """The values of a field, one for each element of a list; none for nothing or an object."""
    if not isinstance(value, list | tuple | dict):
        return [] if value is None else [atom(value)]
    found = list[Atom]()
    level: list[tuple[Any, bool]] = [(value, True)]
    for _ in range(_DEEPEST):
        below = list[tuple[Any, bool]]()
        for one, counts in level:
            is_list = not isinstance(one, dict)
            for element in one if is_list else one.values():
                if isinstance(element, list | tuple | dict):
                    below.append((element, counts and is_list))
                elif element is not None and counts and is_list:
                    found.append(atom(element))
        if not below:
            return found
        level = below
    raise DataError(
        f"a field holds lists or objects more than {_DEEPEST} deep in each other; expected text, a "
        "number or a list of these. Flatten it."
    )


def _equal(name: str, value: object) -> Filter:
    if isinstance(value, str | int | float):
        return Filter(name, "=", atom(value))
    raise OptionError(
        f"the filter on {name!r} is {type(value).__name__}; expected text or a number. "
        'Write other conditions as text, like "year>=2020".'
    )


def _holds(value: Any, operator: str, other: Any) -> bool:
    if isinstance(value, str) != isinstance(other, str):
        # As in SQLite: every number comes before every text.
        value, other = int(isinstance(value, str)), int(isinstance(other, str))
    comparisons = {
        "=": value == other,
        "<": value < other,
        ">": value > other,
        "<=": value <= other,
        ">=": value >= other,
    }
    return bool(comparisons[operator])
