"""Encoders: texts → vectors, whatever model makes them."""

from pathlib import Path

from ..bundle import open_bundle
from ..catalog import find_model
from .base import TextEncoder
from .static import StaticEncoder
from .transformer import Encoder

__all__ = ["Encoder", "StaticEncoder", "TextEncoder", "load"]


def load(name_or_path: str | Path | None = None, *, threads: int | None = None) -> TextEncoder:
    """Open a sentence encoder: the shipped one, a folder, or a hub id.

    `threads` is how many cores to use; all that this process may use when left out.
    """
    bundle = open_bundle(find_model(name_or_path))
    if bundle.manifest.kind == "static":
        return StaticEncoder(bundle, threads=threads)
    return Encoder(bundle, threads=threads)
