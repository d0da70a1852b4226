"""Static encoders: a vector per token, added up, hundreds of times as fast as a transformer."""

from .encoder import StaticEncoder

__all__ = ["StaticEncoder"]
