"""E-mails as blocks: subject, text, and attachments to be read like files."""

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any, cast

from ..errors import DocumentError
from ..io.files import decode_lines
from ..text.mojibake import Repairs
from .document import Attachment, Block, Content, FoundFile
from .html import decode_html, html_content, read_whole
from .text import text_blocks

_HEADERS = ("from", "to", "cc", "date")
_QUOTED = re.compile(r"^(>+ ?)+", re.M)


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
    repairs = Repairs()
    blocks += _body(message, str(file.path), repairs)
    if attachments:
        blocks.append(Block("\n".join(f"- {one.name}" for one in attachments), "list"))
    metadata = {name: text for name in _HEADERS if (text := _header(message, name))}
    yield Content(tuple(blocks), subject, metadata, attachments=attachments, repairs=repairs)


def _body(message: EmailMessage, name: str, repairs: Repairs) -> list[Block]:
    part = message.get_body(("plain", "html"))
    if part is None:
        return []
    data = cast(bytes, part.get_payload(decode=True) or b"")
    charset = part.get_content_charset() or ""
    if part.get_content_type() == "text/html":
        html = _decode(data, charset, name) if charset else decode_html(data, name)
        return list(html_content(repairs.text(html), name).blocks)
    text = repairs.text(_decode(data, charset, name))
    return list(text_blocks(_QUOTED.sub("", text).splitlines()))


def _decode(data: bytes, charset: str, name: str) -> str:
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
