"""Web pages and e-mails as blocks: what is read, without scripts, styles and navigation."""

import codecs
import contextlib
import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any, cast

from ..errors import DocumentError
from ..io.files import LONGEST_LINE, decode_lines, sniff
from .dates import iso_date
from .document import Attachment, Block, Content, FoundFile
from .text import text_blocks

_DROPPED = (
    "script, style, noscript, template, svg, canvas, iframe, object, nav, aside, form button, "
    "select, head, body > footer, [hidden], [aria-hidden=true], [role=navigation], [role=banner], "
    "[role=search]"
)
_BLOCKS = frozenset(
    (
        *("address", "article", "blockquote", "body", "center", "dd", "details", "div", "dl", "dt"),
        *("fieldset", "figcaption", "figure", "footer", "form", "header", "hr", "html", "legend"),
        *("main", "p", "section", "summary", "tbody", "td", "tfoot", "th", "thead", "tr"),
        *("h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "table", "pre", "li", "caption"),
    )
)
_DEEPEST = 200  # elements inside one another; deeper ones are read as text
_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w:.-]{2,30})""", re.I)
_SPACE = re.compile(r"\s+")
# Names that browsers read as more than they say.
_WIDER = {"euc-kr": "cp949", "ks_c_5601-1987": "cp949", "ksc5601": "cp949", "iso-8859-1": "cp1252"}
# Names by which the head of a page has its date, the surest first.
_DATES = (
    *("article:published_time", "date", "dc.date", "dc.date.issued", "dcterms.date"),
    *("dcterms.created", "pubdate", "article:modified_time", "last-modified"),
)
_HEADERS = ("from", "to", "cc", "date")
_QUOTED = re.compile(r"^(>+ ?)+", re.M)


def load_html(file: FoundFile) -> Iterator[Content]:
    """Read a web page; its encoding is that of its mark, of its meta element, or found."""
    data = read_whole(file, "a web page. Break it into several.")
    name = str(file.path)
    yield html_content(decode_html(data, name), name)


def read_whole(file: FoundFile, expected: str) -> bytes:
    """Read a file that is parsed as a whole; the error for a longer one ends with `expected`."""
    with file.path.open("rb") as opened:
        data = opened.read(LONGEST_LINE + 1)
    if len(data) > LONGEST_LINE:
        limit = LONGEST_LINE // 2**20
        raise DocumentError(f"{file.path} is longer than {limit} MiB; expected {expected}")
    return data


def decode_html(data: bytes, name: str) -> str:
    """Decode a web page; a charset that it names wrongly is not believed."""
    named = _CHARSET.search(data[:4096])
    # A page in UTF-8 that says otherwise is common; one that is UTF-8 by chance is not.
    if named and not sniff(data)[1] and not _is_utf8(data):
        encoding = named[1].decode("ascii").lower()
        with contextlib.suppress(LookupError, UnicodeError):
            return codecs.decode(data, _WIDER.get(encoding, encoding))
    return decode_lines(data, name)


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def html_content(html: str, name: str) -> Content:
    """Make blocks of a web page."""
    from selectolax.lexbor import LexborHTMLParser  # only where a page is read: it takes time

    tree: Any = LexborHTMLParser(html)
    title = tree.css_first("title")
    named = _flat(title.text()) if title else ""
    date = _page_date(tree)
    for node in tree.css(_DROPPED):
        if node.parent is not None:
            node.decompose()
    main = tree.css("main, [role=main], article")
    # A page's own text is in its main element; what is around it is the site's.
    root = main[0] if len(main) == 1 and len(main[0].text()) > 200 else tree.body or tree.root
    return Content(tuple(_blocks(root)), title=named, metadata={"date": date} if date else {})


def _page_date(tree: Any) -> str:
    """When a page says that it was published, by its head or the first time it marks."""
    found = {
        str(one.attributes.get("property") or one.attributes.get("name") or "").lower(): one
        for one in reversed(tree.css("meta[content]"))
    }
    dates = [iso_date(found[name].attributes["content"]) for name in _DATES if name in found]
    time = tree.css_first("time[datetime]")
    if time is not None:
        dates.append(iso_date(time.attributes["datetime"]))
    return next(filter(None, dates), "")


def _blocks(root: Any, depth: int = 0) -> Iterator[Block]:
    """Yield the blocks inside an element."""
    line: list[str] = []
    for node in root.iter(include_text=True):
        tag = node.tag
        if tag == "-text":
            line.append(node.text_content or "")
        elif tag == "br":
            line.append("\n")
        elif tag == "img":
            line.append(" " + (node.attributes.get("alt") or "") + " ")
        elif (tag in _BLOCKS or _has_blocks(node)) and depth < _DEEPEST:
            yield from _paragraph(line)
            line = []
            yield from _block(node, tag, depth)
        else:
            line.append(_inline(node))
    yield from _paragraph(line)


def _block(node: Any, tag: str, depth: int) -> Iterator[Block]:
    """Yield the blocks of an element that is a block of its own."""
    if tag in ("h1", "h2", "h3", "h4", "h5", "h6"):
        if text := _flat(_inline(node)):
            yield Block(text, "heading", int(tag[1]))
    elif tag in ("ul", "ol"):
        if text := "\n".join(_items(node, 0)):
            yield Block(text, "list")
    elif tag == "pre":
        if (text := node.text(deep=True).strip("\n")).strip():
            yield Block(text, "code")
    elif tag == "table":
        yield from _table(node, depth)
    else:
        yield from _blocks(node, depth + 1)


def _table(node: Any, depth: int) -> Iterator[Block]:
    """Yield a table; one that only arranges the page is read as what is in its cells."""
    rows = [row.css("td, th") for row in node.css("tr")]
    arranges = node.css_first("table table, h1, h2, h3, p + p") is not None
    if arranges or all(len(cells) < 2 for cells in rows):
        yield from _blocks(node, depth + 1)
        return
    lines = [[_flat(_inline(cell)) for cell in cells] for cells in rows]
    caption = node.css_first("caption")
    if caption is not None and (text := _flat(_inline(caption))):
        yield Block(text)
    if text := "\n".join(" | ".join(cells) for cells in lines if any(cells)):
        yield Block(text, "table")


def _items(node: Any, depth: int) -> Iterator[str]:
    """Yield the lines of a list, inner lists moved to the right."""
    number = 0
    for item in node.iter(include_text=True):
        if _is_list(item, depth):  # not allowed here, but common
            yield from _items(item, depth + 1)
            continue
        inner = item.iter(include_text=True) if item.tag != "-text" else [item]
        lists, parts = [], []
        for child in inner:
            if _is_list(child, depth):
                lists.append(child)
            else:
                text = child.text_content if child.tag == "-text" else _inline(child)
                parts.append((text or "") + (" " if child.tag in _BLOCKS else ""))
        if text := _flat("".join(parts)):
            number += 1
            sign = f"{number}. " if node.tag == "ol" else "- "
            yield "  " * depth + sign + text
        for child in lists:
            yield from _items(child, depth + 1)


def _is_list(node: Any, depth: int) -> bool:
    return node.tag in ("ul", "ol") and depth < _DEEPEST


def _has_blocks(node: Any) -> bool:
    """Say whether an inline element has blocks inside it."""
    return node.css_first("p, div, h1, h2, h3, h4, ul, ol, table, pre") is not None


def _inline(node: Any) -> str:
    """Give the text of an element, a space where blocks meet."""
    parts = []
    for child in node.traverse(include_text=True):
        if child.tag == "-text":
            parts.append(child.text_content or "")
        elif child.tag == "br" or child.tag in _BLOCKS:
            parts.append(" ")
        elif child.tag == "img":
            parts.append(" " + (child.attributes.get("alt") or "") + " ")
    return "".join(parts)


def _paragraph(line: list[str]) -> Iterator[Block]:
    """Yield the text that stood between two blocks; an empty line in it parts paragraphs."""
    # Line ends of the source are spaces, those of <br> are line ends.
    text = "".join(one if one == "\n" else _SPACE.sub(" ", one) for one in line)
    for paragraph in re.split(r"\n\s*\n", text):
        lines = filter(None, (_flat(part) for part in paragraph.split("\n")))
        if joined := "\n".join(lines):
            yield Block(joined)


def _flat(text: str) -> str:
    return _SPACE.sub(" ", text).strip()


def load_mail(file: FoundFile) -> Iterator[Content]:
    """Read an e-mail: its plain text, or the text of its web page; the headers are metadata."""
    data = read_whole(file, "an e-mail. Save its attachments as files.")
    message = email.message_from_bytes(data, policy=email.policy.default)
    if not any(message.get(name) for name in ("from", "to", "subject", "date")):
        raise DocumentError(
            f"{file.path} has no headers of an e-mail; expected From, To or Subject. "
            "Save it as text."
        )
    subject = _header(message, "subject")
    attachments = tuple(_attachments(message))
    blocks = [Block(subject, "heading", 1)] if subject else []
    blocks += _body(message, str(file.path))
    if attachments:
        blocks.append(Block("\n".join(f"- {one.name}" for one in attachments), "list"))
    metadata = {name: text for name in _HEADERS if (text := _header(message, name))}
    if date := iso_date(metadata.get("date")):
        metadata["date"] = date
    yield Content(tuple(blocks), subject, metadata, attachments=attachments)


def _body(message: EmailMessage, name: str) -> list[Block]:
    part = message.get_body(("plain", "html"))
    if part is None:
        return []
    data = cast(bytes, part.get_payload(decode=True) or b"")
    charset = part.get_content_charset() or ""
    if part.get_content_type() == "text/html":
        html = _decode_part(data, charset, name) if charset else decode_html(data, name)
        return list(html_content(html, name).blocks)
    text = _decode_part(data, charset, name)
    return list(text_blocks(_QUOTED.sub("", text).splitlines()))


def _decode_part(data: bytes, charset: str, name: str) -> str:
    """Decode a part by the charset that it names, if that is right."""
    if charset in ("euc-kr", "ks_c_5601-1987"):
        charset = "cp949"
    try:
        return data.decode(charset or "ascii")
    except (LookupError, UnicodeDecodeError):
        return decode_lines(data, name)


def _header(message: EmailMessage, name: str) -> str:
    """Give a header as text; bytes that nobody declared are decoded as lines of a file are."""
    raw = next((str(value) for key, value in message.raw_items() if key.lower() == name), "")
    try:
        raw.encode()
        text = str(message.get(name) or "")
    except UnicodeEncodeError:
        text = decode_lines(raw.encode("utf-8", "surrogateescape"), "a header")
    except Exception:  # the parser of headers fails on some that are not well formed
        text = raw
    return " ".join(text.split())


def _attachments(message: EmailMessage) -> Iterator[Attachment]:
    for part in message.iter_attachments():
        name = part.get_filename() or ""
        payload: Any = part.get_payload(decode=True)
        if part.get_content_type() == "message/rfc822":
            inner = part.get_content()
            name = name or "message.eml"
            payload = inner.as_bytes() if isinstance(inner, EmailMessage) else None
        if name:
            yield Attachment(name, payload if isinstance(payload, bytes) else b"")
