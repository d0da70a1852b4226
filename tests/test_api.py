"""The names at the top of malmoi: few, documented, and what an old name is called now."""

import inspect
import pydoc

import pytest

import malmoi


def test_the_names_are_few_and_documented() -> None:
    assert len(malmoi.__all__) <= 20 and sorted(malmoi.__all__) == list(malmoi.__all__)
    page = pydoc.render_doc(malmoi, renderer=pydoc.plaintext)
    for name in malmoi.__all__:
        thing = getattr(malmoi, name)
        assert inspect.getdoc(thing), name
        if inspect.isclass(thing):
            for method, function in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_"):
                    assert inspect.getdoc(function), f"{name}.{method}"
        assert name in page or name in ("TextEncoder", "StaticEncoder", "errors"), name


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("load_reranker", "malmoi.load"),
        ("NoteClassifier", "malmoi.Classifier"),
        ("DataError", "malmoi.errors.DataError"),
        ("SentenceTransformer", "malmoi.integrations.sentence_transformers.SentenceTransformer"),
        ("from_int8", "malmoi.encoders.from_int8"),
    ],
)
def test_an_old_name_says_the_new_one(old: str, new: str) -> None:
    with pytest.raises(AttributeError, match=f"it is {new} now"):
        getattr(malmoi, old)
    with pytest.raises(AttributeError, match="has no attribute 'nothing'$"):
        _ = malmoi.nothing
