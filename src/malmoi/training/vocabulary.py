"""Teach an existing tokenizer new words: learn pieces, add them, grow the embedding table.

The way of a piece: text → counted words (`count_words`) → pieces (`learn_pieces`, `term_pieces`) →
tokenizer.json (`extend_tokenizer`) → one more row of the table (`grow_table`) → a model folder
(`grow_base`). Works for WordPiece (BERT-like) and Unigram (XLM-R-like) tokenizers.
"""

import copy
import dataclasses
import json
import logging
import math
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import AutoModel

from ..bundle.sentence_transformers import write_json
from ..errors import DataError, OptionError, counted
from ..export.silence import silenced_libraries
from ..export.source import ModelSource
from ..export.tokenizer import Spec, open_spec, read_spec
from ..io.files import writing_folder
from ..text.cleanup import clean
from ..types import Floats

logger = logging.getLogger(__name__)

# Before a piece that continues a word, while pieces are learnt: a private-use character that no
# text holds.
_INSIDE = "\ue000"
_FEWEST = 2  # how often a piece must occur
PLAIN_TOKENIZER = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}


def learn_pieces(counts: Counter[str], size: int, *, kind: str = "wordpiece") -> dict[str, float]:
    """Learn up to `size` pieces from word counts: a map of piece to its score (log-probability).

    A piece that continues a word is written as the kind writes it: "##를" for wordpiece, and
    without "▁" for unigram.
    """
    if kind not in ("wordpiece", "unigram"):
        raise OptionError(
            f"kind of pieces is {kind!r}; known are wordpiece and unigram. Choose one."
        )
    if not counts:
        raise DataError(
            "the text holds no word to learn from; expected some. Check the file and its column."
        )
    learnt = _train_bpe(counts, size)
    usage = _usage(counts, learnt)
    chosen = sorted(learnt, key=lambda piece: (-usage.get(piece, 0), piece))[:size]
    total = sum(usage.values()) + len(chosen)
    return {_written(piece, kind): math.log((usage.get(piece, 0) + 1) / total) for piece in chosen}


def _train_bpe(counts: Counter[str], size: int) -> list[str]:
    """Merge greedily; pieces that continue a word come back marked."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size * 2, min_frequency=_FEWEST, show_progress=False, special_tokens=["[UNK]"]
    )
    tokenizer.train_from_iterator(_repeat(counts), trainer)
    pieces = (piece for piece in tokenizer.get_vocab() if piece != "[UNK]")
    found = (_INSIDE + piece[2:] if piece.startswith("##") else piece for piece in pieces)
    return list(dict.fromkeys(found))


def _repeat(counts: Counter[str]) -> Iterator[str]:
    # The trainer counts words itself, so it must see each as often as it is.
    for word, count in counts.items():
        for start in range(0, count, 1000):
            yield " ".join([word] * min(1000, count - start))


def _usage(counts: Counter[str], pieces: Iterable[str]) -> Counter[str]:
    """Count how often greedy longest match takes each piece (what the tokenizer will do)."""
    known = set(pieces)
    usage: Counter[str] = Counter()
    for word, count in counts.items():
        start = 0
        while start < len(word):
            mark = _INSIDE if start else ""
            end = next((e for e in range(len(word), start, -1) if mark + word[start:e] in known), 0)
            if not end:
                break
            usage[mark + word[start:end]] += count
            start = end
    return usage


def _written(piece: str, kind: str) -> str:
    inner, text = piece.startswith(_INSIDE), piece.removeprefix(_INSIDE)
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


def extend_tokenizer(spec: Spec, pieces: dict[str, float]) -> Extended:
    """Add pieces to a tokenizer.json, and extend its normaliser so that Hangul stays composed.

    Pieces that it has already are left out. Truncation and padding are taken out.
    """
    spec = copy.deepcopy(spec)
    kind = kind_of(spec)
    spec["truncation"] = spec["padding"] = None
    spec["normalizer"] = _compose_hangul(spec["normalizer"], kind)
    add = _add_wordpiece if kind == "wordpiece" else _add_unigram
    rows, size = add(spec, pieces)
    return Extended(spec, rows, size)


def _compose_hangul(normalizer: Spec | None, kind: str) -> Spec | None:
    """Put NFC after a normaliser that decomposes (BERT's does, and Hangul with it)."""
    if kind == "unigram" or normalizer is None:
        return normalizer
    steps = normalizer["normalizers"] if normalizer["type"] == "Sequence" else [normalizer]
    if steps[-1]["type"] in ("NFC", "NFKC"):
        return normalizer
    return {"type": "Sequence", "normalizers": [*steps, {"type": "NFC"}]}


def _add_wordpiece(spec: Spec, pieces: dict[str, float]) -> tuple[dict[str, int], int]:
    vocab: dict[str, int] = spec["model"]["vocab"]
    first = max(vocab.values()) + 1
    new = (piece for piece in pieces if piece not in vocab)
    rows = {piece: first + i for i, piece in enumerate(new)}
    spec["model"]["vocab"] = dict(sorted((vocab | rows).items(), key=lambda item: item[1]))
    return rows, first + len(rows)


def _add_unigram(spec: Spec, pieces: dict[str, float]) -> tuple[dict[str, int], int]:
    vocab: list[list[Any]] = spec["model"]["vocab"]
    # Added tokens may come after the vocabulary (<mask> does); they keep their rows.
    for token in sorted(spec["added_tokens"], key=lambda token: token["id"]):
        if token["id"] == len(vocab):
            vocab.append([token["content"], 0.0])
    known = {piece for piece, _ in vocab}
    new = [piece for piece in pieces if piece not in known]
    rows = {piece: len(vocab) + i for i, piece in enumerate(new)}
    vocab += [[piece, pieces[piece]] for piece in new]
    return rows, len(vocab)


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


def grow_table(table: Floats, extended: Extended, before: Tokenizer, *, seed: int = 0) -> Floats:
    """Give the embedding table a row for every new piece: (old, dim) → (size, dim).

    A piece starts at the mean of its old pieces' rows, plus a little noise, so that equal pieces
    can part; one without old pieces starts at the table's own spread.
    """
    rng = np.random.default_rng(seed)
    rows = max(extended.size, len(table))  # a table may have rows to spare
    grown = np.empty((rows, table.shape[1]), dtype=np.float32)
    grown[: len(table)] = table
    centre, spread = table.mean(0), table.std(0)
    for piece, row in extended.rows.items():
        noise = rng.standard_normal(table.shape[1], dtype=np.float32) * spread
        bare = piece.removeprefix("##").removeprefix("▁")
        ids = before.encode(bare, add_special_tokens=False).ids
        grown[row] = table[ids].mean(0) + 0.1 * noise if ids else centre + noise
    return grown


def table_size(spec: Spec) -> int:
    """Say how many rows a tokenizer's pieces need."""
    vocab = spec["model"]["vocab"]
    return max(vocab.values()) + 1 if isinstance(vocab, dict) else len(vocab)


def extend_base(
    source: ModelSource, folder: Path, texts: Iterable[str], size: int, *, seed: int
) -> int:
    """Write the base with new pieces, each at the mean of its old pieces; gives how many."""
    spec = read_spec(source.root)
    counts = count_words(texts, open_spec(spec))
    known = open_spec(spec).get_vocab()
    learnt = learn_pieces(counts, size + len(known), kind=kind_of(spec))
    new = [piece for piece in learnt if piece not in known][:size]
    return len(grow_base(source, folder, {piece: learnt[piece] for piece in new}, seed=seed).rows)


def grow_base(
    source: ModelSource, folder: Path, pieces: dict[str, float], *, seed: int
) -> Extended:
    """Write the base with these pieces, each at the mean of its old ones, into a folder."""
    spec = read_spec(source.root)
    grown = extend_tokenizer(spec, pieces)
    with silenced_libraries():
        model: Any = AutoModel.from_pretrained(source.root, local_files_only=True)
    table = model.get_input_embeddings().weight.detach().numpy()
    rows = torch.from_numpy(grow_table(table, grown, open_spec(spec), seed=seed))
    model.set_input_embeddings(torch.nn.Embedding(len(rows), rows.shape[1], _weight=rows))
    model.config.vocab_size = len(rows)
    with silenced_libraries():
        model.save_pretrained(folder)
    for name in ("special_tokens_map.json", "tokenizer_config.json"):
        if (source.root / name).is_file():
            shutil.copyfile(source.root / name, folder / name)
    text = json.dumps(grown.spec, ensure_ascii=False)
    (folder / "tokenizer.json").write_text(text, "utf-8")
    path = folder / "tokenizer_config.json"
    settings = json.loads(path.read_text("utf-8")) if path.is_file() else PLAIN_TOKENIZER
    write_json(path, settings | {"tokenizer_class": "PreTrainedTokenizerFast"})
    return grown


def with_terms(
    source: ModelSource, start: Path, terms: Sequence[str], *, longest: int, most: int, seed: int
) -> ModelSource:
    """Give the base with tokens for the words of terms, in the folder `start`.

    Words of more than `longest` tokens get one of their own, the commonest `most` of them. A
    folder that is there already is taken as it is: a resumed run starts from the same.
    """
    cleaned = [clean(term, source.manifest.clean) for term in terms]
    before = read_spec(source.root)
    if not start.is_dir():
        with writing_folder(start) as partial:
            pieces = term_pieces(before, cleaned, longest=longest, most=most)
            grow_base(source, partial, pieces, seed=seed)
    after = read_spec(start)
    counts = [
        sum(len(one.ids) for one in open_spec(spec).encode_batch(cleaned, add_special_tokens=False))
        for spec in (before, after)
    ]
    added = table_size(after) - table_size(before)
    was, now = (count / max(len(cleaned), 1) for count in counts)
    logger.info(
        f"the tokenizer has learnt {counted(added, 'new token')} from "
        f"{counted(len(cleaned), 'term')}: {was:.2f} tokens a term before, {now:.2f} after"
    )
    size = int(json.loads((start / "config.json").read_text("utf-8"))["vocab_size"])
    manifest = dataclasses.replace(source.manifest, vocabulary=size)
    return dataclasses.replace(source, root=start, manifest=manifest)
