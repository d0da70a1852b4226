"""Files of examples → rows that a task understands, with their columns found by name.

A task says which roles it needs ("a", "b", "score"), and `read_examples` finds their columns in a
file's header. Rows that do not fit are skipped, and logged with their number and first lines; a
strict reading stops at the first.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from ..errors import DataError, OptionError, counted
from ..io.fingerprint import sha256
from ..io.tables import BadRows, Row, read_numbered_rows, show_columns
from ..text.cleanup import is_whole

logger = logging.getLogger(__name__)

T = TypeVar("T")
Roles = Mapping[str, str]

# Headers that data sets use for the two texts of a pair, the most likely first. Korean comes before
# English where a file has both.
PAIRS = (
    ("a", "b"), ("sentence1", "sentence2"), ("text1", "text2"), ("question1", "question2"),
    ("premise", "hypothesis"), ("s1", "s2"), ("ko1", "ko2"), ("en1", "en2"), ("ko", "en"),
)  # fmt: skip
QUERIES = (
    ("query", "document"), ("query", "positive"), ("query", "passage"), ("query", "text"),
    ("anchor", "positive"), ("question", "answer"), ("question", "passage"), ("mention", "name"),
    ("ko", "en"),
)  # fmt: skip


class BadRow(ValueError):
    """A row that a task cannot use: what was found, and what was expected."""

    def __init__(self, found: str, expected: str) -> None:
        super().__init__(found)
        self.found, self.expected = found, expected


@dataclass(frozen=True)
class Form:
    """One form of file that a task reads: its roles, and the headers that they may have.

    together: roles whose columns are found together.
    sets: headers for all of these roles at once, tried in order.
    others: headers for each of the other roles, which are found one by one.
    optional: roles that may be missing.
    sided: whether there is a text on either side, so that `sides` can choose their languages.
    """

    together: tuple[str, ...]
    sets: tuple[tuple[str, ...], ...]
    others: Mapping[str, tuple[str, ...]]
    optional: tuple[str, ...] = ()
    sided: bool = True

    @property
    def roles(self) -> tuple[str, ...]:
        """Every role, needed or not."""
        return (*self.together, *self.others)


@dataclass(frozen=True)
class ExampleSource:
    """Which file was read, as a report says it."""

    file: str
    sha256: str
    rows: int
    columns: Roles


def describe(path: Path, rows: int, columns: Roles) -> ExampleSource:
    """Say which file was read, with its hash."""
    return ExampleSource(path.name, sha256(path), rows, columns)


@dataclass(frozen=True)
class Examples(Generic[T]):
    """The rows of a file and where they came from.

    train: the rows that a task is fitted on.
    about: settings that a report names.
    """

    rows: T
    source: ExampleSource = ExampleSource("", "", 0, {})
    train: T | None = None
    about: Mapping[str, Any] = field(default_factory=dict)


def read_examples(
    path: str | Path,
    parsers: Sequence[tuple[Form, Callable[[Roles], T]]],
    *,
    columns: Roles | None = None,
    sides: str | None = None,
    strict: bool = False,
    keep: Callable[[Roles], bool] | None = None,
) -> Examples[list[T]]:
    """Read a file by the first form that fits its header; a parser skips a row by `BadRow`.

    columns: the column of a role, e.g. {"a": "ko1", "b": "en2"}; roles left out are guessed.
    sides: languages by their columns: "ko" takes ko1 and ko2, "ko-en" ko1 and en2 (or ko and en).
    strict: raise a DataError for the first bad row.
    keep: says which rows are used, by their cells; all when left out.
    """
    bad = BadRows(str(path), strict)
    rows: list[T] = []
    chosen: dict[str, str] = {}
    parse = parsers[0][1]
    for line, row in read_numbered_rows(path, strict=strict, null=""):
        if not chosen:
            form, chosen = choose_columns(
                list(row), [form for form, _ in parsers], columns or {}, sides, where=str(path)
            )
            parse = next(parser for known, parser in parsers if known is form)
        if keep is not None and not keep(row):
            continue
        try:
            rows.append(parse(_by_role(row, chosen)))
        except BadRow as error:
            bad.add(line, error.found, error.expected)
    bad.report()
    if not rows:
        raise DataError(
            f"{path} has no row that can be used; expected some. "
            + ("Check where and held_out." if keep else "Read it with --strict to see why.")
        )
    listed = ", ".join(f"{role}={name}" for role, name in chosen.items())
    logger.info(f"{path}: {counted(len(rows), 'row')} with {listed}")
    return Examples(rows, describe(Path(path), len(rows), chosen))


def choose_columns(
    header: Sequence[str],
    forms: Sequence[Form],
    asked: Roles,
    sides: str | None = None,
    *,
    where: str,
) -> tuple[Form, dict[str, str]]:
    """Find the column of every role of the first form that fits the header.

    >>> form = Form(("a", "b"), PAIRS, {"score": ("score",)})
    >>> choose_columns(["Score", "ko1", "ko2"], [form], {}, where="x.tsv")[1]
    {'a': 'ko1', 'b': 'ko2', 'score': 'Score'}
    """
    _check_asked(header, forms, asked, where)
    for form in forms:
        if set(asked) <= set(form.roles) and (form.sided or not sides):
            found = _fit(header, form, asked, sides)
            if found is not None:
                return form, found
    needs = " or ".join(
        ", ".join(role for role in form.roles if role not in form.optional) for form in forms
    )
    wanted = f" for the sides {sides}" if sides else ""
    example = ",".join(f"{role}=…" for role in forms[0].roles if role not in forms[0].optional)
    raise DataError(
        f"{where} has {show_columns(header, lead='the columns ')}; it was not clear which of "
        f"them are {needs}{wanted}. Name them with --columns {example}"
    )


def _check_asked(header: Sequence[str], forms: Sequence[Form], asked: Roles, where: str) -> None:
    known = dict.fromkeys(role for form in forms for role in form.roles)
    for role, name in asked.items():
        if role not in known:
            raise OptionError(
                f"columns names {role!r}; this task knows {', '.join(known)}. Use one of these."
            )
        if name not in header:
            raise DataError(
                f"{where} has no column {name!r}; it has "
                f"{show_columns(header, asked=asked.values())}. Name one of these for {role}."
            )


def _fit(
    header: Sequence[str], form: Form, asked: Roles, sides: str | None
) -> dict[str, str] | None:
    names = {_plain(name): name for name in reversed(header)}
    found = dict(asked)
    open_roles = [i for i, role in enumerate(form.together) if role not in asked]
    sets: Sequence[tuple[str, ...]] = form.sets
    if sides:
        left, _, right = sides.partition("-")
        sets = ((f"{left}1", f"{right or left}2"), *([(left, right)] if right else []))
    for headers in sets:
        if all(headers[i] in names for i in open_roles):
            found |= {form.together[i]: names[headers[i]] for i in open_roles}
            break
    for role, headers in form.others.items():
        match = next((names[name] for name in headers if name in names), None)
        if role not in asked and match is not None:
            found[role] = match
    needed = [role for role in form.roles if role not in form.optional]
    if any(role not in found for role in needed):
        return None
    return {role: found[role] for role in form.roles if role in found}


def _plain(name: str) -> str:
    """A header without case, spaces and signs.

    >>> _plain("Sentence_1")
    'sentence1'
    """
    return "".join(c for c in name.casefold() if c.isalnum())


def _by_role(row: Row, chosen: Roles) -> Roles:
    missing = [name for name in chosen.values() if name not in row]
    if missing:
        raise BadRow(f"no field {missing[0]}", "every field of the first line")
    return {role: row[name] for role, name in chosen.items()}


def text(values: Roles, role: str) -> str:
    """A role's text; an empty one is a bad row."""
    if not values[role].strip():
        raise BadRow(f"no text in {role}", "a text")
    return values[role]


def number(values: Roles, role: str) -> float:
    """A role's number; NaN, infinity and words are bad rows."""
    try:
        found = float(values[role])
    except ValueError:
        found = float("nan")
    if not abs(found) < float("inf"):
        raise BadRow(f"no number in {role}", "a finite number")
    return found


def label(values: Roles, role: str) -> str:
    """A role's label, without white space around it; an empty or a broken one is a bad row."""
    found = text(values, role).strip()
    if not is_whole(found):
        raise BadRow(f"half a character in {role}", "a text")
    return found


_YES = ("1", "1.0", "true", "yes", "same", "duplicate", "paraphrase", "y", "t")
_NO = ("0", "0.0", "false", "no", "different", "not_duplicate", "n", "f", "-1")


def truth(values: Roles, role: str) -> bool:
    """A role's yes or no: 1/0, true/false, same/different and the like."""
    found = values[role].strip().casefold()
    if found not in (*_YES, *_NO):
        raise BadRow(f"neither 1 nor 0 in {role}", "1 for the same meaning and 0 for another")
    return found in _YES
