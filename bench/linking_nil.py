"""How well NIL is told: ncbi-disease devel against MEDIC without a third of its concepts.

    python bench/linking_nil.py [--spelling] [--model MODEL]

Concepts are taken out by a hash of their id, so that their mentions mean nothing in the
dictionary. The border is chosen on one half of the documents' mentions and judged on the other.
"""

import argparse

from linking_common import held_out, lexicon, open_linker
from linking_public import cases, dictionary

import malmoi
from malmoi.evaluate.tasks.linking import Judged, judge
from malmoi.linking import Linker, calibrate
from malmoi.linking.nil import UNCALIBRATED


def taken_out(code: str) -> bool:
    return any(held_out(code, part) for part in (0, 1, 2))


def decided(judged: list[Judged], border: float) -> str:
    """Shares of right decisions, and of both kinds of mentions."""
    right = [(one.rank == 1) != one.linked.is_nil(border) for one in judged]
    nil = [one.linked.is_nil(border) for one in judged if taken_out(one.case.codes[0])]
    known = [
        one.rank == 1 and not one.linked.is_nil(border)
        for one in judged
        if not taken_out(one.case.codes[0])
    ]
    shares = [100 * sum(found) / len(found) for found in (right, nil, known)]
    labels = ("decided rightly", "NIL of those without", "right of the rest")
    return ", ".join(f"{label} {share:.1f} %" for label, share in zip(labels, shares, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model")
    parser.add_argument("--spelling", action="store_true", help="leave the model out")
    options = parser.parse_args()
    rows = dictionary(cases("ncbi-disease", "train"))
    kept = ([ids, name] for ids, name in rows if not any(map(taken_out, ids.split("|"))))
    folder = lexicon("medic-nil", kept, ["code", "en"])
    linker = Linker(folder) if options.spelling else open_linker(folder, malmoi.load(options.model))
    judged = judge(linker, [one for one in cases("ncbi-disease", "devel") if len(one.codes) == 1])
    dev, test = judged[::2], judged[1::2]
    found = calibrate([one.linked for one in dev], [one.rank == 1 for one in dev])
    print(f"{len(dev)} mentions to choose on, {len(test)} to judge on; border {found.score}")
    print(f"calibrated    {decided(test, found.score)}")
    print(f"uncalibrated  {decided(test, UNCALIBRATED)}")
    print(f"no NIL        {decided(test, 0.0)}")


if __name__ == "__main__":
    main()
