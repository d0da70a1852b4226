"""Mentions of notes in forms that others read: rows, FHIR, OMOP, an HTML page, a table to review.

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
from .standards import OMOP_COLUMNS, Concepts, NoteNumbers, fhir_bundle, omop_rows, snippet

Record = Mapping[str, Any]

FORMS = ("jsonl", "mentions", "csv", "xlsx", "fhir", "omop", "html")
_SUFFIXES = {".jsonl": "jsonl", ".csv": "csv", ".xlsx": "xlsx", ".html": "html", ".htm": "html"}
_COLUMNS = (
    "note", "start", "end", "mention", "code", "ko", "en", "score", "uncertain", "status",
    "experiencer", "certainty", "otherwise", "section", "laterality", "severity", "stage",
    "date", "why", "by", "status_why",
)  # fmt: skip
REVIEW = (
    "note", "mention", "context", "decision", "code", "status", "experiencer", "said", "otherwise",
    "name", "score",
)  # fmt: skip


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
                "context": snippet(record.get("text", ""), mention, 30),
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


def write_records(
    path: Path, records: Iterable[Record], form: str, *, when: datetime.datetime, **options: Any
) -> None:
    """Write records in a form, whole or not at all; options are those of `parts`.

    The numbers that OMOP's notes have got are kept next to the file, in NAME.ids.tsv.
    """
    if form == "omop":
        numbers = NoteNumbers.open(ids := path.with_suffix(".ids.tsv"))
        with writing(path) as file:
            for part in parts(records, form, when=when, numbers=numbers, **options):
                file.write(part.encode("utf-8", "replace"))
        numbers.save(ids)
        return
    with writing(path) as file:
        if form == "xlsx":
            _write_sheet(file, mention_rows(records))
            return
        for part in parts(records, form, when=when, **options):
            file.write(part.encode("utf-8", "replace"))


def parts(
    records: Iterable[Record],
    form: str,
    *,
    when: datetime.datetime,
    numbers: NoteNumbers | None = None,
    vocabulary: str = "",
    **options: Any,
) -> Iterator[str]:
    """Give records as text in a form, piece by piece.

    numbers     omop: what notes were numbered before
    vocabulary  omop: a folder with CONCEPT.csv
    options     fhir: those of `fhir_bundle`
    """
    if form == "jsonl":
        keys = ("id", "patient", "mentions", "cut")
        shown = ({key: one[key] for key in keys if key in one} for one in records)
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
        concepts = Concepts.open(Path(vocabulary)) if vocabulary else None
        rows = omop_rows(records, when=when, numbers=numbers, concepts=concepts)
        yield from _csv(rows, OMOP_COLUMNS)
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
