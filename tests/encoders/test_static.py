"""Static encoders keep the same promises as the others: any text in, a unit vector out."""

import json
import tracemalloc
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

import malmoi
import malmoi.encoders.static as static
from malmoi.bundle.bundle import Manifest
from malmoi.encoders.static import EmbeddingBags, WordPieces, sum_rows
from malmoi.io.arrays import read_safetensors, write_safetensors
from malmoi.text.cleanup import spell_symbols
from tests.support import graphs
from tests.support.encoders import TEXTS, stream_peak
from tests.support.graphs import write_static

ROWS = len(graphs.WORDS)


def bert_tokenizer(*, lowercase: bool = True) -> Tokenizer:
    """A tokenizer like that of the Korean–English model, of few pieces."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "dm", "배", "병원", "##에", "##를"]
    letters = "abcdefgklmnoprstu0123456789가나다라마바사배병원에를,.!?-/'()é漢"
    words += [*letters, *(f"##{letter}" for letter in letters), "ship", "##s"]
    vocabulary = {word: i for i, word in enumerate(dict.fromkeys(words))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    bert = normalizers.BertNormalizer(lowercase=lowercase)
    tokenizer.normalizer = normalizers.Sequence([bert, normalizers.NFC()])
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


@pytest.fixture
def encoder(tmp_path: Path) -> malmoi.TextEncoder:
    return malmoi.load(write_static(tmp_path / "static"))


def by_hand(folder: Path, text: str) -> NDArray[np.float32]:
    """What the vector should be, added up piece by piece."""
    arrays = read_safetensors(folder / "static.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    rows = [arrays["pieces"][i].astype(np.float64) * arrays["scales"][i] for i in ids]
    total = np.sum(rows, axis=0)
    return (total / np.linalg.norm(total)).astype(np.float32)


def test_a_static_folder_opens_as_a_static_encoder(encoder: malmoi.TextEncoder) -> None:
    assert isinstance(encoder, malmoi.StaticEncoder)
    assert repr(encoder) == "<StaticEncoder tiny-static: 16 dimensions, texts of any length>"
    assert (encoder.name, encoder.dimension, encoder.max_tokens) == ("tiny-static", 16, 10**9)


def test_a_vector_is_the_sum_of_its_pieces(encoder: malmoi.StaticEncoder) -> None:
    vectors = encoder.encode(TEXTS)
    for text, vector in zip(TEXTS, vectors, strict=True):
        if text:
            np.testing.assert_allclose(vector, by_hand(encoder.bundle.folder, text), atol=1e-5)
            np.testing.assert_allclose(vector, encoder.encode(text), atol=1e-6)


def test_a_text_without_a_piece_gets_the_vector_kept_for_it(encoder: malmoi.TextEncoder) -> None:
    for text in ("", " ", "   ", "\n\t"):
        np.testing.assert_allclose(encoder.encode(text), 0.25, atol=1e-6)
    assert encoder.similarity("🙂", "🙃") == pytest.approx(1, abs=1e-6)  # both are unknown pieces


def test_identical_texts_are_encoded_once(
    encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    bags = WordPieces.bags

    def counting(self: WordPieces, texts: list[str]) -> EmbeddingBags:
        seen.extend(texts)
        return bags(self, texts)

    monkeypatch.setattr(WordPieces, "bags", counting)
    vectors = encoder.encode(["배", "cat", "배"] * 500)
    assert sorted(seen) == ["cat", "배"]
    np.testing.assert_array_equal(vectors[0], vectors[2])
    seen.clear()
    assert len(list(encoder.encode_iter(["배", "cat", "배"] * 100))) == 300
    assert sorted(seen) == ["cat", "배"]


@pytest.mark.parametrize("on_long", ["cut", "windows"])
def test_long_texts_are_read_whole(
    encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch, on_long: str
) -> None:
    text = "cat dog boat sea 배 당뇨 " * 500
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = encoder.encode([text, text + "sweet", "배"], on_long=on_long)  # type: ignore[arg-type]
    np.testing.assert_allclose(whole[0], encoder.encode("cat dog boat sea 배 당뇨"), atol=1e-4)
    assert np.abs(whole[0] - whole[1]).max() > 1e-6  # the last word was read
    monkeypatch.setattr(static, "_PART", 30)
    np.testing.assert_allclose(encoder.encode([text, text + "sweet", "배"]), whole, atol=1e-4)


@pytest.mark.slow
def test_a_book_takes_bounded_memory(encoder: malmoi.TextEncoder) -> None:
    book = "the cat sleeps a dog " * 400_000  # eight megabytes
    tracemalloc.start()
    vector = encoder.encode(book)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_allclose(vector, encoder.encode("the cat sleeps a dog"), atol=1e-4)
    assert peak < 60e6  # its words all at once would be more than 100 MB


def test_a_word_of_a_million_letters(encoder: malmoi.TextEncoder) -> None:
    assert np.linalg.norm(encoder.encode("a" * 1_200_000)) == pytest.approx(1, abs=1e-5)


@pytest.mark.slow
def test_a_stream_takes_constant_memory(
    encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("malmoi.encoders.static._ROOM", 100_000)  # every number is a new word

    assert stream_peak(encoder, 12_000) < stream_peak(encoder, 4_000) * 1.5


def test_what_it_does_not_know_is_named(tmp_path: Path) -> None:
    encoder = malmoi.load(write_static(tmp_path / "p", prompts={"query": "the "}))
    with pytest.raises(malmoi.errors.OptionError, match="dim is 17"):
        encoder.encode("배", dim=17)
    with pytest.raises(malmoi.errors.OptionError, match="prompt is 'qurey'"):
        encoder.encode("cat", prompt="qurey")
    with pytest.raises(malmoi.errors.OptionError, match="on_long is 'drop'"):
        encoder.encode("배", on_long="drop")  # type: ignore[arg-type]
    with pytest.raises(malmoi.errors.OptionError, match="threads is 0"):
        malmoi.load(tmp_path / "p", threads=0)


def test_the_manifest_says_how_text_is_cleaned(tmp_path: Path) -> None:
    plain = malmoi.load(write_static(tmp_path / "a", tokenizer=bert_tokenizer()))
    steps = ("surrogates", "narrow", "scripts")
    cleaning = malmoi.load(write_static(tmp_path / "b", tokenizer=bert_tokenizer(), clean=steps))
    for one, other in (("ｓｈｉｐ", "ship"), ("병원에ship", "병원에 ship")):
        assert plain.similarity(one, other) < 0.99
        assert cleaning.similarity(one, other) > 0.99


_MIXED = st.text(
    st.sampled_from(
        "abdsmp DMÉé가나배병원에를ㅋ\u1100\u1161 \t\u200b0123,.!?-/'()[]#漢字🙂K\u3000ſ"
    )
)
_MARKED = st.lists(st.one_of(_MIXED, st.sampled_from(["[MASK]", "[UNK]", " ", "ships", "병원에"])))


@pytest.mark.parametrize("lowercase", [True, False])
def test_the_short_way_gives_what_the_tokenizer_gives(lowercase: bool) -> None:
    tokenizer = bert_tokenizer(lowercase=lowercase)
    words = WordPieces(bert_tokenizer(lowercase=lowercase))
    assert words._plain is not None

    @settings(max_examples=400, deadline=None)
    @given(parts=_MARKED)
    def agrees(parts: list[str]) -> None:
        text = "".join(parts)
        expected = tokenizer.encode(text, add_special_tokens=False).ids
        assert words.bags([text]).ids.tolist() == expected

    agrees()


def test_signs_are_spelt_word_by_word_as_in_the_whole_text() -> None:
    tokenizer = bert_tokenizer()
    words = WordPieces(bert_tokenizer(), steps=("surrogates", "symbols"))

    @settings(max_examples=400, deadline=None)
    @given(text=st.text("abd  병원에ㆍ℃㎎ⅡⅩ①⅛▲→😀\u200d1"))
    def agrees(text: str) -> None:
        expected = tokenizer.encode(spell_symbols(text), add_special_tokens=False).ids
        assert words.bags([text]).ids.tolist() == expected

    agrees()


def test_other_tokenizers_go_the_long_way() -> None:
    tokenizer = bert_tokenizer()
    tokenizer.normalizer = normalizers.Replace("a", "b")
    assert WordPieces(tokenizer)._plain is None
    assert WordPieces(graphs.tiny_tokenizer())._plain is None


def test_words_are_forgotten_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("malmoi.encoders.static._ROOM", 1000)
    words = WordPieces(graphs.tiny_tokenizer())
    for i in range(2000):
        assert words.bags([f"cat {i}"]).ids.tolist() == [20, 1]
    assert len(words._known) < 100


@settings(max_examples=50, deadline=None)
@given(counts=st.lists(st.integers(0, 300), max_size=12))
@example(counts=[10, 300, 300, 300, 300])
def test_sums_of_bags(counts: list[int]) -> None:
    generator = np.random.default_rng(sum(counts))
    table = generator.standard_normal((50, 3)).astype(np.float32)
    ids = generator.integers(0, 50, sum(counts))
    found = sum_rows(table, EmbeddingBags(ids, np.array(counts, dtype=np.int64)))
    parts = np.split(ids, np.cumsum(counts)[:-1]) if counts else []
    expected = [table[part].sum(axis=0, dtype=np.float64) for part in parts]
    # Hundreds of float32 added one by one round to about 1e-5 of the sum; a wrong row is near 1.
    np.testing.assert_allclose(found, np.array(expected).reshape(-1, 3), rtol=1e-5, atol=1e-3)


def test_one_encoder_serves_many_threads(
    encoder: malmoi.TextEncoder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("malmoi.encoders.static._ROOM", 200)  # words are forgotten all the time
    expected = encoder.encode(TEXTS)
    with ThreadPoolExecutor(8) as pool:
        for vectors in pool.map(lambda i: encoder.encode([*TEXTS, f"w{i}"])[:-1], range(200)):
            np.testing.assert_allclose(vectors, expected, atol=1e-6)


def _spoilt(folder: Path, **arrays: NDArray[np.generic] | None) -> Path:
    """Change arrays of a table, and make the manifest believe it."""
    table = {name: np.array(array) for name, array in read_safetensors(_table(folder)).items()}
    kept = {name: array for name, array in (table | arrays).items() if array is not None}
    write_safetensors(_table(folder), kept)
    manifest = Manifest.read(folder)
    manifest.write(folder)
    return folder


def _table(folder: Path) -> Path:
    return folder / "static.safetensors"


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"pieces": None}, "should have pieces as int8 of shape .*; found no such array"),
        ({"scales": None}, "pieces as int8 of shape .0, 16.; found int8 of shape .31, 16."),
        (
            {"scales": np.full(ROWS, np.nan, dtype=np.float32)},
            "scales as float32 .* found values that are not finite",
        ),
        ({"pieces": np.zeros((ROWS, 4), dtype=np.int8)}, r"found int8 of shape \(31, 4\)"),
        ({"empty": np.zeros(16, dtype=np.float32)}, "an array empty whose length is not 1"),
        (
            {"pieces": np.zeros((5, 16), dtype=np.int8), "scales": np.ones(5, dtype=np.float32)},
            "has 31 tokens and its table 5 rows; expected a row for each",
        ),
    ],
)
def test_tables_that_do_not_fit(
    tmp_path: Path, arrays: dict[str, NDArray[np.generic] | None], message: str
) -> None:
    folder = _spoilt(write_static(tmp_path / "s"), **arrays)
    with pytest.raises(malmoi.errors.BundleError, match=message):
        malmoi.load(folder)


def test_damaged_and_missing_files(tmp_path: Path) -> None:
    folder = write_static(tmp_path / "s")
    data = _table(folder).read_bytes()
    _table(folder).write_bytes(data[:-1] + b"\x00")
    with pytest.raises(malmoi.errors.BundleCorrupt, match="its sha256 differs"):
        malmoi.load(folder)
    for cut in (0, 4, 40, len(data) - 10):
        _table(folder).write_bytes(data[:cut])
        Manifest.read(folder).write(folder)
        with pytest.raises(malmoi.errors.BundleCorrupt):
            malmoi.load(folder)
    _table(folder).unlink()
    Manifest.read(folder).write(folder)
    with pytest.raises(malmoi.errors.BundleError, match="has no static.safetensors"):
        malmoi.load(folder)


def test_a_table_of_zeros_still_gives_unit_vectors(tmp_path: Path) -> None:
    folder = _spoilt(write_static(tmp_path / "s"), scales=np.zeros(ROWS, dtype=np.float32))
    np.testing.assert_allclose(malmoi.load(folder).encode("cat 배"), 0.25, atol=1e-6)


def test_info_describes_it(tmp_path: Path) -> None:
    from malmoi.bundle.bundle import open_bundle
    from malmoi.cli.model import describe

    bundle = open_bundle(write_static(tmp_path / "s"))
    assert "kind          static" in "\n".join(describe(bundle))
    assert json.loads((bundle.folder / "malmoi.json").read_text())["graph"] == "static.safetensors"
