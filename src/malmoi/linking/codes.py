"""What an ICD-like code says by its form: a chapter, a category, how deep, "the rest"."""

import re
from dataclasses import dataclass

_ICD = re.compile(r"[A-Z]\d{2}(?:\.(\d{1,4}))?")
_RANGE = re.compile(r"[A-Z]\d{2}-[A-Z]\d{2}")


@dataclass(frozen=True)
class Shape:
    """Numbers about a code; all zero for codes of another kind.

    `category` is 1 for three characters, `depth` counts the digits beyond the fourth character,
    `rest` is 1 where the fourth is 9 ("unspecified"), -1 where it is 8 ("other"), `group` is 1
    for a range of codes.
    """

    category: float = 0
    depth: float = 0
    rest: float = 0
    group: float = 0


def shape_of(code: str) -> Shape:
    """Read a code's form.

    >>> shape_of("J18.9"), shape_of("A00-B99").group, shape_of("D003920")
    (Shape(category=0, depth=0, rest=1, group=0), 1, Shape(category=0, depth=0, rest=0, group=0))
    """
    found = _ICD.fullmatch(code)
    if found is None:
        return Shape(group=int(bool(_RANGE.fullmatch(code))))
    digits = found.group(1) or ""
    rest = {"9": 1, "8": -1}.get(digits[:1], 0)
    return Shape(category=int(not digits), depth=max(0, len(digits) - 1), rest=rest)


def category_of(code: str) -> str:
    """Give the category of an "unspecified" code, any other code as it is.

    >>> category_of("C15.9"), category_of("K74.6"), category_of("I10"), category_of("D003920")
    ('C15', 'K74.6', 'I10', 'D003920')
    """
    found = _ICD.fullmatch(code)
    return code[:3] if found is not None and found.group(1) == "9" else code
