"""What a write asks of its ids, the same in every store."""

from collections.abc import Sequence

from ..errors import DataError, by_number, counted
from .store import Rule, Stored


def last_of_each(batch: Sequence[Stored], rule: Rule) -> list[Stored]:
    """Keep the last document of each id; new ones may not repeat an id at all."""
    by_id = {stored.document.id: stored for stored in batch}
    if rule == "new" and len(by_id) < len(batch):
        raise DataError(
            f"{counted(len(batch), 'document')} have {counted(len(by_id), 'different id')}; "
            "expected an id for each. Give every document an id of its own."
        )
    return list(by_id.values())


def check_rule(count: int, known: int, rule: Rule) -> None:
    """Raise when ids that must be new are known, or the other way round."""
    if rule == "new" and known:
        raise DataError(
            f"{known} of {counted(count, 'id')} {by_number(known, 'is', 'are')} in the corpus "
            "already; expected new ones. "
            "Use update to replace documents, or other ids."
        )
    new = count - known
    if rule == "known" and new:
        raise DataError(
            f"{new} of {counted(count, 'id')} {by_number(new, 'is', 'are')} not in the corpus; "
            "expected known ones. Use add for new documents."
        )
