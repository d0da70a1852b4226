"""A note → its mentions with their context, each linked to codes; and a note as an HTML page."""

import re
import warnings
from collections import Counter, OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from ..errors import CutWarning, OptionError
from ..io.fingerprint import read_stamp
from ..terms import Lexicon
from ..terms.linker import Candidate, Linked, Linker, check_k
from ..text.cleanup import as_text
from .context import Assertion, NoteContext
from .mentions import (
    Deadline,
    MentionFinder,
    MentionSpan,
    OrdinaryWords,
    allowed_concepts,
    definitions,
    longest,
)
from .output import html_page
from .rules import HISTORICAL, NEGATED, PATIENT, ContextRules, table_rows
from .second_reader import Place, SecondReader
from .senses import NO_DIAGNOSIS, CodeBounds, OrganTable, Patient, SenseTable, WeighedSense


class MentionTagger(Protocol):
    """A tagger: text in, entities with text, start, end, type and score out."""

    def tag(self, text: str, /) -> Sequence[Any]:
        """Give the entities of a text."""


class MentionDecisions(Protocol):
    """Decisions of people: mentions in, the mentions as they decided out."""

    @property
    def taught(self) -> Mapping[str, str]:
        """Names that they want to be found, with their codes."""

    def apply(
        self, note: str, mentions: "Sequence[NoteMention]", linker: Linker, /
    ) -> "list[NoteMention]":
        """Give the mentions of a note as people decided."""


# "CXR상 pneumonia", "가족력상 위암": words before a name that are not part of it.
_LEADS = re.compile(r"(?:상|에서|는|은|으로|력|및)[\s:]*$")
# Mentions linked at once: a whole batch, or few enough to check the deadline in between.
_ALL, _STEP = 256, 32
_REMEMBERED = 50_000  # links that are kept for the next notes
_LEAST_SHARE = 0.05  # a meaning less likely than this is no alternative
DEFAULT_THRESHOLD = 0.6  # below this score a mention is marked as uncertain
LEARNT = "learnt.json"  # what decisions taught, in the lexicon's folder


@dataclass(frozen=True)
class NoteMention:
    """A mention of a note: note[start:end] is its text; `attributes` are its context."""

    start: int
    end: int
    text: str
    attributes: tuple[str, ...]
    by: str
    linked: Linked
    assertion: Assertion = field(default_factory=Assertion)
    uncertain: bool = False  # the score is below the reader's threshold

    @property
    def status(self) -> str:
        """Whether it is present, negated, possible, hypothetical or historical."""
        return self.assertion.status

    @property
    def experiencer(self) -> str:
        """Whose it is: the patient's, the family's or another person's."""
        return self.assertion.experiencer

    @property
    def score(self) -> float:
        """How likely the mention is a diagnosis and the first code right."""
        return self.linked.best.score if self.linked.best else 0.0

    def to_json(self) -> dict[str, object]:
        """The mention as the command line prints it."""
        return {
            "mention": self.text,
            "start": self.start,
            "end": self.end,
            "attributes": list(self.attributes),
            **asdict(self.assertion),
            "why": [asdict(one) | {"text": str(one)} for one in self.assertion.why],
            "score": self.score,
            "uncertain": self.uncertain,
            "by": self.by,
            "candidates": [candidate.to_json() for candidate in self.linked.candidates],
        }


@dataclass(frozen=True)
class NoteScan:
    """The mentions of a note up to `cut`, where there was no time for more; None is all of it."""

    mentions: list[NoteMention]
    cut: int | None


class NoteReader:
    """Finds the mentions of notes by dictionary and, where there is one, a tagger."""

    def __init__(
        self,
        linker: Linker,
        *,
        tagger: MentionTagger | None = None,
        tables: str | Path | None = None,
        corrections: "MentionDecisions | None" = None,
        threshold: float | None = None,
        trust: Mapping[str, float] | None = None,
        second: bool = True,
    ) -> None:
        """Take a linker, whose lexicon is the dictionary, and what else there is.

        tagger       finds mentions beside the dictionary
        tables       a folder with tables of your own (cues.tsv, sections.tsv, persons.tsv,
                     grammar.tsv, senses.tsv, organs.tsv, bounds.tsv, ordinary.tsv, chronic.tsv,
                     excluded.tsv), which extend the shipped
        corrections  decisions of people, which win over everything else
        threshold    the score below which a mention is marked as uncertain
        trust        what a kind of evidence is worth; both are what `malmoi notes learn` stored
                     beside the lexicon where they are left out
        second       let a model that has learnt from marked notes check every status
        """
        self.linker, self.tagger = linker, tagger
        stored = read_calibration(linker.lexicon)
        self.threshold = stored[1] if threshold is None else threshold
        self.trust = {**EVIDENCE_PRECISION, **(stored[0] if trust is None else trust)}
        folders = [] if tables is None else [_folder(tables)]
        self._rules = ContextRules.open(*folders)
        self._senses = SenseTable.open(linker.expander.abbreviations, *folders)
        self._organs, self._bounds = OrganTable.open(*folders), CodeBounds.open(*folders)
        self._excluded = read_excluded(*folders)
        self._newborn = dict(table_rows("newborn.tsv", ("code", "newborn"), folders))
        self._icd = _is_icd(linker.lexicon.codes[:_LOOKED_AT])
        self._finder = MentionFinder(
            linker.indexes,
            linker.normalizer,
            linker.expander,
            vocabulary=linker.vocabulary,
            ordinary=OrdinaryWords.open(*folders),
            allowed=allowed_concepts(linker.lexicon.codes, self._excluded) if self._icd else None,
        )
        self.corrections = corrections
        taught = {} if corrections is None else corrections.taught
        codes = {name: code for name, code in taught.items() if code in linker.lexicon}
        names = "|".join(re.escape(name) for name in sorted(codes, key=len, reverse=True))
        self._taught = re.compile(rf"(?<![A-Za-z가-힣])(?:{names or '(?!)'})(?![A-Za-z])")
        self._named = {name: linker.lexicon.concept(code) for name, code in codes.items()}
        self._second = SecondReader.open() if second else None
        self._links: OrderedDict[tuple[str, int], Linked] = OrderedDict()

    def read(self, note: str, *, k: int = 5, within: float | None = None) -> list[NoteMention]:
        """Give the linked mentions of a note in order.

        k       candidates of each
        within  seconds; a note that takes longer is read as far as there is time for, with a
                CutWarning; `scan` says it in its result instead

        >>> [(one.text, one.status) for one in reader.read("HTN 있음, 폐렴은 없음")]
        [('HTN', 'present'), ('폐렴', 'negated')]
        """
        found = self.scan(note, k=k, within=within)
        if found.cut is not None:
            warnings.warn(
                f"the note was read up to character {found.cut:,} of {len(note):,}: there was no "
                "time for more. Allow more with: within",
                CutWarning,
                stacklevel=2,
            )
        return found.mentions

    def scan(self, note: str, *, k: int = 5, within: float | None = None) -> NoteScan:
        """Give the linked mentions of a note in order, and where it was cut for lack of time.

        Half of the time is for finding mentions, the rest for linking them. A tagger reads the
        whole note.

        >>> reader.scan("HTN 있음").cut is None
        True
        """
        note = as_text(note, where="note")
        deadline = Deadline.within(within)
        check_k(k)
        defined = definitions(note)
        found, cut = self._finder.find(note, defined, deadline.half())
        spans = [one for one in self._joined(note, found) if cut is None or one.start < cut]
        step = _ALL if within is None else _STEP
        linked: list[Linked] = []
        for at in range(0, len(spans), step):
            if deadline.passed():
                cut = spans[at].start
                break
            batch = spans[at : at + step]
            linked += self._link([one.to_link for one in batch], k, defined)
        pairs = self._weighed(note, list(zip(spans, linked, strict=False)), k, defined)
        context = NoteContext.of(note, [(one.start, one.end) for one, _ in pairs], self._rules)
        patient = Patient.of(note) if self._icd else Patient()
        said = self._assertions(pairs, context)
        mentions = [
            self._mention(*pair, context, one, patient)
            for pair, one in zip(pairs, said, strict=True)
        ]
        if self.corrections is not None:
            mentions = self.corrections.apply(note, mentions, self.linker)
        return NoteScan(mentions, cut)

    def _link(self, texts: Sequence[str], k: int, defined: Mapping[str, str]) -> list[Linked]:
        """Link texts; what was linked before is remembered, for notes repeat themselves."""
        known = {text: self._links.get((text, k)) for text in texts if text not in defined}
        new = [text for text in dict.fromkeys(texts) if known.get(text) is None]
        made = dict(zip(new, self.linker.link(new, k=k, defined=defined, quick=True), strict=True))
        self._links |= {(text, k): made[text] for text in new if text not in defined}
        while len(self._links) > _REMEMBERED:
            self._links.popitem(last=False)
        return [known.get(text) or made[text] for text in texts]

    def _weighed(
        self,
        note: str,
        pairs: Sequence[tuple[MentionSpan, Linked]],
        k: int,
        defined: Mapping[str, str],
    ) -> list[tuple[MentionSpan, Linked]]:
        """Choose among the meanings of short forms, and leave out what is no diagnosis."""
        clear = Counter(
            found.best.code[:length]
            for one, found in pairs
            if found.best is not None and not self._senses.senses(one.text)
            for length in (1, 2)
        )
        out: list[tuple[MentionSpan, Linked]] = []
        for one, linked in pairs:
            found = self._allowed(linked)
            if found.best is None:
                continue
            if one.text in defined or one.query:
                out.append((one, found))
                continue
            found = self._of_organ(note, one, found, k)
            title = (found.best and found.best.en) or ""
            if self._organs.contradicts(note, one.start, one.end, title):
                continue

            def affinity(meaning: str) -> float:
                return _affinity(self._link([meaning], k, {})[0], clear)

            shares = self._senses.weigh(one.text, note, one.start, one.end, affinity)
            if not shares:
                out.append((one, found))
            elif shares[0].meaning != NO_DIAGNOSIS:
                out.append((one, self._of_senses(one, shares, k)))
        return out

    def _of_organ(self, note: str, one: MentionSpan, found: Linked, k: int) -> Linked:
        """Put the code first that the name has with the organ near it: polyp, nasal polyp."""
        if not self._icd or found.best is None or found.best.code.startswith(self._organs.kept):
            return found
        names, adjacent = self._organs.names(note, one.start, one.end)
        queries = [f"{name} {one.text}" for name in names]
        for linked in self._link([one for one in queries if self._is_name(one)], k, {}):
            best = self._allowed(linked).best
            if best is None or best.why != "exact":
                continue
            # An organ near it does not make a code more exact: of 위암 it is not the cardia.
            if best.code.startswith(found.best.code.removesuffix(".9")) and not adjacent:
                return found
            rest = [one for one in found.candidates if one.code != best.code]
            return replace(found, candidates=(best, *rest)[: max(k, 1)])
        return found

    def _is_name(self, text: str) -> bool:
        form = self.linker.normalizer.form(text)
        return any(
            index.spelling.find(key)
            for index in self.linker.indexes
            for key in (form.key, form.core_key)
            if key
        )

    def _allowed(self, found: Linked) -> Linked:
        """Leave out what is no diagnosis of a note, or everything where nothing else is exact.

        Of two names that are the same, that of Korean medicine (U20 to U99) comes second.
        """
        if not self._icd or found.best is None:
            return found
        kept = [one for one in found.candidates if not one.code.startswith(self._excluded)]
        exact = [one for one in kept if one.why != "fuzzy"]
        if kept[:1] != [found.best] and not (exact and found.best.code.startswith("U")):
            return replace(found, candidates=())
        if not _TRADITIONAL.match(found.best.code) or not exact:
            return found
        kept.sort(key=lambda one: (one.why == "fuzzy", bool(_TRADITIONAL.match(one.code))))
        return replace(found, candidates=tuple(kept))

    def _of_senses(self, one: MentionSpan, shares: Sequence[WeighedSense], k: int) -> Linked:
        """Join the candidates of all meanings; a share scales their scores."""
        best: dict[str, Candidate] = {}
        for sense in shares:
            if sense.meaning == NO_DIAGNOSIS or sense.share < _LEAST_SHARE:
                continue
            for candidate in self._link([sense.meaning], k, {})[0].candidates:
                score = round(candidate.score * sense.share, 4)
                if candidate.code not in best or best[candidate.code].score < score:
                    why = "abbreviation" if one.text != sense.meaning else candidate.why
                    best[candidate.code] = replace(candidate, score=score, why=why)
        ranked = sorted(best.values(), key=lambda candidate: -candidate.score)[:k]
        return Linked(one.text, tuple(ranked))

    def _of_newborn(self, found: Linked) -> Linked:
        """Put the code that newborns have first, where there is one: sepsis is P36.9."""
        best = found.best
        code = self._newborn.get(best.code) if best else None
        if best is None or code is None or code not in self.linker.lexicon:
            return found
        concept = self.linker.lexicon.concept(code)
        own = replace(best, code=code, ko=concept.ko, en=concept.en)
        rest = [one for one in found.candidates if one.code != code]
        return replace(found, candidates=(own, *rest)[: max(len(found.candidates), 1)])

    def _possible(self, found: Linked, patient: Patient, *, past: bool) -> tuple[Linked, bool]:
        """Put codes that a patient cannot have last; False where there is none of the same name."""
        codes = [one.code for one in found.candidates]
        can = {code: self._bounds.allow(code, patient, past=past) for code in codes}
        if found.best is None or can[found.best.code]:
            return found, True
        other = [one for one in found.candidates if can[one.code] and one.why != "fuzzy"]
        rest = [one for one in found.candidates if one not in other]
        return replace(found, candidates=(*other, *rest)), bool(other)

    def _assertions(
        self, pairs: Sequence[tuple[MentionSpan, Linked]], context: NoteContext
    ) -> list[Assertion]:
        """Say what the note says about each mention, checked by the second reader."""
        said, places = [], []
        for one, found in pairs:
            code = found.best.code if found.best else ""
            chronic, symptom = self._rules.is_chronic(code), code.startswith("R")
            own = context.assertion(one.start, one.end, chronic=chronic, symptom=symptom)
            said.append(own)
            places.append(Place(one.start, one.end, own.section, chronic, symptom))
        return said if self._second is None else self._second.check(context, places, said)

    def _mention(
        self,
        one: MentionSpan,
        found: Linked,
        context: NoteContext,
        said: Assertion,
        patient: Patient,
    ) -> NoteMention:
        possible = True
        if said.experiencer == PATIENT:
            birth = said.section == "birth"
            if birth or (context.neonate and (patient.age is None or patient.age < 1)):
                found = self._of_newborn(found)
            past = birth or said.status in (HISTORICAL, NEGATED)
            found, possible = self._possible(found, patient, past=past)
        linked = scale_scores(one, replace(found, mention=one.text), self.trust)
        sure = possible and linked.best is not None and linked.best.score >= self.threshold
        place = (one.start, one.end, one.text)
        return NoteMention(*place, said.attributes, one.by, linked, said, uncertain=not sure)

    def _joined(self, note: str, spans: list[MentionSpan]) -> list[MentionSpan]:
        """Add what the tagger found; of two that overlap the longer one stays.

        A tagger of English may take in the Korean before a name; then the name stays.
        """
        for one in self._taught.finditer(note):
            concept = self._named[one.group()]
            query = concept.ko or concept.en or concept.code
            spans = [*spans, MentionSpan(*one.span(), one.group(), "correction", query)]
        spans = longest(spans, len(note))
        if self.tagger is None:
            return spans
        tagged = [
            MentionSpan(one.start, one.end, note[one.start : one.end], "tagger")
            for one in self.tagger.tag(note)
            if note[one.start : one.end].strip()
        ]
        names = {span.end: span for span in spans}
        tagged = [one for one in tagged if not _leads_in(one, names.get(one.end))]
        return longest([*spans, *tagged], len(note))


_TRADITIONAL = re.compile(r"U[2-9]\d")
_ICD = re.compile(r"[A-Z]\d{2}(?:\.\w{1,4})?(?:-[A-Z]\d{2})?")
_LOOKED_AT = 400  # codes by whose form a table is known


def _is_icd(codes: Sequence[str]) -> bool:
    return sum(bool(_ICD.fullmatch(code)) for code in codes) > len(codes) / 2


def _folder(path: str | Path) -> Path:
    folder = Path(path)
    if not folder.is_dir():
        raise OptionError(
            f"{folder} is no folder; expected one with tables such as cues.tsv. Name another."
        )
    return folder


def read_excluded(*folders: Path) -> tuple[str, ...]:
    """Read which codes are no diagnosis of a note; a later code with ! is one after all."""
    found: dict[str, None] = {}
    for code, _ in table_rows("excluded.tsv", ("code", "what"), folders):
        if code.startswith("!"):
            found.pop(code[1:], None)
        else:
            found[code] = None
    return tuple(found)


def _affinity(linked: Linked, clear: Mapping[str, int]) -> float:
    """Say how near a meaning is to the other diagnoses, counted by the beginnings of codes."""
    if linked.best is None:
        return -1.0
    code = linked.best.code
    return min(2.0, 0.4 * (clear.get(code[:1], 0) + clear.get(code[:2], 0)))


# How often a mention with such evidence is right, as a share of what the linker says of its name.
EVIDENCE_PRECISION = {"exact": 0.98, "abbreviation": 0.97, "meaning": 0.93, "fuzzy": 0.85}


def read_calibration(lexicon: Lexicon) -> tuple[dict[str, float], float]:
    """Give the trust and the threshold that are stored beside a lexicon, else the shipped ones."""
    data = read_stamp(lexicon.folder / LEARNT) if lexicon.folder is not None else {}
    try:
        trust = {str(kind): float(value) for kind, value in data.get("trust", {}).items()}
        return trust, float(data.get("threshold", DEFAULT_THRESHOLD))
    except (AttributeError, TypeError, ValueError):
        return {}, DEFAULT_THRESHOLD


def scale_scores(
    one: MentionSpan, linked: Linked, trust: Mapping[str, float] = EVIDENCE_PRECISION
) -> Linked:
    """Scale the scores of a mention's candidates to how often such mentions are right."""
    if linked.best is None:
        return linked
    share = trust.get(linked.best.why, 0.9)
    share = min(share, {"phrase": 0.95, "typing error": 0.85}.get(one.by, 1.0))
    scaled = (replace(c, score=round(c.score * share, 4)) for c in linked.candidates)
    return replace(linked, candidates=tuple(scaled))


def _leads_in(tagged: MentionSpan, name: MentionSpan | None) -> bool:
    """Tell whether a tagger's span is a name with words before it that are not part of it."""
    if name is None or tagged.start >= name.start:
        return False
    return bool(_LEADS.search(tagged.text[: name.start - tagged.start]))


def to_html(note: str, mentions: Sequence[NoteMention], *, title: str = "note") -> str:
    """Give a whole HTML page: the note unchanged, its mentions marked, every character escaped."""
    found = [mention.to_json() for mention in mentions]
    return "".join(html_page([{"id": "", "text": note, "mentions": found}], title=title))
