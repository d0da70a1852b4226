"""The writing half of a corpus: documents are split, encoded and written, whatever they come from.

A corpus remembers the vectors of a few fixed texts, so that it can refuse a model that is not the
one it was made with, and the prompts that the model asks for. Passages that the store has already
are not encoded again, and one batch is written while the next ones are encoded.
"""

import itertools
import logging
import re
import warnings
from collections import ChainMap, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import numpy as np

from ..documents import Block, Passage, SourceDocument, Splitter, split_document
from ..encoders import TextEncoder, load
from ..encoders.base import OnLong, prompts_of
from ..encoders.token_vectors import TokenEncoder, TokenMap, pack
from ..errors import BundleNotFound, CorpusError, CutWarning, OptionError
from ..runtime.pooling import normalize, to_precision
from ..text.sentences import split_sentences
from ..types import Floats
from .keywords import check_words, default_words
from .store import (
    Document,
    PassageVectors,
    Progress,
    Store,
    StoredDocument,
    StoreInfo,
    SyncedFile,
    TitledPassage,
    WriteMode,
    checked_document,
    searched_text,
    vector_texts,
)

logger = logging.getLogger(__name__)

_PROBES = ("말모이는 낱말을 모은 것이다.", "A gathering of words.", "pt는 DM으로 f/u 중")
# 8-bit and float32 weights of one model, and different processors, agree at least this well …
_SAME = 0.9
# … and a model of another name is the same one renamed only if it agrees this well.
_IDENTICAL = 0.999
# While one batch is written, one is being encoded and the next is waiting for the cores.
_AHEAD = 2


def probe(encoder: TextEncoder, dim: int) -> tuple[tuple[float, ...], ...]:
    """The vectors of a few fixed texts, by which a model is recognised."""
    cut = dim if dim < encoder.dimension else None
    vectors = normalize(encoder.encode(list(_PROBES), dim=cut))
    return tuple(tuple(round(float(value), 6) for value in vector) for vector in vectors)


def new_info(encoder: TextEncoder, precision: str, dim: int | None, words: str | None) -> StoreInfo:
    """The StoreInfo of a new corpus."""
    kind = words or default_words()
    check_words(kind)
    if dim is not None and not 1 <= dim <= encoder.dimension:
        raise OptionError(
            f"dim is {dim}; the model's vectors have {encoder.dimension} dimensions. "
            f"Choose one from 1 to {encoder.dimension}."
        )
    size = dim or encoder.dimension
    prompts = prompts_of(encoder)
    tokens = token_map(encoder)
    return StoreInfo(encoder.name, size, precision, kind, probe(encoder, size), prompts, tokens)


def token_map(encoder: TextEncoder) -> str:
    """The map to token vectors that a corpus stores; empty without token states."""
    found = TokenEncoder.fit(encoder)
    return "" if found is None else found.map.to_text()


def check_model(encoder: TextEncoder, about: StoreInfo) -> None:
    """Raise unless an encoder's vectors can be compared with those of the corpus."""
    remedy = f"Open it with {about.model}, or make a new corpus with: malmoi index"
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
            f"{encoder.name} (agreement {agreement:.4f}; expected {least}). {remedy}"
        )


@dataclass(frozen=True)
class DocumentBatch:
    """Documents to be written in one transaction, with what is stored together with them.

    Attributes:
        documents: without vectors; those that have not changed are left out when it is written.
        empty: how many rows had no text.
        progress: how far a file has been read.
        delete: documents that are gone.
        files: that are complete with this batch.
    """

    documents: tuple[StoredDocument, ...] = ()
    empty: int = 0
    progress: Progress | None = None
    delete: tuple[str, ...] = ()
    files: tuple[SyncedFile, ...] = ()


class CorpusWriter:
    """A store with the splitter and the encoder that turn documents into what it holds."""

    def __init__(
        self, store: Store, encoder: TextEncoder | None = None, *, splitter: Splitter | None = None
    ) -> None:
        self.store = store
        self.splitter: Splitter = splitter or split_document
        self._encoder = encoder
        if encoder is not None:
            check_model(encoder, store.about)

    @property
    def encoder(self) -> TextEncoder:
        """The encoder; loaded by the name stored in the corpus if none was given."""
        if self._encoder is None:
            name = self.store.about.model
            try:
                encoder = load(name)
            except BundleNotFound as error:
                raise BundleNotFound(
                    f"the corpus was made with the model {name}, which is not found by that "
                    "name; expected its folder. Name it: --model FOLDER, or give the encoder."
                ) from error
            check_model(encoder, self.store.about)
            self._encoder = encoder
        return self._encoder

    def add(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Add documents with new ids, all of them or none; returns how many.

        A document is a `Document`, or a mapping with "id", "text" and any other fields.

        >>> corpus.add([{"id": "new", "text": "새 글"}]), corpus.delete("new")
        (1, 1)
        """
        return self._write(documents, "insert")

    def update(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Replace documents whose ids exist, all of them or none; returns how many.

        >>> corpus.update([{"id": "refund", "text": "환불은 7일 안에 됩니다.", "topic": "결제"}])
        1
        """
        return self._write(documents, "update")

    def upsert(self, documents: Iterable[Document | Mapping[str, Any]]) -> int:
        """Add documents, replacing those whose ids exist, all of them or none.

        >>> corpus.upsert([{"id": "opening", "text": "09:00–18:00"}]), corpus.delete("opening")
        (1, 1)
        """
        return self._write(documents, "upsert")

    def _write(self, documents: Iterable[Document | Mapping[str, Any]], mode: WriteMode) -> int:
        if isinstance(documents, str | bytes | Mapping | Document):
            documents = [documents]
        checked = [checked_document(one, i) for i, one in enumerate(documents)]
        batch = self.encoded([StoredDocument(one, self.split(one)) for one in checked])
        if batch:
            self.store.write(batch, mode=mode)
        return len(batch)

    def split(self, document: Document) -> tuple[Passage, ...]:
        """Split a document's text into passages; a short one is a passage as it is."""
        text = document.text
        source = SourceDocument(
            document.id,
            document.title,
            tuple(Block(part) for part in re.split(r"\n\s*\n", text) if part.strip()),
            document.source,
            document.type,
            document.modified or 0.0,
            document.metadata,
        )
        found = tuple(self.splitter(source))
        if len(found) > 1:
            return found
        # Whole, with the space that the splitter leaves out.
        return (Passage(text, (), None, tuple(split_sentences(text))),)

    def add_sources(self, sources: Iterable[SourceDocument]) -> int:
        """Add documents that were read, with their headings and pages; returns how many."""
        split = (self.split_source(one, i, "") for i, one in enumerate(sources))
        batch = self.encoded([one for one in split if one is not None])
        if batch:
            self.store.write(batch, mode="insert")
        return len(batch)

    def split_source(self, source: SourceDocument, number: int, file: str) -> StoredDocument | None:
        """Split a document that was read from a file; None if it has nothing to be found by."""
        passages = tuple(self.splitter(source))
        about = (source.title, source.source, source.type, source.modified)
        document = checked_document(Document(source.id, "", source.metadata, *about), number)
        found = StoredDocument(document, passages, file=file)
        return found.with_digest() if passages else None

    def encoded(
        self,
        documents: Sequence[StoredDocument],
        *,
        encode: Callable[[Sequence[TitledPassage]], list[PassageVectors]] | None = None,
    ) -> list[StoredDocument]:
        """Give documents the vectors of their passages; those that are stored are not made again.

        `encode` takes the place of `encode_passages`.
        """
        return _Encoding(self.store, documents, encode or self.encode_passages).result()

    @cached_property
    def token_encoder(self) -> TokenEncoder | None:
        """What makes token vectors; None if the corpus or its encoder has none."""
        stored = self.store.about.tokens
        return TokenEncoder.of(self.encoder, TokenMap.from_text(stored)) if stored else None

    def encode_passages(self, passages: Sequence[TitledPassage]) -> list[PassageVectors]:
        """Give the vectors (n, width) of passages with their titles, in the store's precision.

        With token vectors a passage needs no vectors of its sentences.
        """
        if not passages:
            return []
        if (tokens := self.token_encoder) is not None:
            prompts, precision = self.store.about.prompts, self.store.about.precision
            whole = [searched_text(*one) for one in passages]
            flat = list(dict.fromkeys(whole))
            found = tokens.encode_both(flat, prompt=None if prompts is None else prompts[1])
            stored = to_precision(self._cut(found[0]), precision)
            made = {
                text: PassageVectors(stored[i][None], pack(found[1][i].vectors))
                for i, text in enumerate(flat)
            }
            return [made[text] for text in whole]
        texts = [vector_texts(title, passage) for title, passage in passages]
        flat = list(dict.fromkeys(text for own in texts for text in own))
        stored = to_precision(self.vectors_of(flat, query=False), self.store.about.precision)
        rows = {text: row for row, text in enumerate(flat)}
        return [PassageVectors(stored[[rows[text] for text in own]]) for own in texts]

    def _cut(self, vectors: Floats) -> Floats:
        """Unit vectors (n, dim) of as many dimensions as the corpus compares."""
        cut: Floats = normalize(vectors[:, : self.store.about.dimension])
        return cut

    def vectors_of(self, texts: Sequence[str], *, query: bool = True) -> Floats:
        """Encode texts into unit vectors (n, dim), as the corpus compares them.

        Queries and passages have different prompts in some models.

        >>> corpus.vectors_of(["환불"]).shape
        (1, 384)
        """
        about, encoder = self.store.about, self.encoder
        dim = about.dimension if about.dimension < encoder.dimension else None
        prompt = None if about.prompts is None else about.prompts[0 if query else 1]
        found = np.empty((len(texts), about.dimension), dtype=np.float32)
        # A passage that is longer than the model reads is covered by windows, so that nothing is
        # cut; shorter texts are spared the counting.
        long = np.array([len(text) > encoder.max_tokens for text in texts], dtype=np.bool_)
        ways: tuple[OnLong, ...] = ("cut", "windows")
        for rows, on_long in zip((~long, long), ways, strict=True):
            some = list(itertools.compress(texts, rows))
            if some:
                found[rows] = encoder.encode(some, dim=dim, prompt=prompt, on_long=on_long)
        vectors: Floats = normalize(found)
        return vectors

    def write_batches(
        self, batches: Iterator[DocumentBatch]
    ) -> Iterator[tuple[DocumentBatch, int]]:
        """Encode and write batches; yields each with the number of documents that had changed.

        Texts that were longer than the model reads are reported once, at the end.
        """
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", CutWarning)
            for batch, changed in self._encoded_ahead(batches):
                stored = {"progress": batch.progress, "delete": batch.delete, "files": batch.files}
                self.store.write(changed, **stored)  # type: ignore[arg-type]
                yield batch, len(changed)
        others = [one for one in caught if one.category is not CutWarning]
        for one in others:
            warnings.warn_explicit(one.message, one.category, one.filename, one.lineno)
        if len(caught) > len(others):  # one message instead of one for each batch
            most = self.encoder.max_tokens
            logger.warning(f"some texts were longer than {most} tokens and were cut")

    def _encoded_ahead(
        self, batches: Iterator[DocumentBatch]
    ) -> Iterator[tuple[DocumentBatch, list[StoredDocument]]]:
        """Keep batches being encoded while one is written, so that no core waits for the disk."""
        waiting: deque[tuple[DocumentBatch, _Encoding]] = deque()
        pool = ThreadPoolExecutor(_AHEAD, thread_name_prefix="malmoi-encode")
        try:
            for batch in batches:
                before = [encoding for _, encoding in waiting]
                changed = self._changed(batch.documents, before)
                encode = self.encode_passages
                waiting.append((batch, _Encoding(self.store, changed, encode, pool, before)))
                if len(waiting) > _AHEAD:
                    done, encoding = waiting.popleft()
                    yield done, encoding.result()
            for batch, encoding in waiting:
                yield batch, encoding.result()
        finally:
            pool.shutdown(cancel_futures=True)

    def _changed(
        self, documents: Sequence[StoredDocument], before: Sequence["_Encoding"]
    ) -> list[StoredDocument]:
        """Documents that are not stored as they are; those of batches before count as stored."""
        last = {one.document.id: one for one in documents}
        stored = self.store.digests(list(last))
        for encoding in before:
            stored |= {one.document.id: one.digest for one in encoding.documents}
        return [one for id, one in last.items() if stored.get(id) != one.digest]


class _Encoding:
    """Documents whose new passages are being encoded, in a pool or when the result is asked for.

    The encodings before it are not in the store yet; their passages are not encoded again.
    """

    def __init__(
        self,
        store: Store,
        documents: Sequence[StoredDocument],
        encode: Callable[[Sequence[TitledPassage]], list[PassageVectors]],
        pool: ThreadPoolExecutor | None = None,
        before: Sequence["_Encoding"] = (),
    ) -> None:
        self.documents = documents
        passages = {
            digest: (one.document.title, passage)
            for one in documents
            for digest, passage in zip(one.passage_digests, one.passages, strict=True)
        }
        self._before = [encoding._made for encoding in before]
        wanted = [one for one in passages if not any(one in made for made in self._before)]
        self._known = store.vectors_for(wanted)
        self._new = [one for one in wanted if one not in self._known]
        self._made: dict[bytes, PassageVectors] = dict.fromkeys(
            self._new, PassageVectors(np.empty(0))
        )
        pairs = [passages[one] for one in self._new]
        self._wait = pool.submit(encode, pairs).result if pool else partial(encode, pairs)
        if pool:
            store.prefetch(list(passages.values()))

    def result(self) -> list[StoredDocument]:
        """The documents with their vectors; those of the encodings before are complete already."""
        self._made.update(zip(self._new, self._wait(), strict=True))
        found = ChainMap(self._made, self._known, *self._before)
        return [
            one.with_vectors([found[digest] for digest in one.passage_digests])
            for one in self.documents
        ]
