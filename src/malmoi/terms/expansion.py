"""Query expansion: a mention, and what else it may stand for.

An abbreviation is written out, a lay name is replaced by what it means, a test with a positive
result ("HBsAg(+)") becomes the name of the result ("HBsAg 양성"), and a word that was typed with
the keyboard in the other language is typed again: on the two-set keyboard (두벌식) every jamo
shares its key with a Latin letter, so "ekdsy" is 당뇨 and "ㅇㅡ" is dm.

The signs of findings, as fever(-), 기침+, HTN/DM (+/-), are read here too; `clinical` uses them.
"""

import functools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from ..io.files import read_lines
from ..io.tables import read_rows
from .abbreviations import Abbreviations
from .normalize import TABLES, key_of, read_pairs
from .segment import SHIPPED

_LEADS = "ㄱㄲㄴㄷㄸㄹㅁㅂㅃㅅㅆㅇㅈㅉㅊㅋㅌㅍㅎ"
_VOWELS = "ㅏㅐㅑㅒㅓㅔㅕㅖㅗㅘㅙㅚㅛㅜㅝㅞㅟㅠㅡㅢㅣ"
_TAILS = ("", *"ㄱㄲㄳㄴㄵㄶㄷㄹㄺㄻㄼㄽㄾㄿㅀㅁㅂㅄㅅㅆㅇㅈㅊㅋㅌㅍㅎ")

_JAMO_KEYS = "ㅂㅈㄷㄱㅅㅛㅕㅑㅐㅔㅁㄴㅇㄹㅎㅗㅓㅏㅣㅋㅌㅊㅍㅠㅜㅡㅃㅉㄸㄲㅆㅒㅖ"
_KEYS = dict(zip(_JAMO_KEYS, "qwertyuiopasdfghjklzxcvbnmQWERTOP", strict=True))
# Letters of two strokes, as they are typed.
_STROKES = {
    "ㅘ": "ㅗㅏ", "ㅙ": "ㅗㅐ", "ㅚ": "ㅗㅣ",
    "ㅝ": "ㅜㅓ", "ㅞ": "ㅜㅔ", "ㅟ": "ㅜㅣ", "ㅢ": "ㅡㅣ",
    "ㄳ": "ㄱㅅ", "ㄵ": "ㄴㅈ", "ㄶ": "ㄴㅎ", "ㄺ": "ㄹㄱ", "ㄻ": "ㄹㅁ", "ㄼ": "ㄹㅂ",
    "ㄽ": "ㄹㅅ",
    "ㄾ": "ㄹㅌ", "ㄿ": "ㄹㅍ", "ㅀ": "ㄹㅎ", "ㅄ": "ㅂㅅ",
}  # fmt: skip
_JOINED = {strokes: letter for letter, strokes in _STROKES.items()}
_LETTERS = {key: letter for letter, key in _KEYS.items()}
# Two strokes are tried before one; a consonant before a vowel begins the next syllable.
_PAIRS = "|".join(_JOINED)
_SYLLABLE = re.compile(
    rf"([{_LEADS}])((?=[{_VOWELS}]{{2}})(?:{_PAIRS})|[{_VOWELS}])"
    rf"((?:(?=[^{_VOWELS}]{{2}})(?:{_PAIRS})|[{''.join(_TAILS)}])(?![{_VOWELS}]))?"
)

_LATIN_WORD = re.compile(r"[A-Za-z]+")
_HANGUL = re.compile(r"[가-힣ㄱ-ㅎㅏ-ㅣ]")
_JAMO = re.compile(r"[ㄱ-ㅎㅏ-ㅣ]")


def letters(text: str) -> str:
    """Spell every syllable by its strokes on the keyboard; everything else stays.

    >>> letters("당뇨 DM")
    'ㄷㅏㅇㄴㅛ DM'
    >>> letters("왔")
    'ㅇㅗㅏㅆ'
    """
    return "".join(map(_spelled, text))


@functools.lru_cache(maxsize=20_000)
def _spelled(character: str) -> str:
    number = ord(character) - 0xAC00
    if not 0 <= number < 11172:
        return _STROKES.get(character, character)
    parts = (_LEADS[number // 588], _VOWELS[number // 28 % 21], _TAILS[number % 28])
    return "".join(_STROKES.get(part, part) for part in parts)


def to_latin(text: str) -> str:
    """Give what the same keys type with the keyboard on English.

    >>> to_latin("ㅇㅡ"), to_latin("채ㅔㅇ"), to_latin("당뇨")
    ('dm', 'copd', 'ekdsy')
    """
    return "".join(_KEYS.get(letter, letter) for letter in letters(text))


def to_hangul(text: str) -> str:
    """Give what the same keys type with the keyboard on Korean.

    >>> to_hangul("ekdsy"), to_hangul("rksrudqus")
    ('당뇨', '간경변')
    """
    strokes = "".join(_LETTERS.get(key, _LETTERS.get(key.lower(), key)) for key in text)
    return _SYLLABLE.sub(_composed, strokes)


def _composed(strokes: "re.Match[str]") -> str:
    lead, vowel, tail = (_JOINED.get(part, part) for part in strokes.groups(""))
    number = (_LEADS.index(lead) * 21 + _VOWELS.index(vowel)) * 28 + _TAILS.index(tail)
    return chr(0xAC00 + number)


def mistyped(text: str) -> str | None:
    """Give the text as the other keyboard would have it, or None if it looks right as it is.

    Korean keys on English give Latin words without a gap between consonants and vowels that
    Korean would allow; they are mistyped when every Latin word spells whole syllables. English
    keys on Korean leave letters that form no syllable.

    >>> mistyped("ekdsyqud"), mistyped("ㅗ수"), mistyped("당뇨병"), mistyped("asthma")
    ('당뇨병', 'htn', None, None)
    """
    if _JAMO.search(text) and not _LATIN_WORD.search(text):
        return to_latin(text)
    if _HANGUL.search(text) or not _LATIN_WORD.search(text):
        return None
    typed = to_hangul(text)
    return None if _JAMO.search(typed) or len(text) < 4 else typed


_MINUS, _PLUS = "[-−–－—ㅡ]", "[+＋]{1,4}|±"
_ONE = rf"(?:{_MINUS}|{_PLUS}|×|[OX무유](?![가-힣A-Za-z]))"
# "(-)", "(+/-)", "(+, 1회)"; brackets may be full width.
_BRACKETS = (
    rf"[(（\[]\s*(?P<signs>{_ONE}(?:\s*/\s*{_ONE})*)\s*(?:[,:;][^()（）\[\]]{{0,20}})?[)）\]]"
)
# Without brackets a sign must be the last of its item: "기침+, 가래-", but no "post-op".
# "DM - / AF + (2021)", and a run of them: "저림 - 발열 - .", but no "폐렴 - 항생제 - 호전".
_SPACED = rf"(?:[ \t]+[^\s,;./()+-]+(?:\s[^\s,;./()+-]+)?\s?{_ONE})*"
_CROSSED = r"(?<=[xX×])[ \t]+[^\s,;./()+-]+[ \t]?[xX×](?=\s|$)"  # "인후통 x 기침 x 설사 3회"
_BARE = rf"[ \t]?(?P<bare>{_ONE}(?:/{_ONE})*)(?={_SPACED}[ \t]*(?:[,;.\n()|]|/\s|$)|{_CROSSED})"
# "rebound tenderness/guarding": words that share out the signs after them.
_OTHERS = (
    r"(?P<others>(?:[ \t]?/[ \t]?[^\s/,;.()（）]+"
    r"(?:[ \t](?![-−–－+＋±])[^\s/,;.()（）]+){0,2})*?)"
)

_AFTER = re.compile(
    rf"{_OTHERS}[ \t]*(?:[:：]|\|[ \t])?(?:[ \t]*{_BRACKETS}|{_BARE})", re.IGNORECASE
)
# "(+) fever (-) cough": a line that begins with a sign has them before its items.
_LEADING = re.compile(rf"\s*(?:[^:()\n]{{0,20}}:)?\s*{_BRACKETS}\s*[^\s,;]")
_JUST_BEFORE = re.compile(rf"{_BRACKETS}\s*$", re.IGNORECASE)
# "□유 ■무", "☑ 있음 ☐ 없음"
_TICKED = re.compile(
    r"\s*[:：]?(?:\s*[□☐○◇]\s*[가-힣A-Za-z]{1,4})?\s*[■☑✔▣☒●]\s*"
    r"(?P<tick>유|있음|예|양성|yes|무|없음|아니오|음성|no)(?![가-힣a-z])",
    re.IGNORECASE,
)
# "☑ HTN ☐ angina": a form with boxes before its items; boxes of one kind are bullets.
_BOXED = re.compile(r"(?P<box>[□☐☑✔✓☒■])[ \t]*$")
_BOX_AFTER = re.compile(r"[ \t]?[:：]?[ \t]?(?P<box>[□☐☑✔✓☒■])(?=[ \t]*(?:[/,;(\n]|$))")
_EMPTY, _FULL = "□☐", "☑✔✓☒■"
# "[ ] 고혈압 [v] 당뇨": the same with brackets.
_TICK_BOX = re.compile(r"\[[ \t]?(?P<mark>[vVxXoO✓√]?)[ \t]?\]")
_TICK_BOX_LAST = re.compile(rf"{_TICK_BOX.pattern}[ \t]*$")
_BEFORE = re.compile(rf"(?:^|[,;:.\n])\s*{_BRACKETS}\s*$", re.IGNORECASE)
ANY = re.compile(_BRACKETS, re.IGNORECASE)
APART = re.compile(rf"(?<=[^\s,;:.])\s+[(（]\s*{_MINUS}\s*[)）]")


def sign(left: str, right: str) -> str:
    """Give the item's own sign, "+" or "-", from the text around it; "" where it has none.

    >>> sign("", "(-), 기침"), sign("기침(-), ", "(+)"), sign("(-) fever, (+) ", "")
    ('-', '+', '+')
    >>> [sign("", rest) for rest in ("/DM/Tb (+/-/-)", "/Tb (+/-/-)", " (+/-/-)")]
    ['+', '-', '-']
    >>> sign("", " □유 ■무"), sign("", ": -"), sign("(+) fever (-) ", " (+) sputum")
    ('-', '-', '-')
    >>> sign("☑ HTN ☐ ", " ☑ CKD"), sign("■ ", " 없음"), sign("[v] HTN [ ] ", "")
    ('-', '', '-')
    """
    tick = _TICKED.match(right)
    if tick:
        return "-" if tick["tick"].casefold() in ("무", "없음", "아니오", "음성", "no") else "+"
    line = left.rpartition("\n")[2]
    boxed = _BOXED.search(line) or _BOX_AFTER.match(right)
    around = left + right
    if boxed and any(box in around for box in _EMPTY) and any(box in around for box in _FULL):
        return "-" if boxed["box"] in _EMPTY else "+"
    boxed = _TICK_BOX_LAST.search(line)
    if boxed and len({bool(box["mark"]) for box in _TICK_BOX.finditer(around)}) == 2:
        return "+" if boxed["mark"] else "-"
    if _LEADING.match(f"{line}-"):
        own = _JUST_BEFORE.search(line)
        return _plain(own["signs"]) if own and "/" not in own["signs"] else ""
    after = _AFTER.match(right)
    if after:
        signs = re.split(r"\s*/\s*", after.group("signs") or after.group("bare"))
        if len(signs) == 1:
            # "CKD 3 / DM(-)" is DM's alone, "fever / chills (-)" is of both.
            shared = not re.search(r"\s/|/\s", after["others"]) or APART.search(after.group())
            return _plain(signs[0]) if shared else ""
        # Shared out from the right: the last sign is the last item's.
        place = len(signs) - 1 - after.group("others").count("/")
        return _plain(signs[place]) if place >= 0 else ""
    before = _BEFORE.search(left)
    return _plain(before.group("signs")) if before and "/" not in before.group("signs") else ""


def _plain(one: str) -> str:
    return "-" if re.fullmatch(rf"{_MINUS}|[xX×무]", one) else "+"


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


def positive_result(mention: str) -> str | None:
    """Give the name of the result that a mention writes with a sign, None where it has none.

    >>> positive_result("HBsAg (+)"), positive_result("HBsAg(-)"), positive_result("HBsAg")
    ('HBsAg 양성', None, None)
    """
    parts = _SPLIT.fullmatch(mention.strip())
    if parts is None or result(parts["name"], parts["rest"]) != "+":
        return None
    return positive(parts["name"])


_SAMPLE = SHIPPED / "sample.tsv"
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9/&+.-]*")
# A mention has at most this many expansions; more cost time and gain nothing.
_MOST = 6
_CONDITIONS = ("disease", "sign")


@dataclass(frozen=True)
class Expansion:
    """A text to look for instead of the mention; `why` is how it came about."""

    text: str
    why: str  # "mention", "abbreviation", "keyboard", "synonym", "sample"


def _sample_synonyms() -> Iterator[tuple[str, tuple[str, ...]]]:
    """Give other names of the shipped sample, each with the names that are shown."""
    for row in read_rows(_SAMPLE):
        shown = tuple(row[side].strip() for side in ("ko", "en") if row[side])
        names = ";".join(row[column] for column in ("lay", "synonyms")).split(";")
        yield from ((key_of(name), shown) for name in names if name.strip())


_LITTLE_WORDS = frozenset(
    "as am an at be by do go he if in is it me my no of on or so to up us we".split()  # noqa: SIM905
)


@dataclass(frozen=True)
class QueryExpander:
    """Expands mentions by the tables."""

    abbreviations: Abbreviations
    synonyms: Mapping[str, tuple[str, ...]]
    sample: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def open(
        cls,
        *,
        abbreviations: str | Path | None = None,
        synonyms: str | Path | None = None,
        sample: bool = True,
    ) -> "QueryExpander":
        """Read the tables.

        abbreviations  a table that extends the shipped one
        synonyms       a table that replaces the shipped one
        sample         add the other names of the shipped sample, for lexicons without its codes
        """
        also: dict[str, tuple[str, ...]] = {}
        for key, shown in _sample_synonyms() if synonyms is None and sample else ():
            also[key] = tuple(dict.fromkeys((*also.get(key, ()), *shown)))
        table = Abbreviations.open(*([] if abbreviations is None else [abbreviations]))
        pairs = read_pairs(read_lines(synonyms or TABLES / "synonyms.tsv"))
        return cls(table, pairs, also)

    def meanings(self, short: str) -> tuple[str, ...]:
        """Give the conditions and signs that a short form stands for, in both languages.

        "DM", "dm" and "f/u" are short forms; words that happen to be spelled like one are not.
        """
        if len(short) > 12 or (len(short) <= 2 and short in _LITTLE_WORDS):
            return ()
        found = self.abbreviations.expand(short, kinds=_CONDITIONS)
        return tuple(text for one in found for text in (one.en, one.ko) if text)

    def _spelled_out(self, text: str) -> list[str]:
        """Give the text with its abbreviations written out, in both languages where known."""
        whole = self.meanings(text.strip())
        if whole:
            return list(dict.fromkeys(whole))
        known = {word: self.meanings(word) for word in _WORD.findall(text)}
        found = [word for word in _WORD.findall(text) if known[word]]
        out: list[str] = []
        for i in range(2):  # English first, then Korean
            spelled = text
            for word in found:
                spelled = spelled.replace(word, known[word][min(i, len(known[word]) - 1)])
            out.append(spelled)
        return list(dict.fromkeys(out)) if found else []

    def expand(self, mention: str, defined: Mapping[str, str] | None = None) -> list[Expansion]:
        """Give the texts to look for, the mention itself first.

        `defined` are abbreviations that the note itself explains, which win over the table.
        """
        found = [Expansion(mention, "mention")]
        own = (defined or {}).get(mention.strip())
        if own is not None:
            return [*found, Expansion(own, "abbreviation")]
        other = mistyped(mention)
        for text in (mention, other) if other else (mention,):
            if text is not mention:
                found.append(Expansion(text, "keyboard"))
            # "HBsAg(+)" stands in the table as "HBsAg 양성".
            meanings = self.synonyms.get(key_of(positive_result(text) or text), ())
            found += [Expansion(meaning, "synonym") for meaning in meanings]
            found += [Expansion(name, "sample") for name in self.sample.get(key_of(text), ())]
            found += [Expansion(spelled, "abbreviation") for spelled in self._spelled_out(text)]
        further = [
            Expansion(text, one.why)
            for one in found[1:]
            for text in self.synonyms.get(key_of(one.text), ())
        ]
        return list(dict.fromkeys([*found, *further]))[:_MOST]
