"""Words that carry no topic: Korean and English, editable by a file of one's own."""

from pathlib import Path

from ..files import read_lines

_KOREAN = """
것 수 등 때 중 년 월 일 위 곳 점 번 명 개 분 말 경우 정도 때문 이것 그것 저것 여기
거기 저기 우리 저희 누구 무엇 오늘 어제 내일 지금 이번 다음 전 후 내 안 밖 앞 뒤 옆
사이 동안 부분 관련 대한 통해 위해 하다 되다 있다 없다 같다 이다 아니다 않다 보다 주다
받다 가다 오다 알다 모르다 그렇다 이렇다 어떻다 많다 적다 좋다 싶다 만들다 나오다 들다
나다 너무 정말 진짜 매우 더 잘 못 다 좀 또 및 또는 그리고
"""
_ENGLISH = """
a an the this that these those i you he she it we they me him her us them my your his its
our their mine yours who whom which what whose is am are was were be been being have has
had having do does did doing will would shall should can could may might must not no nor
and or but if because as until while of at by for with about against between into through
during before after above below to from up down in out on off over under again further
then once here there when where why how all any both each few more most other some such
only own same so than too very just also however therefore thus many much one two first
second new used using use get got make made see said say says like well even still yet etc
via per s t
"""
STOPWORDS = frozenset((_KOREAN + _ENGLISH).split())


def read_stopwords(path: str | Path | None) -> frozenset[str]:
    """Give the built-in stop words, changed by a file: one a line, "-word" takes one away.

    Lines that begin with # are remarks.
    """
    words = set(STOPWORDS)
    if path is not None:
        for line in read_lines(path):
            word = line.strip().casefold()
            if word.startswith("-") and len(word) > 1:
                words.discard(word[1:].strip())
            elif word and not word.startswith("#"):
                words.add(word)
    return frozenset(words)
