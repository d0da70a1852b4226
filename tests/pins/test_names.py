"""Public Python names: what each package exports, with signatures."""

import importlib
import inspect
from types import ModuleType
from typing import Any

import pytest

import malmoi
from tests.pins.annotations import annotation, signature
from tests.pins.golden import check_entry

PACKAGES = (
    "bundle",
    "client",
    "corpus",
    "documents",
    "encoder",
    "evaluate",
    "index",
    "lexicon",
    "linking",
    "plots",
    "scale",
    "tagger",
    "words",
)
# Imports that README, docs and examples show; a name may move as long as these go on working.
DOCUMENTED = """
malmoi.bundle open_bundle Manifest
malmoi.client Client ServerError
malmoi.corpus Corpus Document Filter Hit index_files
malmoi.documents find_files read_documents split_document RowColumns DocumentError
malmoi.errors LexiconError
malmoi.evaluate evaluate Settings Report
malmoi.index make_index open_index save_index
malmoi.lexicon Lexicon Abbreviations add_names build_lexicon
malmoi.linking Linker NoteReader Weights calibrate
malmoi.mining.clusters cluster purity
malmoi.mining.keywords keywords
malmoi.mining.negatives Choice mine_negatives
malmoi.mining.pairs mine_pairs
malmoi.scale encode_dataset encode_in_processes
malmoi.train.join fit_join write_join
malmoi.train.objectives Objective register
malmoi.train.recipe load_recipe
malmoi.train.run train
malmoi.train.shrink shrink
malmoi.words likeness occurrences
"""


def members(kind: type) -> dict[str, str]:
    """A class's constructor and public methods, its own and those of malmoi's bases."""
    found = {}
    if issubclass(kind, BaseException):
        return {"bases": ", ".join(base.__name__ for base in kind.__mro__[1:-1])}
    if getattr(kind, "_is_protocol", False) is False:
        found["()"] = signature(kind)
    for name in sorted(dir(kind)):
        if name.startswith("_") or not _is_ours(kind, name):
            continue
        value = inspect.getattr_static(kind, name)
        if isinstance(value, property):
            assert value.fget is not None
            hint = inspect.signature(value.fget).return_annotation
            found[name] = f"property: {annotation(hint)}"
        elif isinstance(value, staticmethod | classmethod) or inspect.isfunction(value):
            found[name] = signature(getattr(kind, name))
    return found


def _is_ours(kind: type, name: str) -> bool:
    owner = next(base for base in kind.__mro__ if name in vars(base))
    return owner.__module__.startswith("malmoi")


def described(value: Any) -> Any:
    """What can be pinned of one public name."""
    if inspect.isclass(value):
        return members(value)
    if inspect.isfunction(value):
        return signature(value)
    if isinstance(value, tuple | list | frozenset):
        return sorted(map(str, value))
    if isinstance(value, dict):
        return sorted(map(str, value))
    return value if isinstance(value, str | int | float) else annotation(value)


def exported(module: ModuleType) -> dict[str, Any]:
    """Every name in `__all__`."""
    assert sorted(module.__all__) == sorted(set(module.__all__))
    return {name: described(getattr(module, name)) for name in sorted(module.__all__)}


def test_the_top_of_the_package() -> None:
    check_entry("names.json", "malmoi", exported(malmoi))


@pytest.mark.parametrize("package", PACKAGES)
def test_what_a_package_exports(package: str) -> None:
    module = importlib.import_module(f"malmoi.{package}")
    check_entry("names.json", f"malmoi.{package}", exported(module))


def test_what_the_classifier_exports() -> None:
    try:
        module = importlib.import_module("malmoi.classifier")
    except ModuleNotFoundError:
        module = importlib.import_module("malmoi.notes")
    check_entry("names.json", "malmoi.classifier", exported(module))
    assert malmoi.NoteClassifier is module.NoteClassifier
    assert malmoi.load_classifier is module.load_classifier


# Names of 0.1 that are called otherwise now, or stand elsewhere, and still import.
OLD = """
malmoi.corpus About Scored Taken
malmoi.encoder StaticEncoder
malmoi.index Found Pairs
malmoi.lexicon Expansion Report
malmoi.linking NoteMention NoteReader NoteScan to_html
malmoi.notes NoteClassifier Span cut_windows load_classifier
malmoi.tagger Span
malmoi.words Reader Token WordEncoder likeness
"""


@pytest.mark.parametrize("line", [*DOCUMENTED.split("\n")[1:-1], *OLD.split("\n")[1:-1]])
def test_documented_imports(line: str) -> None:
    module, *names = line.split()
    if module == "malmoi.train.shrink":
        pytest.importorskip("torch", reason="torch is not installed")
    for name in names:
        assert callable(getattr(importlib.import_module(module), name))
