"""What a corpus shows to some groups of people: a store in which other documents are not there.

A document may name groups in its field `groups`; it is shown to those who are in one of them, and a
document that names none to all. The searches are filtered inside, not after.
"""

import copy
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from ..errors import DataError
from . import keywords
from .corpus import Corpus
from .filters import Filter, GroupFilter
from .store import (
    Batch,
    Document,
    DocumentInfo,
    PassageKey,
    PassageVectors,
    PassageWithDocument,
    Progress,
    ScoredPassage,
    Store,
    StoredDocument,
    SyncedFile,
    TitledPassage,
    Vector,
    WriteMode,
)


def for_groups(corpus: Corpus, names: Sequence[str]) -> Corpus:
    """Give the corpus as these groups see it; it shares the file with the other."""
    seen = copy.copy(corpus)
    seen.store = GroupStore(corpus.store, GroupFilter.of(names))
    seen._asked = None
    return seen


class GroupStore(Store):
    """A store of which only the documents that fit a filter are there."""

    def __init__(self, store: Store, only: GroupFilter) -> None:
        self._store, self._only, self.about = store, only, store.about
        self._allowed: dict[str, bool] = {}  # by document, as far as they were asked for

    def __len__(self) -> int:
        return self._store.count([self._only])[0]

    def count(self, filters: Sequence[Filter]) -> tuple[int, int]:
        return self._store.count([self._only, *filters])

    def _may(self, ids: Collection[str]) -> set[str]:
        unknown = [id for id in {*ids} if id not in self._allowed]
        for id, document in self._store.get(unknown).items():
            self._allowed[id] = self._only.fits(document.fields)
        return {id for id in ids if self._allowed.get(id)}

    def _keys(self, keys: Collection[PassageKey]) -> list[PassageKey]:
        may = self._may({key.document for key in keys})
        return [key for key in keys if key.document in may]

    def _found(self, passages: list[ScoredPassage]) -> list[ScoredPassage]:
        self._allowed |= {one.id: True for one in passages}
        return passages

    def get(self, ids: Sequence[str]) -> dict[str, Document]:
        return self._store.get([*self._may(ids)])

    def digests(self, ids: Sequence[str]) -> dict[str, str]:
        return self._store.digests([*self._may(ids)])

    def passages(self, keys: Sequence[PassageKey]) -> dict[PassageKey, PassageWithDocument]:
        return self._store.passages(self._keys(keys))

    def tokens_of(self, keys: Sequence[PassageKey]) -> dict[PassageKey, bytes]:
        return self._store.tokens_of(self._keys(keys))

    def vectors_for(self, digests: Sequence[bytes]) -> dict[bytes, PassageVectors]:
        return self._store.vectors_for(digests)  # asked with a text that one has already

    def vector_search(
        self, vector: Vector, k: int, *, filters: Sequence[Filter] = (), exact: bool = False
    ) -> list[ScoredPassage]:
        own = [self._only, *filters]
        return self._found(self._store.vector_search(vector, k, filters=own, exact=exact))

    def vector_scores(self, vector: Vector, keys: Sequence[PassageKey]) -> list[ScoredPassage]:
        return self._store.vector_scores(vector, self._keys(keys))

    def keyword_search(
        self, words: Sequence[str], k: int, *, filters: Sequence[Filter] = ()
    ) -> list[ScoredPassage]:
        return self._found(self._store.keyword_search(words, k, filters=[self._only, *filters]))

    def keyword_candidates(
        self,
        words: Sequence[str],
        k: int,
        keys: Collection[PassageKey],
        *,
        depth: int,
        filters: Sequence[Filter] = (),
    ) -> list[ScoredPassage]:
        own = [self._only, *filters]
        found = self._store.keyword_candidates(words, k, keys, depth=depth, filters=own)
        return self._found(found)

    def best_keyword_score(self, words: Sequence[str]) -> float:
        return self._store.best_keyword_score(words)

    def query_terms(self, query: str) -> keywords.QueryTerms:
        return self._store.query_terms(query)

    def prefetch(self, passages: Sequence[TitledPassage]) -> None:
        self._store.prefetch(passages)

    def fields(self) -> list[str]:
        return sorted({name for one in self.documents() for name in one.document.fields})

    def scan(self) -> Iterator[StoredDocument]:
        return (one for one in self._store.scan() if self._only.fits(one.document.fields))

    def documents(self, *, after: str = "", limit: int | None = None) -> Iterator[DocumentInfo]:
        found = self._store.documents(after=after)
        return islice((one for one in found if self._only.fits(one.document.fields)), limit)

    def passage_count(self) -> int:
        return self._store.count([self._only])[1]

    def sample(self, count: int) -> list[str]:
        found = (passage.text for one in self.scan() for passage in one.passages)
        return list(islice(found, count))

    def files(self) -> dict[str, SyncedFile]:
        return {}

    def file_documents(self, path: str) -> dict[str, str]:
        found = self._store.file_documents(path)
        may = self._may(found)
        return {id: digest for id, digest in found.items() if id in may}

    def progress(self, source: str) -> Progress | None:
        return None

    def check(self) -> list[str]:
        return self._store.check()

    def flush(self) -> None:
        self._store.flush()

    def close(self) -> None:
        """Leave the store open: it is that of the whole corpus."""

    def _write(
        self,
        batch: Batch,
        mode: WriteMode,
        progress: Progress | None,
        delete: Sequence[str],
        files: Sequence[SyncedFile],
    ) -> None:
        """Write documents that these groups see; one that is hidden is not overwritten."""
        ids = [one.document.id for one, _ in batch] + [*delete]
        hidden = self._store.digests(ids).keys() - self._may(ids)
        if hidden:
            raise DataError(f"{len(hidden)} of the ids are taken. Choose others.")
        groups = {self._only.field: list(self._only.groups)} if self._only.groups else {}
        own = []
        for one, words in batch:
            document = replace(one.document, metadata={**one.document.metadata, **groups})
            own.append((replace(one, document=document), words))
        self._store._write(own, mode, progress, delete, files)
        self._allowed = {}

    def delete(self, ids: Sequence[str]) -> int:
        return self._store.delete([*self._may(ids)])

    def remove_files(self, paths: Sequence[str]) -> int:
        raise NotImplementedError("written through the store of the whole corpus")
