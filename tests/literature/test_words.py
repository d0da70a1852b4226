"""BERT's word vectors: the examples of the tutorials, run on the shipped model.

The weights may be exchanged, so nothing here is an exact figure: what is asserted is what a reader
is told to see.
"""

import numpy as np
import pytest

import malmoi
from malmoi.encoders.words import Word, by_layer, similarity

BOATS = [
    "배를 타고 여행을 간다",
    "배를 타고 바다에 나간다",
    "배가 항구에 들어왔다",
    "부산에서 배를 타고 제주도에 갔다",
    "바다에 배가 떠 있다",
]
PEARS = ["배가 달고 맛있다", "시장에서 사과와 배를 샀다", "과일 가게에서 배를 깎아 주었다"]
PEARS += ["배를 먹는다", "배는 가을에 나는 과일이다"]
BELLIES = ["배가 고파서 밥을 먹었다", "배가 부르다"]
TEXTS = [*BOATS, *PEARS, *BELLIES]
MEANINGS = np.repeat([0, 1, 2], [len(BOATS), len(PEARS), len(BELLIES)])


@pytest.fixture(scope="module")
def encoder() -> malmoi.TextEncoder:
    return malmoi.load()


def nouns(encoder: malmoi.TextEncoder, layers: str | int) -> list[Word]:
    """The noun 배 of every text, by its span: the analyser of morphemes takes long to load."""
    at = [text.index("배") for text in TEXTS]
    return [
        encoder.words(text, layers=layers, by=[(start, start + 1)])[0]
        for text, start in zip(TEXTS, at, strict=True)
    ]


def test_tokens_ids_and_segments_of_a_marked_sentence(encoder: malmoi.TextEncoder) -> None:
    """[CLS] … [SEP], ids of the vocabulary, one segment for one sentence, two for a pair."""
    tokens = encoder.tokens("배를 타고 여행을 간다")
    assert (tokens[0].text, tokens[-1].text) == ("[CLS]", "[SEP]")
    assert {token.segment for token in tokens} == {0}
    assert {token.segment for token in encoder.tokens("배를 탔다", "배를 먹었다")} == {0, 1}


def test_layers_tokens_and_width_are_one_array(encoder: malmoi.TextEncoder) -> None:
    """Sum and concatenation of the last four layers, made by hand, are those of `words`."""
    found = encoder.hidden_states("배를 타고 여행을 간다")
    layers, tokens, width = found.states.shape
    assert (tokens, width) == (len(found.ids), encoder.dimension) and layers >= 5
    summed, joined = (
        encoder.words("배를 타고 여행을 간다", layers=name)[0].tokens[0].vector
        for name in ("sum-last-4", "concat-last-4")
    )
    np.testing.assert_allclose(summed, found.states[-4:, 1].sum(axis=0), atol=1e-4)
    np.testing.assert_allclose(joined, found.states[-4:, 1].reshape(-1), atol=1e-5)
    sentence = found.states[-2].mean(axis=0)  # the tutorials' sentence vector
    own = encoder.encode_layers("배를 타고 여행을 간다", layers="second-to-last", pooling="mean")
    np.testing.assert_allclose(sentence / np.linalg.norm(sentence), own, atol=1e-4)


def test_a_boat_is_nearest_to_boats(encoder: malmoi.TextEncoder) -> None:
    scores = similarity(nouns(encoder, 5), centred=True)
    np.fill_diagonal(scores, -1)
    boats = len(BOATS)
    assert sum(row.argmax() < boats for row in scores[:boats]) >= boats - 1
    pears = scores[boats : boats + len(PEARS)]
    assert (pears[:, boats:].mean(axis=1) > pears[:, :boats].mean(axis=1)).all()


def test_nine_of_twelve_find_their_own_meaning(encoder: malmoi.TextEncoder) -> None:
    """docs/words.md names the three that do not."""
    scores = similarity(nouns(encoder, 5), centred=True)
    np.fill_diagonal(scores, -1)
    right = MEANINGS[scores.argmax(axis=1)] == MEANINGS
    assert right.sum() >= 9
    wrong = {text for text, found in zip(TEXTS, right, strict=True) if not found}
    assert wrong <= {"배는 가을에 나는 과일이다", *BELLIES}


def test_layers_separate_the_senses_step_by_step(encoder: malmoi.TextEncoder) -> None:
    """In the embeddings all 배 are alike; in later layers boats differ from the rest."""
    scores = by_layer(nouns(encoder, "concat-all"), len(encoder.hidden_states("배").states))
    boats = len(BOATS)
    rows, columns = np.triu_indices(boats, 1)
    among = scores[:, :boats, :boats][:, rows, columns].mean(axis=1)
    across = scores[:, :boats, boats:].mean(axis=(1, 2))
    gaps = among - across
    assert gaps[0] < 0.03 < gaps[-2:].min()
