"""Documents as passages: split at headings, blocks and sentences, with nothing left out."""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial

from ..errors import OptionError
from ..text.sentences import Span, split_sentences
from .document import Block, Passage, SourceDocument

CountTokens = Callable[[str], int]

_FULL = 1.25  # a passage may be this much longer than asked for, to take in a small rest
_SMALL = 0.25  # a rest shorter than this is added to the passage before it
_LONGEST_HEADING = 200  # characters of a heading that are kept as context of each passage

# Tokens of the shipped models, fitted over Korean and English prose, documentation and reviews:
# half of the passages are within 4 % of their true number, nine of ten within 10 %.
_PIECES = re.compile(r"([가-힣]+)|([A-Za-z]+)|(\d+)|([^\W\d_])|([^\s\w]|_)")


def estimate_tokens(text: str) -> int:
    """Estimate how many tokens a model reads in a text, without its tokenizer.

    >>> estimate_tokens("당뇨병 환자는 매년 눈 검사를 받는다. Eye exams every year.")
    16
    """
    total = 0.0
    for hangul, latin, digits, letter, _ in _PIECES.findall(text):
        if hangul:
            total += 0.23 + 0.52 * len(hangul)
        elif latin:
            total += 1.0 + 0.13 * max(0, len(latin) - 6)
        elif digits:
            total += 0.65 * len(digits)
        else:
            total += 1.35 if letter else 1.2
    return round(total)


@dataclass(frozen=True)
class _Piece:
    """A part of a block that is kept together, and what is between it and the one before."""

    text: str
    sentences: tuple[Span, ...]
    tokens: int
    page: int | None
    between: str
    header: str = ""  # of the table that it is a part of


@dataclass(frozen=True)
class _Section:
    """Blocks under the same headings."""

    headings: tuple[str, ...]
    blocks: tuple[Block, ...]


def split_document(
    document: SourceDocument, *, tokens: int = 200, count: CountTokens | None = None
) -> list[Passage]:
    """Split a document into passages of about `tokens` tokens.

    A passage never crosses a heading. Paragraphs, lists, tables and code are kept whole where
    they fit, and otherwise split at sentences, items, rows (the header of the table is repeated)
    and lines. Every character of the document is in a passage or its headings.

    Args:
        document: of `read_documents`.
        tokens: how long a passage is; one may be a quarter longer.
        count: gives a text's number of tokens, by default an estimate for Korean and English.
    """
    if tokens < 8:
        raise OptionError(f"tokens is {tokens}; expected 8 or more. Ask for longer passages.")
    cut = _Cutter(tokens, count or estimate_tokens)
    passages: list[Passage] = []
    for section in _sections(document.blocks, document.title):
        pieces = [piece for block in section.blocks for piece in cut.pieces(block)]
        passages += (_passage(group, section.headings) for group in cut.groups(pieces))
    return passages


def _sections(blocks: Iterable[Block], title: str) -> Iterator[_Section]:
    """Put blocks under their headings.

    A heading with nothing under it is a paragraph itself, unless it is the document's title.
    """
    above: list[Block] = []
    inside: list[Block] = []
    blocks = [block for block in blocks if block.text.strip()]
    named = blocks[0] if blocks and blocks[0].text == title else None
    for block in blocks:
        if block.kind != "heading" or len(block.text) > _LONGEST_HEADING:
            inside.append(block)
            continue
        yield from _section(above, inside, block.level, named)
        above = [*(one for one in above if one.level < block.level), block]
        inside = []
    yield from _section(above, inside, 0, None)


def _section(
    above: list[Block], inside: list[Block], next_level: int, named: Block | None
) -> Iterator[_Section]:
    if inside:
        yield _Section(tuple(one.text for one in above), tuple(inside))
    elif above and next_level <= above[-1].level and above[-1] is not named:
        # Nothing came between this heading and the next of its level: it speaks for itself.
        yield _Section(tuple(one.text for one in above[:-1]), (above[-1],))


@dataclass(frozen=True)
class _Cutter:
    """Cuts blocks into pieces that fit, and gathers pieces into passages."""

    tokens: int
    count: CountTokens

    def pieces(self, block: Block) -> Iterator[_Piece]:
        """Yield a block whole if it fits, else its parts."""
        size = self.count(block.text)
        whole = partial(_Piece, page=block.page)
        if size <= self.tokens:
            yield whole(block.text, _spans(block), size, between="\n\n")
        elif block.kind == "table":
            yield from self.rows(block)
        elif block.kind in ("list", "code"):
            between = "\n\n"
            for line in block.text.split("\n"):
                spans = ((0, len(line)),) if block.kind == "code" else tuple(split_sentences(line))
                for piece in self.fitting(line, spans, block.page, between):
                    yield piece
                    between = "\n"
        else:
            spans = tuple(split_sentences(block.text))
            yield from self.fitting(block.text, spans, block.page, "\n\n")

    def rows(self, block: Block) -> Iterator[_Piece]:
        """Yield the rows of a table; its first row is remembered as their header."""
        header, _, rest = block.text.partition("\n")
        if not rest or self.count(header) > self.tokens / 2:  # no header that could be repeated
            header, rest = "", block.text
        between = "\n\n"
        for row in rest.split("\n"):
            spans = ((0, len(row)),)
            for piece in self.fitting(row, spans, block.page, between, header):
                yield piece
                between = "\n"

    def fitting(
        self, text: str, spans: tuple[Span, ...], page: int | None, between: str, header: str = ""
    ) -> Iterator[_Piece]:
        """Yield a text sentence by sentence, and sentences that are too long in parts."""
        room = self.tokens - (self.count(header) if header else 0)
        if (size := self.count(text)) <= room:
            if text.strip():
                yield _Piece(text, spans, size, page, between, header)
            return
        last = 0
        for start, end in spans:
            for piece_start, piece_end in self.parts(text, start, end, room):
                piece = text[piece_start:piece_end]
                gap = between if last == 0 else (text[last:piece_start] or "")
                yield _Piece(piece, ((0, len(piece)),), self.count(piece), page, gap, header)
                last = piece_end

    def parts(self, text: str, start: int, end: int, room: int) -> Iterator[Span]:
        """Yield parts of a sentence that fit: cut at spaces, and inside a word that is too long."""
        size = self.count(text[start:end])
        while size > room:
            step = max(1, (end - start) * room // size)  # as many characters as tokens allow
            cut = text.rfind(" ", start + step // 2, start + step + 1)
            cut = cut if cut > start else start + step
            while self.count(text[start:cut]) > room and cut - start > 1:
                cut = start + max(1, (cut - start) * 3 // 4)
            piece = text[start:cut]
            yield start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())
            start = cut + len(text[cut:end]) - len(text[cut:end].lstrip())
            size = self.count(text[start:end])
        if start < end:
            yield start, end

    def groups(self, pieces: list[_Piece]) -> list[list[_Piece]]:
        """Gather pieces into passages; a small rest joins the passage before it."""
        groups: list[list[_Piece]] = []
        sizes: list[int] = []
        for piece in pieces:
            size = piece.tokens
            if groups and sizes[-1] + size <= self.tokens:
                groups[-1].append(piece)
                sizes[-1] += size
            else:
                groups.append([piece])
                sizes.append(size + (self.count(piece.header) if piece.header else 0))
        small = len(groups) > 1 and sizes[-1] < _SMALL * self.tokens
        if small and sizes[-2] + sizes[-1] <= _FULL * self.tokens:
            rest = groups.pop()
            groups[-1] += rest
        return groups


def _spans(block: Block) -> tuple[Span, ...]:
    """Find the sentences of a whole block: a row of a table is one, and so is a block of code."""
    if block.kind == "code":
        return ((0, len(block.text)),)
    if block.kind != "table":
        return tuple(split_sentences(block.text))
    spans, at = [], 0
    for row in block.text.split("\n"):
        spans.append((at, at + len(row)))
        at += len(row) + 1
    return tuple(span for span in spans if span[0] < span[1])


def _passage(pieces: list[_Piece], headings: tuple[str, ...]) -> Passage:
    """Join pieces into a passage; the header of a table comes before its rows."""
    text = ""
    spans: list[Span] = []
    header = ""
    for piece in pieces:
        text += piece.between if text else ""
        if piece.header and piece.header != header:
            spans.append((len(text), len(text) + len(piece.header)))
            text += piece.header + "\n"
        header = piece.header
        spans += ((len(text) + start, len(text) + end) for start, end in piece.sentences)
        text += piece.text
    return Passage(text, headings, pieces[0].page, tuple(spans))
