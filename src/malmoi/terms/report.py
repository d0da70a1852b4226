"""What came of building a lexicon: counts, what was cleaned, and what a person should look at."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from ..errors import by_number, counted

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
