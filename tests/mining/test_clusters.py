"""Clusters and topics: every method, bad piles, merging, later texts, and a page of its own."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import malmoi
from malmoi.errors import DataError, OptionError
from malmoi.mining.clusters import Method, Topics, assign, cluster, make_topics, merge_to, purity
from malmoi.mining.maps import flatten, islands, neighbourly, save_map
from malmoi.runtime.pooling import normalize
from malmoi.types import Floats
from tests.support.graphs import Run

pytest.importorskip("sklearn", reason="scikit-learn is not installed")

REFUND = [
    "환불은 어떻게 받나요?",
    "환불이 아직 안 됐어요",
    "환불을 신청하고 싶어요",
    "환불 요청합니다",
]
WEATHER = ["오늘 날씨가 맑다", "비가 와서 날씨가 춥다", "내일 날씨는 어때요?", "날씨가 너무 덥네요"]
CAT = ["고양이가 잔다", "고양이 사료를 샀다", "우리 고양이는 귀엽다", "고양이를 키우고 싶다"]
TEXTS = [*REFUND, *WEATHER, *CAT]


def blobs(groups: int = 4, each: int = 30) -> tuple[Floats, list[int]]:
    random = np.random.default_rng(5)
    centres = normalize(random.standard_normal((groups, 16)).astype(np.float32))
    noise = 0.1 * random.standard_normal((groups * each, 16))
    gold = np.repeat(np.arange(groups), each)
    return normalize((centres[gold] + noise).astype(np.float32)), gold.tolist()


@pytest.mark.parametrize(
    ("method", "count"),
    [("agglomerative", None), ("agglomerative", 4), ("community", None), ("kmeans", 4)],
)
def test_every_method_finds_what_is_there(method: Method, count: int | None) -> None:
    vectors, gold = blobs()
    found = cluster(vectors, method=method, count=count, least=0.75)
    assert purity(found.labels.tolist(), gold) > 0.95
    assert len(found.centres) == 4 and found.method == method
    sizes = np.bincount(found.labels[found.labels >= 0])
    assert sizes.tolist() == sorted(sizes.tolist(), reverse=True)


@pytest.mark.parametrize("method", ["agglomerative", "community", "kmeans"])
@pytest.mark.parametrize("rows", [1, 2, 3, 5])
def test_few_and_equal_rows_are_one_group(method: Method, rows: int) -> None:
    equal = normalize(np.ones((rows, 4), dtype=np.float32))
    assert cluster(equal, method=method).labels.tolist() == [0] * rows


def test_more_groups_than_different_rows() -> None:
    rows = np.repeat(np.eye(2, 4, dtype=np.float32), 5, axis=0)
    assert len(cluster(rows, method="kmeans", count=4).centres) == 2


def test_the_cosine_that_holds_groups_is_found() -> None:
    noise = 0.05 * np.random.default_rng(5).standard_normal((160, 16))
    wide = normalize((np.repeat(np.eye(8, 16), 20, axis=0) + noise).astype(np.float32))
    narrow = normalize(wide + np.float32(0.4))  # all share a direction, as many models have it
    for vectors in (wide, narrow):
        found = cluster(vectors)
        assert len(found.centres) == 8 and not (found.labels < 0).any()
    assert cluster(wide).least < 0.5 < cluster(narrow).least


def test_few_topics_by_default() -> None:
    vectors, gold = blobs(groups=12, each=50)
    found = cluster(vectors)
    assert 8 <= len(found.centres) <= 25 and purity(found.labels.tolist(), gold) > 0.95
    strangers = normalize(np.random.default_rng(1).standard_normal((8, 16)).astype(np.float32))
    labels = cluster(np.concatenate([vectors, strangers])).labels
    assert (labels[:-8] < 0).mean() < 0.02 < (labels[-8:] < 0).mean()


def test_many_rows_are_grouped_by_a_sample(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("malmoi.mining.clusters._AGGLOMERATIVE", 100)
    vectors, gold = blobs(groups=10, each=40)
    found = cluster(vectors)
    assert found.method == "kmeans" and purity(found.labels.tolist(), gold) > 0.95


def test_strangers_are_alone() -> None:
    vectors, _ = blobs(groups=2, each=10)
    odd = np.concatenate([vectors, -vectors[:1]])
    assert cluster(odd, least=0.6).labels[-1] == -1


def test_alike_groups_are_merged_first() -> None:
    near = normalize(np.array([[1, 0, 0], [1, 0.1, 0], [0, 0, 1]], dtype=np.float32))
    vectors = np.repeat(near, [5, 4, 3], axis=0)
    found = cluster(vectors, count=3)
    labels, steps = merge_to(found, 2)
    assert len(set(labels.tolist())) == 2 and labels[0] == labels[5] != labels[-1]
    assert len(steps) == 1 and steps[0].score > 0.9
    assert set(merge_to(found, 1)[0].tolist()) == {0}


def test_options_out_of_range_are_reported() -> None:
    vectors, _ = blobs()
    with pytest.raises(OptionError, match="known are agglomerative"):
        cluster(vectors, method="spectral")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match="find their own number"):
        cluster(vectors, method="community", count=3)
    with pytest.raises(OptionError, match="count is 0"):
        cluster(vectors, count=0)
    with pytest.raises(OptionError, match="cosine"):
        cluster(vectors, least=3)
    with pytest.raises(OptionError, match="merge is 0"):
        merge_to(cluster(vectors), 0)


def test_topics_are_named_kept_and_used_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Plain words: `test_the_command` names topics by morphemes, whose analyser is slow to load.
    monkeypatch.setattr("malmoi.text.morphemes.available", lambda: False)
    texts = [re.sub("(환불|날씨|고양이)", r"\1 ", text) for text in TEXTS]
    encoder = malmoi.load("ko-en-small")
    vectors = normalize(encoder.encode(texts))
    found = cluster(vectors, count=3)
    topics = make_topics(encoder.name, texts, vectors, found.labels, least=0.2)
    names = " / ".join(topic.name for topic in topics.topics)
    assert all(term in names for term in ("환불", "날씨", "고양이"))
    assert all(len(topic.sentences) == 3 for topic in topics.topics)
    topics.save(tmp_path / "topics.json")
    again = Topics.load(tmp_path / "topics.json")
    labels, scores = again.assign(encoder, ["환불해 주세요", "고양이가 운다"])
    assert "환불" in again.topics[labels[0]].name and "고양이" in again.topics[labels[1]].name
    assert (scores > 0.2).all()
    with pytest.raises(DataError, match="--model ko-en-small"):
        again.assign(malmoi.load("ko-en-static"), ["배"])
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(DataError, match="as topics"):
        Topics.load(tmp_path / "bad.json")


def test_rows_far_from_all_centres_are_unassigned() -> None:
    labels, _ = assign(
        np.array([[1, 0], [0, 1]], dtype=np.float32),
        np.array([[1, 0]], dtype=np.float32),
        least=0.5,
    )
    assert labels.tolist() == [0, -1]


def test_the_page_needs_nothing_from_outside(tmp_path: Path) -> None:
    vectors, gold = blobs()
    texts = [f"글 {i} </script><b>" for i in range(len(vectors))]
    topics = [{"number": 0, "name": "배", "size": 3, "sentences": ["<i>"]}]
    path = tmp_path / "map.html"
    assert save_map(path, texts, vectors, np.array(gold), topics, title="배") == len(texts)
    page = path.read_text("utf-8")
    assert not re.search(r"(?:src|href)\s*=|url\(|https?://", page)
    assert page.count("</script>") == 2  # the data's end and the code's, none out of a text
    data = json.loads(page.split('id="data">')[1].split("</script>")[0])
    assert data["points"][7]["s"] == texts[7]
    plane = flatten(vectors, np.array(gold))
    assert plane.min() >= 0 and plane.max() <= 1
    flatten(vectors[:1], np.array([0]))


@pytest.mark.parametrize(("groups", "each"), [(3, 1), (3, 10), (12, 5), (40, 2)])
def test_groups_are_islands_near_their_like(groups: int, each: int) -> None:
    vectors, gold = blobs(groups, each)
    labels = np.array(gold)
    labels[-1] = -1  # a stray
    plane = islands(vectors, labels)
    assert plane.shape == (len(vectors), 2) and plane.min() >= 0 and plane.max() <= 1
    assert np.array_equal(plane, islands(vectors, labels))
    apart = np.linalg.norm(plane[:-1, None] - plane[None, :-1], axis=-1)
    np.fill_diagonal(apart, np.inf)
    if each > 2:  # the nearest on the map is of the same group
        assert (labels[:-1][apart.argmin(axis=1)] == labels[:-1]).mean() > 0.85


def test_neighbours_stay_neighbours_on_the_map() -> None:
    angles = np.linspace(0, 2 * np.pi, 30, endpoint=False)
    ring = np.stack([np.cos(angles), np.sin(angles), np.zeros(30)], axis=1).astype(np.float32)
    spots = neighbourly(ring)
    apart = np.linalg.norm(spots[:, None] - spots, axis=-1)
    np.fill_diagonal(apart, np.inf)
    steps = np.abs(apart.argmin(axis=1) - np.arange(30))
    assert (np.minimum(steps, 30 - steps) <= 2).mean() > 0.9


def test_the_command(run: Run, run_here: Run, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("\n".join([*TEXTS, "", TEXTS[0]]), "utf-8")
    files = ["--save", "t.json", "--map", "m.html", "--labels", "l.tsv"]
    done = run("text", "topics", "a.txt", "--count", "4", "--merge", "3", *files)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    names = [row["name"] for row in rows]
    assert all(any(term in name for name in names) for term in ("환불", "날씨", "고양이"))
    assert [row["topic"] for row in rows] == [0, 1, 2] and sum(row["size"] for row in rows) == 12
    assert "1 empty line was left out" in done.stderr and "joined topic" in done.stderr
    assert len((tmp_path / "l.tsv").read_text("utf-8").splitlines()) == 13
    done = run_here("text", "topics", "-", "--assign", "t.json", "--table", stdin="환불해 주세요\n")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("text", ["하나뿐인 글\n", "같은 글\n같은 글\n\n"])
def test_one_document_and_equal_documents(run_here: Run, text: str) -> None:
    done = run_here("text", "topics", "-", "--map", "m.html", stdin=text)
    assert done.returncode == 0 and len(done.stdout.splitlines()) == 1, done.stderr


def test_bad_input_is_reported(run_here: Run) -> None:
    for args, stdin, code in (
        (["-"], "\n\n", 1),
        (["no.txt"], "", 1),
        (["-", "--assign", "no.json"], "배\n", 1),
        (["-", "--assign", "t.json", "--merge", "2"], "배\n", 2),
    ):
        done = run_here("text", "topics", *args, stdin=stdin)
        assert done.returncode == code and "Traceback" not in done.stderr, done.stderr
