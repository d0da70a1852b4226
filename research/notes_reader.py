"""Train the second reader of notes (`malmoi/clinical/second_reader.py`) on every marked set.

    python -m research.notes_reader            # the marks by leave-one-set-out, then the weights
    python -m research.notes_reader --marks    # the marks only

Every set was written by another hand, so each is read by a model that was trained on the others;
the tables, however, were worked on with all of them. Needs scikit-learn.
"""

import argparse
import csv
import itertools
import json
import re
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csr_matrix
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression

from malmoi.clinical.context import Assertion, NoteContext
from malmoi.clinical.rules import ContextRules
from malmoi.clinical.second_reader import (
    LABELS,
    ROWS,
    WEIGHTS,
    Place,
    SecondReader,
    features,
    rows_of,
)
from malmoi.evaluation.tasks.note_mentions import read_notes

ROOT = Path(__file__).parents[1]
SETS = (ROOT / "tests/clinical/notes", ROOT / "bench/data/ko-clinical-status")
PHRASES = ROOT / "tests/clinical/phrases.tsv"
TEMPLATES = ROOT / "tests/clinical/templates.txt"
NAMES = (
    ("폐렴", "췌장염", "담낭염"), ("pneumonia", "DVT", "pancreatitis"),
    ("UTI", "폐색전증", "abscess"),
)  # fmt: skip
CHRONIC = ("고혈압", "DM", "asthma")  # present in a past history, so not for every template
CODES = {"고혈압": "I10", "DM": "E14.9", "asthma": "J45.9"}
STATUSES = {
    "n": "negated", "q": "possible", "h": "hypothetical", "x": "historical", "p": "present",
}  # fmt: skip
PEOPLE = {"f": "family", "o": "other"}
STATUS_OF = {
    "negated": "negated", "uncertain": "possible", "hypothetical": "hypothetical",
    "history": "historical",
}  # fmt: skip
TEMPLATE_WEIGHT, C = 1.0, 20.0


class Case(NamedTuple):
    """A marked mention: what is seen around it, what is right, what the tables say."""

    rows: NDArray[np.int64]
    status: str
    experiencer: str
    said: Assertion
    chronic: bool

    @property
    def label(self) -> str:
        return self.status if self.experiencer == "patient" else self.experiencer


Note = tuple[str, list[tuple[int, int, str, str, str]]]  # start, end, code, status, experiencer


def marked(path: Path) -> Iterator[Note]:
    """Give the notes of a set."""
    for note in read_notes(path):
        yield (
            note.text,
            [
                (one.start, one.end, one.codes[0], one.status, one.experiencer)
                for one in note.mentions
                if one.codes
            ],
        )


def templates(path: Path = TEMPLATES) -> Iterator[Note]:
    """Give a note for each template and names."""
    for line in path.read_text("utf-8").splitlines():
        chronic = () if re.search(r"\{[xh]", line) else (CHRONIC,)
        for names in (*NAMES, *chronic) if "{" in line else ():
            text, marks, at = "", [], 0
            for i, mark in enumerate(re.finditer(r"\{(\w+)\}", line)):
                text += line[at : mark.start()]
                name, who = names[i % 3], PEOPLE.get(mark[1][-1], "patient")
                code = CODES.get(name, "J18.9")
                marks.append((len(text), len(text) + len(name), code, STATUSES[mark[1][0]], who))
                text, at = text + name, mark.end()
            yield text + line[at:], marks


def phrases(path: Path = PHRASES) -> Iterator[Note]:
    """Give the phrases whose expected reading is right, each with its items."""
    for row in csv.DictReader(path.read_text("utf-8").splitlines(), delimiter="\t"):
        text, marks, left = row["note"].replace("\\n", "\n"), [], row["note"].replace("\\n", "\n")
        items = [item.partition("=") for item in row["items"].split("; ")]
        for name, _, about in sorted(items, key=lambda item: -len(item[0])):
            words = about.split()
            who = next((word for word in words if word in ("family", "other")), "patient")
            status = next((STATUS_OF[word] for word in words if word in STATUS_OF), "present")
            at = left.index(name)
            left = left[:at] + "\0" * len(name) + left[at + len(name) :]
            code = "R05" if re.search("[통열침]|구토|fever|cough", name) else "J18.9"
            marks.append((at, at + len(name), code, status, who))
        yield text, sorted(marks)


def cases(notes: Iterator[Note], rules: ContextRules) -> list[Case]:
    """Read notes with their marked spans."""
    found = []
    for text, marks in notes:
        context = NoteContext.of(text, [mark[:2] for mark in marks], rules)
        said, places = [], []
        for start, end, code, _, _ in marks:
            chronic, symptom = rules.is_chronic(code), code.startswith("R")
            said.append(context.assertion(start, end, chronic=chronic, symptom=symptom))
            places.append(Place(start, end, said[-1].section, chronic, symptom))
        seen = features(context, places)
        found += [
            Case(rows_of(one), mark[3], mark[4], own, place.chronic)
            for one, mark, own, place in zip(seen, marks, said, places, strict=True)
        ]
    return found


def train(sets: Sequence[Sequence[Case]], extra: Sequence[Case]) -> SecondReader:
    """Fit the weights."""
    every = [case for one in sets for case in one] + list(extra)
    counts = [len(case.rows) for case in every]
    values = np.repeat([count**-0.5 for count in counts], counts)
    rows = np.concatenate([case.rows for case in every])
    matrix = csr_matrix((values, rows, np.cumsum([0, *counts])), (len(every), ROWS))
    weights = np.ones(len(every))
    weights[len(every) - len(extra) :] = TEMPLATE_WEIGHT
    model = LogisticRegression(C=C, max_iter=60, tol=1e-3, fit_intercept=False)
    with warnings.catch_warnings():  # sixty steps are enough: more fit no better
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(matrix, [LABELS.index(case.label) for case in every], sample_weight=weights)
    table = np.zeros((ROWS, len(LABELS)), np.float32)
    table[:, model.classes_] = model.coef_.T
    return SecondReader(table.astype(np.float16))


def marks(name: str, found: Sequence[Case], reader: SecondReader) -> dict[str, object]:
    """Count what the tables and what both say of a set."""
    both = [reader.check_one(case.rows, case.said, chronic=case.chronic) for case in found]
    row: dict[str, object] = {"set": name, "mentions": len(found)}
    unsafe = [
        case.experiencer != "patient" or case.status in ("negated", "hypothetical")
        for case in found
    ]
    affirmed = [case.label == "present" for case in found]
    for who, said in (("tables", [case.said for case in found]), ("both", both)):
        row[f"status, {who}"] = sum(
            case.status == one.status for case, one in zip(found, said, strict=True)
        )
        given = [(one.status, one.experiencer) == ("present", "patient") for one in said]
        row[f"given wrongly, {who}"] = sum(a and b for a, b in zip(unsafe, given, strict=True))
        row[f"lost, {who}"] = sum(
            a and one.status == "negated" for a, one in zip(affirmed, said, strict=True)
        )
    agreed = [one.certainty != "disputed" for one in both]
    right = [
        (case.status, case.experiencer) == (one.status, one.experiencer)
        for case, one in zip(found, both, strict=True)
    ]
    row |= {
        "not the patient's": sum(unsafe),
        "affirmed": sum(affirmed),
        "agreed": sum(agreed),
        "agreed and right": sum(a and b for a, b in zip(agreed, right, strict=True)),
        "disputed and right": sum(not a and b for a, b in zip(agreed, right, strict=True)),
    }
    return row


def main() -> None:
    """Print the marks by leave-one-set-out, and write the weights of all sets."""
    parser = argparse.ArgumentParser(prog="python -m research.notes_reader")
    parser.add_argument("--marks", action="store_true", help="write no weights")
    parser.add_argument("--out", type=Path, default=WEIGHTS)
    given = parser.parse_args()
    rules = ContextRules.open()
    files = sorted(path for folder in SETS for path in folder.glob("*.jsonl"))
    files = [path for path in files if '"mentions"' in path.read_text("utf-8").partition("\n")[0]]
    sets = {path.stem: cases(marked(path), rules) for path in files}
    extra = cases(itertools.chain(templates(), phrases(), phrases()), rules)
    total: dict[str, int] = {}
    for name, found in sets.items():
        reader = train([own for other, own in sets.items() if other != name], extra)
        row = marks(name, found, reader)
        print(json.dumps(row), flush=True)  # noqa: T201
        for key, value in row.items():
            total[key] = total.get(key, 0) + value if isinstance(value, int) else 0
    print(json.dumps({**total, "set": "all"}))  # noqa: T201
    if not given.marks:
        reader = train(list(sets.values()), extra)
        np.savez_compressed(given.out, weights=reader.weights)


if __name__ == "__main__":
    main()
