"""What goes into a corpus, checked; and whether a model is the one it was made with."""

import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..encoder import TextEncoder
from ..errors import CorpusError, DataError
from ..pooling import normalize
from ..text import as_text, mend_surrogates
from .store import About, Document

_PROBES = ("말모이는 낱말을 모은 것이다.", "A gathering of words.", "pt는 DM으로 f/u 중")
# 8-bit and float32 weights of one model, and different processors, agree at least so well …
_SAME = 0.9
# … and a model of another name is the same one renamed only if it agrees this well.
_IDENTICAL = 0.999


def probe(encoder: TextEncoder, dim: int) -> tuple[tuple[float, ...], ...]:
    """The vectors of a few fixed texts, by which a model is known again."""
    cut = dim if dim < encoder.dimension else None
    vectors = normalize(encoder.encode(list(_PROBES), dim=cut))
    return tuple(tuple(round(float(value), 6) for value in vector) for vector in vectors)


def same_model(encoder: TextEncoder, about: About) -> None:
    """Raise unless an encoder's vectors can be compared with those of the corpus."""
    remedy = f"Open it with {about.model}, or make a new corpus."
    if encoder.dimension < about.dimension:
        raise CorpusError(
            f"the corpus was made with the model {about.model}, of {about.dimension} dimensions; "
            f"{encoder.name} has {encoder.dimension}. {remedy}"
        )
    if not about.probes:
        return
    agreement = float((np.array(probe(encoder, about.dimension)) * about.probes).sum(axis=1).min())
    least = _SAME if encoder.name == about.model else _IDENTICAL
    if agreement < least:
        raise CorpusError(
            f"the corpus was made with the model {about.model}, whose vectors are not those of "
            f"{encoder.name} (agreement {agreement:.2f}; expected {least}). {remedy}"
        )


def checked_document(given: Document | Mapping[str, Any], place: int) -> Document:
    """Make a document of what was given, or say what is wrong with the one at `place`."""
    where = f"document {place}"
    if isinstance(given, Document):
        id, text, metadata = given.id, given.text, dict(given.metadata)
    elif isinstance(given, Mapping) and {"id", "text"} <= given.keys():
        metadata = {key: value for key, value in given.items() if key not in ("id", "text")}
        id, text = given["id"], given["text"]
    else:
        raise DataError(
            f"{where} is {type(given).__name__} without an id and a text; expected a Document or "
            'a mapping with "id" and "text". Give it both.'
        )
    id = as_text(str(id) if isinstance(id, int) else id, where=f"the id of {where}")
    if not id:
        raise DataError(f"{where} has an empty id; expected some text. Give it one.")
    text = mend_surrogates(as_text(text, where=f"the text of {where}"))
    return Document(mend_surrogates(id), text, _checked_metadata(metadata, where))


def _checked_metadata(metadata: dict[Any, Any], where: str) -> dict[str, Any]:
    if not metadata:  # as in most files of plain text
        return {}
    try:
        written = mend_surrogates(json.dumps(metadata, ensure_ascii=False, allow_nan=False))
        read: dict[str, Any] = json.loads(written)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(
            f"the fields of {where} cannot be written as JSON; expected text, finite numbers, "
            "true, false, null and lists of these. Turn other values into text."
        ) from error
    return read
