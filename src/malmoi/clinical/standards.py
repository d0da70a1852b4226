"""Mentions of notes as FHIR R4 and OMOP CDM 5.4 have them."""

import base64
import csv
import datetime
import re
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from ..errors import DataError
from ..io.files import read_lines, writing
from .rules import table_rows

Record = Mapping[str, Any]

# The system of KR Core, which has no other for KCD-9.
KCD = "http://www.hl7korea.or.kr/CodeSystem/kostat-kcd-8"
ICD10 = "http://hl7.org/fhir/sid/icd-10"
_TERMS = "http://terminology.hl7.org/CodeSystem/"
# Offsets, and that a relative does not have a disease, have no standard extension in R4.
_SPAN, _NEGATED = "urn:malmoi:span", "urn:malmoi:negated"
# Codes that ICD-10 has too; KCD's own are longer, or those of Korean medicine.
_ICD10 = re.compile(r"(?!U[2-9])[A-Z]\d\d(?:\.\d)?")
_UNKNOWN = ("FAMMEMB", "family member")


def fhir_bundle(
    record: Record, *, system: str = KCD, patient: str = "", version: str = ""
) -> dict[str, Any]:
    """Give a note as a Bundle: a DocumentReference, the patient's Conditions, FamilyMemberHistory.

    What is hypothetical, and what other people have, is no resource: it is no condition of anybody
    whose record this is. What a relative does not have is marked by a modifier extension.

    patient  its id, where the record has none
    """
    who = _fhir_id(str(record.get("patient") or patient or "unknown"))
    own = {"note": record["id"], "system": system, "version": version}
    own |= {"subject": {"reference": f"Patient/{who}"}, "text": record.get("text", "")}
    resources = [_document(own)]
    for i, mention in enumerate(record["mentions"]):
        if not mention["candidates"] or mention["status"] == "hypothetical":
            continue
        if mention["experiencer"] == "patient":
            resources.append(_condition(mention, {**own, "number": i}))
        elif mention["experiencer"] == "family":
            resources.append(_family_history(mention, {**own, "number": i}))
    entries = [{"fullUrl": _url(own, one["id"]), "resource": one} for one in resources]
    return {"resourceType": "Bundle", "type": "collection", "entry": entries}


def _document(own: Record) -> dict[str, Any]:
    attachment = {"contentType": "text/plain; charset=utf-8"}
    if own["text"]:
        data = own["text"].encode("utf-8", "replace")
        attachment["data"] = base64.b64encode(data).decode("ascii")
    return {
        "resourceType": "DocumentReference",
        "id": _id({**own, "number": "note"}),
        "status": "current",
        "subject": own["subject"],
        "content": [{"attachment": attachment}],
    }


def _condition(mention: Record, own: Record) -> dict[str, Any]:
    status = mention["status"]
    verified = {"present": "confirmed", "historical": "confirmed", "negated": "refuted"}
    verification = verified.get(status, "provisional")
    if status == "present" and (mention["uncertain"] or mention["certainty"] == "disputed"):
        verification = "unconfirmed"
    found: dict[str, Any] = {
        "resourceType": "Condition",
        "id": _id(own),
        "extension": [_span(mention)],
        "verificationStatus": _coded("condition-ver-status", verification),
        "code": _code(mention, own),
        "subject": own["subject"],
        "evidence": [{"detail": [{"reference": _url(own, _id({**own, "number": "note"}))}]}],
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


def _family_history(mention: Record, own: Record) -> dict[str, Any]:
    code, display = relation(own["text"], mention["start"], mention["end"])
    relative = {"system": f"{_TERMS}v3-RoleCode", "code": code, "display": display}
    condition: dict[str, Any] = {"code": _code(mention, own)}
    if mention["status"] == "negated":
        condition["modifierExtension"] = [{"url": _NEGATED, "valueBoolean": True}]
    return {
        "resourceType": "FamilyMemberHistory",
        "id": _id(own),
        "extension": [_span(mention)],
        "status": "partial",
        "patient": own["subject"],
        "relationship": {"coding": [relative]},
        "condition": [condition],
        **_note(mention),
    }


def _note(mention: Record) -> dict[str, Any]:
    """Why the mention has its status, for who reads the resource."""
    why = "; ".join(one["text"] for one in mention.get("why", ()))
    return {"note": [{"text": why}]} if why else {}


def relation(text: str, start: int, end: int) -> tuple[str, str]:
    """Give the role code and name of the relative whose mention it is: the nearest before it.

    >>> relation("부: 위암, 모: 당뇨", 10, 12)
    ('MTH', 'mother')
    """
    pattern, roles = _relatives()
    line = text.rfind("\n", 0, start) + 1
    before = list(pattern.finditer(text, line, start))
    after = pattern.search(text, end, end + 20) if not before else before[-1]
    if after is None or (not before and "," in text[end : after.start()]):
        return _UNKNOWN
    return roles[after.group().casefold()]


@lru_cache(maxsize=1)
def _relatives() -> tuple["re.Pattern[str]", dict[str, tuple[str, str]]]:
    roles = {
        word.casefold(): (code, display)
        for code, display, words in table_rows("relatives.tsv", ("code", "display", "words"), ())
        for word in words.split("|")
    }
    words = "|".join(map(re.escape, sorted(roles, key=len, reverse=True)))
    return re.compile(rf"(?<![A-Za-z가-힣])(?:{words})(?![A-Za-z])", re.IGNORECASE), roles


def _fhir_id(name: str) -> str:
    """Give an id that FHIR allows: letters, digits, - and ., up to 64."""
    return "".join(c if c.isascii() and (c.isalnum() or c in "-.") else "-" for c in name)[-64:]


def _id(own: Record) -> str:
    return f"{_fhir_id(own['note'])[-48:]}-{own['number']}".lstrip("-.")


def _url(own: Record, name: str) -> str:
    """Give the full URL of a resource, the same at every export."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"malmoi/{own['note']}/{name}").urn


def _coded(system: str, code: str) -> dict[str, Any]:
    return {"coding": [{"system": _TERMS + system, "code": code}]}


def _code(mention: Record, own: Record) -> dict[str, Any]:
    best = mention["candidates"][0]
    coding = {"system": own["system"], "code": best["code"]}
    if own["version"]:
        coding["version"] = own["version"]
    if best.get("ko") or best.get("en"):
        coding["display"] = best.get("ko") or best.get("en")
    codings = [coding]
    if own["system"] == KCD and _ICD10.fullmatch(best["code"]):
        codings.append({"system": ICD10, "code": best["code"]})
    return {"coding": codings, "text": mention["mention"]}


def _span(mention: Record) -> dict[str, Any]:
    parts = [{"url": key, "valueInteger": mention[key]} for key in ("start", "end")]
    return {"url": _SPAN, "extension": parts}


OMOP_COLUMNS = (
    "note_nlp_id", "note_id", "section_concept_id", "snippet", "offset", "lexical_variant",
    "note_nlp_concept_id", "note_nlp_source_concept_id", "nlp_system", "nlp_date", "nlp_datetime",
    "term_exists", "term_temporal", "term_modifiers",
)  # fmt: skip
_SNIPPET = 60  # characters of a note around a mention; OMOP has room for 250
_MODIFIERS = ("status", "experiencer", "certainty", "section", "laterality", "severity", "stage")
_VOCABULARIES = ("KCD7", "ICD10")  # the first that has a code counts


@dataclass
class NoteNumbers:
    """An integer for each note, the same at every export: its own id if that is one, else kept."""

    numbers: dict[str, int] = field(default_factory=dict)

    @classmethod
    def open(cls, path: Path) -> "NoteNumbers":
        """Read the numbers that an export before has given."""
        if not path.exists():
            return cls()
        rows = (line.rstrip("\n").split("\t") for line in list(read_lines(path))[1:])
        return cls({name: int(number) for number, name in rows})

    def of(self, name: str) -> int:
        """Give a note's number."""
        if name not in self.numbers:
            own = name.isascii() and name.isdigit() and len(name) < 10
            taken = max(self.numbers.values(), default=0)
            free = not own or int(name) in self.numbers.values()
            self.numbers[name] = taken + 1 if free else int(name)
        return self.numbers[name]

    def save(self, path: Path) -> None:
        """Write the numbers."""
        with writing(path) as file:
            rows = (f"{number}\t{name}\n" for name, number in self.numbers.items())
            file.write(("note_id\tnote\n" + "".join(rows)).encode("utf-8", "replace"))


@dataclass(frozen=True)
class Concepts:
    """The concepts of an OMOP vocabulary: code → its own concept, and the standard one or 0."""

    of_code: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: Path) -> "Concepts":
        """Read CONCEPT.csv, and CONCEPT_RELATIONSHIP.csv where it is, as Athena gives them."""
        found: dict[str, dict[str, int]] = {name: {} for name in _VOCABULARIES}
        for row in _rows(folder / "CONCEPT.csv", ("concept_id", "vocabulary_id", "concept_code")):
            if row[1] in found:
                found[row[1]][row[2]] = int(row[0])
        own: dict[str, int] = {}
        for name in _VOCABULARIES:
            own = found[name] | own
        known, standard = set(own.values()), dict[int, int]()
        path = folder / "CONCEPT_RELATIONSHIP.csv"
        columns = ("concept_id_1", "concept_id_2", "relationship_id")
        for row in _rows(path, columns) if path.exists() else ():
            if row[2] == "Maps to" and int(row[0]) in known:
                standard.setdefault(int(row[0]), int(row[1]))
        return cls({code: (one, standard.get(one, 0)) for code, one in own.items()})

    def find(self, code: str) -> tuple[int, int]:
        """Give a code's concept and the standard one; the code without its point is tried too."""
        return self.of_code.get(code) or self.of_code.get(code.replace(".", "")) or (0, 0)


def _rows(path: Path, columns: tuple[str, ...]) -> Iterator[list[str]]:
    if not path.exists():
        raise DataError(
            f"there is no {path}; expected a vocabulary as Athena gives it. Name its folder with "
            "--vocabulary"
        )
    lines = read_lines(path)
    header = next(lines, "").rstrip("\r\n").split("\t")
    if not set(columns) <= set(header):
        raise DataError(
            f"{path} has the columns {', '.join(header[:5])}; expected {', '.join(columns)}, with "
            "tabs between. Name another folder with --vocabulary"
        )
    places = [header.index(name) for name in columns]
    for cells in csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE):
        yield [cells[place] for place in places]


def omop_rows(
    records: Iterable[Record],
    *,
    when: datetime.datetime,
    numbers: NoteNumbers | None = None,
    concepts: Concepts | None = None,
) -> Iterator[dict[str, Any]]:
    """Give OMOP CDM 5.4 `note_nlp` rows; without concepts those are 0, the code is a modifier.

    As OMOP asks, `term_exists` is N for what is negated, hypothetical, uncertain or not the
    patient's.
    """
    numbers, concepts = numbers or NoteNumbers(), concepts or Concepts()
    number = 0
    for record in records:
        for mention in record["mentions"]:
            number += 1
            code = mention["candidates"][0]["code"] if mention["candidates"] else ""
            there = mention["status"] in ("present", "historical")
            there = there and mention["experiencer"] == "patient" and not mention["uncertain"]
            modifiers = {"code": code, **{key: mention.get(key, "") for key in _MODIFIERS}}
            source, standard = concepts.find(code)
            row = {
                "note_nlp_id": number,
                "note_id": numbers.of(record["id"]),
                "snippet": snippet(record.get("text", ""), mention),
                "offset": mention["start"],
                "lexical_variant": mention["mention"][:250],
                "note_nlp_concept_id": standard,
                "note_nlp_source_concept_id": source,
                "nlp_system": "malmoi",
                "nlp_date": when.date().isoformat(),
                "nlp_datetime": when.isoformat(timespec="seconds"),
                "term_exists": "Y" if there else "N",
                "term_temporal": "Past" if mention["status"] == "historical" else "Present",
                "term_modifiers": ";".join(f"{k}={v}" for k, v in modifiers.items() if v)[:2000],
            }
            yield {name: row.get(name, 0) for name in OMOP_COLUMNS}


def snippet(text: str, mention: Record, around: int = _SNIPPET) -> str:
    """Give some of a note around a mention, on one line."""
    start, end = mention["start"], mention["end"]
    return " ".join(text[max(0, start - around) : end + around].split())[:250]
