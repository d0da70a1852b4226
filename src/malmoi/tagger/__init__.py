"""Entities in text: a tagger's bundle in, spans out, without torch.

tagger = malmoi.load_tagger("runs/ncbi-disease/bundle")
tagger.tag("Familial adenomatous polyposis is caused by APC mutations.")
"""

from .files import EntitySpan, Marked, read_marked
from .tagger import Entity, Tagger, load_tagger

__all__ = ["Entity", "EntitySpan", "Marked", "Tagger", "load_tagger", "read_marked"]

# The name of 0.1.
Span = EntitySpan
