"""What recipes/ko-en-small-terms.toml is trained on: all names of the diagnosis codes.

    python recipes/prepare/term_names.py --data DATA --out runs/term-names
    malmoi train recipes/ko-en-small-terms.toml --data runs/term-names

pairs.tsv has the strict pairs of Korean and English names, names.tsv all names of a code from
free sources together with the older and lay ones that malmoi ships, and lay.tsv those codes that
have such names once more, since there are few of them. Codes whose sha1 ten divides are left out,
as from every stage before, so that they can be asked for.
"""

import argparse
import shutil
import sys
from collections.abc import Iterable
from importlib import resources
from pathlib import Path

from pair_texts import held, rows

from malmoi.io.files import writing

NOT_FREE = ("MEDIC", "WHO10")
NARROWER = ("inclusion", "includes", "includes_note")


def shipped() -> Iterable[tuple[str, str]]:
    """Yield the older and lay names of the package, with their codes."""
    text = (resources.files("malmoi") / "data" / "names.tsv").read_text("utf-8")
    for line in text.splitlines()[1:]:
        code, names = line.split("\t")[:2]
        for name in names.split(";"):
            if name.strip():
                yield code, name.strip()


def write(path: Path, header: str, lines: Iterable[tuple[str, ...]]) -> None:
    """Write a table without the codes that are held out."""
    with writing(path) as half:
        kept = ["\t".join(line) for line in lines if not held(line[0])]
        half.write(("\n".join([header, *kept]) + "\n").encode())
    sys.stderr.write(f"{path}: {len(kept):,} rows\n")


def main() -> None:
    """Write the files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    options = parser.parse_args()
    terms = options.data / "terms"
    options.out.mkdir(parents=True, exist_ok=True)
    pairs = ((row["code"], row["ko"], row["en"]) for row in rows(terms / "pairs.tsv"))
    write(options.out / "pairs.tsv", "code\tko\ten", pairs)
    free = [
        row
        for row in rows(terms / "names.tsv")
        if row["source"] not in NOT_FREE and row["kind"] not in NARROWER
    ]
    lay = list(shipped())
    names = [(row["code"], row["name"]) for row in free]
    write(options.out / "names.tsv", "code\tname", [*names, *lay])
    known = {code for code, _ in lay}
    titles = [
        (row["code"], row["name"])
        for row in free
        if row["code"] in known and row["kind"] == "headword"
    ]
    write(options.out / "lay.tsv", "code\tname", [*titles, *lay])
    for name in ("terms/kcd9-rows.tsv", "sts/korsts-dev.tsv"):
        shutil.copyfile(options.data / name, options.out / Path(name).name)


if __name__ == "__main__":
    main()
