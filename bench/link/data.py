"""What the linking benches share: lexicons of the data sets, made once; shares in per cent."""

import hashlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from bench.common import BUILD, data_root
from malmoi.errors import LexiconError
from malmoi.evaluation.tasks.linking import Case, read_cases, spelled_out
from malmoi.terms import Linker, build_lexicon

TYPES = {"ncbi-disease": (), "bc5cdr": ("Disease",)}


def lexicon(name: str, rows: Iterable[Sequence[str]], columns: Sequence[str]) -> Path:
    """A lexicon of rows, built again when the rows differ from the last time."""
    BUILD.mkdir(parents=True, exist_ok=True)
    table, out = BUILD / f"{name}.tsv", BUILD / f"{name}.lexicon"
    text = "\n".join("\t".join(row) for row in [columns, *rows]) + "\n"
    if not out.exists() or not table.exists() or table.read_text("utf-8") != text:
        table.write_text(text, "utf-8")
        build_lexicon([table], out, replace=True)
    return out


def open_linker(folder: Path, encoder: object) -> Linker:
    """A linker on that lexicon, indexed again when the model is another one."""
    try:
        return Linker(folder, encoder)  # type: ignore[arg-type]
    except LexiconError:
        return Linker(folder, encoder, rebuild=True)  # type: ignore[arg-type]


def note(message: str) -> None:
    """Say something on stderr."""
    print(message, file=sys.stderr)


def terms(name: str) -> list[dict[str, str]]:
    """The rows of a file of terms."""
    from malmoi.io.tables import read_rows

    return list(read_rows(data_root() / f"terms/{name}.tsv"))


def held_out(code: str, part: int = 0) -> bool:
    """Whether a code is of one tenth of all; the shipped model never saw that of part 0."""
    digest = hashlib.sha1(code.encode(), usedforsecurity=False).hexdigest()
    return int(digest, 16) % 10 == part


def shares(ranks: Sequence[int], ks: Sequence[int] = (1, 5, 10)) -> str:
    """Accuracy at each k, in per cent."""
    return " / ".join(f"{100 * sum(0 < r <= k for r in ranks) / len(ranks):.1f}" for k in ks)


def cases(name: str, part: str) -> list[Case]:
    """The mentions of a part of ncbi-disease or bc5cdr."""
    return read_cases(data_root() / f"linking/{name}-{part}.jsonl", types=TYPES[name]).rows


def dictionary(known: list[Case]) -> Iterator[list[str]]:
    """MEDIC's rows, then the mentions of the training parts under MEDIC's own ids."""
    concepts: dict[str, str] = {}
    for row in terms("medic"):
        for part in row["ids"].split("|"):
            concepts.setdefault(part, row["ids"])
        yield [row["ids"], row["name"]]
    for case in known:
        if len(case.codes) == 1 and case.codes[0] in concepts:
            yield [concepts[case.codes[0]], spelled_out(case.mention, case.defined)]
