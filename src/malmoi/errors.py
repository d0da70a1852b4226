"""One exception family, and the warnings that go with it.

    MalmoiError
    ├── BundleError (ValueError)            a model folder that cannot be used
    │   ├── BundleNotFound (FileNotFoundError)   nothing is there
    │   └── BundleCorrupt                   it is there, but not as it was written
    ├── LexiconError (ValueError)           a lexicon that cannot be used
    ├── CorpusError (ValueError)            a corpus that cannot be used
    │   └── CorpusBusy (TimeoutError)       another process is writing to it
    ├── TextError (ValueError, TypeError)   something that is not text
    ├── OptionError (ValueError)            an option outside its range
    ├── DataError (ValueError)              an input file that cannot be read as asked
    │   └── DocumentError                   a document that cannot be read; others can
    ├── OutputError (OSError)               a result that cannot be written
    ├── OfflineError (ConnectionError)      a download was asked for and could not be made
    └── MissingExtra (ImportError)          a part of malmoi that is not installed

Every message says what was found, what was expected and what to do.
"""

import importlib
from collections.abc import Iterable
from types import ModuleType


class MalmoiError(Exception):
    """The root of everything malmoi raises on purpose."""


class BundleError(MalmoiError, ValueError):
    """A model folder that cannot be used as it is."""


class BundleNotFound(BundleError, FileNotFoundError):
    """There is no model at the named path."""

    # FileNotFoundError formats its arguments as "[Errno …]"; the message alone is wanted here.
    __str__ = Exception.__str__


class BundleCorrupt(BundleError):
    """A model folder whose files are not what its manifest says."""


class LexiconError(MalmoiError, ValueError):
    """A lexicon that is not there, not whole, or made for something else."""


class CorpusError(MalmoiError, ValueError):
    """A corpus that is not there, not one, or made with another model."""


class CorpusBusy(CorpusError, TimeoutError):
    """Another process is writing to the corpus, and has not finished in time."""

    __str__ = Exception.__str__


class TextError(MalmoiError, ValueError, TypeError):
    """Something was given as text and is not."""


class OptionError(MalmoiError, ValueError):
    """An option has a value outside its range."""


class DataError(MalmoiError, ValueError):
    """An input file is missing, empty or not in the expected form."""


class DocumentError(DataError):
    """A document is broken, encrypted, empty or of an unknown form; others can still be read."""


class OutputError(MalmoiError, OSError):
    """A result could not be written; nothing half-written is left behind."""

    __str__ = Exception.__str__


class OfflineError(MalmoiError, ConnectionError):
    """A download was asked for by name and could not be made."""

    __str__ = Exception.__str__


class MissingExtra(MalmoiError, ImportError):
    """A part of malmoi that was not installed."""


class CutWarning(UserWarning):
    """Some texts were longer than the model reads and were cut."""


def counted(count: int, one: str, many: str = "") -> str:
    """Word a number of things for a message.

    >>> counted(1, "row"), counted(1200, "row"), counted(0, "entity is", "entities are")
    ('1 row', '1,200 rows', '0 entities are')
    """
    return f"{count:,} {by_number(count, one, many or f'{one}s')}"


def by_number(count: int, one: str, many: str) -> str:
    """Choose the singular or the plural of a word: `by_number(2, "is", "are")` is "are"."""
    return one if count == 1 else many


def check_choice(name: str, value: object, known: Iterable[str]) -> None:
    """Raise an OptionError if an option's value is not one of those known."""
    if value not in (listed := tuple(known)):
        raise OptionError(
            f"{name} is {value!r}; known are {', '.join(listed)}. Choose one of these."
        )


def require(module: str, *, purpose: str, extra: str = "") -> ModuleType:
    """Import a module, or raise a MissingExtra that names its extra, or itself if it has none."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != module.split(".")[0]:
            raise
        package = module.split(".")[0]
        install = f"'malmoi[{extra}]'" if extra else package
        raise MissingExtra(
            f"{purpose} needs the package {package}, which is not installed. "
            f"Install it with: pip install {install}"
        ) from error
