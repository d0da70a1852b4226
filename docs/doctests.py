"""Shows the examples of docstrings as Python sessions in the API reference (griffe extension)."""

import re
from typing import Any

from griffe import Extension, Object

# A line that begins with >>> and everything up to the next blank line.
_SESSION = re.compile(r"^>>> .*?(?=\n\s*\n|\Z)", re.MULTILINE | re.DOTALL)


class Doctests(Extension):
    """Put a fence around every session, so that its brackets are not read as links."""

    def on_object(self, *, obj: Object, **kwargs: Any) -> None:
        """Change the docstring of a module, class, function or attribute when it was read."""
        if obj.docstring is not None:
            obj.docstring.value = _SESSION.sub(r"```pycon\n\g<0>\n```", obj.docstring.value)
