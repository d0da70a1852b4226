"""Text that was decoded wrongly once and saved: recognised, and repaired where no byte is lost.

A saved web page or an export has "ì´ ê¸€ì€" for "이 글은" when UTF-8 was read as cp1252 or
Latin-1, and "¾È³ç" for "안녕" when cp949 was. Each byte became one character, so the way back is
to make bytes of the characters and to decode them rightly.
"""

import re
from dataclasses import dataclass

# Encodings with one byte a character in which UTF-8 is read by mistake. Latin-1 is read as
# cp1252 with the five bytes that it lacks, which most programs keep as control characters.
_SINGLE = ("cp1252", "mac_roman", "cp1250", "cp1251", "cp437", "cp850")
_FEWEST = 3  # characters outside cp1252 that must come out right to believe in a rarer encoding
_KOREAN_BYTES = re.compile("[\u00a1-\u00fe]{4,}")
# Latin, Greek, Cyrillic, signs, Hangul, Chinese characters, kana, full-width forms, emoji.
_USUAL = re.compile(
    "[\u0080-\u024f\u0370-\u04ff\u1100-\u11ff\u2000-\u2bff\u3000-\u9fff가-힣\uf900-\ufaff\ufe0f"
    "\uff00-\uffef\U0001f000-\U0001faff]"
)
_LATIN = re.compile("[\u0080-\u00ff]")
_HANGUL = re.compile("[가-힣]")


@dataclass(frozen=True)
class Repair:
    """A text after its repair.

    Attributes:
        text: with every character repaired that could be.
        repaired: how many characters came out.
        lost: how many are still wrong, for some of their bytes are gone.
    """

    text: str
    repaired: int = 0
    lost: int = 0


@dataclass
class Repairs:
    """Repairs texts and counts the characters that were repaired or lost."""

    repaired: int = 0
    lost: int = 0

    def text(self, text: str) -> str:
        """Give a text repaired."""
        found = repair(text)
        self.repaired += found.repaired
        self.lost += found.lost
        return found.text


class _Encoding:
    """Finds UTF-8 in text that was read as an encoding of one byte a character."""

    def __init__(self, name: str) -> None:
        self.bytes: dict[str, int] = {}
        for byte in range(0x80, 0x100):
            try:
                self.bytes[bytes([byte]).decode(name)] = byte
            except UnicodeDecodeError:
                self.bytes[chr(byte)] = byte
            if name == "cp1252":
                self.bytes.setdefault(chr(byte), byte)
        tail = self._class(0x80, 0xBF)
        two, three, four = (
            self._class(low, high) for low, high in ((0xC2, 0xDF), (0xE0, 0xEF), (0xF0, 0xF4))
        )
        # Where all white space became spaces, byte A0 did too: "ì", a space and U+0080 are 저.
        middle = f"(?:{tail}| (?=[\x80-\x9f]))"
        self.whole = re.compile(f"{two}{tail}|{three}{middle}{tail}|{four}{tail}{{3}}")
        # The start of a Hangul syllable with one or none of the two bytes that follow it.
        self.torn = re.compile(f"{self._class(0xEA, 0xED)}(?:{tail}\ufffd?(?!{tail})|\ufffd)")

    def _class(self, low: int, high: int) -> str:
        return "[" + "".join(re.escape(c) for c, b in self.bytes.items() if low <= b <= high) + "]"

    def decode(self, found: re.Match[str]) -> str:
        """Decode one character; what is no UTF-8 after all, or of no usual script, stays."""
        try:
            decoded = bytes(self.bytes.get(c, 0xA0) for c in found[0]).decode()
        except UnicodeDecodeError:
            return found[0]
        return decoded if _USUAL.match(decoded) else found[0]


_ENCODINGS = {name: _Encoding(name) for name in _SINGLE}
# No text without two such characters next to one another was decoded wrongly; most has none.
_ANY = "".join(sorted({c for one in _ENCODINGS.values() for c in one.bytes}))
_SUSPECT = re.compile(f"[{re.escape(_ANY)}]{{2}}")


def repair(text: str, *, times: int = 2) -> Repair:
    """Repair text that was decoded wrongly; text that was not is given back as it is.

    `times` is how often it may have been decoded wrongly, each time after the other.

    >>> repair("안녕하세요".encode().decode("latin-1")).text
    '안녕하세요'
    >>> repair("café, naïve, 이 글은 멀쩡하다").repaired
    0
    """
    if text.isascii() or _SUSPECT.search(text) is None:
        return Repair(text)
    if times and (found := _candidates(text)):
        again = [repair(one.text, times=times - 1) for one in found]
        ways = [Repair(b.text, a.repaired, b.lost) for a, b in zip(found, again, strict=True)]
        # The right way back leaves the fewest letters of Latin-1.
        return min(ways, key=lambda one: len(_LATIN.findall(one.text)))
    torn = len(_ENCODINGS["cp1252"].torn.findall(text))
    return Repair(text, 0, torn if torn >= _FEWEST else 0)


def _candidates(text: str) -> list[Repair]:
    """Repair a text by every encoding in which it may have been read."""
    found = [_repair_cp949(text)] if _KOREAN_BYTES.search(text) else []
    for name, encoding in _ENCODINGS.items():
        if encoding.whole.search(text) is not None:
            one = _repair_utf8(text, encoding)
            gained = len(_HANGUL.findall(one.text)) - len(_HANGUL.findall(text))
            if name == "cp1252" or gained >= _FEWEST:
                found.append(one)
    return [one for one in found if one.repaired]


def _repair_utf8(text: str, encoding: _Encoding) -> Repair:
    count = 0

    def decode(found: re.Match[str]) -> str:
        nonlocal count
        decoded = encoding.decode(found)
        count += decoded != found[0]
        return decoded

    repaired = encoding.whole.sub(decode, text)
    return Repair(repaired, count)


def _repair_cp949(text: str) -> Repair:
    """Repair Korean of cp949 that was read as Latin-1: runs of its letters that are all Hangul."""
    count = 0

    def decode(found: re.Match[str]) -> str:
        nonlocal count
        raw = found[0].encode("latin-1")
        try:
            decoded = raw.decode("cp949")
        except UnicodeDecodeError:
            return found[0]
        if len(_HANGUL.findall(decoded)) < 0.7 * len(decoded):
            return found[0]
        count += len(decoded)
        return decoded

    repaired = _KOREAN_BYTES.sub(decode, text)
    if not count:
        return Repair(text)
    # Words of one syllable between the others, now that it is known what they are.
    return Repair(re.sub("[\u00b0-\u00c8][\u00a1-\u00fe]", _decode_one, repaired), count)


def _decode_one(found: re.Match[str]) -> str:
    return found[0].encode("latin-1").decode("cp949", "replace")
