"""Where pretraining starts: a folder with weights and tokenizer, new or grown from a base."""

import dataclasses
import json
import logging
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors, trainers
from transformers import AutoModel, BertConfig, BertModel, PreTrainedTokenizerFast

from ...bundle.sentence_transformers import write_json
from ...errors import counted
from ...export.silence import silenced_libraries
from ...export.source import ModelSource, read_transformer
from ...export.tokenizer import open_spec, read_spec
from ...io.files import writing_folder
from ...text.cleanup import clean
from ..distil.vocabulary import (
    Extended,
    count_words,
    extend_tokenizer,
    grow_table,
    kind_of,
    learn_pieces,
    table_size,
    term_pieces,
)
from .masked_lm import Pretraining, Scratch, TextDocument

logger = logging.getLogger(__name__)

_SPECIALS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
_PLAIN = {
    "tokenizer_class": "PreTrainedTokenizerFast",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "mask_token": "[MASK]",
}


def learn_tokenizer(texts: Iterable[str], size: int) -> Tokenizer:
    """Learn a WordPiece tokenizer: small letters, Hangul kept in syllables."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    # BERT's normaliser takes Hangul apart; NFC puts it together again.
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.BertNormalizer(lowercase=True), normalizers.NFC()]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=list(_SPECIALS), show_progress=False, min_frequency=2
    )
    tokenizer.train_from_iterator(texts, trainer)
    ids = [(name, tokenizer.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1", special_tokens=ids
    )
    return tokenizer


def from_scratch(
    folder: Path, texts: Iterable[str], scratch: Scratch, *, longest: int, seed: int
) -> None:
    """Write a random BERT and the tokenizer learnt from the texts."""
    tokenizer = learn_tokenizer(texts, scratch.vocabulary)
    wrapped = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer,
        model_max_length=longest,
        **{key: value for key, value in _PLAIN.items() if key != "tokenizer_class"},
    )
    config = BertConfig(
        vocab_size=tokenizer.get_vocab_size(),
        hidden_size=scratch.hidden,
        num_hidden_layers=scratch.layers,
        num_attention_heads=scratch.heads,
        intermediate_size=4 * scratch.hidden,
        max_position_embeddings=max(longest, 64),
        pad_token_id=tokenizer.token_to_id("[PAD]"),
    )
    torch.manual_seed(seed)
    with silenced_libraries():
        model: Any = BertModel(config, add_pooling_layer=False)  # type: ignore[no-untyped-call]
        model.save_pretrained(folder)
        wrapped.save_pretrained(folder)


def extended(
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
    settings = json.loads(path.read_text("utf-8")) if path.is_file() else dict(_PLAIN)
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


def make_start(
    recipe: Pretraining,
    source: ModelSource | None,
    documents: Iterator[TextDocument],
    steps: Sequence[str],
) -> ModelSource:
    """Give what training starts from: the base itself, or a folder "start" in the run.

    A folder that is there already is taken as it is: a resumed run starts from the same.
    """
    if source is not None and not recipe.extend:
        return source
    start = Path(recipe.output.folder) / "start"
    if not start.is_dir():
        with writing_folder(start) as partial:
            texts = (clean(text, steps) for one in documents for text in one.sentences)
            if source is None:
                longest = recipe.max_tokens
                from_scratch(partial, texts, recipe.scratch, longest=longest, seed=recipe.seed)
            else:
                count = extended(source, partial, texts, recipe.extend, seed=recipe.seed)
                logger.info(f"the tokenizer has learnt {counted(count, 'new piece')}")
    return read_transformer(start, max_tokens=recipe.max_tokens)
