"""Entities in text: a tagger's bundle in, spans out, without torch.

tagger = malmoi.load_tagger("runs/ncbi-disease/bundle")
tagger.tag("Familial adenomatous polyposis is caused by APC mutations.")
"""

from .marked import Marked, Span, read_marked
from .tagger import Entity, Tagger, load_tagger

__all__ = ["Entity", "Marked", "Span", "Tagger", "load_tagger", "read_marked"]
