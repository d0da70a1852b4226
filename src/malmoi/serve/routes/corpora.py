"""Corpora as collections of documents: /v1/corpus, /v1/passages, and uploads at /v1/documents."""

import base64
import binascii
import re
import tempfile
import time
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

from starlette.responses import Response

from ...corpus import Corpus, Document, PassageKey, StoredDocument
from ...corpus.samples import SampleCorpus
from ...corpus.store import PassageVectors, TitledPassage
from ...documents import FoundFile, read_documents
from ...errors import CorpusBusy, DataError, DocumentError, MalmoiError, MissingExtra, counted
from ..api_keys import access
from ..engine import check_stopped
from ..errors import APIError
from ..schemas import CorpusRequest, PassagesRequest, UploadFile, UploadRequest
from ..settings import MOST_FACETS, Uploads
from ..state import AppState, Overview
from . import json_response
from .search import matches

_FOLDER = "uploads"  # with which the ids of uploaded files start
_LONGEST_NAME = 120  # characters
_ENCODED_AT_ONCE = 8  # passages; others' texts come in between
_FRESH = 300.0  # seconds for which a corpus of the same size is not counted again
_QUESTIONS = 5
_LOOKED_AT = 32  # documents among which questions are looked for
_LONGEST_QUESTION = 60  # characters
_NUMBERING = re.compile(r"^[\d.()]+\s+")
_HANGUL = re.compile("[가-힣]")
_ASKED = {  # what asks for a heading, without a particle that would depend on its last sound
    "ko": "{}에 대해 어떻게 나와 있나요?",
    "en": "What does it say about {}?",
}


async def passages(state: AppState, request: PassagesRequest) -> Response:
    """Give a passage of a document between those before and after it."""
    name, corpus = state.resources.corpus(request.corpus)
    found = await state.engine.call(partial(_passages, corpus, request), lane="search")
    return json_response({"corpus": name} | found)


def _passages(corpus: Corpus, request: PassagesRequest) -> dict[str, Any]:
    first, last = max(0, request.number - request.count), request.number + request.count
    keys = [PassageKey(request.id, number) for number in range(first, last + 2)]
    found = corpus.store.passages(keys)
    asked = found.get(PassageKey(request.id, request.number))
    if asked is None:
        message = "there is no such passage; it may have been removed. Search again."
        raise APIError(404, "passage_not_found", message, param="id")
    document = asked.document
    return {
        "id": document.id,
        "title": document.title,
        "type": document.type,
        "passages": [
            {
                "number": key.number,
                "text": (own := found[key].passage).text,
                "headings": list(own.headings),
                "page": own.page,
                "matches": matches(request.query, own.text),
            }
            for key in keys[:-1]
            if key in found
        ],
        "more_before": first > 0,
        "more_after": keys[-1] in found,
    }


async def describe(state: AppState, request: CorpusRequest) -> Response:
    """Say what a corpus holds, by type and folder, and give questions that it answers."""
    name, corpus = state.resources.corpus(request.corpus)
    key = (name, request.lang, access().rights.groups)
    work = partial(_overview, corpus, state.overviews.get(key), request.lang)
    known = state.overviews[key] = await state.engine.call(work)
    return json_response(
        {
            "corpus": name,
            "sample": isinstance(corpus, SampleCorpus),
            "documents": known.documents,
            "passages": known.passages,
            "types": [{"name": one, "documents": count} for one, count in known.types.items()],
            "folders": [{"name": one, "documents": count} for one, count in known.folders.items()],
            "questions": list(known.questions),
        }
    )


def _overview(corpus: Corpus, known: Overview | None, lang: str | None) -> Overview:
    """What was found a short time ago, or else what is there now."""
    if known is None or known.documents != len(corpus) or time.monotonic() > known.made + _FRESH:
        return _describe(corpus, lang)
    return known


def _describe(corpus: Corpus, lang: str | None) -> Overview:
    types, folders = Counter[str](), Counter[str]()
    count, step = len(corpus), max(1, len(corpus) // _LOOKED_AT)
    some: list[Document] = []
    for number, info in enumerate(corpus.store.documents()):
        if number % 1000 == 0:
            check_stopped()
        document = info.document
        if document.type:
            types[document.type] += 1
            parts = document.id.partition("#")[0].split("/")[:-1]
            folders.update("/".join(parts[: i + 1]) for i in range(len(parts)))
        if number % step == 0:
            some.append(document)
    return Overview(
        count,
        corpus.store.passage_count(),
        dict(types.most_common(MOST_FACETS)),
        dict(sorted(folders.most_common(MOST_FACETS))),
        tuple(_questions(corpus, some, lang)),
        time.monotonic(),
    )


def _questions(corpus: Corpus, documents: Sequence[Document], lang: str | None) -> list[str]:
    """Questions whose first hit is the document that they are made for."""
    asked = list(corpus.questions.items()) if isinstance(corpus, SampleCorpus) else []
    if lang is not None:
        asked = [(text, id) for text, id in asked if _is_in(text, lang)]
    if lang is not None or not asked:
        asked += _possible_questions(corpus, documents, lang)
    found: dict[str, str] = {}
    for question, id in asked:
        check_stopped()
        if len(found) == _QUESTIONS:
            break
        if id not in found and question not in found.values():
            hits = corpus.search(question, 1)
            if hits and hits[0].id == id:
                found[id] = question
    return list(found.values())


def _is_in(text: str, lang: str) -> bool:
    return bool(_HANGUL.search(text)) == (lang == "ko")


def _possible_questions(
    corpus: Corpus, documents: Sequence[Document], lang: str | None
) -> list[tuple[str, str]]:
    """What one might ask documents: what they ask themselves, their last headings, or titles.

    With a language, those in it come first, and headings are put as questions.
    """
    keys = [PassageKey(one.id, number) for one in documents for number in range(4)]
    passages, found = corpus.store.passages(keys), {one.id: one.title for one in documents}
    for key in keys:
        if key not in passages:
            continue
        text = passages[key].passage.text
        if not found[key.document] and text.rstrip().endswith("?"):
            found[key.document] = text
        elif headings := passages[key].passage.headings:
            heading, title = _NUMBERING.sub("", headings[-1]).strip(), passages[key].document.title
            found[key.document] = heading if " " in heading else f"{title} {heading}"
    asked = [(one.strip(), id) for id, one in found.items() if 1 < len(one) <= _LONGEST_QUESTION]
    if lang is None:
        return asked
    asked.sort(key=lambda one: not _is_in(one[0], lang))
    return [
        (text if text.endswith("?") else _ASKED[lang].format(text), id)
        for text, id in asked
        if _is_in(text, lang) or not text.endswith("?")
    ]


async def upload(state: AppState, request: UploadRequest) -> Response:
    """Add files to a corpus, if the server was started with --allow-upload."""
    limits = state.settings.uploads
    if limits is None:
        message = "this server takes no files. Start it with: malmoi serve --allow-upload"
        raise APIError(403, "no_uploads", message)
    name, corpus = state.resources.corpus(request.corpus)
    if len(request.files) > limits.files:
        message = f"{len(request.files)} files in one request; at most {limits.files}. Send parts."
        raise APIError(413, "too_many_files", message, param="files")
    if sum(len(file.content) * 3 // 4 for file in request.files) > limits.bytes + 2 * limits.files:
        message = f"the files have more than {limits.bytes:,} bytes. Send parts, or index them"
        raise APIError(413, "upload_too_large", f"{message} with: malmoi index", param="files")

    key, groups = access().key, access().rights.groups
    own = f"/{key.name}" if key and groups is not None else ""

    def work() -> dict[str, Any]:
        files = _upload(corpus, request.files, limits, f"{_FOLDER}{own}")
        return {"documents": len(corpus), "files": files}

    try:
        done = await state.engine.call(work, lane="upload")
    except APIError as error:
        if error.code != "deadline":
            raise
        # Not 429: a client that tried again would only keep the models busy.
        message = "the files were not indexed in time; those that were are stored whole. Send less,"
        remedy = "start the server with a longer --timeout, or use: malmoi index"
        raise APIError(413, "upload_too_slow", f"{message} {remedy}", param="files") from None
    finally:
        for known in [one for one in state.overviews if one[0] == name]:
            del state.overviews[known]
    return json_response({"corpus": name} | done)


def _upload(
    corpus: Corpus, files: Sequence[UploadFile], limits: Uploads, folder: str
) -> list[dict[str, Any]]:
    found = []
    for file in files:
        name = safe_name(file.name)
        one: dict[str, Any] = {"name": name, "id": "", "documents": 0, "passages": 0, "error": None}
        try:
            written = _Upload(corpus, name, limits, folder).write(file.content)
            one |= {"id": f"{folder}/{name}", "documents": len(written)}
            one["passages"] = sum(len(document.passages) for document in written)
        except (DataError, MissingExtra) as error:  # of this file; the others may be good
            one["error"] = str(error)
        except CorpusBusy:
            message = "another process is writing to the corpus. Try again."
            raise APIError(429, "busy", message, wait=2) from None
        except MalmoiError as error:
            message = f"the corpus cannot be written ({type(error).__name__}). See the server's"
            raise APIError(503, "not_written", f"{message} disk and permissions.") from error
        found.append(one)
    return found


def safe_name(name: str) -> str:
    """Give a file's name without folders, and without what may hide what it is.

    >>> safe_name("C:\\\\내 문서\\\\..\\\\규정 #2.pdf"), safe_name("../.ssh/\\u202eid\\n")
    ('규정 _2.pdf', 'id')
    """
    last = unicodedata.normalize("NFC", name).replace("\\", "/").rstrip("/").rpartition("/")[2]
    shown = "".join(
        " " if one.isspace() else one
        for one in last
        if one.isspace() or not unicodedata.category(one).startswith("C")
    )
    cleaned = re.sub(" +", " ", re.sub(r'[#<>:"|?*]', "_", shown)).strip(" .")
    path = PurePosixPath(cleaned or "file")
    suffix = path.suffix[:12]
    return path.name.removesuffix(suffix)[: _LONGEST_NAME - len(suffix)] + suffix


@dataclass(frozen=True)
class _Upload:
    """One file on its way into a corpus, in one transaction: all of it, or nothing."""

    corpus: Corpus
    name: str
    limits: Uploads
    folder: str  # with which ids start; a key of some groups has one of its own

    def write(self, content: str) -> list[StoredDocument]:
        """Read, split, encode and store a file, whose bytes come in base64."""
        store, id = self.corpus.store, f"{self.folder}/{self.name}"
        file = f"upload:{id.removeprefix(_FOLDER)[1:]}"
        before = store.file_documents(file)
        if len(self.corpus) >= self.limits.documents:
            raise DataError(
                f"the corpus has {counted(len(self.corpus), 'document')}; at most "
                f"{self.limits.documents:,} take uploads. Remove some, or use another corpus."
            )
        documents = self._read(content, id, file)
        if id not in before and store.digests([id]):
            raise DataError(f"{self.name} is in the corpus already, from a folder. Rename it.")
        changed = [one for one in documents if before.get(one.document.id) != one.digest]
        seen = {one.document.id for one in documents}
        stored = self.corpus.encoded(changed, encode=self._encode)
        check_stopped()
        store.write(stored, delete=[id for id in before if id not in seen])
        return documents

    def _read(self, content: str, id: str, file: str) -> list[StoredDocument]:
        try:
            data = base64.b64decode(content, validate=True)
        except (binascii.Error, ValueError):
            raise DataError(f"{self.name} came damaged; expected base64. Send it again.") from None
        # The name of the file on the disk says nothing of the user's; the suffix tells the form.
        with tempfile.TemporaryDirectory(prefix="malmoi-") as folder:
            path = Path(folder) / f"upload{PurePosixPath(self.name).suffix}"
            path.write_bytes(data)
            found = FoundFile(path, id, path.parent, len(data), time.time())
            try:
                return list(self._documents(found, file))
            except DocumentError as error:
                raise DataError(str(error).replace(str(path), self.name)) from error

    def _documents(self, found: FoundFile, file: str) -> Iterator[StoredDocument]:
        characters, most = 0, self.limits.characters
        for number, source in enumerate(read_documents(found)):
            check_stopped()
            characters += sum(len(block.text) for block in source.blocks)
            if characters > most:
                raise DataError(
                    f"{self.name} has more than {most:,} characters. Index it with: malmoi index"
                )
            source = replace(source, source=found.id)
            if (document := self.corpus.split_source(source, number, file)) is not None:
                yield document

    def _encode(self, passages: Sequence[TitledPassage]) -> list[PassageVectors]:
        vectors: list[PassageVectors] = []
        for start in range(0, len(passages), _ENCODED_AT_ONCE):
            check_stopped()
            vectors += self.corpus.encode_passages(passages[start : start + _ENCODED_AT_ONCE])
        return vectors
