"""What is said about marked mentions of English notes, next to medspaCy's ConText and sections.

    python bench/run.py notes_context --medspacy PYTHON

PYTHON is an interpreter with medspaCy installed; without it only malmoi is measured. Both get the
marked spans of the English notes in NOTES and say of each whose it is and whether it
is present, negated, possible, hypothetical or historical. medspaCy runs with its own rules and
sectionizer over spaCy's blank English; it has no word for other persons, which counts as family
here. Speed is processor time, finding of mentions not counted.
"""

import argparse
import json
import re
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from bench.common import ROOT, Row
from malmoi.clinical.context import NoteContext
from malmoi.clinical.rules import ContextRules

NOTES = (ROOT / "tests" / "clinical" / "notes", ROOT / "bench" / "data" / "ko-clinical-status")
# Reads notes with spans from stdin, prints what medspaCy says of each, and the seconds it took.
PEER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
import medspacy
nlp = medspacy.load(enable=["medspacy_pyrush", "medspacy_sectionizer", "medspacy_context"])
pipes = [nlp.get_pipe(name) for name in nlp.pipe_names]
notes = json.load(sys.stdin)
said, start = [], time.process_time()
for text, spans in notes:
    doc = nlp.make_doc(text)
    doc.ents = [span for a, b in spans
                if (span := doc.char_span(a, b, label="X", alignment_mode="expand"))]
    for pipe in pipes:
        doc = pipe(doc)
    found = {(e.start_char, e.end_char): e._ for e in doc.ents}
    for a, b in spans:
        e = next((v for (x, y), v in found.items() if x < b and a < y), None)
        family = bool(e and (e.is_family or e.section_category == "family_history"))
        past = bool(e and e.is_historical)
        status = ("present" if e is None else "negated" if e.is_negated else "hypothetical"
                  if e.is_hypothetical else "possible" if e.is_uncertain
                  else "historical" if past and not family else "present")
        said.append([status, family])
print(json.dumps({"said": said, "seconds": time.process_time() - start}))
"""


def english() -> list[dict[str, Any]]:
    """The notes that are written in English."""
    files = sorted(path for folder in NOTES for path in folder.glob("*.jsonl"))
    notes = [json.loads(line) for f in files for line in f.read_text("utf-8").splitlines()]
    notes = [note for note in notes if "mentions" in note]
    return [n for n in notes if len(re.findall("[가-힣]", n["text"])) < 0.02 * len(n["text"])]


def malmoi(notes: list[list[Any]], codes: list[list[str]]) -> tuple[list[list[Any]], float]:
    """What malmoi says of each span, and the seconds it took."""
    rules = ContextRules.open()
    said, start = [], time.process_time()
    for (text, spans), own in zip(notes, codes, strict=True):
        context = NoteContext.of(text, spans, rules)
        for (a, b), code in zip(spans, own, strict=True):
            one = context.assertion(a, b, chronic=rules.is_chronic(code), symptom=code[0] == "R")
            said.append([one.status, one.experiencer != "patient"])
    return said, time.process_time() - start


def row(name: str, said: list[list[Any]], gold: list[list[Any]], seconds: float, notes: int) -> Row:
    """Count what is right, and what is wrongly the patient's."""
    pairs = list(zip(said, gold, strict=True))
    unsafe = [(s, g) for s, g in pairs if g[1] or g[0] in ("negated", "hypothetical")]
    return {
        "": name,
        "mentions": len(pairs),
        "status %": round(100 * sum(s[0] == g[0] for s, g in pairs) / len(pairs), 1),
        "whose %": round(100 * sum(s[1] == g[1] for s, g in pairs) / len(pairs), 1),
        "not the patient's": len(unsafe),
        "given to the patient": sum(s == ["present", False] for s, _ in unsafe),
        "notes a second": round(notes / seconds, 1),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--medspacy", help="an interpreter with medspaCy")


def run(options: argparse.Namespace) -> Iterator[Row]:
    notes, codes, gold = [], [], []
    for note in english():
        marks = sorted((m for m in note["mentions"] if m["codes"]), key=lambda m: m["start"])
        notes.append([note["text"], [(m["start"], m["end"]) for m in marks]])
        codes.append([m["codes"][0] for m in marks])
        gold += [[m["status"], m["experiencer"] != "patient"] for m in marks]
    malmoi(notes[:5], codes[:5])  # the tables are read once
    said, seconds = malmoi(notes, codes)
    yield row("malmoi", said, gold, seconds, len(notes))
    if options.medspacy:
        command = [options.medspacy, "-c", PEER]
        done = subprocess.run(
            command, input=json.dumps(notes), capture_output=True, text=True, check=True
        )
        peer = json.loads(done.stdout.splitlines()[-1])
        yield row("medspaCy", peer["said"], gold, peer["seconds"], len(notes))
