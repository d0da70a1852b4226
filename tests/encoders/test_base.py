"""What every encoder promises, and the scale of its similarities."""

import inspect
import json
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import malmoi
import malmoi.runtime.runner as runner
from malmoi.encoders import score_scale
from tests.support import graphs
from tests.support.encoders import LOCAL, SERVED, TEXTS, Opened
from tests.support.graphs import Run

HOSTILE = ["\ud800 배", "a\x00b", "\udfff", "\x00", " \t\n", "\u202e배", "🙂", "￿"]

LONG = " ".join(["cat dog boat sea 배 당뇨"] * 5)  # 30 words; the tiny model reads 10

CASES = [*LOCAL, *(pytest.param(name, marks=pytest.mark.server) for name in SERVED)]


@pytest.fixture(scope="module", params=CASES)
def opened(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """Each encoder in turn, with the same model opened plainly."""
    with (LOCAL | SERVED)[request.param](tmp_path_factory.mktemp(request.param)) as made:
        yield made


@pytest.fixture
def encoder(opened: Opened) -> Any:
    """The encoder under test."""
    return opened.encoder


def one_by_one(opened: Opened, texts: list[str]) -> NDArray[np.float32]:
    """What the vectors must be, (n, 16)."""
    return np.stack([opened.plain.encode(text) for text in texts])


@pytest.mark.parametrize("method", ["encode", "encode_iter", "similarity"])
def test_methods_take_the_same_options(encoder: Any, method: str) -> None:
    def options(of: Any) -> list[tuple[str, Any, Any]]:
        found = inspect.signature(getattr(of, method)).parameters.values()
        return [(one.name, one.kind, one.default) for one in found if one.name != "self"]

    assert options(encoder) == options(malmoi.TextEncoder)
    assert len(options(encoder)) >= 2


def test_the_model_is_described(opened: Opened) -> None:
    assert opened.encoder.name == "tiny" and opened.encoder.dimension == 16
    assert opened.encoder.max_tokens == opened.plain.max_tokens


def test_a_string_gives_a_row_and_a_list_a_matrix(encoder: Any) -> None:
    assert encoder.encode("배").shape == (16,)
    assert encoder.encode(["배"]).shape == (1, 16)
    assert encoder.encode(TEXTS).shape == (7, 16)
    assert encoder.encode(TEXTS).dtype == np.float32
    np.testing.assert_allclose(encoder.encode("배"), encoder.encode(["배"])[0], atol=1e-6)


def test_no_texts_give_no_rows(encoder: Any) -> None:
    assert encoder.encode([]).shape == (0, 16) and encoder.encode([]).dtype == np.float32
    assert encoder.encode([], dim=5).shape == (0, 5)
    assert encoder.encode([], precision="binary").shape == (0, 2)
    assert list(encoder.encode_iter([])) == []


def test_any_iterable_is_read(opened: Opened) -> None:
    expected = one_by_one(opened, TEXTS)
    for texts in (tuple(TEXTS), iter(TEXTS), (text for text in TEXTS)):
        np.testing.assert_allclose(opened.encoder.encode(texts), expected, atol=1e-6)


def test_batches_give_what_single_texts_give(opened: Opened) -> None:
    expected = one_by_one(opened, TEXTS)
    np.testing.assert_allclose(opened.encoder.encode(TEXTS), expected, atol=1e-6)
    alone = np.stack([opened.encoder.encode(text) for text in TEXTS])
    np.testing.assert_allclose(alone, expected, atol=1e-6)


def test_order_is_kept_over_chunks_and_batches(
    opened: Opened, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_CHUNK_ITEMS", 7)
    generator = np.random.default_rng(0)
    words = graphs.WORDS[4:]
    texts = [" ".join(generator.choice(words, size=generator.integers(0, 9))) for _ in range(300)]
    expected = one_by_one(opened, texts)
    np.testing.assert_allclose(opened.encoder.encode(texts), expected, atol=1e-5)
    streamed = np.stack(list(opened.encoder.encode_iter(iter(texts))))
    np.testing.assert_allclose(streamed, expected, atol=1e-5)


def test_a_stream_starts_before_its_source_ends(encoder: Any) -> None:
    taken = 0

    def endless() -> Iterator[str]:
        nonlocal taken
        while True:
            taken += 1
            yield f"cat {taken}"

    assert next(encoder.encode_iter(endless())).shape == (16,)
    assert taken < 10_000


def test_vectors_have_length_one(encoder: Any) -> None:
    for dim in (None, 5):
        vectors = encoder.encode([*TEXTS, *HOSTILE], dim=dim)
        np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_fewer_dimensions_are_renormalised(encoder: Any) -> None:
    whole = encoder.encode(TEXTS)
    expected = whole[:, :5] / np.linalg.norm(whole[:, :5], axis=1, keepdims=True)
    np.testing.assert_allclose(encoder.encode(TEXTS, dim=5), expected, atol=1e-6)
    np.testing.assert_allclose(encoder.encode(TEXTS, dim=16), whole, atol=1e-6)
    streamed = np.stack(list(encoder.encode_iter(TEXTS, dim=5)))
    np.testing.assert_allclose(streamed, expected, atol=1e-6)


@pytest.mark.parametrize("dim", [0, -1, 17])
def test_a_dim_the_model_does_not_have(encoder: Any, dim: int) -> None:
    with pytest.raises(malmoi.MalmoiError, match="dim"):
        encoder.encode("배", dim=dim)


def test_precisions(opened: Opened) -> None:
    encoder, whole = opened.encoder, opened.encoder.encode(TEXTS)
    codes = encoder.encode(TEXTS, precision="int8")
    assert codes.dtype == np.int8 and codes.shape == (7, 16)
    assert np.abs(malmoi.encoders.from_int8(codes) - np.clip(whole, -1.5, 1.5)).max() < 0.01
    bits = encoder.encode(TEXTS, precision="binary", dim=8)
    assert bits.shape == (7, 1) and bits.dtype == np.uint8
    assert encoder.encode("배", precision="binary").shape == (2,)
    np.testing.assert_array_equal(bits, opened.plain.encode(TEXTS, precision="binary", dim=8))
    streamed = np.stack(list(encoder.encode_iter(TEXTS, precision="int8")))
    np.testing.assert_array_equal(streamed, codes)


def test_an_unknown_precision_is_refused_at_once(encoder: Any) -> None:
    with pytest.raises(malmoi.errors.OptionError, match="precision is 'int4'; known are"):
        encoder.encode("배", precision="int4")
    with pytest.raises(malmoi.errors.OptionError, match="precision is 'int4'; known are"):
        encoder.encode_iter(["배"], precision="int4")


def test_prompts_by_name(opened: Opened) -> None:
    encoder = opened.encoder
    expected = opened.plain.encode("the cat")
    np.testing.assert_allclose(encoder.encode("cat", prompt="query"), expected, atol=1e-6)
    [streamed] = encoder.encode_iter(["cat"], prompt="query")
    np.testing.assert_allclose(streamed, expected, atol=1e-6)
    assert np.abs(encoder.encode("cat", prompt="document") - expected).max() > 1e-4
    with pytest.raises(malmoi.MalmoiError, match="prompt.*: query, document"):
        encoder.encode("cat", prompt="qurey")


def test_cut_texts_are_counted_once_with_the_callers_line(opened: Opened) -> None:
    if opened.reads_whole:
        pytest.skip("this encoder reads texts of any length")
    encoder = opened.encoder
    with pytest.warns(malmoi.errors.CutWarning) as caught:
        encoder.encode([LONG, "배", LONG + " cat"])
    assert len(caught) == 1 and caught[0].filename == __file__
    message = str(caught[0].message)
    assert message.startswith("2 of 3 texts were longer than")
    assert message.endswith('and were cut; on_long="windows" reads them whole')
    with pytest.warns(malmoi.errors.CutWarning, match="1 of 1 text was longer") as caught:
        list(encoder.encode_iter([LONG]))
    assert len(caught) == 1 and caught[0].filename == __file__


def test_windows_read_the_whole_text(opened: Opened) -> None:
    texts = [LONG, "배 당뇨", LONG + " sweet"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        whole = opened.encoder.encode(texts, on_long="windows")
        streamed = np.stack(list(opened.encoder.encode_iter(texts, on_long="windows")))
    np.testing.assert_allclose(whole, opened.plain.encode(texts, on_long="windows"), atol=1e-6)
    np.testing.assert_allclose(streamed, whole, atol=1e-6)
    assert np.abs(whole[0] - whole[2]).max() > 1e-4  # the last word was read
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(whole[1], opened.encoder.encode("배 당뇨"), atol=1e-6)


def test_an_unknown_way_with_long_texts(encoder: Any) -> None:
    with pytest.raises(malmoi.MalmoiError, match="on_long"):
        encoder.encode("배", on_long="drop")


def test_similarity_of_texts_and_lists(encoder: Any) -> None:
    score = encoder.similarity("배 cat", "배 dog")
    assert isinstance(score, float)
    matrix = encoder.similarity(["배 cat", "sea"], ["배 dog", "sea", "a"])
    assert matrix.shape == (2, 3)
    assert matrix[0, 0] == pytest.approx(score, abs=1e-6)
    assert matrix[1, 1] == pytest.approx(1, abs=1e-6)
    assert encoder.similarity("배", ["배", "cat"]).shape == (2,)
    assert encoder.similarity(["배", "cat"], "배").shape == (2,)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        (b"bytes", "texts is bytes; expected a string or an iterable of strings"),
        (3, "texts is int; expected"),
        (None, "texts is NoneType"),
        (["배", None], r"texts\[1\] is NoneType; expected str"),
        ([["배"]], r"texts\[0\] is list"),
    ],
)
def test_what_is_not_text(encoder: Any, texts: object, message: str) -> None:
    with pytest.raises(malmoi.errors.TextError, match=message) as caught:
        encoder.encode(texts)
    assert isinstance(caught.value, TypeError) and isinstance(caught.value, malmoi.MalmoiError)


def test_lone_surrogates_nul_and_other_odd_text(opened: Opened) -> None:
    vectors = opened.encoder.encode(HOSTILE)
    assert np.isfinite(vectors).all()
    np.testing.assert_allclose(vectors, one_by_one(opened, HOSTILE), atol=1e-6)


def test_any_unicode_gives_a_finite_unit_vector(opened: Opened) -> None:
    served = not isinstance(opened.encoder, malmoi.Encoder | malmoi.StaticEncoder)

    @settings(
        max_examples=100 if served else 400,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(text=st.text(st.characters(exclude_categories=()), max_size=40))
    def finite(text: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", malmoi.errors.CutWarning)
            vector = opened.encoder.encode(text)
        assert np.isfinite(vector).all()
        assert np.linalg.norm(vector) == pytest.approx(1, abs=1e-5)

    finite()


def test_one_encoder_serves_many_threads(opened: Opened) -> None:
    expected = one_by_one(opened, TEXTS)
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda _: opened.encoder.encode(TEXTS), range(50)))
    assert len(found) == 50
    for vectors in found:
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


@pytest.mark.parametrize("model", ["ko-en-small", "ko-en-static"])
def test_pairs_of_one_meaning_score_higher(model: str) -> None:
    scale = score_scale(malmoi.load(model))
    quantiles = scale.quantiles()
    assert quantiles["same meaning"][1] > quantiles["unrelated"][4]  # the quarters hardly overlap
    found = scale.calibrated(np.linspace(-1, 1, 50, dtype=np.float32))
    assert (np.diff(found) >= 0).all() and found[0] < 0.01 and found[-1] > 0.99
    middle = scale.calibrated(np.array([scale.unrelated.mean(), scale.same.mean()]))
    assert middle[0] < 0.1 and middle[1] > 0.9


def test_the_scale_is_shown(run: Run) -> None:
    done = run("model", "info", "--table")
    assert done.returncode == 0 and "unrelated" in done.stdout and "same meaning" in done.stdout
    pairs = "오늘은 날씨가 아주 좋다\t오늘 날씨가 정말 좋네요\n고양이가 잔다\t세금이 올랐다\n"
    done = run("similarity", "-", "--calibrated", stdin=pairs)
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert rows[0]["same"] > 0.5 > rows[1]["same"]
    assert "same" not in json.loads(run("similarity", "-", stdin=pairs).stdout.splitlines()[0])
