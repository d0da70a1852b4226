"""What a recipe names as "package:NAME/PATH": a folder or file of an installed Python package."""

import importlib.util
from pathlib import Path

PACKAGE = "package:"


def in_package(name: str) -> Path | None:
    """Find what "package:NAME/PATH" names, if that package is installed and has it.

    >>> in_package("package:malmoi/data/names.tsv").name, in_package("package:none/x")
    ('names.tsv', None)
    """
    package, _, inner = name.removeprefix(PACKAGE).partition("/")
    spec = importlib.util.find_spec(package) if package.isidentifier() else None
    places = list(spec.submodule_search_locations or ()) if spec else []
    return next((found for place in places if (found := Path(place) / inner).exists()), None)
