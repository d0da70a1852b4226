"""Filters for an engine that compares JSON: what of a document is stored, and what is asked.

Milvus compares single values, and a field of ours may hold a list, or numbers in one document
and text in another. So each field's least and greatest number and text are stored, and every
value once more as a key: any value is below x just when the least is.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .filters import Atom, Filter, atoms

KEYS = "keys"


def facts(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """What the engine compares of a document's metadata.

    >>> facts({"year": [2023, 2024]})
    {'keys': ['year=2023.0', 'year=2024.0'], 'least:year': 2023.0, 'most:year': 2024.0}
    """
    found: dict[str, Any] = {KEYS: []}
    for name, value in metadata.items():
        values = atoms(value)
        found[KEYS] += [_key(name, one) for one in values]
        numbers = [float(one) for one in values if not isinstance(one, str)]
        texts = [one for one in values if isinstance(one, str)]
        if numbers:
            found |= {f"least:{name}": min(numbers), f"most:{name}": max(numbers)}
        if texts:
            found |= {f"first:{name}": min(texts), f"last:{name}": max(texts)}
    return found


def expression(filters: Sequence[Filter], *, column: str = "facts") -> str:
    """The filters as one condition in Milvus's language.

    >>> expression([Filter("year", ">=", 2020)])
    '(facts["most:year"] >= 2020.0 or facts["last:year"] >= "")'
    """
    return " and ".join(_condition(one, column) for one in filters)


def any_of(column: str, values: Iterable[str]) -> str:
    """The condition that a column holds one of these texts."""
    return f"{column} in [{', '.join(quoted(value) for value in values)}]"


def quoted(text: str) -> str:
    """A text as the language writes it; nothing in it can end it early."""
    return json.dumps(text, ensure_ascii=False)


def _condition(one: Filter, column: str) -> str:
    if one.operator in ("=", "!="):
        holds = f"json_contains({column}[{quoted(KEYS)}], {quoted(_key(one.field, one.value))})"
        return holds if one.operator == "=" else f"not {holds}"
    below = one.operator.startswith("<")
    # As in SQLite: every number comes before every text.
    if isinstance(one.value, str):
        own = _place(column, "first" if below else "last", one.field)
        other = f"{_place(column, 'least', one.field)} <= 1.7e308" if below else ""
        holds = f"{own} {one.operator} {quoted(one.value)}"
    else:
        own = _place(column, "least" if below else "most", one.field)
        other = "" if below else f'{_place(column, "last", one.field)} >= ""'
        holds = f"{own} {one.operator} {float(one.value)!r}"
    return f"({holds} or {other})" if other else f"({holds})"


def _place(column: str, kind: str, field: str) -> str:
    return f"{column}[{quoted(f'{kind}:{field}')}]"


def _key(name: str, value: Atom) -> str:
    return f"{name}={value}" if isinstance(value, str) else f"{name}={float(value)!r}"
