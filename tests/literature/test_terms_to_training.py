"""KOSTOM to training: its file, a lexicon, MRCONSO and pairs are learnt from as they are."""

import json
from pathlib import Path
from typing import Any

import pytest

from malmoi.errors import DataError, OptionError
from tests.support.graphs import Run

pytest.importorskip("torch")

KOSTOM = [
    ("1", "10", "Liver cirrhosis", "간경변", "C0023890"),
    ("2", "10", "Cirrhosis of liver", "간경화", "C0023890"),
    ("3", "11", "Diabetes mellitus", "당뇨병", "C0011849"),
    ("4", "12", "Nephropathy", "신병증", ""),
]


def write_kostom(path: Path) -> Path:
    path.write_bytes("".join("\t".join(row) + "\n" for row in KOSTOM).encode("cp949"))
    return path


def mrconso(cui: str, language: str, name: str) -> str:
    cells = [cui, language, "P", "L1", "PF", "S1", "Y", "A1", "", "", "", "KSM", "PT", "1", name]
    return "|".join([*cells, "0", "N", "", ""])


def entry(file: Path, **options: Any) -> Any:
    from malmoi.train.objectives.pairs import Data

    return Data(files=(file.name,), objective="term-alignment", options=options)


def pairs_of(file: Path, **options: Any) -> set[frozenset[str]]:
    from malmoi.train.terms import read_synonyms

    found = read_synonyms(entry(file, **options), file.parent, seed=1, strict=True)
    return {frozenset(found.texts[i] for i in row) for row in found.columns.tolist()}


def test_kostom_and_mrconso_are_learnt_from_as_they_are(tmp_path: Path) -> None:
    found = pairs_of(write_kostom(tmp_path / "KOSTOM.txt"))
    assert frozenset({"간경변", "간경화"}) in found  # two rows of one CUI
    assert frozenset({"당뇨병", "Diabetes mellitus"}) in found
    assert frozenset({"신병증", "Nephropathy"}) in found  # a row without a CUI is a pair
    assert len(found) == 6 + 1 + 1
    with pytest.raises(OptionError, match="which where cannot choose"):
        from malmoi.train.terms import read_synonyms

        chosen = entry(tmp_path / "KOSTOM.txt").model_copy(update={"where": {"source": "x"}})
        read_synonyms(chosen, tmp_path, seed=1, strict=True)
    assert len(pairs_of(tmp_path / "KOSTOM.txt", pairs=2)) == 2 + 1 + 1  # the most of a code
    lines = [mrconso("C1", "KOR", "당뇨병"), mrconso("C1", "ENG", "Diabetes mellitus")]
    (tmp_path / "MRCONSO.RRF").write_text("\n".join(lines) + "\n", "utf-8")
    assert pairs_of(tmp_path / "MRCONSO.RRF") == {frozenset({"당뇨병", "Diabetes mellitus"})}


def test_a_lexicon_is_exported_and_learnt_from(tmp_path: Path, run_here: Run) -> None:
    write_kostom(tmp_path / "KOSTOM.txt")
    run_here("lexicon", "build", "KOSTOM.txt", "-o", "k.lexicon", "--no-encode")
    direct = pairs_of(tmp_path / "k.lexicon")
    assert frozenset({"간경변", "간경화"}) in direct
    done = run_here("lexicon", "export", "k.lexicon", "--pairs", "-o", "pairs.tsv")
    assert "wrote 8 pairs to pairs.tsv" in done.stderr
    assert pairs_of(tmp_path / "pairs.tsv") == direct
    done = run_here("lexicon", "export", "k.lexicon", "--names")
    header, *names = done.stdout.splitlines()
    assert header.split("\t") == ["code", "name", "language", "kind", "source"]
    assert len(names) == 8 and any(line.startswith("C0023890\t간경변\tko\t") for line in names)
    assert run_here("lexicon", "export", "KOSTOM.txt", "--pairs", "--most", "1").stdout.count(
        "C0023890"
    ) == 1  # fmt: skip
    assert run_here("lexicon", "export", "gone.lexicon").returncode == 1


def test_the_label_of_pairs_joins_rows(tmp_path: Path) -> None:
    from malmoi.train.terms import read_synonyms

    rows = [
        "sent0\tsent1\tlabel",
        "간경변\tcirrhosis\t7",
        "간경화\tliver cirrhosis\t7",
        "당뇨\tDM\t8",
    ]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows) + "\n", "utf-8")
    found = read_synonyms(entry(tmp_path / "pairs.tsv"), tmp_path, seed=1, strict=True)
    assert found.labels is not None
    assert found.labels[0] == found.labels[1] != found.labels[2]
    write_kostom(tmp_path / "KOSTOM.txt")
    both = entry(tmp_path / "pairs.tsv").model_copy(update={"files": ("pairs.tsv", "KOSTOM.txt")})
    with pytest.raises(DataError, match="different forms"):
        read_synonyms(both, tmp_path, seed=1, strict=True)


@pytest.mark.parametrize("architecture", ["bert", "xlm-roberta"])
def test_the_published_recipe_learns_words_first(tmp_path: Path, architecture: str) -> None:
    import tomllib

    import malmoi
    from malmoi.train.recipe import make_recipe
    from malmoi.train.run import train
    from tests.support import ROOT, tiny
    from tests.support.logs import record_messages

    table = tomllib.loads((ROOT / "recipes/sapbert-ko-en.toml").read_text("utf-8"))
    options = table["data"][0]["options"]
    assert (options["threshold"], options["alpha"], options["beta"]) == (0.8, 1.0, 60.0)
    assert (table["pooling"], table["max_tokens"], table["dropout"]) == ("cls", 64, 0.1)
    assert table["schedule"]["batch_size"] == 64 and table["schedule"]["evaluate_steps"] == 100
    tiny.tiny_transformer(tmp_path / "base", architecture)
    write_kostom(tmp_path / "KOSTOM.txt")
    table["base"] = str(tmp_path / "base")
    table["output"] = {"folder": str(tmp_path / "run")}
    table["data"][0]["hold_out"] = 0.0
    told = record_messages()
    run = train(make_recipe(table), data=tmp_path, threads=1)
    [said] = [line for line in told if "tokens a term before" in line]
    before, after = (float(part.split()[0]) for part in said.split(": ")[1].split(","))
    assert after < before
    encoder = malmoi.load(run.bundles[0])
    assert encoder.encode(["간경변", "Liver cirrhosis"]).shape == (2, 32)
    config = json.loads((run.bundles[0] / "config.json").read_text("utf-8"))
    assert config["vocab_size"] == encoder.manifest.vocabulary


def test_the_old_name_of_the_threshold_is_read() -> None:
    from malmoi.train.objectives.pairs import find_pairs

    settled = find_pairs("term-alignment").settle({"base": 0.7}, where="the recipe")
    assert settled["threshold"] == 0.7 and "base" not in settled
