"""Korean words and what hangs on them: particles and verb endings, cut where the text vouches."""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

HANGUL_WORD = re.compile("[가-힣]+")

# Particle: (form after a consonant, form after a vowel). Equal where the form does not change.
_PARTICLE_PAIRS = (
    ("은", "는"), ("이", "가"), ("을", "를"), ("과", "와"), ("으로", "로"), ("이나", "나"),
    ("이라는", "라는"), ("이라고", "라고"), ("이란", "란"), ("이라도", "라도"), ("이든", "든"),
    ("으로서", "로서"), ("으로써", "로써"), ("으로부터", "로부터"), ("으로는", "로는"),
    ("으로의", "로의"), ("으로도", "로도"), ("이야", "야"), ("이며", "며"), ("이고", "고"),
    ("이다", "다"), ("이었다", "였다"), ("이랑", "랑"), ("이지만", "지만"), ("이면", "면"),
)  # fmt: skip
# Forms that follow any sound, one string a kind, parted at spaces.
_PARTICLES = (
    "에 에서 에게 에게서 에는 에도 에서는 에서도 에서의 에만 의 도 만 까지 부터 께 께서 한테 처럼 "
    "보다 마다 마저 조차 밖에 뿐 만큼 대로 만이 만을 만의 까지는 까지의 부터는 에게는 에게도 "
    "들 들이 들은 들을 들의 들에게 들과 들도 들에 입니다 입니까 인 인지 일 였습니다 이었습니다"
)
# What turns a noun into a verb, with its commonest endings: 설치 + 합니다.
_VERB_ENDS = (
    "하다 한다 하는 하고 하여 하며 하면 하지 하게 하기 하던 하려면 하려고 하거나 하도록 하십시오 "
    "하세요 합니다 합니까 할 함 해 해서 해야 해도 했다 했던 했고 했습니다 했지만 했으며 하였다 "
    "하였습니다 하였고 하지만 하므로 하는데 하신 하시는 하기를 하기가 하기는 하는지 하는지를 할지 "
    "된 되다 된다 되는 되고 되어 되며 되면 되지 되게 되기 되던 되거나 되도록 됩니다 될 됨 돼 돼서 "
    "됐다 됐던 됐습니다 되었다 되었습니다 되었으며 되었고 되었던 되지만 되므로 되는데 되는지 "
    "시키다 시킨다 시키는 시키고 시켜 시킬 시킵니다 시켰다 적 적인 적으로 스러운 스럽게"
)


def _shape_of(form: str, consonant: str, vowel: str) -> str:
    if consonant == vowel:
        return "any"
    return "consonant" if form == consonant else "vowel"


SUFFIXES: dict[str, str] = {
    **dict.fromkeys(f"{_PARTICLES} {_VERB_ENDS}".split(), "any"),
    **{form: _shape_of(form, *pair) for pair in _PARTICLE_PAIRS for form in pair},
}
_LONGEST_SUFFIX = max(map(len, SUFFIXES))


def fits(stem: str, suffix: str) -> bool:
    """Whether the particle's form can follow the stem's last sound.

    >>> fits("배", "를"), fits("배", "을"), fits("서울", "로"), fits("집", "로")
    (True, False, True, False)
    """
    shape = SUFFIXES[suffix]
    final = (ord(stem[-1]) - 0xAC00) % 28
    if shape == "any":
        return True
    if suffix.startswith(("로", "으로")) and final == 8:  # ㄹ counts as a vowel before 로
        return suffix.startswith("로")
    return (final != 0) == (shape == "consonant")


@dataclass(frozen=True)
class ParticleSplitter:
    """Cuts a Korean word into its noun and what hangs on it, where the text itself vouches for it.

    A stem is believed when at least `evidence` different suffixes were seen on it; a word that
    itself takes about as many (고양이가, 고양이를) is a noun and is left whole.
    """

    takes: dict[str, int] = field(repr=False)
    evidence: int = 3

    @classmethod
    def from_counts(cls, counts: Counter[str], *, evidence: int = 3) -> "ParticleSplitter":
        """Learn from word counts which stems take how many different suffixes."""
        seen: dict[str, set[str]] = {}
        for word in counts:
            for stem, suffix in _cuts(word):
                seen.setdefault(stem, set()).add(suffix)
        return cls({stem: len(s) for stem, s in seen.items() if len(s) >= evidence}, evidence)

    def split(self, word: str) -> tuple[str, ...]:
        """Give (stem, suffix), or the word alone.

        >>> ParticleSplitter({"배": 6}).split("배를")
        ('배', '를')
        """
        best = max(_cuts(word), key=lambda cut: self._trust(cut[0]), default=None)
        if best is None or self._trust(best[0]) < self.evidence:
            return (word,)
        # 회의 is a noun although 회 is one too; 배가 is not, although 배가하다 is a verb.
        itself = self._trust(word)
        return (word,) if itself >= max(self.evidence, self._trust(best[0]) / 2) else best

    def _trust(self, stem: str) -> float:
        # A lone syllable meets many suffixes by chance, so it must be seen with more of them.
        return self.takes.get(stem, 0) / (2 if len(stem) == 1 else 1)


def _cuts(word: str) -> Iterator[tuple[str, str]]:
    for size in range(1, min(_LONGEST_SUFFIX, len(word) - 1) + 1):
        stem, suffix = word[:-size], word[-size:]
        if suffix in SUFFIXES and fits(stem, suffix):
            yield stem, suffix


def count_words(texts: Iterable[str]) -> Counter[str]:
    """Count the runs of Hangul syllables in the texts."""
    counts: Counter[str] = Counter()
    for text in texts:
        counts.update(HANGUL_WORD.findall(unicodedata.normalize("NFC", text)))
    return counts
