"""Results of tests: "HBsAg(+)" is looked for as "HBsAg 양성", as such names are written."""

import re

from .signs import sign

_WORDS = re.compile(
    r"\s*:?\s*(?:검사(?:는|은)?\s*)?"
    r"(?P<result>양성|positive|reactive|음성|negative|non-?reactive)(?![a-z])",
    re.IGNORECASE,
)
_SPLIT = re.compile(
    r"(?P<name>[^(（]+?)\s*(?P<rest>(?:[(（]|positive|reactive|\+).*)", re.IGNORECASE
)
_NEGATIVE = ("음성", "neg", "non")
# Of a lump 양성 says that it is benign: 유방 혹(+) is there, no more.
_LUMP = re.compile("(?:종|종양|혹|종괴|결절|폴립|신생물|병변)$")


def result(name: str, rest: str) -> str:
    """Give the result that a text writes after a test's name, "+" or "-"; "" where it has none.

    >>> result("HBsAg", "(+)"), result("VDRL", " 음성"), result("HBsAg", " 검사 예정")
    ('+', '-', '')
    >>> result("유방 혹", "(+)")
    ''
    """
    if _LUMP.search(name):
        return ""
    words = _WORDS.match(rest)
    if words:
        return "-" if words["result"].casefold().startswith(_NEGATIVE) else "+"
    return sign("", rest)


def positive(name: str) -> str:
    """Give the name of a test's positive result.

    >>> positive("HBsAg")
    'HBsAg 양성'
    """
    return f"{name} 양성"


def said_positive(mention: str) -> str | None:
    """Give the name of the result that a mention writes with a sign, None where it has none.

    >>> said_positive("HBsAg (+)"), said_positive("HBsAg(-)"), said_positive("HBsAg")
    ('HBsAg 양성', None, None)
    """
    parts = _SPLIT.fullmatch(mention.strip())
    if parts is None or result(parts["name"], parts["rest"]) != "+":
        return None
    return positive(parts["name"])
