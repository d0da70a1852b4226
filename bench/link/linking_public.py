"""NCBI-disease and BC5CDR-disease: mentions of abstracts → MEDIC, at 1, 5 and 10; and NIL.

    python bench/run.py linking_public [--part devel|test] [--model MODEL]
                                       [--sets ncbi-disease,bc5cdr] [--spelling] [--nil]

As BioSyn does it: the names of train (and, for test, of devel) mentions join the dictionary;
abbreviations are written out by what the abstract defines; every concept of a composite mention
must be found. Weights were chosen on devel; test is for reporting once.

`--nil` measures how well a mention without a concept is recognised: ncbi-disease devel against
MEDIC without three tenths of its concepts (by a hash of their id). The threshold is chosen on
every second mention and judged on the others.
"""

import argparse
from collections.abc import Iterator

import malmoi
from bench.common import Row
from bench.link.data import cases, dictionary, held_out, lexicon, open_linker, shares
from malmoi.evaluation.tasks.linking import Judged, judge
from malmoi.terms import Linker, calibrate
from malmoi.terms.linker import UNCALIBRATED


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--part", default="devel", choices=["devel", "test"])
    parser.add_argument("--model")
    parser.add_argument("--spelling", action="store_true", help="leave the model out")
    parser.add_argument("--sets", default="ncbi-disease,bc5cdr")
    parser.add_argument("--nil", action="store_true", help="measure mentions without a concept")


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = None if options.spelling else malmoi.load(options.model)
    if options.nil:
        yield from without_concept(encoder)
        return
    for name in options.sets.split(","):
        known = cases(name, "train") + (cases(name, "devel") if options.part == "test" else [])
        folder = lexicon(f"medic-{name}-{options.part}", dictionary(known), ["code", "en"])
        asked = cases(name, options.part)
        row: Row = {"set": f"{name} {options.part}", "mentions": len(asked)}
        row["spelling alone, at 1 / 5 / 10"] = shares(
            [o.rank for o in judge(Linker(folder), asked)]
        )
        if encoder is not None:
            joined = judge(open_linker(folder, encoder), asked)
            row["joined, at 1 / 5 / 10"] = shares([one.rank for one in joined])
        yield row


def without_concept(encoder: malmoi.TextEncoder | None) -> Iterator[Row]:
    """Decide NIL by a calibrated threshold, by the uncalibrated one, and never."""
    rows = dictionary(cases("ncbi-disease", "train"))
    kept = ([ids, name] for ids, name in rows if not any(map(taken_out, ids.split("|"))))
    folder = lexicon("medic-nil", kept, ["code", "en"])
    linker = open_linker(folder, encoder) if encoder else Linker(folder)
    judged = judge(linker, [one for one in cases("ncbi-disease", "devel") if len(one.codes) == 1])
    dev, test = judged[::2], judged[1::2]
    found = calibrate([one.linked for one in dev], [one.rank == 1 for one in dev])
    borders = {"calibrated": found.score, "uncalibrated": UNCALIBRATED, "no NIL": 0.0}
    for name, border in borders.items():
        yield {"threshold": name, "mentions": len(test)} | decided(test, border)


def taken_out(code: str) -> bool:
    return any(held_out(code, part) for part in (0, 1, 2))


def decided(judged: list[Judged], border: float) -> Row:
    """Shares of right decisions, of all mentions and of both kinds."""
    right = [(one.rank == 1) != one.linked.is_nil(border) for one in judged]
    nil = [one.linked.is_nil(border) for one in judged if taken_out(one.case.codes[0])]
    known = [
        one.rank == 1 and not one.linked.is_nil(border)
        for one in judged
        if not taken_out(one.case.codes[0])
    ]
    shares = [round(100 * sum(found) / len(found), 1) for found in (right, nil, known)]
    labels = ("decided rightly, %", "NIL of those without, %", "right of the rest, %")
    return dict(zip(labels, shares, strict=True))
