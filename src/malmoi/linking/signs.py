"""The signs of a note: fever(-), 기침+, HTN/DM (+/-), and (-) fever where they stand before."""

import re

_MINUS, _PLUS = "[-−–－]", "[+＋]{1,4}|±"
_ONE = rf"(?:{_MINUS}|{_PLUS}|[OX무유](?![가-힣A-Za-z]))"
# "(-)", "(+/-)", "(+, 1회)"; brackets may be full width.
_BRACKETS = rf"[(（]\s*(?P<signs>{_ONE}(?:\s*/\s*{_ONE})*)\s*(?:[,:;][^()（）]{{0,20}})?[)）]"
# Without brackets a sign must be the last of its item: "기침+, 가래-", but no "post-op".
_BARE = rf"\s?(?P<bare>{_ONE}(?:/{_ONE})*)(?=\s*(?:[,;.\n]|$))"
# "rebound tenderness/guarding": words that share out the signs after them.
_OTHERS = r"(?P<others>(?:\s?/\s?[^\s/,;.()（）]+(?:\s[^\s/,;.()（）]+){0,2})*?)"

_AFTER = re.compile(rf"{_OTHERS}(?:\s*{_BRACKETS}|{_BARE})", re.IGNORECASE)
_BEFORE = re.compile(rf"(?:^|[,;:.\n])\s*{_BRACKETS}\s*$", re.IGNORECASE)
ANY = re.compile(_BRACKETS, re.IGNORECASE)
PLUS = re.compile(rf"[(（]\s*(?:{_PLUS})", re.IGNORECASE)
APART = re.compile(rf"(?<=[^\s,;:.])\s+[(（]\s*{_MINUS}\s*[)）]")


def sign(left: str, right: str) -> str:
    """Give the item's own sign, "+" or "-", from what stands around it; "" where it has none.

    >>> sign("", "(-), 기침"), sign("기침(-), ", "(+)"), sign("(-) fever, (+) ", "")
    ('-', '+', '+')
    >>> [sign("", rest) for rest in ("/DM/Tb (+/-/-)", "/Tb (+/-/-)", " (+/-/-)")]
    ['+', '-', '-']
    """
    after = _AFTER.match(right)
    if after:
        signs = re.split(r"\s*/\s*", after.group("signs") or after.group("bare"))
        if len(signs) == 1:
            return _plain(signs[0])
        # Shared out from the right: the last sign is the last item's.
        place = len(signs) - 1 - after.group("others").count("/")
        return _plain(signs[place]) if place >= 0 else ""
    before = _BEFORE.search(left)
    return _plain(before.group("signs")) if before and "/" not in before.group("signs") else ""


def _plain(one: str) -> str:
    return "-" if re.fullmatch(rf"{_MINUS}|[xX무]", one) else "+"
