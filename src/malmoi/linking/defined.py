"""Abbreviations that a text explains itself: "congestive heart failure (CHF)"."""

import re

_BRACKETS = re.compile(r"\(([^()]{1,40})\)")
_SHORT = re.compile(r"[A-Za-z0-9][\w/&+.-]{0,9}")


def definitions(text: str) -> dict[str, str]:
    """Find pairs of a long form and its short one in brackets (Schwartz and Hearst 2003).

    >>> definitions("congestive heart failure (CHF)와 심방세동(AF)이 있다")
    {'CHF': 'congestive heart failure', 'AF': '심방세동'}
    >>> definitions("ataxia telangiectasia (A-T), myotonic dystrophy (DM)")
    {'A-T': 'ataxia telangiectasia', 'DM': 'myotonic dystrophy'}
    """
    found: dict[str, str] = {}
    for bracket in _BRACKETS.finditer(text):
        short = re.split(r"[,;:]", bracket.group(1))[0].strip()
        before = text[max(0, bracket.start() - 160) : bracket.start()]
        if _SHORT.fullmatch(short) and any(c.isalpha() and c.isupper() for c in short):
            meant = _long_form(short, before)
            if meant:
                found.setdefault(short, meant)
    return found


def _long_form(short: str, before: str) -> str | None:
    """Give the words before a bracket that the short form abbreviates."""
    korean = re.search(r"[가-힣][가-힣 ]*$", before)
    if korean:  # letters cannot be compared across scripts: the last Korean word is taken
        return korean.group().split()[-1] if len(korean.group().split()[-1]) > 1 else None
    words = re.split(r"[.;:,!?()]\s", before)[-1].split()
    longest = words[-min(len(short) + 5, 2 * len(short)) :]
    joined = " ".join(longest)
    at = _matched(short, joined)
    if at is None:
        return _initials(short, words)
    meant = joined[at:].strip()
    return meant if len(meant) > len(short) and short not in meant.split() else None


def _initials(short: str, words: list[str]) -> str | None:
    """Match the first letters of the last words in any order: myotonic dystrophy (DM)."""
    letters = sorted(letter for letter in short.lower() if letter.isalnum())
    last = words[-len(letters) :]
    if len(letters) > 1 and sorted(word[0].lower() for word in last) == letters:
        return " ".join(last)
    return None


def _matched(short: str, text: str) -> int | None:
    """Match a short form's letters from the right; its first must begin a word."""
    at = len(text)
    letters = [letter for letter in short.lower() if letter.isalnum()]
    for i in range(len(letters) - 1, -1, -1):
        at -= 1
        while at >= 0 and (
            text[at].lower() != letters[i] or (i == 0 and at > 0 and text[at - 1].isalnum())
        ):
            at -= 1
        if at < 0:
            return None
    return at
