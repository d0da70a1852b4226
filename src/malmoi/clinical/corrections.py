"""Decisions of people about mentions, kept beside the lexicon, and what is learnt from them.

A decision is about a mention by its exact name: everywhere, or only where a context of the note's
own words stands around it. `accept` keeps what was found, `reject` leaves it out, and a code, a
status or an experiencer replaces what was found. Decisions take effect with the next note.

`learn` fits what a reader believes of its evidence to the decisions, on one part of them, and
measures the rest before and after.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path

from ..errors import DataError, OutputError
from ..io.files import writing
from ..io.fingerprint import hash_number, write_json
from ..io.tables import read_numbered_rows
from ..terms import Lexicon
from ..terms.linker import Candidate, Linked, Linker
from ..terms.normalize import key_of
from ..terms.segment import SHIPPED
from .reader import LEARNT, NoteMention
from .rules import HISTORICAL, HYPOTHETICAL, NEGATED, OTHER, PATIENT, POSSIBLE, PRESENT, Reason

FILE = "corrections.tsv"
DECISIONS = ("accept", "reject", "change")
STATUSES = (PRESENT, NEGATED, POSSIBLE, HYPOTHETICAL, HISTORICAL)
EXPERIENCERS = (PATIENT, "family", OTHER)
_COLUMNS = ("mention", "context", "decision", "code", "status", "experiencer", "score", "why")
_AROUND = 60  # characters on either side in which a context is looked for
_SURE = 0.99
_HELD = 3  # one decision in so many is held back to measure
_FEW = 30  # decisions held back from which a share says something
_PRIOR = 20.0  # decisions that the shipped trust is worth


@dataclass(frozen=True)
class Correction:
    """What a person decided about a mention; an empty context is any."""

    mention: str
    decision: str
    context: str = ""
    code: str = ""
    status: str = ""
    experiencer: str = ""
    score: str = ""
    why: str = ""

    def fits(self, note: str, mention: NoteMention) -> bool:
        """Tell whether it is about this mention of this note."""
        if not self.context:
            return True
        around = note[max(0, mention.start - _AROUND) : mention.end + _AROUND]
        return _flat(self.context) in _flat(around)


def _flat(text: str) -> str:
    return " ".join(text.split()).casefold()


@dataclass(frozen=True)
class Corrections:
    """The decisions that are kept, by the key of their mention; the last one counts."""

    rows: tuple[Correction, ...] = ()

    @cached_property
    def by_key(self) -> Mapping[str, Sequence[Correction]]:
        """The decisions about each mention: those with a context first, the latest first."""
        found: dict[str, list[Correction]] = {}
        for own in (True, False):
            for one in reversed(self.rows):
                if bool(one.context) == own:
                    found.setdefault(key_of(one.mention), []).append(one)
        return found

    @cached_property
    def taught(self) -> Mapping[str, str]:
        """Names with their codes that decisions give everywhere, also where none was found."""
        rows = (row for row in self.rows if not row.context)
        last = {row.mention: row.code if row.decision != "reject" else "" for row in rows}
        return {name: code for name, code in last.items() if code}

    @classmethod
    def open(cls, *paths: str | Path) -> "Corrections":
        """Read tables of decisions."""
        return cls(tuple(one for path in paths for one in read_corrections(Path(path))))

    @classmethod
    def of_lexicon(cls, lexicon: Lexicon, path: str | Path | None = None) -> "Corrections | None":
        """Read what is kept beside a lexicon, and a table of yours; None where there is neither."""
        own = lexicon.folder / FILE if lexicon.folder is not None else None
        paths = [one for one in (own,) if one is not None and one.exists()]
        if path is not None:
            paths.append(Path(path))
        return cls.open(*paths) if paths else None

    def apply(
        self, note: str, mentions: Sequence[NoteMention], linker: Linker
    ) -> list[NoteMention]:
        """Give the mentions as people decided."""
        found = []
        for mention in mentions:
            rows = self.by_key.get(key_of(mention.text), ())
            row = next((one for one in rows if one.fits(note, mention)), None)
            changed = mention if row is None else _changed(mention, row, linker)
            if changed is not None:
                found.append(changed)
        return found


def _by_people(mention: NoteMention, status: str, who: str) -> Reason:
    says = status if who == PATIENT else f"{status} ({who})"
    return Reason(says, mention.text, mention.start, mention.end, FILE, "people decided so")


def _changed(mention: NoteMention, row: Correction, linker: Linker) -> NoteMention | None:
    if row.decision == "reject":
        return None
    said = mention.assertion
    if row.status or row.experiencer:
        status, who = row.status or said.status, row.experiencer or said.experiencer
        why = (_by_people(mention, status, who),)
        said = replace(
            said, status=status, experiencer=who, certainty="certain", otherwise="", why=why
        )
    candidates = list(mention.linked.candidates)
    if row.code and row.code in linker.lexicon:
        concept = linker.lexicon.concept(row.code)
        own = Candidate(row.code, _SURE, concept.ko, concept.en, (mention.text,), "exact")
        candidates = [own, *(one for one in candidates if one.code != row.code)]
    elif candidates:
        candidates[0] = replace(candidates[0], score=_SURE)
    linked = Linked(mention.text, tuple(candidates))
    attributes = said.attributes
    return replace(mention, linked=linked, assertion=said, attributes=attributes, uncertain=False)


def read_corrections(path: Path) -> list[Correction]:
    """Read a table of decisions: mention, decision, and context, code, status, experiencer."""
    found = []
    for line, row in read_numbered_rows(path, strict=True, null=""):
        cells = {name: (row.get(name) or "").strip() for name in _COLUMNS}
        if not cells["decision"]:
            changes = cells["code"] or cells["status"] or cells["experiencer"]
            cells["decision"] = "change" if changes else "accept"
        found.append(check(Correction(**cells), f"line {line} of {path}"))
    return found


def check(one: Correction, where: str) -> Correction:
    """Refuse a decision that cannot be followed."""

    def refuse(found: str, expected: str) -> DataError:
        return DataError(f"{where} has {found}; expected {expected}. Correct the line.")

    if not one.mention:
        raise refuse("no mention", "the words of the note")
    for value, known, name in (
        (one.decision, DECISIONS, "decision"),
        (one.status, ("", *STATUSES), "status"),
        (one.experiencer, ("", *EXPERIENCERS), "experiencer"),
    ):
        if value not in known:
            raise refuse(f"a {name} that is not known", f"one of {', '.join(filter(None, known))}")
    if (one.status or one.experiencer) and not one.context:
        raise refuse(
            "a status without a context",
            "some words around the mention, because what is negated here is present elsewhere",
        )
    return one


def save_corrections(lexicon: Lexicon, rows: Iterable[Correction]) -> Path:
    """Add decisions to the file beside a lexicon."""
    path = _own(lexicon) / FILE
    every = [*(read_corrections(path) if path.exists() else ()), *rows]
    with writing(path) as file:
        file.write(("\t".join(_COLUMNS) + "\n").encode())
        for one in every:
            cells = (" ".join(getattr(one, name).split()) for name in _COLUMNS)
            file.write(("\t".join(cells) + "\n").encode("utf-8", "replace"))
    return path


def _own(lexicon: Lexicon) -> Path:
    folder = lexicon.folder
    if folder is None or folder.parent == SHIPPED:
        raise OutputError(
            f"{lexicon.label} is part of the installation or in memory; expected a lexicon of "
            "yours. Copy it with: malmoi lexicon build sample --out NAME.lexicon"
        )
    return folder


@dataclass(frozen=True)
class Calibration:
    """What decisions taught a reader: its trust in kinds of evidence, and its threshold."""

    trust: Mapping[str, float] = field(default_factory=dict)
    threshold: float = 0.0

    def save(self, lexicon: Lexicon) -> Path:
        """Store it beside a lexicon."""
        path = _own(lexicon) / LEARNT
        write_json(path, asdict(self))
        return path


@dataclass(frozen=True)
class LearnReport:
    """How many decisions were learnt from and held back, and what that changed on the latter."""

    learnt: int
    held: int
    right_before: float
    right_after: float
    error_before: float
    error_after: float
    threshold: float
    trust: Mapping[str, float]

    @property
    def worse(self) -> bool:
        """Whether what was learnt does worse on the decisions that were held back."""
        return self.right_after < self.right_before or self.error_after > self.error_before + 1e-3

    def lines(self) -> list[str]:
        """The report in words."""
        shares = f"  decided rightly  {self.right_before:.1%} before, {self.right_after:.1%} after"
        if self.held < _FEW:
            before, after = (round(x * self.held) for x in (self.right_before, self.right_after))
            shares = f"  decided rightly  {before} of {self.held} before, {after} after"
            shares += "; too few to say in per cent"
        return [
            f"{self.learnt:,} decisions were learnt from, {self.held:,} were held back",
            shares,
            f"  error of scores  {self.error_before:.3f} before, {self.error_after:.3f} after",
            f"  threshold        {self.threshold:.2f}",
            *(f"  trust in {kind:<12} {value:.2f}" for kind, value in sorted(self.trust.items())),
        ]


@dataclass(frozen=True)
class _Case:
    why: str
    score: float  # as the linker gives it, before any trust
    right: bool
    held: bool


def learn(
    rows: Sequence[Correction],
    link: Callable[[Sequence[str]], list[Linked]],
    shipped: Mapping[str, float],
    *,
    threshold: float,
) -> tuple[Calibration, LearnReport]:
    """Fit trust and threshold to decisions; `link` links their mentions as they stand.

    A decision says that the first candidate was right if it accepts it or names the same code.
    """
    linked = link([one.mention for one in rows])
    cases = []
    for row, found in zip(rows, linked, strict=True):
        if found.best is None or (row.decision == "change" and not row.code):
            continue
        right = row.decision == "accept" or (
            row.decision == "change" and found.best.code == row.code
        )
        held = hash_number(key_of(row.mention)) % _HELD == 0  # a mention is on one side only
        cases.append(_Case(found.best.why, found.best.score, right, held))
    fitted, left = [c for c in cases if not c.held], [c for c in cases if c.held]
    if not fitted or not left:
        raise DataError(
            f"{len(cases)} decisions can be learnt from; expected some of at least six different "
            "mentions, because a third of them is held back. Collect more first."
        )
    trust = dict(shipped)
    for kind in sorted({one.why for one in fitted}):
        own = [one for one in fitted if one.why == kind]
        said = sum(one.score for one in own) / len(own)
        was = sum(one.right for one in own)
        prior = shipped.get(kind, 0.9) * said
        trust[kind] = round(min(1.0, (was + _PRIOR * prior) / (len(own) + _PRIOR) / said), 4)
    border = _threshold(fitted, trust, threshold)
    report = LearnReport(
        len(fitted),
        len(left),
        _decided(left, shipped, threshold),
        _decided(left, trust, border),
        _error(left, shipped),
        _error(left, trust),
        border,
        trust,
    )
    return Calibration(trust, border), report


def _threshold(cases: Sequence[_Case], trust: Mapping[str, float], now: float) -> float:
    borders = sorted({now, *(round(0.05 * i, 2) for i in range(4, 20))})
    return max(borders, key=lambda border: (_decided(cases, trust, border), -abs(border - now)))


def _decided(cases: Sequence[_Case], trust: Mapping[str, float], border: float) -> float:
    """Give the share of cases whose score lies on the right side of a border."""
    hits = sum((one.score * trust.get(one.why, 0.9) >= border) == one.right for one in cases)
    return hits / len(cases)


def _error(cases: Sequence[_Case], trust: Mapping[str, float]) -> float:
    """Give the Brier score: the mean square of what was said less what was."""
    return sum((one.score * trust.get(one.why, 0.9) - one.right) ** 2 for one in cases) / len(cases)
