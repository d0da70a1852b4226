"""The examples of the literature that a finished model is enough for, with what comes out.

What is asserted is what a reader is told to see (which text is nearest, which code is first), not
figures: the weights may be exchanged.
"""

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.encoders.scale import PAIRS
from malmoi.heads.zero_shot import load_zero_shot
from malmoi.index import make_index
from malmoi.io.tables import read_rows
from malmoi.mining.keywords import keywords
from tests.support.graphs import Run

FAQ = Path(malmoi.__file__).parent / "data/faq.tsv"


@pytest.fixture(scope="module")
def encoder() -> malmoi.TextEncoder:
    return malmoi.load()


def test_sentence_bert_similar_sentences(encoder: malmoi.TextEncoder) -> None:
    """The pairs of Sentence-BERT's page: a man eats food or bread, a woman plays the violin."""
    texts = [
        "한 남자가 음식을 먹는다.",
        "한 남자가 빵 한 조각을 먹는다.",
        "한 여자가 바이올린을 연주한다.",
    ]
    scores = encoder.encode(texts) @ encoder.encode(texts).T
    assert scores[0, 1] > 0.6 > scores[0, 2] + 0.2


@pytest.mark.parametrize("pooling", ["cls", "mean", "max"])
def test_pooling_of_every_kind(encoder: malmoi.TextEncoder, pooling: str) -> None:
    texts = ["배송은 언제 오나요?", "물건은 언제 도착합니까?", "비밀번호를 잊었어요"]
    vectors = encoder.encode_layers(texts, layers="last", pooling=pooling)
    assert vectors.shape == (3, encoder.dimension)
    assert vectors[0] @ vectors[1] > vectors[0] @ vectors[2]


def test_translation_accuracy_of_the_multilingual_student(encoder: malmoi.TextEncoder) -> None:
    rows = list(read_rows(PAIRS))
    korean, english = (encoder.encode([row[name] for row in rows]) for name in ("ko", "en"))
    right = (korean @ english.T).argmax(axis=1) == np.arange(len(rows))
    back = (english @ korean.T).argmax(axis=1) == np.arange(len(rows))
    assert right.mean() > 0.9 and back.mean() > 0.9
    assert np.square(korean - english).sum(axis=1).mean() < 0.8  # the MSE of the paper, by length


def test_an_index_as_faiss_annoy_and_hnswlib(encoder: malmoi.TextEncoder) -> None:
    rows = [row["question"] for row in read_rows(FAQ)]
    vectors = encoder.encode(rows)
    index = make_index(encoder.dimension)
    index.add(vectors)
    query = encoder.encode("주문한 물건 언제 와요?")
    found = index.search(query, 3)
    np.testing.assert_array_equal(found.rows[0], np.argsort(-(vectors @ query))[:3])
    assert rows[found.rows[0, 0]] == "주문한 상품은 언제 도착하나요?"


def test_an_faq_chatbot_answers_the_nearest_question(encoder: malmoi.TextEncoder) -> None:
    rows = list(read_rows(FAQ))
    vectors = encoder.encode([row["question"] for row in rows])
    asked = {"비번을 까먹었어요": "비밀번호", "How can I pay?": "결제"}
    for question, word in asked.items():
        best = rows[int((vectors @ encoder.encode(question)).argmax())]
        assert word in best["question"] + best.get("answer", ""), best["question"]


def test_keybert_finds_whole_phrases(encoder: malmoi.TextEncoder) -> None:
    pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
    text = "문장 유사도를 재려면 문장 임베딩이 필요하다. "
    text += "한국어 문장 유사도 모델은 번역 쌍으로 학습한다."
    found = [word.text for word in keywords(encoder, text, top=4)]
    assert any("문장 유사도" in phrase for phrase in found)
    assert not any(phrase.endswith(("를", "은", "이")) for phrase in found)
    different = [word.text for word in keywords(encoder, text, top=4, diversity=0.9)]
    assert different != found  # MMR


def test_keyberts_max_sum_is_the_least_similar_choice(encoder: malmoi.TextEncoder) -> None:
    """Of all choices of three among the eight nearest, worked out one by one."""
    pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
    text = "당뇨병 환자는 혈당을 재고 식이 요법과 운동을 한다. 혈당 조절이 나쁘면 당뇨병 합병증과 "
    text += "신장 질환이 생긴다. 인슐린 주사는 혈당을 낮춘다."
    near = [word.text for word in keywords(encoder, text, top=8, diversity=0)]
    found = [word.text for word in keywords(encoder, text, top=3, max_sum=8)]

    def likeness(phrases: tuple[str, ...]) -> float:
        vectors = encoder.encode(list(phrases))
        return float((vectors @ vectors.T).sum())

    assert found == list(min(itertools.combinations(near, 3), key=likeness))
    assert found != near[:3]


def test_zero_shot_by_the_encoder_alone() -> None:
    model = load_zero_shot(None, ["스포츠", "경제", "요리"])
    assert model.classify("손흥민이 결승골을 넣어 팀이 이겼다.").label == "스포츠"
    assert model.classify("한국은행이 기준 금리를 올렸다.").label == "경제"


def test_a_term_of_both_languages_gets_its_code(run_here: Run) -> None:
    """SapBERT's task: names of one concept are near, whatever the language."""
    done = run_here("link", "sample", "DM nephropathy", "당뇨병성 신증", "-k", "1", "--spelling")
    first = [json.loads(line)["candidates"][0]["code"] for line in done.stdout.splitlines()]
    assert first == ["E14.2", "E14.2"]
