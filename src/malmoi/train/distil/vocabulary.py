"""Teach an existing tokenizer new words: learn pieces, add them, grow the embedding table.

The way of a piece: text → words cut at their particles (`particles`) → pieces
(`learn_pieces`) → tokenizer.json (`extend_tokenizer`) → one more row of the table (`grow_table`).
Works for WordPiece (BERT-like) and Unigram (XLM-R-like) tokenizers.
"""

import copy
import itertools
import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tokenizers import Tokenizer, models, pre_tokenizers, trainers

from ...errors import DataError, OptionError
from ...export.tokenizer import Spec, open_spec
from ...types import Floats

# Stands before the second part of a cut word while pieces are learned; a private-use character
# that no text holds.
_CUT = "\ue000"

Split = Callable[[str], Sequence[str]]

_SYLLABLES = [chr(code) for code in range(0xAC00, 0xD7A4)]
JAMO = [chr(code) for code in range(0x3131, 0x3164)]
_OLD_JAMO = [chr(code) for code in range(0x3164, 0x318F)]


def learn_pieces(
    counts: Counter[str],
    size: int,
    *,
    kind: str = "wordpiece",
    split: Split | None = None,
    syllables: Iterable[str] = (),
    fewest: int = 2,
) -> dict[str, float]:
    """Learn up to `size` pieces from word counts: a map of piece to its score (log-probability).

    Pieces never reach over a cut that `split` makes. A piece that continues a word is written
    as the kind writes it: "##를" for wordpiece, and without "▁" for unigram.
    `syllables` are put in first, alone and as continuation: no word made of them is unknown.
    """
    if kind not in ("wordpiece", "unigram"):
        raise OptionError(
            f"kind of pieces is {kind!r}; known are wordpiece and unigram. Choose one."
        )
    if not counts:
        raise DataError(
            "the text holds no word to learn from; expected Hangul words. "
            "Check the file and its column."
        )
    learnt = _train_bpe(_parts(counts, split), size, fewest)
    usage = _usage(counts, split, learnt)
    base = [form for s in dict.fromkeys(syllables) for form in (s, _CUT + s)]
    fixed = set(base)
    # 배가 comes in as the stem of 배가하다, and would then swallow the particle of 배.
    crossing = {p for p in learnt if split is not None and p[0] != _CUT and len(split(p)) > 1}
    others = (p for p in learnt if p not in fixed and p not in crossing)
    ranked = sorted(others, key=lambda p: (-usage.get(p, 0), p))
    chosen = (base + ranked)[:size]
    total = sum(usage.values()) + len(chosen)
    return {_written(piece, kind): math.log((usage.get(piece, 0) + 1) / total) for piece in chosen}


def _parts(counts: Counter[str], split: Split | None) -> Counter[str]:
    parts: Counter[str] = Counter()
    for word, count in counts.items():
        first, *rest = split(word) if split else (word,)
        parts[first] += count
        for part in rest:
            parts[_CUT + part] += count
    return parts


def _train_bpe(parts: Counter[str], size: int, fewest: int) -> list[str]:
    """Merge greedily; pieces that continue a word come back with the cut mark before them."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size * 2, min_frequency=fewest, show_progress=False, special_tokens=["[UNK]"]
    )
    tokenizer.train_from_iterator(_repeat(parts), trainer)
    found: dict[str, None] = {}
    for piece in tokenizer.get_vocab():
        if piece in ("[UNK]", _CUT):
            continue
        found[_CUT + piece[2:] if piece.startswith("##") else piece] = None
    return [piece for piece in found if piece != _CUT and _CUT not in piece[1:]]


def _repeat(parts: Counter[str]) -> Iterator[str]:
    # The trainer counts words itself, so it must see each as often as it is.
    for part, count in parts.items():
        for start in range(0, count, 1000):
            yield " ".join([part] * min(1000, count - start))


def _usage(counts: Counter[str], split: Split | None, pieces: Iterable[str]) -> Counter[str]:
    """Count how often greedy longest match takes each piece (what the tokenizer will do)."""
    known = set(pieces)
    usage: Counter[str] = Counter()
    for word, count in counts.items():
        start = 0
        while start < len(word):
            mark = _CUT if start else ""
            end = next((e for e in range(len(word), start, -1) if mark + word[start:e] in known), 0)
            if not end:
                break
            usage[mark + word[start:end]] += count
            start = end
    return usage


def _written(piece: str, kind: str) -> str:
    inner, text = piece.startswith(_CUT), piece.removeprefix(_CUT)
    if kind == "wordpiece":
        return f"##{text}" if inner else text
    return text if inner else f"▁{text}"


@dataclass(frozen=True)
class Extended:
    """A tokenizer that has learnt: its JSON, and the table row of each new piece."""

    spec: Spec
    rows: dict[str, int]
    size: int

    def tokenizer(self) -> Tokenizer:
        """Open it, without truncation or padding."""
        return Tokenizer.from_str(json.dumps(self.spec))


def kind_of(spec: Spec) -> str:
    """Say which kind of pieces a tokenizer.json holds: wordpiece or unigram."""
    kind = str(spec["model"].get("type", "")).lower()
    if kind not in ("wordpiece", "unigram"):
        raise OptionError(
            f"the tokenizer's model is {kind or 'unnamed'}; pieces can be added to WordPiece and "
            "Unigram. Start from another model."
        )
    return kind


def extend_tokenizer(
    spec: Spec, pieces: dict[str, float], *, reuse: re.Pattern[str] | None = None
) -> Extended:
    """Add pieces to a tokenizer.json, and extend its normaliser so that Hangul stays composed.

    Pieces it has already are passed over. `reuse` names old pieces whose rows may be taken
    ("[unused0]" …), so that the table grows less. Truncation and padding are taken out.
    """
    spec = copy.deepcopy(spec)
    kind = kind_of(spec)
    spec["truncation"] = spec["padding"] = None
    spec["normalizer"] = _compose_hangul(spec["normalizer"], kind)
    add = _add_wordpiece if kind == "wordpiece" else _add_unigram
    rows, size = add(spec, pieces, reuse)
    return Extended(spec, rows, size)


def _compose_hangul(normalizer: Spec | None, kind: str) -> Spec | None:
    """Put NFC after a normaliser that decomposes (BERT's does, and Hangul with it)."""
    if kind == "unigram" or normalizer is None:
        return normalizer
    steps = normalizer["normalizers"] if normalizer["type"] == "Sequence" else [normalizer]
    if steps[-1]["type"] in ("NFC", "NFKC"):
        return normalizer
    return {"type": "Sequence", "normalizers": [*steps, {"type": "NFC"}]}


def _add_wordpiece(
    spec: Spec, pieces: dict[str, float], reuse: re.Pattern[str] | None
) -> tuple[dict[str, int], int]:
    vocab: dict[str, int] = spec["model"]["vocab"]
    added = {token["content"] for token in spec["added_tokens"]}
    free = [p for p in vocab if reuse and reuse.fullmatch(p) and p not in added]
    rows: dict[str, int] = {}
    size = max(vocab.values()) + 1
    for piece in (p for p in pieces if p not in vocab):
        if free:
            rows[piece] = vocab.pop(free.pop(0))
        else:
            rows[piece], size = size, size + 1
    vocab.update(rows)
    spec["model"]["vocab"] = dict(sorted(vocab.items(), key=lambda item: item[1]))
    return rows, size


def _add_unigram(
    spec: Spec, pieces: dict[str, float], reuse: re.Pattern[str] | None
) -> tuple[dict[str, int], int]:
    vocab: list[list[Any]] = spec["model"]["vocab"]
    # Added tokens may come after the vocabulary (<mask> does); they keep their rows.
    for token in sorted(spec["added_tokens"], key=lambda token: token["id"]):
        if token["id"] == len(vocab):
            vocab.append([token["content"], 0.0])
    known = {piece for piece, _ in vocab}
    free = [i for i, (piece, _) in enumerate(vocab) if reuse and reuse.fullmatch(piece)]
    rows: dict[str, int] = {}
    for piece, score in pieces.items():
        if piece in known:
            continue
        rows[piece] = free.pop(0) if free else len(vocab)
        if rows[piece] == len(vocab):
            vocab.append([piece, score])
        else:
            vocab[rows[piece]] = [piece, score]
    return rows, len(vocab)


def add_rare_syllables(spec: Spec, size: int) -> Extended:
    """Let every Hangul syllable be read: one that has no piece shares one with its like.

    Those of one onset and vowel (쇽, 숃 … and 쇼) share a new piece, alone and inside a word each.
    Several names may stand for one row, so the table grows by 798 rows and not by 18,000. Letters
    (ㅋ) are read too, old ones as ㅏ. For Unigram the rows are the syllables' own, since its names
    cannot share one.
    """
    spec = {**copy.deepcopy(spec), "truncation": None, "padding": None}
    if kind_of(spec) != "wordpiece":
        return extend_tokenizer(spec, dict.fromkeys([*_SYLLABLES, *JAMO, *_OLD_JAMO], -15.0))
    vocab: dict[str, int] = spec["model"]["vocab"]
    rows: dict[str, int] = {}
    marks = ("", "##")
    for one, mark in itertools.product(_SYLLABLES, marks):
        first = chr(0xAC00 + (ord(one) - 0xAC00) // 28 * 28)  # the same without a final consonant
        if mark + one not in vocab:
            vocab[mark + one] = rows.setdefault(f"{mark}{first}*", size + len(rows))
    for one, mark in itertools.product(JAMO, marks):
        if mark + one not in vocab:
            vocab[mark + one] = rows.setdefault(f"{mark}{one}*", size + len(rows))
    for one, mark in itertools.product(_OLD_JAMO, marks):
        vocab.setdefault(mark + one, vocab[mark + "ㅏ"])  # the commonest of them became ㅏ
    return Extended(spec, rows, size + len(rows))


def start_rare(table: Floats, rows: dict[str, int], spec: Spec) -> None:
    """Start the rows of rare syllables at the mean of the known ones of their onset and vowel."""
    vocab = spec["model"]["vocab"]
    own = set(rows.values())
    middle = table[: min(own)].mean(0) if own else None
    for shared, row in rows.items():
        mark, first = ("##" if shared.startswith("##") else ""), ord(shared[-2])
        like = (vocab.get(mark + chr(code)) for code in range(first, first + 28))
        known = [table[id] for id in like if id is not None and id not in own]
        table[row] = np.mean(known, axis=0) if known else middle


def count_words(texts: Iterable[str], tokenizer: Tokenizer) -> Counter[str]:
    """Count words as the tokenizer parts them."""
    splitter = pre_tokenizers.BertPreTokenizer()
    counts: Counter[str] = Counter()
    for text in texts:
        normal = tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text
        counts.update(word for word, _ in splitter.pre_tokenize_str(normal))
    return counts


def term_pieces(
    spec: Spec, terms: Iterable[str], *, longest: int = 2, most: int = 10_000
) -> dict[str, float]:
    """Find the words of terms that the tokenizer breaks into more than `longest` pieces.

    The commonest come first; pass the result to `extend_tokenizer`.
    """
    kind = kind_of(spec)
    tokenizer = open_spec(spec)
    counts = count_words(terms, tokenizer)
    broken = [
        (word, count) for word, count in counts.most_common()
        if len(tokenizer.encode(word, add_special_tokens=False).ids) > longest
    ][:most]  # fmt: skip
    total = sum(counts.values()) or 1
    return {_written(word, kind): math.log(count / total) for word, count in broken}


def fertility(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[float, float]:
    """Give the tokens of a white-space word, and the share of tokens that are unknown."""
    unknown = {tokenizer.token_to_id("[UNK]"), tokenizer.token_to_id("<unk>")} - {None}
    encoded = tokenizer.encode_batch(list(texts), add_special_tokens=False)
    tokens = sum(len(one.ids) for one in encoded)
    missed = sum(id in unknown for one in encoded for id in one.ids)
    return tokens / max(1, sum(len(text.split()) for text in texts)), missed / max(tokens, 1)


def grow_table(
    table: Floats, extended: Extended, before: Tokenizer, *, init: str = "mean", seed: int = 0
) -> Floats:
    """Give the embedding table a row for every new piece: (old, dim) → (size, dim).

    `init` "mean" starts a piece at the mean of its old pieces' rows (plus a little noise, so that
    equal pieces can part), "random" at the table's own spread. `alignment` does better than both.
    """
    if init not in ("mean", "random"):
        raise OptionError(f"init is {init!r}; known are mean and random. Choose one.")
    rng = np.random.default_rng(seed)
    rows = max(extended.size, len(table))  # a table may have rows to spare
    grown = np.empty((rows, table.shape[1]), dtype=np.float32)
    grown[: len(table)] = table
    centre, spread = table.mean(0), table.std(0)
    for piece, row in extended.rows.items():
        noise = rng.standard_normal(table.shape[1], dtype=np.float32) * spread
        bare = piece.removeprefix("##").removeprefix("▁")
        ids = before.encode(bare, add_special_tokens=False).ids if init == "mean" else []
        grown[row] = table[ids].mean(0) + 0.1 * noise if ids else centre + noise
    return grown


def table_size(spec: Spec) -> int:
    """Say how many rows a tokenizer's pieces need."""
    vocab = spec["model"]["vocab"]
    return max(vocab.values()) + 1 if isinstance(vocab, dict) else len(vocab)
