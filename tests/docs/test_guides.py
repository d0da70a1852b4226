"""README and the guides of docs/: every command and snippet runs, and what they claim is true."""

import contextlib
import io
import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.numpy
from typer.testing import CliRunner

from malmoi.bundle.bundle import DEFAULT, shipped_models
from malmoi.cli import app
from malmoi.documents import supported_types
from malmoi.terms import Abbreviations, build_lexicon
from malmoi.terms.cleaning import STEPS
from malmoi.terms.readers import FORMS, ROLES
from tests.support import ROOT, graphs
from tools import commands_page

README = ("README.md", "README.ko.md")
ANSWERS = (
    "환불은 어떻게 받나요?\n환불이 아직 안 됐어요\n오늘 날씨가 맑다\n비가 와서 날씨가 춥다\n"
    "고양이가 잔다\n고양이 사료를 샀다\n"
)
WIC = (
    "SENTENCE1\tSENTENCE2\tANSWER\n[배]를 타고 바다에 나간다\t[배]가 항구에 들어왔다\tTrue\n"
    "[배]를 타고 바다에 나간다\t[배]가 달고 맛있다\tFalse\n"
)
# What the stories of README are told with.
STORIES = {
    f"examples/{name}": (ROOT / "examples" / name).read_text("utf-8")
    for name in ("notes.txt", "docs/leave.md", "docs/travel.md")
}
# The files that a page speaks of and does not show.
FILES = {
    **dict.fromkeys(README, STORIES),
    "docs/documents.md": {
        "docs/guide.md": "# 안내\n\n환불은 7일 안에 됩니다.\n",
        "docs/drafts/old.md": "옛 글",
        "docs/empty.txt": "",
        "faq.csv": "질문,답변,분류\n언제?,7일,결제\n",
    },
    "docs/mining.md": {
        "report.txt": "당뇨병 환자의 혈당 조절은 중요하다.\nDiabetic nephropathy is common.\n",
        "answers.txt": ANSWERS,
        "korean.txt": ANSWERS,
        "english.txt": "The cat sleeps\nHow do I get a refund?\n",
        "stop.txt": "오늘\n",
    },
    "docs/static.md": {"texts.txt": "배를 타고 바다\nthe cat sleeps\n"},
    "docs/terms.md": {
        "kcd.tsv": "code\tko\ten\nE14\t당뇨병\tDiabetes mellitus\nJ18.9\t폐렴\tPneumonia\n",
        "our-names.tsv": "code\tname\nE14\t소갈\n",
        "our-abbreviations.tsv": "abbreviation\ten\tko\nLC\tlap chole\t복강경 담낭절제술\n",
        "mentions.txt": "HTN\n폐렴\n",
        "note.txt": "pt는 HTN, DM 있으며 CXR상 pneumonia 의심\n",
        "dev.tsv": "mention\tcode\n폐렴\tJ18.9\n당뇨병\tE14\n충전기\t-\n",
    },
    "docs/words.md": {"wic-train.tsv": WIC, "wic-dev.tsv": WIC},
}
# Columns of README's table.
COMPARED = ("MB", "KorSTS test", "KLUE-STS", "Ko-StratQA", "sentences/s")
# The least commands that a page has, and what its commands and snippets print.
PAGES: dict[str, tuple[int, tuple[str, ...]]] = {
    "README.md": (4, ("how do I reset my password?\n",)),
    "README.ko.md": (4, ("how do I reset my password?\n",)),
    "docs/index.md": (9, ("N08.3", "비밀번호", "spearman")),
    "docs/search.md": (4, ()),
    "docs/documents.md": (
        0,
        (
            "docs/empty.txt is empty; expected text. Check the file.\n"
            "guide.md ('안내',) None 환불은 7일 안에 됩니다.\n",
        ),
    ),
    "docs/evaluation.md": (9, ()),
    "docs/mining.md": (4, ()),
    "docs/static.md": (1, ("(2, 16)\n",)),
    "docs/terms.md": (10, ("pneumonia ('uncertain',) J18.9",)),
    "docs/words.md": (4, ()),
}
NEEDS = {
    "docs/mining.md": ("kiwipiepy", "matplotlib"),
    "docs/words.md": ("kiwipiepy", "matplotlib"),
}

shipped = pytest.mark.skipif(
    DEFAULT not in shipped_models(), reason=f"the model {DEFAULT} is not in this checkout"
)


def read(page: str) -> str:
    return (ROOT / page).read_text("utf-8")


def blocks(page: str, kind: str) -> list[str]:
    return re.findall(rf"```{kind}\n(.*?)```", read(page), re.DOTALL)


def commands(page: str) -> list[str]:
    """The commands of a page, but for an export of README: it needs torch and a minute."""
    lines = "\n".join(blocks(page, "console")).splitlines()
    own = [line[2:] for line in lines if line.startswith("$ malmoi ")]
    return [line for line in own if page not in README or "model export" not in line]


def run_command(line: str) -> str:
    """Run a command in this process: a new one for each would cost more than they do."""
    line, _, stdin = line.partition(" < ")
    given = Path(stdin).read_text("utf-8") if stdin else None
    done = CliRunner().invoke(app, shlex.split(line)[1:], input=given)
    assert done.exit_code == 0, f"{line}\n{done.exception}\n{done.output}"
    return done.output


def run_snippets(page: str, **names: Any) -> tuple[str, dict[str, Any]]:
    """Run the Python of a page; give what it prints and the names it leaves."""
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        for block in blocks(page, "python"):
            exec(compile(block, page, "exec"), names)
    return printed.getvalue(), names


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def prepare(page: str, folder: Path) -> None:
    """Write the files that a page shows after their names, those of FILES, and tiny models."""
    shown = re.findall(r"`(\w+\.\w+)`[^`]*\n\n```text\n(.*?)```", read(page), re.DOTALL)
    for name, text in {**dict(shown), **FILES.get(page, {})}.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    for name in ("my-model", "other-model", "my-encoder"):
        graphs.write_bundle(folder / name)
    graphs.write_reranker(folder / "my-reranker")
    if page == "docs/evaluation.md":
        prepare_evaluation(folder)


def prepare_evaluation(folder: Path) -> None:
    raw = graphs.write_foreign(folder / "raw-encoder", steps=("pool",))
    table = {"embeddings.word_embeddings.weight": graphs.embedding_table()}
    safetensors.numpy.save_file(table, raw / "model.safetensors")
    words = ["고양이", "강아지", "바다", "배가", "당뇨", "환자"]
    english = ["the cat", "a dog", "sea", "sweet pear", "diabetes", "patient"]
    pairs = list(zip(words, english, strict=True))
    files = {
        "sts.tsv": blocks("docs/evaluation.md", "text")[0].splitlines()
        + [f"{i}\t{en}\t{english[-i]}\t{ko}\t{words[-i]}" for i, (ko, en) in enumerate(pairs)],
        "parallel.tsv": ["ko\ten", *(f"{ko}\t{en}" for ko, en in pairs)],
        "faq.tsv": ["question\tanswer", *(f"{ko}\t{en}" for ko, en in pairs)],
        "sets.tsv": ["set\tsentence", *(f"{i}\t{x}" for i, p in enumerate(pairs) for x in p)],
        "labelled.tsv": ["label\ttext", *(f"{i % 2}\t{w}" for i, w in enumerate(words + english))],
    }
    for name, lines in files.items():
        (folder / name).write_text("\n".join(lines) + "\n", "utf-8")


@shipped
@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs(page: str, folder: Path) -> None:
    least, expected = PAGES[page]
    for library in NEEDS.get(page, ()):
        pytest.importorskip(library, reason=f"{library} is not installed")
    prepare(page, folder)
    lines = commands(page)
    assert len(lines) >= least
    if page == "docs/static.md":  # the tests' encoder has sixteen dimensions
        lines = [line.replace("192", "16") for line in lines]
    if page == "docs/terms.md":  # vectors add nothing here but time
        lines = [line.replace("malmoi link", "malmoi link --spelling") for line in lines]
    output = "".join(map(run_command, lines))
    assert blocks(page, "python")
    printed, _ = run_snippets(page)
    for text in expected:
        assert text in output + printed
    if page == "docs/terms.md":
        claims = re.findall(r"^print.*# (.+)$", "".join(blocks(page, "python")), re.MULTILINE)
        assert claims and all(claim in printed for claim in claims)


@shipped
@pytest.mark.slow
@pytest.mark.parametrize("page", README)
def test_the_stories_of_readme_are_true(
    page: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What README shows of its commands is what they print, but for the last digits."""
    prepare(page, folder)
    monkeypatch.setenv("COLUMNS", "96")
    printed = []
    for line in commands(page):
        asked = " search " in line or " read " in line
        output = run_command(f"{line} --table" if asked else line)
        printed += output.splitlines() if asked else []
    shown = "".join(blocks(page, "text")[:3])
    for line in printed:
        place = line.replace(f"{folder}/", "")
        words = re.sub(r"[\d.█░ ]+$", "", place).strip()
        assert words in shown, line


@pytest.mark.parametrize("page", README)
def test_readme_compares_what_the_bench_measured(page: str) -> None:
    records = (ROOT / "bench/results/peers.jsonl").read_text("utf-8").splitlines()
    rows = {row["model"]: row for row in json.loads(records[-1])["figures"]}
    table = re.findall(r"^\| \**([\w() .-]+?)\** \| (.+) \|$", read(page), re.MULTILINE)
    assert len(table) == 9 and len(read(page).splitlines()) <= 150
    for name, cells in table[1:]:
        row = rows.get(name, {})
        for column, cell in zip(COMPARED, cells.split(" | "), strict=True):
            value = float(cell.replace(",", "")) if cell != "–" else None
            found = row.get(column)
            assert value == (round(found, 1) if found else None) or name == "BM25", (name, column)


@pytest.mark.parametrize("language", ["en", "ko"])
def test_the_page_of_commands_is_their_help(language: str) -> None:
    shown = commands_page.path_of(language).read_text("utf-8")
    assert shown == commands_page.page(language), "run: python tools/commands_page.py"


def test_documents_lists_every_type_with_its_endings() -> None:
    page = read("docs/documents.md")
    table = page[page.index("| type |") : page.index("The content decides")]
    for type, endings in supported_types().items():
        assert f"`{type}`" in table
        assert all(ending in table for ending in endings)


def test_terms_mentions_everything(tmp_path: Path) -> None:
    page = read("docs/terms.md")
    for named in (*(f"| `{form}` |" for form in FORMS), *(f"| {step} |" for step in STEPS)):
        assert named in page
    assert all(f"`{role}`" in page for role in ROLES)
    count = re.search(r"some (\d+) short forms", page)
    assert count and abs(len(Abbreviations.open()) - int(count.group(1))) < 20
    sample = build_lexicon([ROOT / "src/malmoi/data/sample.tsv"], tmp_path / "sample.lexicon")
    assert f"{sample.concepts} common conditions" in page


def test_sums_of_scaling() -> None:
    pattern = re.compile(r"^(\w.*?): +([-\d.e+*/() ]+) = ([\d.]+)$", re.MULTILINE)
    found = pattern.findall("\n".join(blocks("docs/scaling.md", "text")))
    assert len(found) > 20
    for name, terms, result in found:
        # The pattern lets numbers and signs through, nothing else.
        assert eval(terms) == pytest.approx(float(result), rel=0.02), name


@shipped
@pytest.mark.cluster
def test_scaling_runs(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts are encoded here instead of on a cluster: tests/scale has a real one."""
    pytest.importorskip("milvus_lite", reason="milvus-lite is not installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
    from malmoi.scale import ray

    def here(work: Any, parts: list[Any]) -> Iterator[ray.PartReport]:
        worker = ray.PartEncoder(work.settings, str(work.out), work.threads)
        yield from map(worker.encode, parts)

    monkeypatch.setattr(ray, "_reports", here)
    monkeypatch.setattr(ray, "_connected", lambda ray, address: contextlib.nullcontext())
    rows = [{"id": 1, "text": "당뇨병성 신증"}, {"id": 2, "text": "fracture of the wrist"}]
    parquet.write_table(pytest.importorskip("pyarrow").Table.from_pylist(rows), "docs.parquet")
    first, *others = commands("docs/scaling.md")
    run_command(first)
    run_snippets("docs/scaling.md")
    assert '"id": "1"' in [run_command(line) for line in others][-1]


@shipped
@pytest.mark.server
def test_server_runs_and_lists_every_path() -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from malmoi.serve.state import load_resources
    from tests.support.servers import serving

    with serving(load_resources(reranker="none")) as site:
        _, names = run_snippets("docs/server.md", URL=site.url)
        assert names["vectors"].shape == (2, 128)
        names["encoder"].close()
        for path in site.get("/openapi.json").json["paths"]:
            assert f"{path}`" in read("docs/server.md"), path


@pytest.mark.server
def test_the_figures_of_server_are_the_settings() -> None:
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    from malmoi.serve.settings import Batching, Limits

    limits, batching, guide = Limits(), Batching(), " ".join(read("docs/server.md").split())
    for figure in (
        f"{limits.body_bytes >> 20} MiB, {limits.texts:,} texts",
        f"{limits.characters:,} characters a text, {limits.body_seconds:g} s",
        f"{limits.header_bytes >> 10} KiB for its headers",
        f"{limits.requests:,} at once, {limits.held_bytes >> 20} MiB",
        f"At most {limits.connections:,} are open",
        f"More than {limits.answer_bytes >> 20} MiB is refused",
        f"up to {batching.budget} tokens",
        f"{batching.queue_tokens:,} tokens wait",
        f"at most {batching.wait_seconds * 1e3:g} ms",
    ):
        assert figure in guide
