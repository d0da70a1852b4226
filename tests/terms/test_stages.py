"""The two stages of linking: what is retrieved stays as it is, and is the same in every process."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from malmoi.terms import Linker, Weights, build_lexicon
from malmoi.terms.rank import AT
from malmoi.terms.retrieve import Retrieved
from tests.support import ROOT
from tests.support.lexicons import HashingEncoder, open_lexicon

MENTIONS = ["폐렴", "위암", "CHF", "당뇨", "renal calculi", "울혈성심부젼"]


@pytest.fixture(scope="module")
def linker(tmp_path_factory: pytest.TempPathFactory) -> Linker:
    return Linker(open_lexicon(tmp_path_factory.mktemp("lexicon")), HashingEncoder())


def retrieved(linker: Linker, mentions: list[str]) -> list[list[Retrieved]]:
    return list(linker._retriever.retrieve(mentions, {}))


def test_every_way_of_search_contributes_names(linker: Linker) -> None:
    [[own]] = retrieved(linker, ["기침"])
    assert own.query.expansion.why == "mention" and own.query.names <= set(own.rows.tolist())
    assert own.query.names and (np.diff(own.rows) > 0).all()
    assert own.cosines is not None and len(own.rows) == len(own.ngrams) == len(own.cosines)
    [expanded] = retrieved(linker, ["CHF"])
    assert [one.query.expansion.why for one in expanded][:2] == ["mention", "abbreviation"]
    assert retrieved(linker, ["", "()"]) == [[], []]


def test_ranking_leaves_what_was_retrieved_as_it_was(linker: Linker) -> None:
    for found in retrieved(linker, MENTIONS):
        arrays = [a for one in found for a in (one.rows, one.ngrams, one.cosines) if a is not None]
        for array in arrays:
            array.setflags(write=False)  # numpy raises if a stage writes into it
        copies = [array.copy() for array in arrays]
        first = linker._ranker.rank(found, 5)
        assert first and first == linker._ranker.rank(found, 5)
        assert all((a == b).all() for a, b in zip(arrays, copies, strict=True))


def test_a_weight_may_have_its_old_name() -> None:
    assert Weights(told=0.3) == Weights(lay=0.3) == replace(Weights(), lay=0.3) != Weights()


def test_expansions_of_a_name_are_given_nothing_ahead(linker: Linker) -> None:
    [found] = linker.evidence(["CHF"])  # no name of the lexicon
    assert [set(one.features[:, AT["derived"]].tolist()) for one in found][:2] == [{0.0}, {1.0}]
    [found] = linker.evidence(["기침"])
    assert all(set(one.features[:, AT["derived"]].tolist()) == {0.0} for one in found[:1])


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
