"""A model's tokenizer → the files of a bundle, which every library must read in the same way."""

import json
import logging
import shutil
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from transformers import AutoTokenizer

from ..bundle.sentence_transformers import read_json, write_json
from ..errors import BundleError, DataError
from ..runtime.tokenizer import save_tokenizer
from .silence import silenced_libraries
from .source import SAMPLES, ModelSource

logger = logging.getLogger(__name__)

Spec = dict[str, Any]  # a tokenizer.json

_FILES = (
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.txt",
    "vocab.json",
    "merges.txt",
    "*.model",
)
_VOCABULARIES = ("tokenizer.json", "vocab.txt", "vocab.json", "*.model")
# transformers' name for "whatever tokenizer.json says", in every version.
_PLAIN = "PreTrainedTokenizerFast"


def write_tokenizer(source: ModelSource, folder: Path) -> None:
    """Write tokenizer.json and its companions into `folder`.

    A tokenizer.json in the source is the truth. Padding in it is made that of the longest in a
    batch, and nothing is cut: both are the reader's to decide, and the original may say 128.
    """
    loaded = load_tokenizer(source.root)
    tokenizer = _copy(source.root, folder, loaded)
    _check_size(tokenizer, source)
    tokenizer.no_truncation()
    tokenizer.enable_padding(pad_id=loaded.pad_token_id or 0, pad_token=loaded.pad_token or "")
    save_tokenizer(tokenizer, folder / "tokenizer.json", source.root / "tokenizer.json")
    if _read_alike(folder, tokenizer):
        return
    logger.debug(
        "transformers would read tokenizer.json otherwise than it is written; its class is set"
    )
    _make_plain(folder, loaded)
    if not _read_alike(folder, tokenizer):
        raise BundleError(
            f"transformers and tokenizers split words differently with the tokenizer of "
            f"{source.root}; expected one tokenizer. Save it again as a PreTrainedTokenizerFast."
        )


def load_tokenizer(root: Path) -> Any:
    """Open a folder's tokenizer with transformers, which runs nothing of what is in it."""
    # transformers 5 makes an empty tokenizer of no files at all, and says nothing.
    if not any(file for pattern in _VOCABULARIES for file in root.glob(pattern)):
        raise BundleError(
            f"{root} has no tokenizer; expected tokenizer.json or a vocabulary. "
            "Save the model's tokenizer into its folder."
        )
    try:
        with silenced_libraries():
            loaded = AutoTokenizer.from_pretrained(
                root, local_files_only=True, trust_remote_code=False
            )
        loaded.backend_tokenizer  # noqa: B018  a tokenizer written in Python has none
    except Exception as error:  # OSError, ValueError, AttributeError, and the library's own
        raise BundleError(
            f"the tokenizer in {root} cannot be read ({type(error).__name__}); expected "
            "tokenizer.json or a vocabulary. Save the model's tokenizer into its folder again."
        ) from error
    return loaded


def reads_types(tokenizer: Any, config: Any) -> bool:
    """Whether a pair's segments reach the model: the tokenizer and the model must know them.

    RoBERTa's tokenizer gives none, and a RoBERTa with a BERT tokenizer has a table of one row.
    """
    rows = getattr(config, "type_vocab_size", None) or 0
    return "token_type_ids" in tokenizer.model_input_names and rows > 1


def _copy(root: Path, folder: Path, loaded: Any) -> Tokenizer:
    if not (root / "tokenizer.json").is_file():
        loaded.save_pretrained(folder)
        return Tokenizer.from_str(loaded.backend_tokenizer.to_str())
    for pattern in _FILES:
        for file in root.glob(pattern):
            shutil.copyfile(file, folder / file.name)
    return Tokenizer.from_file(str(root / "tokenizer.json"))


def _check_size(tokenizer: Tokenizer, source: ModelSource) -> None:
    largest = max(tokenizer.get_vocab(with_added_tokens=True).values(), default=0)
    if largest >= source.manifest.vocabulary:
        raise BundleError(
            f"the tokenizer of {source.root} gives ids up to {largest}; expected less than the "
            f"model's {source.manifest.vocabulary}. Copy the tokenizer that belongs to the model."
        )


def _read_alike(folder: Path, tokenizer: Tokenizer) -> bool:
    tokenizer.no_padding()
    ours = [encoding.ids for encoding in tokenizer.encode_batch(list(SAMPLES))]
    with silenced_libraries():  # transformers warns of a sample longer than the model reads
        theirs = load_tokenizer(folder)(list(SAMPLES))["input_ids"]
    return bool(theirs == ours)


def _make_plain(folder: Path, loaded: Any) -> None:
    """Name the class that takes tokenizer.json as it is.

    transformers 5 builds a new BertTokenizer from the vocabulary, and with it loses, for one,
    an NFC step after the normaliser that takes Hangul apart.
    """
    path = folder / "tokenizer_config.json"
    config = read_json(path, missing={}) | loaded.special_tokens_map
    config["model_max_length"] = loaded.model_max_length
    write_json(path, config | {"tokenizer_class": _PLAIN})


def open_spec(spec: Spec) -> Tokenizer:
    """Open a tokenizer.json given as a dict, without truncation or padding."""
    return Tokenizer.from_str(json.dumps({**spec, "truncation": None, "padding": None}))


def read_spec(folder: Path) -> Spec:
    """Read the tokenizer.json of a model folder."""
    path = folder / "tokenizer.json"
    try:
        spec: Spec = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise DataError(
            f"{folder} has no tokenizer.json; expected a model folder with a fast tokenizer. "
            "Save the model with its tokenizer first."
        ) from error
    return spec
