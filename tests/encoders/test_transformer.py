"""Encoding: any text in, the right vector out, in order, once, and never cut in silence."""

import json
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import malmoi
from malmoi.runtime.tokenizer import TextTokenizer, plan
from tests.support import graphs
from tests.support.encoders import stream_peak

LONG = " ".join(["cat dog boat sea 배 당뇨"] * 5)  # 30 words; the tiny model reads 10


def test_identical_texts_are_encoded_once(
    encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    encode = TextTokenizer.encode

    def counting(self: TextTokenizer, texts: list[str]) -> object:
        seen.extend(texts)
        return encode(self, texts)

    monkeypatch.setattr(TextTokenizer, "encode", counting)
    vectors = encoder.encode(["배", "cat", "배"] * 500)
    assert sorted(seen) == ["cat", "배"]
    np.testing.assert_array_equal(vectors[0], vectors[1499 - 2])
    seen.clear()
    assert len(list(encoder.encode_iter(["배", "cat", "배"] * 100))) == 300
    assert sorted(seen) == ["cat", "배"]


@pytest.mark.slow
def test_windows_of_a_book_take_bounded_memory(encoder: malmoi.TextEncoder) -> None:
    book = "the cat sleeps a dog " * 50_000  # a megabyte
    tracemalloc.start()
    vector = encoder.encode(book, on_long="windows")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(vector).all()
    assert peak < 150e6  # all windows at once, with their ids, would be several times this


def test_a_huge_text_is_cut_before_it_is_tokenised(encoder: malmoi.TextEncoder) -> None:
    with pytest.warns(malmoi.errors.CutWarning):
        vector = encoder.encode("cat " * 20_000_000)
    with pytest.warns(malmoi.errors.CutWarning):
        np.testing.assert_allclose(vector, encoder.encode("cat " * 1000), atol=1e-6)


@pytest.mark.slow
def test_a_stream_takes_constant_memory(encoder: malmoi.TextEncoder) -> None:
    assert stream_peak(encoder, 16_000) < stream_peak(encoder, 5_000) * 1.5


def test_prompts_by_name_and_by_text(tmp_path: Path) -> None:
    prompts = {"query": "the ", "document": "a "}
    encoder = malmoi.load(graphs.write_bundle(tmp_path / "p", prompts=prompts))
    plain = encoder.encode("the cat")
    np.testing.assert_array_equal(encoder.encode("cat", prompt="query"), plain)
    np.testing.assert_array_equal(encoder.encode("cat", prompt="the "), plain)
    with pytest.raises(
        malmoi.errors.OptionError, match="of this model are: query, document. Name one"
    ):
        encoder.encode("cat", prompt="qurey")
    default = malmoi.load(
        graphs.write_bundle(tmp_path / "d", prompts=prompts, default_prompt="query")
    )
    np.testing.assert_array_equal(default.encode("cat"), plain)
    np.testing.assert_array_equal(default.encode("the cat", prompt=""), plain)


def test_the_manifest_says_how_text_is_cleaned(tmp_path: Path) -> None:
    plain = malmoi.load(graphs.write_bundle(tmp_path / "a"))
    cleaning = malmoi.load(graphs.write_bundle(tmp_path / "b", clean=("surrogates", "narrow")))
    assert plain.similarity("ｃａｔ", "cat") < 0.99
    assert cleaning.similarity("ｃａｔ", "cat") > 0.99


@settings(max_examples=300)
@given(
    lengths=st.lists(st.integers(0, 50), min_size=1, max_size=80),
    budget=st.integers(1, 400),
    even=st.none() | st.integers(0, 400),
)
def test_batches_hold_every_row_once_and_keep_the_budget(
    lengths: list[int], budget: int, even: int | None
) -> None:
    batches = plan(np.array(lengths), budget, even=even)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    for rows in batches:
        longest = max(lengths[row] for row in rows)
        assert len(rows) == 1 or len(rows) * longest <= budget
        uneven = [row for row in rows if lengths[row] < longest]
        full = (len(rows) - len(uneven)) * longest
        assert even is None or not uneven or full < max(even, 1)


def test_a_prompt_that_is_read_and_not_pooled(tmp_path: Path) -> None:
    """As in sentence-transformers: nothing before the text counts, [CLS] and the prompt."""
    prompts = {"prompts": {"query": "the ", "long": "the cat "}}
    vectors = {}
    for included in (True, False):
        folder = graphs.write_foreign(tmp_path / str(included), steps=("pool", "normalize"))
        path = folder / "config_sentence_transformers.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | prompts))
        pooling = folder / "1_Pooling/config.json"
        config = json.loads(pooling.read_text()) | {"include_prompt": included}
        pooling.write_text(json.dumps(config))
        vectors[included] = malmoi.load(folder)
    with_prompt, without = vectors[True], vectors[False]
    table = graphs.embedding_table(len(graphs.WORDS))
    dog, end = (table[graphs.WORDS.index(word)] for word in ("dog", "[SEP]"))
    expected = (dog + end) / np.linalg.norm(dog + end)
    for prompt in ("query", "long"):
        found = without.encode("dog", prompt=prompt)
        np.testing.assert_allclose(found, expected, atol=1e-6)
        assert float(found @ with_prompt.encode("dog", prompt=prompt)) < 0.999
    np.testing.assert_allclose(without.encode("dog"), with_prompt.encode("dog"), atol=1e-6)
    np.testing.assert_allclose(
        without.encode(["dog", "boat sea dog cat"], prompt="query")[0], expected, atol=1e-6
    )
