"""The documentation site and the files around the source: complete, linked and well-formed."""

import doctest
import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest

import malmoi
from tests.support import ROOT

DOCS = ROOT / "docs"
TWINS = sorted([*DOCS.glob("*.ko.md"), *ROOT.glob("*.ko.md")])
yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")


@pytest.fixture(scope="module")
def pages() -> ModuleType:
    """docs/pages.py, which is no package's module."""
    spec = importlib.util.spec_from_file_location("docs_pages", DOCS / "pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_public_name_has_an_entry(pages: ModuleType) -> None:
    """An entry of its own, or a link to the entry on the page of its package."""
    reference = pages.reference()
    packages = {package.name: package for package in pages.packages()}
    assert set(malmoi.__all__) == set(packages["malmoi"].names)
    for expected in ("corpus", "encoders", "evaluation", "heads", "index", "terms"):
        assert f"malmoi.{expected}" in packages
    entries = set(re.findall(r"^::: (\S+)$", "\n".join(reference.values()), re.MULTILINE))
    for name, package in packages.items():
        text = reference[f"reference/{name}.md"]
        links = dict(re.findall(r"^- \[`(\S+)`\]\(\S+#(\S+)\)$", text, re.MULTILINE))
        for public in package.names:
            entry = links.get(f"{name}.{public}", f"{name}.{public}")
            assert entry in entries, f"{name}.{public} has no entry in the API reference"


def test_every_page_is_in_the_navigation(pages: ModuleType) -> None:
    nav = str(yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"])
    for path in DOCS.glob("*.md"):
        name = path.name.replace(".ko.md", ".md")
        assert f"'{name}'" in nav, f"mkdocs.yml does not list {name}"
        assert (DOCS / name).is_file(), f"{path.name} has no English page"


def test_links_between_pages_lead_somewhere(pages: ModuleType) -> None:
    assert doctest.testmod(pages) == (0, 1)
    made = pages.made_pages()
    files = [*DOCS.rglob("*.md"), *DOCS.rglob("*.svg")]
    known = {path.relative_to(DOCS).as_posix() for path in files} | made.keys()
    texts = {path.name: pages.inside(path.read_text("utf-8")) for path in DOCS.glob("*.md")}
    for name, text in {**texts, **pages.root_pages(), **pages.recipe_pages()}.items():
        for target in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", text):
            assert target in known, f"{name} links to {target}, which is not there"


def test_every_page_has_its_korean_twin() -> None:
    pages = [*DOCS.glob("*.md"), *DOCS.glob("learn/*.md"), DOCS / "decisions/README.md"]
    pages += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    english = [path for path in pages if not path.name.endswith(".ko.md")]
    missing = [path.name for path in english if not path.with_suffix(".ko.md").is_file()]
    assert len(english) > 25 and not missing


@pytest.mark.parametrize("korean", TWINS, ids=lambda path: path.name)
def test_translated_pages_are_built_like_the_english_ones(korean: Path) -> None:
    """The same headings, commands and code, which the English pages' tests run."""
    english = korean.with_name(korean.name.replace(".ko.md", ".md"))
    ours, theirs = (_outline(path.read_text("utf-8")) for path in (korean, english))
    assert ours == theirs


def _outline(text: str) -> tuple[list[str], list[str]]:
    """The levels of a page's headings, and its code without comments and spacing."""
    blocks = re.findall(r"^```(?:python|console|toml)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    bare = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    levels = [marks for marks, _ in re.findall(r"^(#+) (.+)$", bare, re.MULTILINE)]
    return levels, [re.sub(r"\s+(#.*)?", " ", block) for block in blocks]


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "CONTRIBUTING.ko.md"])
def test_files_to_change_are_there(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    places = re.findall(r"`((?:src|tests|docs)/[a-z0-9_/.]*)`", text)
    assert len(places) > 15
    for place in places:
        assert (ROOT / place).exists(), f"{page} names {place}, which is not there"
    names = re.findall(r"`(test_\w+\.py)`", text)
    assert len(names) > 5
    for name in names:
        assert list((ROOT / "tests").rglob(name)), f"{page} names {name}, which is not there"


def test_the_version_is_the_same_everywhere() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert citation["version"] == malmoi.__version__
    assert f"\n## {malmoi.__version__} - " in changelog


@pytest.mark.parametrize(
    "path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda path: path.name
)
def test_forms_of_github_are_whole(path: Path) -> None:
    read = yaml.safe_load(path.read_text("utf-8"))
    if path.parent.name == "workflows":
        assert read["jobs"] and read["permissions"] == {"contents": "read"}
        for job in read["jobs"].values():
            assert job["steps"] and job["runs-on"]
    elif path.name != "config.yml":
        assert read["name"] and read["description"] and read["body"]


def test_hooks_and_requirements_name_the_same_versions() -> None:
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text("utf-8"))["repos"][0]
    wanted = {pin for hook in hooks["hooks"] for pin in hook.get("additional_dependencies", [])}
    ruff = re.search(r"^ruff==[\w.]+", (ROOT / "requirements/test.txt").read_text("utf-8"), re.M)
    assert ruff and ruff[0] in wanted
    docs = (ROOT / "requirements/docs.txt").read_text("utf-8").splitlines()
    assert docs and all(re.match(r"[\w.-]+==[\w.]+ |    --hash", line) for line in docs)
