"""Labels of tokens → spans of entities, by IOB1, IOB2 or BIOES, and broken ones mended.

The rule for what makes no sense is conlleval's: an I-X (or E-X) that follows no X begins an
entity, and an entity ends where anything but its own continuation stands. With BIOES, a B-X that
is not followed by I-X or E-X is an entity by itself.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

SCHEMES = ("auto", "iob1", "iob2", "bioes")
Note = Callable[[int, str, str], None]

# L(ast) and U(nit) are what E(nd) and S(ingle) are called in BILOU files.
_SAME = {"L": "E", "U": "S"}


@dataclass(frozen=True, slots=True)
class Token:
    """A word with its label, and the line it stands in."""

    word: str
    label: str
    line: int = 0


def find_scheme(sentences: Sequence[Sequence[str]]) -> str:
    """Look which scheme labels are written in.

    >>> find_scheme([["O", "B-X", "E-X", "S-X"]]), find_scheme([["I-X", "B-X", "O", "I-X"]])
    ('bioes', 'iob1')
    """
    starts = after = 0  # a B- that need not be one, and an I- that follows nothing
    for labels in sentences:
        before = "O"
        for label in labels:
            if label[0] in "ESLU" and label != "O":
                return "bioes"
            continues = before[2:] == label[2:] and before != "O"
            starts += label[0] == "B" and not continues
            after += label[0] == "I" and not continues
            before = label
    return "iob1" if after > starts and not starts else "iob2"


def spans_of(
    tokens: Sequence[Token], scheme: str, note: Note | None = None
) -> Iterator[tuple[int, int, str]]:
    """Yield (first, last + 1, type) of each entity; `note` hears what had to be mended."""
    first, name = -1, ""
    for i, token in enumerate([*tokens, Token("", "O")]):
        mark, kind = _SAME.get(token.label[0], token.label[0]), token.label[2:]
        goes_on = mark in "IE" and first >= 0 and kind == name
        if mark in "IE" and not goes_on and scheme != "iob1" and note:
            after = "another type" if first >= 0 else "O"
            note(token.line, f"{mark}- after {after}", "it begins an entity")
        if first >= 0 and not goes_on:
            yield first, i, name
            first = -1
        if mark != "O" and not goes_on:
            first, name = i, kind
        if mark in "ES" and scheme == "bioes" and first >= 0:
            yield first, i + 1, name
            first = -1
