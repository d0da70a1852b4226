"""The first two stages: a tokenizer with new tokens, and the rows where they start.

Korean words are split from their particles and verb endings where the text gives evidence for it.
"""

import json
import logging
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch

from ...export.silence import silenced_libraries
from ...export.tokenizer import Spec, open_spec, read_spec
from ...io.files import writing, writing_folder
from ...types import Floats
from .alignment import align_rows, write_bags
from .data import DistillationData
from .recipe import Distillation, VocabularyRecipe
from .student import open_student
from .vocabulary import (
    JAMO,
    Extended,
    add_rare_syllables,
    extend_tokenizer,
    fertility,
    grow_table,
    kind_of,
    learn_pieces,
    start_rare,
    table_size,
    term_pieces,
)

logger = logging.getLogger(__name__)

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


SUFFIXES: dict[str, str] = {
    **dict.fromkeys(f"{_PARTICLES} {_VERB_ENDS}".split(), "any"),
    **dict.fromkeys((one for one, _ in _PARTICLE_PAIRS), "consonant"),
    **dict.fromkeys((two for _, two in _PARTICLE_PAIRS), "vowel"),
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
    """Cuts a Korean word into its noun and what hangs on it, where the text gives evidence for it.

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


_LETTERS = re.compile(r"[^\W\d_]+")
# How many texts the report on tokens per word is made of.
_SAMPLE = 5000


def read_vocabulary(folder: Path) -> Extended:
    """Read what `write_vocabulary` wrote."""
    rows = json.loads((folder / "rows.json").read_text("utf-8"))
    return Extended(read_spec(folder), rows, max(rows.values(), default=-1) + 1)


def write_vocabulary(
    recipe: Distillation, dataset: DistillationData, base: Path, folder: Path
) -> None:
    """Write the student's tokenizer: the base's own, or one that has learnt new pieces."""
    spec = read_spec(base)
    made = Extended(spec, {}, 0)
    if recipe.vocabulary:
        if recipe.vocabulary.size:
            made = _extend(recipe, recipe.vocabulary, dataset, spec)
        if recipe.vocabulary.rare:
            size = max(made.size, table_size(made.spec))
            rare = add_rare_syllables(made.spec, size)
            made = Extended(rare.spec, made.rows | rare.rows, rare.size)
        logger.info(f"{len(made.rows):,} new pieces; {_fertility(spec, made, dataset)}")
    with writing_folder(folder, replace=True) as partial:
        text = json.dumps(made.spec, ensure_ascii=False)
        (partial / "tokenizer.json").write_text(text, "utf-8")
        (partial / "rows.json").write_text(json.dumps(made.rows, ensure_ascii=False), "utf-8")


def _extend(
    recipe: Distillation, vocabulary: VocabularyRecipe, dataset: DistillationData, spec: Spec
) -> Extended:
    raw: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    sources: list[tuple[Iterable[str], int]] = [
        ([target for _, target in dataset.pairs[entry.title]], entry.pieces)
        for entry in recipe.parallel
        if entry.pieces
    ]
    sources += [(dataset.reader.texts(text), text.weight) for text in vocabulary.text]
    for texts, weight in sources:
        found = _count(texts, vocabulary, spec)
        raw.update(found)
        for word, count in found.items():
            counts[word] += count * weight
    hangul = vocabulary.words == "hangul"
    split = ParticleSplitter.from_counts(raw).split if hangul and vocabulary.particles else None
    pieces = learn_pieces(
        counts,
        vocabulary.size,
        kind=kind_of(spec),
        split=split,
        syllables=_syllables(raw) if hangul and vocabulary.syllables else (),
        fewest=vocabulary.fewest,
    )
    reuse = re.compile(vocabulary.reuse) if vocabulary.reuse else None
    made = extend_tokenizer(spec, pieces, reuse=reuse)
    if not vocabulary.terms:
        return made
    terms = (text for entry in vocabulary.terms for text in dataset.reader.texts(entry))
    words = term_pieces(made.spec, terms, most=vocabulary.term_words)
    more = extend_tokenizer(made.spec, words, reuse=reuse)
    return Extended(more.spec, made.rows | more.rows, more.size)


def _count(texts: Iterable[str], vocabulary: VocabularyRecipe, spec: Spec) -> Counter[str]:
    if vocabulary.words == "hangul":
        return count_words(texts)
    # Words are counted as the tokenizer will see them, lower-cased if it lower-cases.
    normalizer = extend_tokenizer(spec, {}).tokenizer().normalizer
    counts: Counter[str] = Counter()
    for text in texts:
        normal = normalizer.normalize_str(text) if normalizer else text
        counts.update(_LETTERS.findall(unicodedata.normalize("NFC", normal)))
    return counts


def _syllables(counts: Counter[str]) -> list[str]:
    """List the syllables of KS X 1001, the common ones, that the text holds, and the jamo."""
    seen = {syllable for word in counts for syllable in word}
    codes = (bytes([a, b]).decode("euc-kr") for a in range(0xB0, 0xC9) for b in range(0xA1, 0xFF))
    return [*(code for code in codes if "가" <= code <= "힣" and code in seen), *JAMO]


def _fertility(spec: Spec, made: Extended, dataset: DistillationData) -> str:
    share = max(1, sum(map(len, dataset.pairs.values())) // _SAMPLE)
    texts = [target for pairs in dataset.pairs.values() for _, target in pairs[::share]]
    (before, unknown), (after, missed) = (
        fertility(tokenizer, texts) for tokenizer in (open_spec(spec), made.tokenizer())
    )
    return (
        f"a word takes {after:.2f} pieces, {before:.2f} before; unknown are {missed:.2%}, "
        f"{unknown:.2%} before"
    )


def write_table(
    recipe: Distillation, dataset: DistillationData, base: Path, words: Extended, path: Path
) -> None:
    """Write the embedding table with a row for every new piece, started as the recipe says."""
    vocabulary = recipe.vocabulary
    with silenced_libraries():
        embeddings = open_student(base)[0].get_input_embeddings()
    assert isinstance(embeddings, torch.nn.Embedding)
    grown = table = embeddings.weight.detach().float().numpy()
    if vocabulary and words.rows:
        init = "random" if vocabulary.init == "align" else vocabulary.init
        before = open_spec(read_spec(base))
        grown = grow_table(table, words, before, init=init, seed=recipe.seed)
        rare = {piece: row for piece, row in words.rows.items() if piece.endswith("*")}
        if vocabulary.init == "align" and len(rare) < len(words.rows):
            grown = _align(recipe, dataset, words, grown, path.parent)
        start_rare(grown, rare, words.spec)
    with writing(path) as file:
        np.save(file, grown)


def _align(
    recipe: Distillation, dataset: DistillationData, words: Extended, table: Floats, scratch: Path
) -> Floats:
    settings, rows = recipe.align, list(words.rows.values())
    with tempfile.TemporaryDirectory(prefix=".bags-", dir=scratch) as folder:
        stream = dataset.aligned(recipe)
        bags = write_bags(stream, open_spec(words.spec), Path(folder), longest=settings.longest)
        return align_rows(table, rows, bags, settings, seed=recipe.seed)
