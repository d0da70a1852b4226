"""Where sentences end, in Korean, English and mixed text, by rules over the text alone."""

import re

Span = tuple[int, int]

# Closing signs belong to the sentence that they close.
_CLOSING = "\"'”’»」』)\\]】》〉"
# Endings of polite Korean after which a space alone ends the sentence: notices, chats and reviews
# leave the full stop out. "했다" and its like need one, for they also stand before "하더라도".
_POLITE = "니다|습니까|세요|에요|예요|어요|아요|해요|네요|군요|나요|까요|든요|잖아요|려요|봐요|줘요"
_CANDIDATE = re.compile(
    rf"(?P<line>\n+)"
    rf"|(?P<sign>[.?!]+|…+)(?P<closing>[{_CLOSING}]*)(?=\s|$)"
    rf"|[。！？]+[{_CLOSING}]*"
    # Informal Korean puts no space after the full stop: "먹었다.그리고".
    rf"|(?<=[가-힣][다요죠까음함임됨])[.?!]+(?=[가-힣A-Z])"
    rf"|(?<=[가-힣])(?:{_POLITE})[~^ㅎㅋㅠㅜ♥♡]*(?=\s+(?!라고|하고|라는|라며|이라)[가-힣A-Za-z\"“(])"
)
# What is inside a short pair of these is part of the sentence around it.
_PAIRS = re.compile(
    r"\([^()\n]{1,200}\)|\[[^\[\]\n]{1,200}\]|“[^“”\n]{1,200}”|\"[^\"\n]{1,200}\""
    r"|‘[^‘’\n]{1,200}’|「[^「」\n]{1,200}」|『[^『』\n]{1,200}』|《[^《》\n]{1,200}》"
)
_QUOTED = re.compile("라고|라는|라며|라면서|라고는|하고|하며|하는|하자|고 |는 |며 |이라|라 ")
_DATE = re.compile(r"\d{4}\.\s*\d{1,2}(\.\s*\d{1,2})?$")
_INITIALS = re.compile(r"(?:[A-Za-z]\.)*[A-Za-z]")
_MARKER = re.compile(r"\d{1,3}|[가-하]|[IVXivx]{1,4}|[A-Za-z]")
_FINAL = frozenset("다요까죠네지음함임")
_NEVER_LAST = (
    "mr mrs ms dr prof st no nos fig figs eq eqs vs e.g i.e cf al vol pp ed eds dept approx gen "
    "col rev hon sen rep jan feb mar apr jun jul aug sep sept oct nov dec tel"
)
_ABBREVIATIONS = frozenset(_NEVER_LAST.split())
_AT_END_TOO = frozenset(("etc", "inc", "co", "ltd", "corp", "jr", "sr", "a.m", "p.m", "ph.d"))


def split_sentences(text: str) -> list[Span]:
    """Find where each sentence starts and ends, without the space between them.

    A line end ends a sentence. Every character that is not space is in one of the spans.

    >>> text = "오늘 왔다. 값은 3.5 kg, 약 2 g. Dr. Kim이 봤어요 감사합니다"
    >>> [text[start:end] for start, end in split_sentences(text)]
    ['오늘 왔다.', '값은 3.5 kg, 약 2 g.', 'Dr. Kim이 봤어요', '감사합니다']
    """
    spans: list[Span] = []
    inside = [(one.start(), one.end()) for one in _PAIRS.finditer(text)]
    start = pair = 0
    for found in _CANDIDATE.finditer(text):
        end = found.end()
        while pair < len(inside) and inside[pair][1] < end:
            pair += 1
        if found["line"] is None:
            if pair < len(inside) and inside[pair][0] < found.start() and end < inside[pair][1]:
                continue
            if found["sign"] and not _ends(text, start, found):
                continue
        _add(spans, text, start, end)
        start = end
    _add(spans, text, start, len(text))
    return spans


def _add(spans: list[Span], text: str, start: int, end: int) -> None:
    piece = text[start:end]
    if stripped := piece.strip():
        first = start + piece.index(stripped[0])
        spans.append((first, first + len(stripped)))


def _ends(text: str, start: int, found: re.Match[str]) -> bool:
    """Say whether a sign with space after it ends the sentence that starts at `start`."""
    after = text[found.end() : found.end() + 12].lstrip()
    if not after:
        return True
    last = text[found.start() - 1 : found.start()]
    if after[0].isascii() and after[0].islower() and last.isascii():
        return False
    if found["closing"] and _QUOTED.match(after):
        return False  # “…다.” 라고 말했다
    sign, before = found["sign"], text[max(start, found.start() - 40) : found.start()]
    if sign[0] == "…" or (len(sign) > 1 and set(sign) == {"."}):
        final = before[-1:] in _FINAL and "가" <= before[-2:-1] <= "힣"  # not "음..." alone
        return final or after[0].isupper() or after[0] in "“\"'‘"
    return sign != "." or _full_stop(before, after, whole=found.start() - start <= 40)


def _full_stop(before: str, after: str, *, whole: bool) -> bool:
    """Say whether a full stop ends a sentence; `whole` if `before` is all of the sentence."""
    word = re.split(r"[\s(\[“\"'‘]", before)[-1]
    if whole and before.strip() == word and _MARKER.fullmatch(word):
        return False  # the number of a list's item
    if word.isdigit():
        return not after[0].isdigit() and not _DATE.search(before)
    if _INITIALS.fullmatch(word) and "." in word:
        return False  # U.S., e.g.
    if len(word) == 1 and "A" <= word <= "Z":
        return "가" <= after[0] <= "힣"  # "비타민 C. 그리고", but "J. Kim"
    plain = word.lower()
    if plain in _ABBREVIATIONS:
        return False
    return plain not in _AT_END_TOO or after[0].isupper() or "가" <= after[0] <= "힣"
