"""The shipped models: whole, and not lost for words where a sign stands in one."""

import pytest

import malmoi
from malmoi.bundle.bundle import Bundle, find_model, open_bundle, shipped_models
from malmoi.runtime.tokenizer import read_tokenizer
from malmoi.text.cleanup import clean

# Each pair says one thing twice, and its first text used to be unknown pieces for the most part.
SPELT = {
    "진통ㆍ소염": "진통, 소염",
    "임신ㆍ수유기": "임신, 수유기",
    "하루 500㎎을 복용": "하루 500 mg을 복용",
    "25℃ 이하에서 보관": "25°C 이하에서 보관",
    "Ⅱ형 당뇨병": "II형 당뇨병",
    "㈜한국제약": "(주)한국제약",
    "▲공시가격이 올랐다": "공시가격이 올랐다",
}


MODELS = ["ko-en-small", "ko-en-static"]


def test_these_models_are_shipped() -> None:
    assert sorted(shipped_models()) == MODELS


@pytest.fixture(params=MODELS)
def opened(request: pytest.FixtureRequest) -> Bundle:
    return open_bundle(find_model(request.param), kinds=("encoder", "static"))


def test_every_file_is_the_one_the_manifest_names(opened: Bundle) -> None:
    assert opened.manifest.files
    opened.manifest.verify(opened.folder)
    assert "symbols" in opened.manifest.clean


def test_no_word_is_lost_to_a_sign(opened: Bundle) -> None:
    tokenizer = read_tokenizer(opened.tokenizer)
    for text in SPELT:
        tokens = tokenizer.encode(clean(text, opened.manifest.clean)).tokens
        assert tokens.count("[UNK]") == text.count("▲"), text


@pytest.mark.parametrize("name", ["ko-en-small", "ko-en-static"])
def test_a_sign_is_what_it_stands_for(name: str) -> None:
    encoder = malmoi.load(name)
    for spelt, plain in SPELT.items():
        assert encoder.similarity(spelt, plain) > 0.88, spelt


def test_a_sign_is_what_it_stands_for_across_languages() -> None:
    assert malmoi.load("ko-en-small").similarity("25℃ 이하에서 보관", "Store below 25°C") > 0.88


def test_the_reranker_reads_signs() -> None:
    reranker = malmoi.load(kind="reranker")
    pairs = list(SPELT.items())
    signs = reranker.score(pairs)
    plain = reranker.score([(clean(a, reranker.manifest.clean), b) for a, b in pairs])
    assert signs.tolist() == pytest.approx(plain.tolist(), abs=1e-6) and min(signs) > 0.5
