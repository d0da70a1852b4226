"""Mentions of notes in forms that others read: rows, FHIR R4, OMOP's note_nlp, an HTML page.

Every form is made of the same records, one a note: `{"id", "text"?, "mentions": [...], "cut"}` with
mentions as `NoteMention.to_json` gives them.
"""

import csv
import datetime
import html
import io
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from ..errors import OptionError, require
from ..io.files import writing

Record = Mapping[str, Any]

FORMS = ("jsonl", "mentions", "csv", "xlsx", "fhir", "omop", "html")
_SUFFIXES = {".jsonl": "jsonl", ".csv": "csv", ".xlsx": "xlsx", ".html": "html", ".htm": "html"}
ICD10 = "http://hl7.org/fhir/sid/icd-10"
_TERMS = "http://terminology.hl7.org/CodeSystem/"
# Offsets have no standard extension in R4.
_SPAN = "urn:malmoi:span"
_COLUMNS = (
    "note", "start", "end", "mention", "code", "ko", "en", "score", "uncertain", "status",
    "experiencer", "certainty", "otherwise", "section", "laterality", "severity", "stage",
    "date", "why", "by", "status_why",
)  # fmt: skip
_OMOP_COLUMNS = (
    "note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant",
    "note_nlp_concept_id", "note_nlp_source_concept_id", "nlp_system", "nlp_date", "nlp_datetime",
    "term_exists", "term_temporal", "term_modifiers",
)  # fmt: skip
REVIEW = (
    "note", "mention", "context", "decision", "code", "status", "experiencer", "said", "otherwise",
    "name", "score",
)  # fmt: skip
_SNIPPET = 60  # characters of a note around a mention; OMOP has room for 250


def form_of(path: Path | None, form: str | None) -> str:
    """Choose the form by its name, else by a file's ending, else JSON lines of notes."""
    chosen = form or (_SUFFIXES.get(path.suffix.lower()) if path is not None else "jsonl")
    if chosen not in FORMS:
        found = f"the form {form}" if form else f"a file that ends in {path.suffix if path else ''}"
        raise OptionError(f"{found} is not known; expected {', '.join(FORMS)}. Name one: --format")
    return chosen


def mention_rows(records: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """Give one flat row a mention, with its first candidate."""
    for record in records:
        for mention in record["mentions"]:
            best = mention["candidates"][0] if mention["candidates"] else {}
            known = {**mention, **{key: best.get(key) or "" for key in ("code", "ko", "en", "why")}}
            known["note"], known["status_why"] = record["id"], _why(mention)
            yield {name: known.get(name, "") for name in _COLUMNS}


def _why(mention: Record) -> str:
    """Give why a mention has its status, its experiencer and its certainty, in one line."""
    return "; ".join(one["text"] for one in mention.get("why", ()))


def fhir_bundle(
    record: Record, *, system: str = ICD10, patient: str = "", version: str = ""
) -> dict[str, Any]:
    """Give a note's mentions as a Bundle: Condition for the patient, FamilyMemberHistory for kin.

    What is hypothetical, and what other people have, is no resource: it is no condition of anybody
    whose record this is.
    """
    subject = {"reference": f"Patient/{patient or 'unknown'}"}
    entries = []
    for i, mention in enumerate(record["mentions"]):
        if not mention["candidates"] or mention["status"] == "hypothetical":
            continue
        own = {"note": record["id"], "number": i, "system": system, "version": version}
        if mention["experiencer"] == "patient":
            entries.append({"resource": _condition(mention, subject, own)})
        elif mention["experiencer"] == "family" and mention["status"] != "negated":
            entries.append({"resource": _family_history(mention, subject, own)})
    return {"resourceType": "Bundle", "type": "collection", "entry": entries}


def _condition(mention: Record, subject: Record, own: Record) -> dict[str, Any]:
    status = mention["status"]
    verified = {"present": "confirmed", "historical": "confirmed", "negated": "refuted"}
    verification = verified.get(status, "provisional")
    if status == "present" and mention["uncertain"]:
        verification = "unconfirmed"
    found: dict[str, Any] = {
        "resourceType": "Condition",
        "id": _id(own),
        "extension": [_span(mention)],
        "verificationStatus": _coded("condition-ver-status", verification),
        "code": _code(mention, own),
        "subject": subject,
        "evidence": [{"detail": [_document(own)]}],
        **_note(mention),
    }
    if status != "negated":
        clinical = "resolved" if status == "historical" else "active"
        found["clinicalStatus"] = _coded("condition-clinical", clinical)
    if mention.get("severity"):
        found["severity"] = {"text": mention["severity"]}
    if mention.get("laterality"):
        found["bodySite"] = [{"text": mention["laterality"]}]
    if mention.get("stage"):
        found["stage"] = [{"summary": {"text": mention["stage"]}}]
    if mention.get("date"):
        found["onsetString"] = mention["date"]
    return found


def _family_history(mention: Record, subject: Record, own: Record) -> dict[str, Any]:
    unknown = {"system": f"{_TERMS}v3-RoleCode", "code": "FAMMEMB", "display": "family member"}
    return {
        "resourceType": "FamilyMemberHistory",
        "id": _id(own),
        "extension": [_span(mention)],
        "status": "partial",
        "patient": subject,
        "relationship": {"coding": [unknown]},
        "condition": [{"code": _code(mention, own)}],
        **_note(mention),
    }


def _id(own: Record) -> str:
    """Give an id that FHIR allows: letters, digits, - and ., up to 64."""
    name = "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in own["note"])
    return f"{name[-48:]}-{own['number']}".lstrip("-.")


def _coded(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": _TERMS + system, "code": code}]}


def _code(mention: Record, own: Record) -> dict[str, Any]:
    best = mention["candidates"][0]
    coding = {"system": own["system"], "code": best["code"]}
    if own["version"]:
        coding["version"] = own["version"]
    if best.get("ko") or best.get("en"):
        coding["display"] = best.get("ko") or best.get("en")
    return {"coding": [coding], "text": mention["mention"]}


def _document(own: Record) -> dict[str, str]:
    return {"reference": f"DocumentReference/{_id({**own, 'number': 'note'})}"}


def _note(mention: Record) -> dict[str, Any]:
    return {"note": [{"text": _why(mention)}]} if mention.get("why") else {}


def _span(mention: Record) -> dict[str, Any]:
    parts = [{"url": key, "valueInteger": mention[key]} for key in ("start", "end")]
    return {"url": _SPAN, "extension": parts}


def omop_rows(records: Iterable[Record], *, when: datetime.datetime) -> Iterator[dict[str, Any]]:
    """Give OMOP CDM 5.4 `note_nlp` rows; concepts are 0 until mapped, the code is a modifier.

    As OMOP asks, `term_exists` is N for what is negated, hypothetical, uncertain or not the
    patient's.
    """
    number = 0
    for record in records:
        for mention in record["mentions"]:
            number += 1
            best = mention["candidates"][0] if mention["candidates"] else {"code": ""}
            there = mention["status"] in ("present", "historical")
            there = there and mention["experiencer"] == "patient" and not mention["uncertain"]
            words = (
                "status",
                "experiencer",
                "certainty",
                "section",
                "laterality",
                "severity",
                "stage",
            )
            modifiers = {"code": best["code"], **{key: mention.get(key, "") for key in words}}
            row = {
                "note_nlp_id": number,
                "note_id": record["id"],
                "snippet": _snippet(record.get("text", ""), mention),
                "offset": mention["start"],
                "lexical_variant": mention["mention"][:250],
                "nlp_system": "malmoi",
                "nlp_date": when.date().isoformat(),
                "nlp_datetime": when.isoformat(timespec="seconds"),
                "term_exists": "Y" if there else "N",
                "term_temporal": "Past" if mention["status"] == "historical" else "Present",
                "term_modifiers": ";".join(f"{k}={v}" for k, v in modifiers.items() if v)[:2000],
            }
            yield {name: row.get(name, 0) for name in _OMOP_COLUMNS}


def review_rows(records: Iterable[Record]) -> list[dict[str, Any]]:
    """Give the mentions that a person should see, disputed ones first, as a table of decisions.

    It is read as one when a person has written a decision for each `?`.
    """
    found = []
    for record in records:
        for mention in record["mentions"]:
            disputed = mention["certainty"] == "disputed"
            if not disputed and not mention["uncertain"]:
                continue
            best = mention["candidates"][0] if mention["candidates"] else {}
            row = {
                "note": record["id"],
                "mention": mention["mention"],
                "context": _snippet(record.get("text", ""), mention, 30),
                "said": f"{best.get('code', '')} {mention['status']} {mention['experiencer']}",
                "decision": "?",
                "otherwise": mention["otherwise"],
                "name": best.get("ko") or best.get("en") or "",
                "score": mention["score"],
            }
            found.append((not disputed, {name: row.get(name, "") for name in REVIEW}))
    return [row for _, row in sorted(found, key=lambda pair: pair[0])]


def write_review(path: Path, records: Iterable[Record]) -> int:
    """Write what a person should see into a .tsv or .csv file, and say how many rows it has."""
    rows = review_rows(records)
    with writing(path) as file:
        if path.suffix.lower() == ".csv":
            for part in _csv(rows, REVIEW):
                file.write(part.encode("utf-8", "replace"))
        else:
            lines = ("\t".join(str(row[name]) for name in REVIEW) for row in rows)
            file.write("\n".join(("\t".join(REVIEW), *lines, "")).encode("utf-8", "replace"))
    return len(rows)


def _snippet(text: str, mention: Record, around: int = _SNIPPET) -> str:
    start, end = mention["start"], mention["end"]
    return " ".join(text[max(0, start - around) : end + around].split())[:250]


def write_records(
    path: Path, records: Iterable[Record], form: str, *, when: datetime.datetime, **options: str
) -> None:
    """Write records in a form, whole or not at all; options are those of `fhir_bundle`."""
    with writing(path) as file:
        if form == "xlsx":
            _write_sheet(file, mention_rows(records))
            return
        for part in parts(records, form, when=when, **options):
            file.write(part.encode("utf-8", "replace"))


def parts(
    records: Iterable[Record], form: str, *, when: datetime.datetime, **options: str
) -> Iterator[str]:
    """Give records as text in a form, piece by piece."""
    if form == "jsonl":
        shown = ({key: one[key] for key in ("id", "mentions", "cut")} for one in records)
        yield from (json.dumps(one, ensure_ascii=False) + "\n" for one in shown)
    elif form == "mentions":
        for record in records:
            for mention in record["mentions"]:
                yield json.dumps({"note": record["id"], **mention}, ensure_ascii=False) + "\n"
    elif form == "fhir":
        for one in records:
            yield json.dumps(fhir_bundle(one, **options), ensure_ascii=False) + "\n"
    elif form == "csv":
        yield "\ufeff"  # without it Excel reads Korean as cp949
        yield from _csv(mention_rows(records), _COLUMNS)
    elif form == "omop":
        yield from _csv(omop_rows(records, when=when), _OMOP_COLUMNS)
    else:
        yield from html_page(records)


def _csv(rows: Iterable[Mapping[str, Any]], columns: tuple[str, ...]) -> Iterator[str]:
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\r\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in columns])
        if buffer.tell() > 65536:
            yield buffer.getvalue()
            buffer.seek(0)
            buffer.truncate()
    yield buffer.getvalue()


def _cell(value: Any) -> Any:
    """Keep a spreadsheet from reading a text as a formula."""
    if isinstance(value, str) and value[:1] in "=+-@\t\r" and value not in ("", "-"):
        return f"'{value}"
    return value


def _write_sheet(file: Any, rows: Iterable[Mapping[str, Any]]) -> None:
    openpyxl = require("openpyxl", extra="xlsx", purpose="write .xlsx")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("mentions")
    sheet.append(_COLUMNS)
    for row in rows:
        cells = (_cell(row[name]) for name in _COLUMNS)
        sheet.append(
            ["".join(c for c in v if c >= " ") if isinstance(v, str) else v for v in cells]
        )
    book.save(file)


_STYLE = (
    "body{font:16px/1.7 sans-serif;max-width:60em;margin:2em auto}"
    "article{white-space:pre-wrap;border-bottom:1px solid #ccc;padding:1em 0}"
    "mark{background:#cfe8ff;border-radius:3px;padding:0 2px}mark.negated{background:#e4e4e4;"
    "text-decoration:line-through}mark.uncertain{background:#fff0b3}mark.hypothetical"
    "{background:#e2f0d9}mark.family,mark.other{background:#e6dcff}mark.history{background:#f3e3d0}"
    "mark.unsure{outline:1px dashed #b50}mark sub{font-size:.65em;color:#456;margin-left:2px}"
)


def html_page(records: Iterable[Record], *, title: str = "notes") -> Iterator[str]:
    """Give a whole HTML page: notes unchanged, mentions marked, every character escaped."""
    yield (
        f'<!doctype html><html lang="ko"><meta charset="utf-8"><title>{html.escape(title)}</title>'
        f"<style>{_STYLE}</style><body>"
    )
    for record in records:
        text, at = record.get("text", ""), 0
        yield "<article>" + (f"<h2>{html.escape(record['id'])}</h2>" if record["id"] else "")
        for mention in record["mentions"]:
            yield html.escape(text[at : mention["start"]]) + _mark(mention)
            at = mention["end"]
        yield html.escape(text[at:]) + "</article>"
    yield "</body></html>\n"


def _mark(mention: Record) -> str:
    best = mention["candidates"][0] if mention["candidates"] else {"code": ""}
    shown = " / ".join(best[key] for key in ("ko", "en") if best.get(key))
    words = [*mention["attributes"], *(["unsure"] if mention["uncertain"] else [])]
    about = f" ({', '.join(words)})" if words else ""
    why = f" – {_why(mention)}" if mention.get("why") else ""
    hint = html.escape(f"{best['code']} {shown}{about} {mention['score']:.2f}{why}", quote=True)
    return (
        f'<mark class="{" ".join(words)}" title="{hint}">{html.escape(mention["mention"])}'
        f"<sub>{html.escape(best['code'])}</sub></mark>"
    )
