"""Clinical notes → mentions with their context → codes."""

from .reader import NoteMention, NoteReader, NoteScan, to_html

__all__ = ["NoteMention", "NoteReader", "NoteScan", "to_html"]
