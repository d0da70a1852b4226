"""What the literature does with a finished model, and with one over a server."""

import contextlib
import itertools
import json
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.encoders.scale import PAIRS
from malmoi.heads.zero_shot import load_zero_shot
from malmoi.io.tables import read_rows
from malmoi.mining.clusters import cluster, make_topics, purity
from malmoi.mining.keywords import keywords
from malmoi.mining.pairs import mine_pairs, mine_translations
from malmoi.mining.texts import gather
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


def test_translation_accuracy_of_the_multilingual_student(encoder: malmoi.TextEncoder) -> None:
    rows = list(read_rows(PAIRS))
    korean, english = (encoder.encode([row[name] for row in rows]) for name in ("ko", "en"))
    right = (korean @ english.T).argmax(axis=1) == np.arange(len(rows))
    back = (english @ korean.T).argmax(axis=1) == np.arange(len(rows))
    assert right.mean() > 0.9 and back.mean() > 0.9
    assert np.square(korean - english).sum(axis=1).mean() < 0.8  # the MSE of the paper, by length


def test_an_faq_chatbot_answers_the_nearest_question(encoder: malmoi.TextEncoder) -> None:
    rows = list(read_rows(FAQ))
    vectors = encoder.encode([row["question"] for row in rows])
    asked = {"비밀번호를 까먹었어요": "비밀번호", "How can I pay?": "결제"}
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


SUBJECTS = {
    "날씨": (
        "내일은 전국에 비가 온다", "오늘 날씨가 맑고 따뜻하다", "밤부터 눈이 내리고 춥겠다",
        "태풍이 올라와 바람이 강하다", "안개가 짙고 기온이 낮다", "주말 날씨는 흐리고 비가 온다",
    ),
    "축구": (
        "대표팀이 축구 경기에서 이겼다", "공격수가 후반에 결승골을 넣었다",
        "감독이 선수를 교체했다", "축구 선수가 부상으로 빠졌다", "월드컵 예선 경기가 열린다",
        "골키퍼가 승부차기를 막았다",
    ),
    "요리": (
        "양파를 썰어 기름에 볶는다", "김치찌개에 두부를 넣고 끓인다", "밀가루 반죽을 오븐에 굽는다",
        "국물에 소금과 간장을 넣는다", "고기를 양념에 재워 굽는다", "면을 삶아 찬물에 헹군다",
    ),
    "금융": (
        "한국은행이 기준 금리를 올렸다", "은행 대출 금리가 높아졌다", "주식 시장이 하락했다",
        "환율이 올라 수입 물가가 뛰었다", "예금 이자에 세금이 붙는다", "증권사가 주식 계좌를 연다",
    ),
}  # fmt: skip

LABELLED = [(text, subject) for subject, texts in SUBJECTS.items() for text in texts]


def test_bertopic_topics_have_names_and_take_new_texts(encoder: malmoi.TextEncoder) -> None:
    """Cluster, name by c-TF-IDF, assign: BERTopic's fit_transform, get_topics and transform."""
    pytest.importorskip("scipy", reason="scipy is not installed")
    pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
    texts = [text for text, _ in LABELLED]
    vectors = encoder.encode(texts)
    found = cluster(vectors)
    assert purity(found.labels.tolist(), [subject for _, subject in LABELLED]) > 0.8
    topics = make_topics(encoder.name, texts, vectors, found.labels, least=0.1)
    assert 3 <= len(topics.topics) <= 7
    names = {topic.number: topic.name for topic in topics.topics}
    football, bank = (found.labels[texts.index(SUBJECTS[one][0])] for one in ("축구", "금융"))
    assert "축구" in names[football] or "경기" in names[football]
    assert "금리" in names[bank]
    new = ["이번 시즌 축구 리그 경기", "은행이 대출 이자를 내렸다"]
    assert topics.assign(encoder, new)[0].tolist() == [football, bank]


def test_bert_as_service(encoder: malmoi.TextEncoder) -> None:
    """Its README's example: a server with a model, a client whose `encode` gives the vectors."""
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from malmoi.client import Client
    from malmoi.serve.state import Resources
    from tests.support.servers import serving

    texts = ["First do it", "then do it right", "then do it better"]
    with serving(Resources(encoder)) as server:
        with contextlib.closing(Client(server.url)) as client:
            vectors = client.encode(texts)
    assert vectors.shape == (3, encoder.dimension)
    np.testing.assert_allclose(vectors, encoder.encode(texts), atol=1e-5)
    assert vectors[1] @ vectors[2] > vectors[0] @ vectors[2]


def test_paraphrase_mining_and_bitext_mining(encoder: malmoi.TextEncoder) -> None:
    rows = list(read_rows(PAIRS))[:30]
    korean, english = [row["ko"] for row in rows], [row["en"] for row in rows]
    same = [*korean, *(row["ko_same"] for row in rows)]
    [best, *_] = mine_pairs(encoder, gather(same, where="same"), least=0.5)
    assert abs(best.a.number - best.b.number) == len(rows)  # a sentence and its paraphrase
    shuffled = english[::-1]
    found = mine_translations(
        encoder, gather(korean, where="ko"), gather(shuffled, where="en"), least=1.05
    )
    right = [one.a.number - 1 == len(rows) - one.b.number for one in found]
    assert len(found) > 20 and np.mean(right) > 0.9


def test_late_interaction_orders_what_was_found(encoder: malmoi.TextEncoder) -> None:
    """One vector finds, a vector for every token orders (ColBERT)."""
    reranker = malmoi.load(kind="reranker")
    texts = ["배송 조회는 주문 내역에서 합니다.", "환불은 반품 상품이 도착한 뒤에 됩니다."]
    texts += ["비밀번호를 바꾸는 방법입니다."]
    query = "반품한 물건값은 언제 돌려받나요?"
    hits = reranker.rank(query, texts)
    assert hits[0].text == texts[1]
    [score] = reranker.score([(query, texts[1])])
    assert score == pytest.approx(hits[0].score, abs=0.1)  # by itself its words count alike
    swapped = reranker.score([(texts[1], query)])
    assert swapped[0] != pytest.approx(score, abs=1e-6)  # unlike a cosine, order matters
