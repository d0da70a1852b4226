"""Linking: stages, candidates, thresholds, the command."""

import json
import math
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import malmoi
from malmoi.bundle.bundle import Manifest
from malmoi.errors import LexiconError, OptionError, TextError
from malmoi.terms import Linked, Linker, add_names, build_lexicon, calibrate
from malmoi.terms.expansion import mistyped, to_hangul, to_latin
from malmoi.terms.linker import load_threshold, save_threshold
from malmoi.terms.name_index import NameVectors
from malmoi.terms.ngram_index import Counted, NgramIndex
from malmoi.terms.rank import AT, Core, Letters
from malmoi.text.cleanup import SAFE
from tests.support import ROOT
from tests.support.graphs import Run
from tests.support.lexicons import HashingEncoder, open_lexicon, write_lexicon


@pytest.fixture(scope="module")
def linker(tmp_path_factory: pytest.TempPathFactory) -> Linker:
    return Linker(open_lexicon(tmp_path_factory.mktemp("lexicon")), HashingEncoder())


@pytest.mark.parametrize(
    ("mention", "code"),
    [
        ("폐렴", "J18.9"),  # the unspecified code, for an unspecific mention
        ("바이러스 폐렴", "J12.9"),
        ("바이러스성폐렴", "J12.9"),
        ("위암", "C16"),
        ("간경화", "K74.6"),
        ("간 경변증", "K74.6"),
        ("liver cirrhosis", "K74.6"),  # word order
        ("콩팥돌", "N20.0"),
        ("renal calculi", "N20.0"),
        ("울혈성심부젼", "I50.0"),  # a slip of a finger
        ("congestive hart failure", "I50.0"),
        ("CHF", "I50.0"),
        ("HTN", "I10"),
        ("맹장염", "K37"),
        ("악성 신생물 위의", "C16"),  # word order
        ("심부전 울혈성", "I50.0"),
        ("울혈심부전증", "I50.0"),  # endings
        ("신장 돌", "N20.0"),
        ("위의 악성종양", "C16"),  # an older wording
        ("ekdsyqud", "E14"),  # 당뇨병 with the keyboard on English
        ("ㅗ수", "I10"),  # HTN with the keyboard on Korean
        ("ＨＴＮ", "I10"),
        ("고혈압\u0000", "I10"),
        ("\u1111\u1168\u1105\u1167\u11b7", "J18.9"),  # 폐렴 in conjoining jamo
    ],
)
def test_the_right_concept_comes_first(linker: Linker, mention: str, code: str) -> None:
    found = linker.link(mention)
    assert found.best is not None
    assert found.best.code == code, [c.code for c in found.candidates]


@pytest.mark.parametrize("mention", ["HBsAg(+)", "HBsAg positive", "HBs Ag (+)", "HBsAg 양성"])
def test_a_positive_test_is_what_it_shows(mention: str) -> None:
    first = Linker("sample").link(mention).best
    assert first is not None and first.code == "B18.1"


def test_a_negative_test_is_not_what_it_would_show() -> None:
    codes = [candidate.code for candidate in Linker("sample").link("HBsAg(-)").candidates]
    assert "B18.1" not in codes


def test_candidates_say_why(linker: Linker) -> None:
    for mention, why in (("기침", "exact"), ("HTN", "abbreviation"), ("울혈성심부젼", "fuzzy")):
        first = linker.link(mention).best
        assert first is not None and first.why == why
    first = linker.link("cough").candidates[0]
    assert (first.code, first.ko, first.en, first.why) == ("R05", "기침", "Cough", "exact")
    assert first.names[0] == "Cough" and first.score > 0.8


def test_a_name_of_the_lexicon_is_not_encoded_again(tmp_path: Path) -> None:
    class Counting(HashingEncoder):
        asked: ClassVar[list[str]] = []

        def encode(self, texts: Any, *, precision: str = "float32", progress: bool = False) -> Any:
            self.asked.extend(texts)
            return super().encode(texts, precision=precision, progress=progress)

    linker = Linker(open_lexicon(tmp_path), Counting())
    Counting.asked.clear()
    linker.link(["기침", "Cough", "마른 기침 심함"])
    assert Counting.asked == ["마른 기침 심함"]


def test_another_script_has_no_letters_in_common(tmp_path: Path) -> None:
    lexicon = open_lexicon(tmp_path)
    (tmp_path / "own.tsv").write_text("물병\t폐렴\n", "utf-8")  # no shipped names, all Korean
    linker = Linker(lexicon, HashingEncoder(), synonyms=tmp_path / "own.tsv")
    [found] = linker.evidence(["양성 폐렴"])
    english = np.asarray(lexicon.languages)[found[0].rows[found[0].rows < len(lexicon)]] == 1
    features = found[0].features[: len(english)]
    assert english.any() and not features[english][:, AT["gram"]].any()
    assert (features[english][:, AT["across"]] == features[english][:, AT["dense"]]).all()
    assert not features[~english][:, AT["across"]].any()


def test_concepts_are_ranked_not_names(linker: Linker) -> None:
    found = linker.link("간경변증", k=10)
    codes = [candidate.code for candidate in found.candidates]
    assert len(codes) == len(set(codes))
    scores = [candidate.score for candidate in found.candidates]
    assert scores == sorted(scores, reverse=True)


def test_a_batch_gives_what_single_mentions_give(linker: Linker) -> None:
    mentions = ["폐렴", "HTN", "", "fever", "폐렴"]
    assert linker.link(mentions) == [linker.link(mention) for mention in mentions]


@pytest.mark.parametrize(
    "mention", ["", "  ", "\x00", "!!!", "\ud800", "😀", "가" * 10_000, "a b " * 2_500]
)
def test_odd_mentions_are_answered(linker: Linker, mention: str) -> None:
    found = linker.link(mention)
    assert found.mention == mention
    assert all(math.isfinite(candidate.score) for candidate in found.candidates)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=60))
def test_any_text_is_answered(mention: str) -> None:
    if not hasattr(test_any_text_is_answered, "linker"):
        from malmoi.terms import Lexicon

        test_any_text_is_answered.linker = Linker(Lexicon.open("sample"))  # type: ignore[attr-defined]
    found = test_any_text_is_answered.linker.link(mention, k=3)  # type: ignore[attr-defined]
    assert len(found.candidates) <= 3
    assert all(0 <= candidate.score <= 1 for candidate in found.candidates)


def test_wrong_use_is_named(linker: Linker) -> None:
    with pytest.raises(OptionError, match="k is 0"):
        linker.link("폐렴", k=0)
    with pytest.raises(TextError, match="mention is bytes"):
        linker.link([b"x"])  # type: ignore[list-item]


def test_spelling_alone_needs_no_model(tmp_path: Path) -> None:
    first = Linker(open_lexicon(tmp_path)).link("위암").best
    assert first is not None and first.code == "C16"


def test_the_index_is_kept_and_another_model_refused(tmp_path: Path) -> None:
    folder = write_lexicon(tmp_path)
    Linker(folder, HashingEncoder())
    made = {p: p.stat().st_mtime_ns for p in (folder / "linking").rglob("*.npy")}
    assert len(made) > 5
    Linker(folder, HashingEncoder())
    assert made == {p: p.stat().st_mtime_ns for p in (folder / "linking").rglob("*.npy")}
    with pytest.raises(LexiconError, match="with the model words; expected other.*--rebuild"):
        Linker(folder, HashingEncoder("other", 32))
    assert Linker(folder, HashingEncoder("other", 32), rebuild=True).link("폐렴").best


def test_a_model_that_learns_to_spell_signs_encodes_names_anew(tmp_path: Path) -> None:
    folder = write_lexicon(tmp_path)
    files = {"model.onnx": "ab"}
    after = HashingEncoder(manifest=Manifest(files=files, clean=(*SAFE, "symbols")))
    Linker(folder, HashingEncoder(manifest=Manifest(files=files)))
    made = {p: p.stat().st_mtime_ns for p in (folder / "linking").rglob("*.npy")}
    Linker(folder, after)  # the weights are the same, so nobody is asked to rebuild
    now = {p: p.stat().st_mtime_ns for p in (folder / "linking").rglob("*.npy")}
    assert {p.name for p in now if now[p] != made[p]} == {"codes.npy", "names.npy"}
    Linker(folder, after)
    assert now == {p: p.stat().st_mtime_ns for p in (folder / "linking").rglob("*.npy")}


def test_names_added_later_are_found(tmp_path: Path) -> None:
    folder = write_lexicon(tmp_path)
    Linker(folder, HashingEncoder())
    (tmp_path / "own.tsv").write_text("code\tko\nJ18.9\t허파불남\nX99\t우리병원병\n", "utf-8")
    add_names(folder, [tmp_path / "own.tsv"])
    linker = Linker(folder, HashingEncoder())
    for mention, code in (("허파불남", "J18.9"), ("우리병원병", "X99"), ("폐렴", "J18.9")):
        first = linker.link(mention).best
        assert first is not None and first.code == code


def test_tables_of_the_user_serve_instead(tmp_path: Path) -> None:
    (tmp_path / "abbreviations.tsv").write_text("abbreviation\ten\tko\nQQ\tcough\t기침\n", "utf-8")
    linker = Linker(open_lexicon(tmp_path), abbreviations=tmp_path / "abbreviations.tsv")
    first = linker.link("QQ").best
    assert first is not None and (first.code, first.why) == ("R05", "abbreviation")


def test_a_note_defines_its_own_abbreviations(linker: Linker) -> None:
    first = linker.link("XYZ", defined={"XYZ": "congestive heart failure"}).best
    assert first is not None and (first.code, first.why) == ("I50.0", "abbreviation")


def test_the_border_of_nil_is_calibrated_and_kept(tmp_path: Path, linker: Linker) -> None:
    mentions = ["폐렴", "위암", "기침", "고혈압", "qqqq zzzz", "전혀 다른 것", "스마트폰 충전기"]
    found = linker.link(mentions)
    border = calibrate(found, [True] * 4 + [False] * 3, model="m")
    assert border.accuracy == 1
    assert [one.is_nil(border.score) for one in found] == [False] * 4 + [True] * 3
    save_threshold(border, tmp_path)
    assert load_threshold(tmp_path, model="m") == border
    assert load_threshold(tmp_path, model="other") is None


@pytest.mark.parametrize("word", ["당뇨병", "왔", "없다", "괜찮은", "폐렴", "닭", "뭐", "읽기"])
def test_keyboards_go_both_ways(word: str) -> None:
    assert to_hangul(to_latin(word)) == word
    assert mistyped(to_latin(word)) in (word, None)


@given(st.text("abc가각나 ", max_size=8), st.text("abc가각나 ", max_size=8))
def test_letters_in_common_are_shares(a: str, b: str) -> None:
    compared = Letters(a).compared(Core.of(b))
    assert all(0 <= share <= 1 for share in compared)
    assert not b.strip() or Letters(b).compared(Core.of(b))[3] == 1


def test_a_slip_and_another_order_leave_much_in_common() -> None:
    _, _, strokes, _ = Letters("당노병성신증").compared(Core.of("당뇨병성신증"))
    assert strokes > 0.7
    _, _, _, signs = Letters("후유증트라코마").compared(Core.of("트라코마후유증"))
    assert signs == 1


def test_grams_are_cosines() -> None:
    index = NgramIndex.build(["폐렴", "바이러스폐렴", "", "kidney calculus"])
    rows, scores = index.find(Counted.of("폐렴"), 5, np.array([3, 0]))
    assert rows.tolist() == [0, 1, 3]  # two that share grams, and one that was asked for
    assert abs(scores[0] - 1) < 1e-2 and 0 < scores[1] < 1 and scores[2] == 0
    assert index.find(Counted.of("폐렴"), 1, np.array([], np.int64))[0].tolist() == [0]
    rows, scores = index.find(Counted.of(""), 5, np.array([2, 2]))
    assert (rows.tolist(), scores.tolist()) == ([2], [0])


def test_grams_of_one_text_leave_nothing_behind_for_the_next() -> None:
    index = NgramIndex.build(["폐렴", "바이러스폐렴", "고혈압", "폐고혈압"])
    none = np.array([], np.int64)
    alone = {text: index.find(Counted.of(text), 4, none) for text in ("폐렴", "고혈압", "폐암")}
    with pytest.raises(IndexError):
        index.find(Counted.of("폐렴"), 4, np.array([99]))  # breaks off in the middle

    def again(text: str) -> bool:
        found, before = index.find(Counted.of(text), 4, none), alone[text]
        return bool((found[0] == before[0]).all() and (found[1] == before[1]).all())

    with ThreadPoolExecutor(4) as pool:
        assert all(pool.map(again, [*alone] * 100))


def test_the_nearest_vectors_are_those_of_the_full_product() -> None:
    random = np.random.default_rng(3)
    codes = random.integers(-127, 127, (1000, 16), dtype=np.int8)
    queries = random.standard_normal((7, 16)).astype(np.float32)
    found, products = NameVectors(codes).nearest(queries, 20)
    exact = np.argsort(-(queries @ codes.T.astype(np.float32)), axis=1)[:, :20]
    assert [set(row) for row in found.tolist()] == [set(row) for row in exact.tolist()]
    same = np.take_along_axis(queries @ codes.T.astype(np.float32), found, axis=1)
    assert np.allclose(products, same, rtol=1e-4)


def test_the_command_prints_the_promised_lines(run: Run, run_here: Run, tmp_path: Path) -> None:
    lexicon = write_lexicon(tmp_path)
    done = run("link", lexicon, "-", "--spelling", stdin="폐렴\n\nHTN\n")
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["mention"] for row in rows] == ["폐렴", "", "HTN"]
    assert list(rows[0]) == ["mention", "candidates"]
    assert list(rows[0]["candidates"][0]) == ["code", "score", "ko", "en", "names", "why"]
    assert [row["candidates"][0]["code"] for row in rows if row["candidates"]] == ["J18.9", "I10"]
    (tmp_path / "dev.tsv").write_text("mention\tcode\n폐렴\tJ18.9\n충전기\t-\nHTN\tI10\n", "utf-8")
    done = run_here("lexicon", "calibrate", lexicon, "dev.tsv", "--spelling")
    assert done.returncode == 0 and "NIL is a score below" in done.stderr
    done = run_here("link", lexicon, "폐렴", "충전기", "--spelling", "--nil")
    assert [json.loads(line)["nil"] for line in done.stdout.splitlines()] == [False, True]
    assert run_here("link", lexicon).returncode == 2


def test_a_line_is_answered_before_the_next_is_sent(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "malmoi", "link", str(write_lexicon(tmp_path)), "-"]
    with subprocess.Popen(
        [*command, "--spelling"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdin is not None and process.stdout is not None
        for mention in ("폐렴", "HTN"):
            process.stdin.write(f"{mention}\n".encode())
            process.stdin.flush()
            assert json.loads(process.stdout.readline())["mention"] == mention


def test_linker_is_a_public_name() -> None:
    assert malmoi.Linker is Linker
    assert Linked("x", ()).best is None


def test_cirrhosis_is_not_cancer_to_the_shipped_model() -> None:
    encoder = malmoi.load()
    linker = Linker("sample", encoder)
    codes = [candidate.code for candidate in linker.link("간경화", k=10).candidates]
    assert codes[0] == "K74.6"
    assert not codes[1].startswith(("C", "D"))


MENTIONS = ["폐렴", "위암", "CHF", "당뇨", "renal calculi", "울혈성심부젼"]


def test_scores_do_not_depend_on_the_hash_seed(tmp_path: Path) -> None:
    # Two names with equal letters; spaces decide which endings are removed, and so which keys
    # each has. Whose vector the mention gets must not depend on the order of a set.
    names = ["간의경변증", "간의 경변증", "폐의염증", "폐의 염증"]
    rows = [f"G{i:02}\theadword\t{name}\t" for i, name in enumerate(names)]
    (tmp_path / "t.tsv").write_text("\n".join(["code\tkind\tko\ten", *rows]) + "\n", "utf-8")
    build_lexicon([tmp_path / "t.tsv"], tmp_path / "t.lexicon")
    code = (
        "import json, sys\n"
        "from tests.support.lexicons import HashingEncoder\n"
        "from malmoi.terms import Linker\n"
        "linker = Linker(sys.argv[1], HashingEncoder(), keep=False)\n"
        "found = linker.link(sys.argv[2:], k=5)\n"
        "print(json.dumps([one.to_json() for one in found]))\n"
    )
    root = str(ROOT)
    outputs = set()
    for seed in ("1", "3"):
        path = os.pathsep.join([root, *filter(None, sys.path)])
        done = subprocess.run(
            [sys.executable, "-c", code, str(tmp_path / "t.lexicon"), *names, *MENTIONS],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path},
            check=True,
            capture_output=True,
            text=True,
        )
        outputs.add(done.stdout)
    assert len(outputs) == 1 and json.loads(outputs.pop())[0]["candidates"]
