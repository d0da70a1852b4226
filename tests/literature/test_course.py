"""docs/learn: every cell and command of the chapters runs, and the notebooks are the pages."""

import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from malmoi.cli.commands import COMMANDS
from tests.support import ROOT

LEARN = ROOT / "docs/learn"
TOOL = runpy.run_path(str(ROOT / "tools/notebooks.py"))
CHAPTERS = sorted(p.stem for p in LEARN.glob("*.md") if not p.name.endswith(".ko.md"))
# Every model, task, loss, data set and library that the literature names.
NAMED = """
Sentence-BERT SNLI MultiNLI softmax SentEval STS-B InferSent Sentence GloVe CLS XLM-R mUSE LASER
LaBSE TED OPUS Tatoeba MSE ClinicalBERT MIMIC-III MLM NSP P_max P_mean BioBERT NER ChemProt PubMed
SapBERT-KO-EN KOSTOM UMLS MRCONSO multi-similarity KLUE-STS KLUE-NLI KorSTS KorNLI bert-as-service
배 KeyBERT MMR max-sum BERTopic Faiss Annoy hnswlib FAQ EleKoBERT KoELECTRA KoBERT RoBERTa ALBERT
gensim word2vec fastText KorQuAD SQuAD BioASQ NCBI-disease BC5CDR WordPiece t-SNE
"""
MORPHOLOGY = {"domain", "service", "words"}


def book(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((LEARN / f"notebooks/{name}.ipynb").read_text("utf-8"))
    return found


def shown(cells: list[list[dict[str, Any]]]) -> list[str]:
    """What cells print, without digits, which differ between processors, and folders."""
    texts = ["".join("".join(one.get("text", ())) for one in cell) for cell in cells]
    return [re.sub(r"[-−]?\d[\d.,]*|\S*/tmp\S*|[\s█░─│]+", " ", text) for text in texts]


@pytest.mark.parametrize("name", [name for name in CHAPTERS if name != "index"])
def test_a_chapter_runs(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What it prints is what its notebook shows, digits aside."""
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    if name in MORPHOLOGY:
        pytest.importorskip("kiwipiepy", reason="kiwipiepy is not installed")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "100")
    found = TOOL["run"](TOOL["sources"](book(name)))
    stored = [cell["outputs"] for cell in book(name)["cells"] if cell["cell_type"] == "code"]
    assert [len(one) for one in found] == [len(one) for one in stored]
    assert shown(found) == shown(stored), "run: python tools/notebooks.py"


@pytest.mark.parametrize("page", TOOL["pages"](), ids=lambda page: page.name)
def test_notebooks_are_made_from_the_pages(page: Path) -> None:
    stored = book(TOOL["path_of"](page).stem)
    results = [cell["outputs"] for cell in stored["cells"] if cell["cell_type"] == "code"]
    assert any(results), "no results: run python tools/notebooks.py"
    made = TOOL["notebook"](page.read_text("utf-8"), results)
    assert stored == made, "run: python tools/notebooks.py"


@pytest.mark.parametrize("name", CHAPTERS)
def test_pages_have_twins_with_the_same_code_and_links_that_lead_somewhere(name: str) -> None:
    korean, english = (
        (LEARN / f"{name}{suffix}").read_text("utf-8") for suffix in (".ko.md", ".md")
    )
    for pattern in (r"^#+ ", r"^```.*?^```"):
        ours, theirs = (
            re.findall(pattern, text, re.MULTILINE | re.DOTALL) for text in (korean, english)
        )
        assert ours == theirs
    assert korean.count("\n| ") == english.count("\n| ")
    for text in (korean, english):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", text):
            assert (LEARN / target).is_file(), f"{name} links to {target}"
        for path in re.findall(r"`((?:src|recipes|examples)/[\w./-]+)`", text):
            assert (ROOT / path).exists(), f"{name} names {path}"
        for path in re.findall(r"recipes/[\w-]+\.toml", text):
            assert (ROOT / path).is_file(), f"{name} names {path}"


@pytest.mark.parametrize("page", ["index.md", "index.ko.md"])
def test_a_term_leads_to_a_command_in_one_step(page: str) -> None:
    text = (LEARN / page).read_text("utf-8")
    lines = [line.replace(r"\|", "/") for line in text.splitlines() if line.startswith("| ")]
    rows = [line.split("|")[1:-1] for line in lines][1:]
    assert len(rows) > 45
    for term, command, chapter in rows:
        for name in re.findall(r"`malmoi ([\w-]+)", command):
            assert name in COMMANDS, f"{term} names malmoi {name}"
        assert re.search(r"\]\(\w+(\.ko)?\.md\)", chapter)
    for term in NAMED.split():
        assert term in text, f"{page} does not name {term}"
