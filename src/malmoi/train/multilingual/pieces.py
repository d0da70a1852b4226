"""The first two stages: a tokenizer that knows the new words, and rows for them to begin at."""

import json
import logging
import re
import tempfile
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from ...files import writing, writing_folder
from ..alignment import (
    AlignConfig,
    ParallelBags,
    align_rows,
    ibm1,
    idf,
    translate_rows,
    write_bags,
)
from ..particles import ParticleSplitter, count_words
from ..quiet import quiet
from ..student import open_student
from ..vocabulary import (
    Extended,
    Spec,
    extend_tokenizer,
    fertility,
    grow_table,
    kind_of,
    learn_pieces,
    open_spec,
    read_spec,
    term_pieces,
)
from .material import Material
from .settings import Align, Distillation, Vocabulary
from .texts import Pair

logger = logging.getLogger(__name__)

Floats = NDArray[np.float32]

_LETTERS = re.compile(r"[^\W\d_]+")
_JAMO = [chr(code) for code in range(0x3131, 0x3164)]
# How many texts the report on tokens per word is made of.
_SAMPLE = 5000


@dataclass(frozen=True)
class Words:
    """A tokenizer for the student: its JSON, and the table row of each new piece."""

    spec: Spec
    rows: dict[str, int]

    @classmethod
    def read(cls, folder: Path) -> "Words":
        """Read what `write_vocabulary` wrote."""
        rows = json.loads((folder / "rows.json").read_text("utf-8"))
        return cls(read_spec(folder), rows)


def write_vocabulary(recipe: Distillation, material: Material, base: Path, folder: Path) -> None:
    """Write the student's tokenizer: the base's own, or one that has learnt new pieces."""
    spec = read_spec(base)
    made = Extended(spec, {}, 0)
    if recipe.vocabulary:
        made = _extend(recipe, recipe.vocabulary, material, spec)
        logger.info(f"{len(made.rows):,} new pieces; {_fertility(spec, made, material)}")
    with writing_folder(folder, replace=True) as half:
        text = json.dumps(made.spec, ensure_ascii=False)
        (half / "tokenizer.json").write_text(text, "utf-8")
        (half / "rows.json").write_text(json.dumps(made.rows, ensure_ascii=False), "utf-8")


def _extend(
    recipe: Distillation, vocabulary: Vocabulary, material: Material, spec: Spec
) -> Extended:
    raw: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    for texts, weight in _sources(recipe, vocabulary, material):
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
    terms = (text for entry in vocabulary.terms for text in material.reader.texts(entry))
    words = term_pieces(made.spec, terms, most=vocabulary.term_words)
    more = extend_tokenizer(made.spec, words, reuse=reuse)
    return Extended(more.spec, made.rows | more.rows, more.size)


def _sources(
    recipe: Distillation, vocabulary: Vocabulary, material: Material
) -> Iterator[tuple[Iterable[str], int]]:
    for entry in recipe.parallel:
        if entry.pieces:
            yield (target for _, target in material.pairs[entry.title]), entry.pieces
    for text in vocabulary.text:
        yield material.reader.texts(text), text.weight


def _count(texts: Iterable[str], vocabulary: Vocabulary, spec: Spec) -> Counter[str]:
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
    return [*(code for code in codes if "가" <= code <= "힣" and code in seen), *_JAMO]


def _fertility(spec: Spec, made: Extended, material: Material) -> str:
    share = max(1, sum(map(len, material.pairs.values())) // _SAMPLE)
    texts = [target for pairs in material.pairs.values() for _, target in pairs[::share]]
    found = fertility(open_spec(spec), made.tokenizer(), texts)
    return (
        f"a word takes {found.after:.2f} pieces, {found.before:.2f} before; unknown are "
        f"{found.unknown_after:.2%}, {found.unknown_before:.2%} before"
    )


def write_table(
    recipe: Distillation, material: Material, base: Path, words: Words, path: Path
) -> None:
    """Write the embedding table with a row for every new piece, begun as the recipe says."""
    vocabulary = recipe.vocabulary
    with quiet():
        embeddings = open_student(base)[0].get_input_embeddings()
    assert isinstance(embeddings, torch.nn.Embedding)
    grown = table = embeddings.weight.detach().float().numpy()
    if vocabulary and words.rows:
        extended = Extended(words.spec, words.rows, max(len(table), max(words.rows.values()) + 1))
        init = "random" if vocabulary.init == "align" else vocabulary.init
        before = open_spec(read_spec(base))
        grown = grow_table(table, extended, before, init=init, seed=recipe.seed)
        if vocabulary.init == "align":
            grown = _align(recipe, material, words, grown, path.parent)
    with writing(path) as file:
        np.save(file, grown)


def _align(
    recipe: Distillation, material: Material, words: Words, table: Floats, place: Path
) -> Floats:
    settings, rows = recipe.align, list(words.rows.values())
    with tempfile.TemporaryDirectory(prefix=".bags-", dir=place) as folder:
        stream = _stream(recipe, material)
        bags = write_bags(stream, open_spec(words.spec), Path(folder), longest=settings.longest)
        start = None
        if settings.method != "regression":
            start = _translated(settings, table, rows, bags)
            if settings.method == "ibm1":
                return _at_norm(table, rows, start)
        config = AlignConfig(
            epochs=settings.epochs,
            batch=settings.batch,
            learning_rate=settings.learning_rate,
            longest=settings.longest,
            seed=recipe.seed,
        )
        return align_rows(table, rows, bags, config, start=start)


def _stream(recipe: Distillation, material: Material) -> Iterator[Pair]:
    for entry in recipe.parallel:
        for _ in range(entry.align):
            yield from material.pairs[entry.title]


def _translated(settings: Align, table: Floats, rows: list[int], bags: ParallelBags) -> Floats:
    lexical = ibm1(bags, len(table), rounds=settings.rounds)
    weights = idf(bags.source, len(table))
    return translate_rows(table, rows, lexical, weights, sharp=settings.sharp)


def _at_norm(table: Floats, rows: list[int], start: Floats) -> Floats:
    """Bring the rows to the old rows' mean distance from their centre; those at it stay."""
    old = np.delete(table, rows, axis=0)
    centre = old.mean(0)
    norm = np.linalg.norm(old - centre, axis=1).mean()
    moved = start - centre
    length = np.linalg.norm(moved, axis=1, keepdims=True)
    grown = table.copy()
    grown[rows] = np.where(
        length > 1e-6, centre + moved / np.maximum(length, 1e-6) * norm, table[rows]
    )
    return grown
