"""Adapters to other libraries. Each file needs its library and is imported only when asked for."""

from pathlib import Path
from typing import Any

from ..encoders import TextEncoder, load
from ..encoders.base import prompts_of
from ..errors import OptionError
from ..io.fingerprint import hash_data


def open_encoder(model: str | Path | TextEncoder | None) -> TextEncoder:
    """Give an encoder as it is, or open one by its name or folder; None is the shipped one."""
    return model if isinstance(model, TextEncoder) else load(model)


def encode_query(encoder: TextEncoder, texts: Any) -> Any:
    """Encode a query or several, with the model's prompt for queries if it has one."""
    return encoder.encode(texts, prompt=(prompts_of(encoder) or (None, None))[0])


def encode_passages(encoder: TextEncoder, texts: Any) -> Any:
    """Encode passages, (n, dim), with the model's prompt for passages if it has one."""
    return encoder.encode(texts, prompt=(prompts_of(encoder) or (None, None))[1])


def revision_of(encoder: TextEncoder) -> str:
    """A short identity of a model: that of its manifest, which has the hashes of its files."""
    return hash_data(encoder.manifest.to_json())


def check_revision(encoder: TextEncoder, revision: str | None) -> None:
    """Refuse a model that is not the one with which stored vectors were made."""
    if revision is not None and revision != revision_of(encoder):
        raise OptionError(
            f"the stored vectors were made with another model than {encoder.name} is now; expected "
            f"revision {revision}. Name that model, or store the texts again."
        )
