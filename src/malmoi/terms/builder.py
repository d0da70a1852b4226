"""LexiconBuilder: entries of several tables, cleaned, merged by code, duplicates kept once."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from ..errors import DataError, by_number, counted
from ..io.fingerprint import sha256
from ..io.progress import Advance, progressing
from ..text.cleanup import mend_surrogates
from .cleaning import BROKEN, Cleaned, clean_name
from .names import EXCLUDED, KINDS, Exclusion, Name, fold, language_of
from .readers import UNSTATED, Entry, TableSource
from .segment import CodeNumbers, Rows, Segment

EXAMPLES = 20


@dataclass
class Listing:
    """Things of one kind: how many there are, and the first of them."""

    count: int = 0
    examples: list[str] = field(default_factory=list)

    def add(self, example: str) -> None:
        """Count one; the first ones are kept."""
        self.count += 1
        if len(self.examples) < EXAMPLES:
            self.examples.append(example)


@dataclass
class BuildReport:
    """All that a build has to say; lists hold the first twenty of their kind."""

    concepts: int = 0
    names: int = 0
    exclusions: int = 0
    languages: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)
    sources: dict[str, int] = field(default_factory=dict)
    names_per_concept: dict[str, float] = field(default_factory=dict)
    names_per_concept_in: dict[str, dict[str, float]] = field(default_factory=dict)
    without_korean: int = 0
    without_english: int = 0
    tables: list[dict[str, Any]] = field(default_factory=list)
    cleaned: dict[str, Listing] = field(default_factory=dict)
    duplicates: Listing = field(default_factory=Listing)
    ambiguous: Listing = field(default_factory=Listing)
    two_preferred: Listing = field(default_factory=Listing)
    other_tables_preferred: int = 0
    broken: Listing = field(default_factory=Listing)
    too_long: Listing = field(default_factory=Listing)
    merged_codes: int = 0
    general: Listing = field(default_factory=Listing)
    plain: bool = False

    def clean(self, step: str, before: str, after: str) -> None:
        """Count a step of cleaning that changed a name."""
        self.cleaned.setdefault(step, Listing()).add(f"{before} → {after}")

    def to_json(self) -> dict[str, Any]:
        """Give the report as JSON-ready data."""
        return asdict(self)


def spread(counts: Iterable[int]) -> dict[str, float]:
    """Say how numbers of names a concept are spread: mean, median, the most."""
    ordered = sorted(counts)
    if not ordered:
        return {}
    return {
        "mean": round(sum(ordered) / len(ordered), 2),
        "median": ordered[len(ordered) // 2],
        "most": ordered[-1],
    }


def describe(report: dict[str, Any]) -> list[str]:
    """Say a report in lines for a person."""
    report = BuildReport().to_json() | report  # one written by an earlier version may lack a field
    per = report["names_per_concept"]
    lines = [
        f"{counted(report['names'], 'name')} of {counted(report['concepts'], 'concept')}; a "
        "concept has "
        f"{per.get('mean', 0)} on average, {per.get('most', 0):,} at most{_by_language(report)}",
        f"  languages   {_counts(report['languages'])}; "
        f"{counted(report['without_korean'], 'concept has', 'concepts have')} no Korean name, "
        f"{report['without_english']:,} no English one",
        f"  kinds       {_counts(report['kinds'])}; {counted(report['exclusions'], 'exclusion')} "
        "kept apart",
        f"  sources     {_counts(report['sources'])}",
    ]
    for table in report["tables"]:
        names = counted(table["rows"], "name")
        lines.append(f"  table       {table['file']} ({table['form']}): {names}")
        lines += [
            f"    passed over {count:,}: {reason} ({by_number(count, 'line', 'lines')} "
            f"{_lines(table, reason)})"
            for reason, count in table["passed"].items()
        ]
    for step, listing in report["cleaned"].items():
        lines.append(f"  cleaned     {step}: {listing['count']:,} ({listing['examples'][0]})")
    for key, title in (
        ("broken", "broken text, left out"),
        ("too_long", "too long for a name, left out"),
        ("duplicates", "duplicates, kept once"),
        ("ambiguous", "one name, several concepts"),
        ("two_preferred", "codes with two preferred names, the first kept"),
        ("general", "too general to stand alone, not looked for in notes"),
    ):
        if report[key]["count"]:
            lines.append(f"  {title}: {report[key]['count']:,}")
            lines += [f"    {example}" for example in report[key]["examples"][:3]]
    for key, title in (
        ("other_tables_preferred", "preferred names of later tables, now synonyms"),
        ("merged_codes", "names moved to the code that replaced theirs"),
    ):
        if report[key]:
            lines.append(f"  {title}: {report[key]:,}")
    if report["plain"]:
        lines.append("  plain: linked without the shipped lay names and clinical names")
    return lines


def _by_language(report: dict[str, Any]) -> str:
    means = {side: one.get("mean") for side, one in report["names_per_concept_in"].items() if one}
    listed = ", ".join(f"{mean} where it has any in {side}" for side, mean in means.items())
    return f" ({listed})" if listed else ""


def _counts(counts: dict[str, int]) -> str:
    most = Counter(counts).most_common(8)
    return ", ".join(f"{name} {count:,}" for name, count in most) or "none"


def _lines(table: dict[str, Any], reason: str) -> str:
    shown = table["passed_lines"].get(reason, [])
    more = ", …" if table["passed"][reason] > len(shown) else ""
    return ", ".join(str(line) for line in shown) + more


_PREFERRED = KINDS.index("preferred")
# A word is too general if names of so many other categories have it.
_CATEGORIES = 8
_STEM = 6  # letters in which depression and depressive agree


def general_names(rows: Iterable[tuple[str, str, int]]) -> set[str]:
    """Find names that are too general, among rows of a core, a code and the number of a kind.

    >>> rows = [("seropositive arthritis", "M05", 0), ("severe", "M05", 2), ("gout", "M10", 0)]
    >>> rows += [(f"severe {word}", f"A{i:02}", 0) for i, word in enumerate("abcdefgh")]
    >>> general_names(rows)
    {'severe'}
    """
    alone: dict[str, set[str]] = defaultdict(set)
    headings: dict[str, set[str]] = defaultdict(set)
    categories: dict[str, set[str]] = defaultdict(set)
    for core, code, kind in rows:
        if not core.isascii():
            continue  # Korean words have no borders; those that matter are in ordinary.tsv
        words = core.split()
        if len(words) == 1:
            alone[core].add(code)
        if kind == _PREFERRED:
            headings[code].update(word[:_STEM] for word in words)
        for word in set(words):
            categories[word].add(code[:3])
    return {
        word
        for word, codes in alone.items()
        if not any(word[:_STEM] in headings[code] for code in codes)
        and len(categories[word] - {code[:3] for code in codes}) >= _CATEGORIES
    }


_WORDS = re.compile(r"[a-z0-9]+")
# A text longer than this is no name: a definition, or a quote that swallowed its neighbours.
LONGEST = 2000


class BaseLexicon(Protocol):
    """What a builder asks of the lexicon to which it adds names."""

    @property
    def codes(self) -> CodeNumbers: ...
    def find(self, text: str) -> list[int]: ...
    def concept_of(self, i: int) -> str: ...
    def shown(self, number: int) -> tuple[str | None, str | None]: ...


@dataclass
class LexiconBuilder:
    """Collects names for a segment; `base` is the lexicon they are added to."""

    base: BaseLexicon | None = None
    merges: Mapping[str, str] = field(default_factory=dict)
    cleaning: bool = True
    report: BuildReport = field(default_factory=BuildReport)
    exclusions: list[Exclusion] = field(default_factory=list)
    _names: dict[tuple[str, str], Name] = field(default_factory=dict)
    _preferred: dict[tuple[str, str], Name] = field(default_factory=dict)

    def read(
        self, tables: Sequence[TableSource], *, required: bool = True, progress: bool = False
    ) -> None:
        """Add the names of tables; where names are `required`, none at all is an error."""
        for table in tables:
            with progressing(table.path.name, total=None, shown=progress) as advance:
                rows = self.add(table.entries(), advance)
            self.report.tables.append(
                {
                    "file": table.path.name,
                    "sha256": sha256(table.path) if table.path.is_file() else "",
                    "form": table.form,
                    "rows": rows,
                    "passed": dict(table.skipped),
                    "passed_lines": table.skipped_lines,
                }
            )
        if required and not self.has_names:
            listed = ", ".join(str(table.path) for table in tables)
            raise DataError(
                f"no names were found in {listed}; expected rows with a code and a name. "
                "Check the columns, and name them with --columns."
            )

    def add(self, entries: Iterable[Entry], advance: Advance = lambda count: None) -> int:
        """Add the names of a table; gives how many entries there were."""
        count = 0
        for entry in entries:
            self._add(entry)
            advance(1)
            count += 1
        return count

    @property
    def has_names(self) -> bool:
        """Tell whether there is anything to write."""
        return bool(self._names)

    def report_general(self) -> None:
        """Add to the report which names are too general to stand alone."""
        rows = (
            (" ".join(_WORDS.findall(one.text.casefold())), one.concept, KINDS.index(one.kind))
            for one in self._names.values()
            if one.text.isascii()
        )
        for name in sorted(general_names(rows)):
            self.report.general.add(name)

    def _add(self, entry: Entry) -> None:
        code = self.merges.get(entry.code, entry.code)
        self.report.merged_codes += code != entry.code
        if len(entry.text) > LONGEST or BROKEN in entry.text:
            report = self.report
            listing = report.too_long if len(entry.text) > LONGEST else report.broken
            listing.add(f"line {entry.line} of {entry.source} ({code})")
            return
        if self.cleaning:
            cleaned = clean_name(entry.text, code=code)
        else:  # but for line ends and tabs, which no column could hold
            cleaned = Cleaned(" ".join(mend_surrogates(entry.text).split()), ())
        if entry.kind == EXCLUDED:
            language = language_of(cleaned.text, entry.language)
            self.exclusions.append(Exclusion(cleaned.text, code, cleaned.codes, language))
            return
        for step in cleaned.steps:
            after = cleaned.extras[0][0] if step == "brackets" else cleaned.text
            self.report.clean(step, entry.text, after)
        self._keep(entry, code, cleaned.text, entry.kind, entry.text)
        for text, kind in cleaned.extras:
            inner = "narrower" if entry.kind == "narrower" and kind == "synonym" else kind
            self._keep(entry, code, text, inner, text, quiet=True)

    def _keep(
        self, entry: Entry, code: str, text: str, kind: str, original: str, *, quiet: bool = False
    ) -> None:
        language = language_of(text, entry.language)
        name = Name(text, code, language, entry.source, kind or "synonym", original)
        key = (code, fold(text))
        if key in self._names or self._is_known(name):
            if not quiet:
                self.report.duplicates.add(f"{text} ({code}, line {entry.line} of {entry.source})")
            return
        if kind in (UNSTATED, "preferred"):
            name = self._ranked(name, stated=kind == "preferred")
        self._names[key] = name

    def _is_known(self, name: Name) -> bool:
        """Tell whether the lexicon that is added to has the name under the same code already."""
        base = self.base
        return base is not None and any(
            base.concept_of(row) == name.concept for row in base.find(name.text)
        )

    def _ranked(self, name: Name, *, stated: bool) -> Name:
        """Make the first name of a concept in a language the preferred one, others synonyms."""
        side = "en" if name.language == "en" else "ko"
        key = (name.concept, side)
        if key not in self._preferred and self._base_prefers(name.concept, side) is None:
            self._preferred[key] = preferred = replace(name, kind="preferred")
            return preferred
        if stated:
            first = self._preferred.get(key)
            if first is not None and first.source == name.source:
                self.report.two_preferred.add(f"{name.concept}: {first.text} | {name.text}")
            else:
                self.report.other_tables_preferred += 1
        return replace(name, kind="synonym")

    def _base_prefers(self, code: str, side: str) -> str | None:
        if self.base is None:
            return None
        number = self.base.codes.number(code)
        return None if number is None else self.base.shown(number)[side == "en"]

    def segment(self) -> Segment:
        """Sort the names by concept and put them into columns; the report is filled in."""
        known = self.base.codes if self.base is not None else None
        codes = {name.concept for name in self._names.values()}
        new = sorted(code for code in codes if known is None or known.number(code) is None)
        first = len(known) if known is not None else 0
        numbers = {code: first + i for i, code in enumerate(new)}
        if known is not None:
            numbers |= {code: known.number(code) or 0 for code in codes if code not in numbers}
        ordered = sorted(
            self._names.values(), key=lambda name: (numbers[name.concept], KINDS.index(name.kind))
        )
        concepts: Rows = np.array([numbers[name.concept] for name in ordered], np.int32)
        self._summarise(ordered)
        return Segment.of(ordered, concepts, new)

    def _summarise(self, names: list[Name]) -> None:
        report = self.report
        per_concept = Counter(name.concept for name in names)
        sides: dict[str, Counter[str]] = {"ko": Counter(), "en": Counter()}
        concepts_of: dict[str, list[str]] = defaultdict(list)
        for name in names:
            sides["en" if name.language == "en" else "ko"][name.concept] += 1
            concepts_of[fold(name.text)].append(name.concept)
        for text, codes in concepts_of.items():
            if len(codes) > 1:
                report.ambiguous.add(f"{text}: {', '.join(codes[:5])}")
        report.names, report.concepts = len(names), len(per_concept)
        report.exclusions = len(self.exclusions)
        report.languages = dict(Counter(name.language for name in names))
        report.kinds = dict(Counter(name.kind for name in names))
        report.sources = dict(Counter(name.source for name in names).most_common(50))
        report.names_per_concept = spread(per_concept.values())
        report.names_per_concept_in = {side: spread(sides[side].values()) for side in sides}
        report.without_korean = len(per_concept) - len(sides["ko"])
        report.without_english = len(per_concept) - len(sides["en"])
