"""Score what a system finds in clinical notes. Needs nothing but Python 3.9.

    python score.py set-1.jsonl [set-2.jsonl …] predictions.jsonl

The last file has a line for each note: {"id": …, "mentions": [{"start", "end", "code", "status",
"experiencer"}]}. `status` is present unless said, `experiencer` patient. `candidates`, a list of
objects with a code, may stand for `code`. `--json` prints one JSON object instead of a table.
"""

import json
import re
import sys
from collections import Counter
from pathlib import Path

STATUSES = ("present", "negated", "possible", "hypothetical", "historical")
EXPERIENCERS = ("patient", "family", "other")
MEASURES = (  # name, counted, of
    ("recall", "hit", "marked"),
    ("precision", "hit", "found"),
    ("category", "category", "hit"),
    ("status", "status", "hit"),
    ("experiencer", "experiencer", "hit"),
    ("given to the patient wrongly", "given", "not the patient's"),
    ("look-alikes found", "fooled", "look-alikes"),
    ("look-alikes as present", "fooled as present", "look-alikes"),
    ("affirmed lost to negation", "lost", "affirmed"),
)


def read(path):
    """Give the notes of a file by their ids."""
    notes = {}
    with Path(path).open(encoding="utf-8-sig") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                note = json.loads(line)
                key, mentions = str(note["id"]), [said(one) for one in note["mentions"]]
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                sys.exit(f"{path}, line {number}: {type(error).__name__}: {error}")
            if key in notes:
                sys.exit(f"{path}, line {number}: there are two notes with the id {key}")
            notes[key] = mentions
    return notes


def said(mention):
    """Give a mention with every field filled in."""
    codes = mention.get("codes") or mention.get("code") or []
    if not codes and mention.get("candidates"):
        codes = mention["candidates"][0]["code"]
    one = {
        "start": int(mention["start"]),
        "end": int(mention["end"]),
        "codes": [codes] if isinstance(codes, str) else codes,
        "status": mention.get("status") or "present",
        "experiencer": mention.get("experiencer") or "patient",
        "optional": bool(mention.get("optional")),
    }
    if one["status"] not in STATUSES or one["experiencer"] not in EXPERIENCERS:
        raise ValueError(f"{one['status']}, {one['experiencer']}")
    return one


def paired(gold, found):
    """Pair marked and found mentions, those that share most characters first; each once."""
    shared = sorted(
        (-min(a["end"], b["end"]) + max(a["start"], b["start"]), b["end"] - b["start"], i, j)
        for i, a in enumerate(gold)
        for j, b in enumerate(found)
        if a["start"] < b["end"] and b["start"] < a["end"]
    )
    pairs = {}
    for _, _, i, j in shared:
        if i not in pairs and j not in pairs.values():
            pairs[i] = j
    return pairs


def category(code):
    return code[:3] if re.match(r"[A-Z]\d\d", code) else code


def count(gold, found):
    """Count what was marked, found and said rightly in one note."""
    counts = Counter()
    pairs = paired(gold, found)
    counts["found"] = len(found) - len(pairs)
    for i, one in enumerate(gold):
        other = found[pairs[i]] if i in pairs else None
        present = other is not None and (other["status"], other["experiencer"]) == (
            "present", "patient",
        )  # fmt: skip
        if not one["codes"]:
            counts["look-alikes"] += 1
            counts["fooled"] += other is not None
            counts["found"] += other is not None
            counts["fooled as present"] += present
            continue
        if one["optional"]:
            continue
        counts["marked"] += 1
        wrong = one["status"] in ("negated", "hypothetical") or one["experiencer"] != "patient"
        counts["not the patient's"] += wrong
        if other is None:
            continue
        counts["hit"] += 1
        counts["found"] += 1
        right = {category(code) for code in one["codes"]}
        counts["category"] += any(category(code) in right for code in other["codes"][:1])
        counts["status"] += one["status"] == other["status"]
        counts["experiencer"] += one["experiencer"] == other["experiencer"]
        counts["given"] += wrong and present
        if one["status"] == "present" and not wrong:
            counts["affirmed"] += 1
            counts["lost"] += other["status"] == "negated"
    return counts


def main(arguments):
    files = [one for one in arguments if one != "--json"]
    if len(files) < 2:
        sys.exit(__doc__)
    gold = {}
    for path in files[:-1]:
        gold.update(read(path))
    found = read(files[-1])
    unknown = sorted(found.keys() - gold.keys())
    if unknown:
        sys.exit(f"{files[-1]}: no marked note has the id {unknown[0]}")
    total = Counter()
    for key, mentions in gold.items():
        total += count(mentions, found.get(key, []))
    values = {name: (total[a], total[b]) for name, a, b in MEASURES}
    if "--json" in arguments:
        print(json.dumps({n: a / b if b else None for n, (a, b) in values.items()}))
        return
    print(f"{len(gold)} notes, {len(gold.keys() - found.keys())} of them without a prediction")
    for name, (a, b) in values.items():
        share = f"{100 * a / b:.1f} %" if b else "-"
        print(f"{name:30}{share:>8}   {a:,} of {b:,}")


if __name__ == "__main__":
    main(sys.argv[1:])
