"""Pages of the documentation site that are made when it is built (a hook of mkdocs.yml).

- `reference/`: one page a package, with an entry for every name of its `__all__`, or of its modules
  where it has none. Names are read from the source without importing it.
- `recipes.md` and `recipes.ko.md`: every key of every recipe, by tools/recipe_page.py.
- `contributing.md`, `changelog.md` and `security.md`: the files of the repository's root.
- the decisions, listed in the navigation.
"""

import ast
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src/malmoi"
FROM_ROOT = {
    "CONTRIBUTING.md": "contributing.md",
    "CONTRIBUTING.ko.md": "contributing.ko.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
}
# Packages whose names are imported from their modules: those modules that are for users.
MODULES = {
    "malmoi.export": ("export",),
    "malmoi.mining": ("clusters", "keywords", "negatives", "pairs", "texts"),
    "malmoi.training": ("objective", "recipe", "run"),
}


@dataclass(frozen=True)
class Package:
    """A package with public names; `borrowed` are those that another package defines."""

    name: str
    about: str
    names: tuple[str, ...]
    borrowed: frozenset[str]


def packages() -> list[Package]:
    """Every package of malmoi that has an `__all__`, by name; the first is malmoi itself."""
    found = [_read(path) for path in sorted(SOURCE.rglob("__init__.py"))]
    return sorted((one for one in found if one.names), key=lambda one: one.name)


def _read(path: Path) -> Package:
    tree = ast.parse(path.read_text("utf-8"))
    parts = path.parent.relative_to(SOURCE.parent).parts
    package = ".".join(parts)
    names: tuple[str, ...] = ()
    borrowed: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            names = tuple(ast.literal_eval(node.value))
        if isinstance(node, ast.ImportFrom) and node.level > 1:
            borrowed |= {alias.asname or alias.name for alias in node.names}
    if not names:
        modules = [path.with_name(f"{name}.py") for name in MODULES.get(package, ())]
        names = tuple(name for module in modules for name in _defined(module))
    about = (ast.get_docstring(tree) or "").strip()
    return Package(package, about, names, frozenset(borrowed))


def _defined(module: Path) -> list[str]:
    """The public classes and functions of a module, as "module.name"."""
    nodes = ast.parse(module.read_text("utf-8")).body
    found = [node for node in nodes if isinstance(node, ast.ClassDef | ast.FunctionDef)]
    return [f"{module.stem}.{node.name}" for node in found if not node.name.startswith("_")]


def reference() -> dict[str, str]:
    """The pages of the reference: path → Markdown."""
    known = packages()
    homes: dict[str, str] = {}  # a name → the package on whose page its entry stands
    for package in known:
        for name in package.names:
            if package.name != "malmoi" and name not in package.borrowed:
                homes.setdefault(name, package.name)
    return {f"reference/{one.name}.md": _page(one, homes) for one in known}


def _page(package: Package, homes: dict[str, str]) -> str:
    lines = [f"# {package.name}", "", package.about, ""]
    shared = package.borrowed if package.name != "malmoi" else frozenset(homes)
    links = sorted(name for name in package.names if name in shared and name in homes)
    for name in links:
        home = homes[name]
        lines.append(f"- [`{package.name}.{name}`]({home}.md#{home}.{name})")
    for name in package.names:
        if name not in links:
            lines += ["", f"::: {package.name}.{name}"]
    return "\n".join([*lines, ""])


def recipe_pages() -> dict[str, str]:
    """The reference of recipe keys in both languages: path → Markdown."""
    sys.path[:0] = [str(ROOT / "src"), str(ROOT)]  # the site's own environment has no malmoi
    try:
        from tools.recipe_page import write_korean, write_reference
    finally:
        del sys.path[:2]
    english = write_reference()
    return {"recipes.md": english, "recipes.ko.md": write_korean(english)}


def made_pages() -> dict[str, str]:
    """Every page that is not a file of docs/: path → Markdown."""
    return {**root_pages(), **recipe_pages(), **reference()}


def root_pages() -> dict[str, str]:
    """The root's pages for the site, their links into docs/ made links inside it."""
    pages = {}
    for source, target in FROM_ROOT.items():
        text = (ROOT / source).read_text("utf-8").replace("](docs/", "](")
        pages[target] = inside(re.sub(r"\]\((?=[A-Z]+(\.ko)?\.md)", "](../", text))
    return pages


def inside(text: str) -> str:
    """A page of docs/ with its links to the root's pages made links inside the site.

    >>> inside("[how](../CONTRIBUTING.md#set-up)")
    '[how](contributing.md#set-up)'
    """
    for name, page in FROM_ROOT.items():
        text = text.replace(f"](../{name}", f"]({page}")
    return text


def decisions() -> list[dict[str, str]]:
    """The pages of docs/decisions for the navigation, the list of them first."""
    paths = sorted((ROOT / "docs/decisions").glob("*.md"))
    paths = [path for path in paths if not path.name.endswith(".ko.md")]
    paths.sort(key=lambda path: path.name != "README.md")
    titles = ["Overview" if path.name == "README.md" else _title(path) for path in paths]
    return [{title: f"decisions/{path.name}"} for title, path in zip(titles, paths, strict=True)]


def _title(path: Path) -> str:
    found = re.search(r"^# (.+)$", path.read_text("utf-8"), re.MULTILINE)
    return found[1] if found else path.stem


def on_config(config: Any) -> Any:
    """Give Korean headings readable anchors, and list the pages made here."""
    from pymdownx.slugs import slugify

    config.mdx_configs["toc"]["slugify"] = slugify(case="lower")
    if not any("API reference" in group for group in config.nav):  # once for both languages
        project = next(group["The project"] for group in config.nav if "The project" in group)
        if decisions():
            project.insert(1, {"Decisions": decisions()})
        config.nav.append({"API reference": [{Path(path).stem: path} for path in reference()]})
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages made here to those of the folder; their text comes when they are read."""
    from mkdocs.structure.files import File

    for path in made_pages():
        files.append(File(path, config.docs_dir, config.site_dir, config.use_directory_urls))
    return files


def on_page_read_source(page: Any, config: Any) -> str | None:
    """Give the text of a page that is made here, and None for those of the folder."""
    return made_pages().get(page.file.src_uri)


def on_page_markdown(markdown: str, **context: Any) -> str:
    """Lead links to the root's pages to those of the site."""
    return inside(markdown)
