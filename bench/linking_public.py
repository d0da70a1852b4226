"""NCBI-disease and BC5CDR-disease: mentions of abstracts → MEDIC, at 1, 5 and 10.

    python bench/linking_public.py [--part devel|test] [--model MODEL] [--sets ncbi-disease,bc5cdr]

As BioSyn does it: the names of train (and, for test, of devel) mentions join the dictionary;
abbreviations are written out by what the abstract defines; every concept of a composite mention
must be found. Weights were chosen on devel; test is for reporting once.
"""

import argparse
from collections.abc import Iterator

from common import data_root
from linking_common import lexicon, open_linker, shares, terms

import malmoi
from malmoi.evaluate.tasks.linking import Case, judge, read_cases, spelled_out
from malmoi.linking import Linker

TYPES = {"ncbi-disease": (), "bc5cdr": ("Disease",)}


def cases(name: str, part: str) -> list[Case]:
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--part", default="devel", choices=["devel", "test"])
    parser.add_argument("--model")
    parser.add_argument("--spelling", action="store_true", help="leave the model out")
    parser.add_argument("--sets", default="ncbi-disease,bc5cdr")
    options = parser.parse_args()
    encoder = None if options.spelling else malmoi.load(options.model)
    for name in options.sets.split(","):
        known = cases(name, "train") + (cases(name, "devel") if options.part == "test" else [])
        folder = lexicon(f"medic-{name}-{options.part}", dictionary(known), ["code", "en"])
        asked = cases(name, options.part)
        print(f"{name} {options.part}: {len(asked):,} mentions (accuracy at 1/5/10)")
        alone = judge(Linker(folder), asked)
        print(f"  spelling alone  {shares([one.rank for one in alone])}", flush=True)
        if encoder is not None:
            joined = judge(open_linker(folder, encoder), asked)
            print(f"  joined          {shares([one.rank for one in joined])}", flush=True)


if __name__ == "__main__":
    main()
