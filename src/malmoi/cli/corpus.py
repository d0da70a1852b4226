"""`malmoi corpus`: what is in a corpus, and what concerns it as a whole."""

import json
from collections.abc import Iterable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from ..corpus.corpus import Corpus
from ..corpus.ingest import copy_corpus, upgrade_corpus
from ..corpus.sqlite import SqliteStore, open_store
from ..corpus.store import Document, PassageKey, Store
from ..encoders import load
from ..errors import CorpusError, DataError, counted
from ..io.files import writing
from .options import ModelOption, arg, opt
from .output import Row, prints_rows, say, watched

app = typer.Typer()
CorpusPath = Annotated[str, arg("A corpus file, or an address in Milvus.")]


@app.command("list")
@prints_rows
def list_documents(
    corpus: CorpusPath,
    folder: Annotated[str, opt("Only documents whose ids start with this.")] = "",
) -> Iterable[Row]:
    """Print a row for each document: its id, title, type, passages and where it is from."""
    with closing(open_store(corpus)) as store:
        for one in store.documents():
            if one.document.id.startswith(folder):
                yield _about(one.document) | {"passages": one.passages}


@app.command()
@prints_rows
def show(corpus: CorpusPath, id: Annotated[str, arg("The id of a document.")]) -> Iterable[Row]:
    """Print the passages of a document, a row each."""
    with closing(open_store(corpus)) as store:
        number = 0
        while found := store.passages([PassageKey(id, n) for n in range(number, number + 100)]):
            for key in sorted(found):
                passage = found[key].passage
                yield {
                    "number": key.number,
                    "page": passage.page,
                    "headings": list(passage.headings),
                    "text": passage.text,
                }
            number += 100
        if not number:
            raise _unknown(id)


@app.command()
def delete(corpus: CorpusPath, ids: Annotated[list[str], arg("The ids of documents.")]) -> None:
    """Delete documents; files that are still in a synced folder come back when they change."""
    with closing(open_store(corpus)) as store:
        missing = set(ids) - store.digests(ids).keys()
        if missing:
            raise _unknown(sorted(missing)[0])
        count = store.delete(ids)
        say(f"{counted(count, 'document')} deleted; {corpus} has {len(store):,}")


@app.command()
@prints_rows
def stats(corpus: CorpusPath) -> Iterable[Row]:
    """Print how much there is, and what the corpus was made for."""
    with closing(open_store(corpus)) as store:
        path = Path(corpus)
        files = [path, Path(f"{path}.index"), Path(f"{path}-wal")]
        yield {
            "documents": len(store),
            "passages": store.passage_count(),
            "files": len(store.files()),
            "fields": store.fields(),
            "model": store.about.model,
            "dimension": store.about.dimension,
            "precision": store.about.precision,
            "words": store.about.words,
            "bytes": sum(file.stat().st_size for file in files if file.is_file()),
        }


@app.command()
def check(
    corpus: CorpusPath,
    repair: Annotated[
        bool,
        opt("Make a whole file of what can be read; the damaged one is kept next to it."),
    ] = False,
    model: ModelOption = None,
) -> None:
    """Compare every row, word, vector and row of the index; exit code 1 if there is damage."""
    with closing(open_store(corpus)) as store:
        found = store.check()
        if not found:
            passages = counted(store.passage_count(), "passage")
            say(f"{corpus} is sound: {counted(len(store), 'document')} in {passages}")
        elif not repair or not isinstance(store, SqliteStore):
            raise CorpusError(
                f"{corpus} is damaged: {'; '.join(found)}. Repair it with: malmoi corpus check "
                f"{corpus} --repair, or restore a backup"
            )
        else:
            _repair(store, found, model)


def _repair(store: SqliteStore, found: list[str], model: str | None) -> None:
    say(f"{store.path} is damaged: {'; '.join(found)}")
    encoder = load(model) if model is not None else None
    done = store.repair(lambda passages: Corpus(store, encoder).encode_passages(passages))
    say(
        f"repaired {store.path}: {counted(done.documents, 'document')}; "
        f"{counted(done.encoded, 'passage')} encoded again; the damaged file is {done.kept}"
    )
    if done.lost:
        raise CorpusError(
            f"{counted(len(done.lost), 'document')} could not be read and are not in "
            f"{store.path} any more: {', '.join(done.lost)}. Add them again with: malmoi index, "
            "or take them from a backup"
        )


@app.command()
def export(
    corpus: CorpusPath,
    out: Annotated[Path | None, opt("A .jsonl file; stdout when left out.", "--out", "-o")] = None,
) -> None:
    """Write every document as a JSON line: id, text, title, source and metadata."""
    with closing(open_store(corpus)) as store:
        if out is None:
            for line in _lines(store):
                typer.echo(line)
            return
        with writing(out) as file:
            for line in _lines(store):
                file.write(f"{line}\n".encode("utf-8", "surrogatepass"))
        say(f"wrote {counted(len(store), 'document')} to {out}")


@app.command()
def copy(
    source: CorpusPath,
    target: Annotated[str, arg("A new file, milvus://HOST:PORT/NAME, or milvus:FILE.db.")],
) -> None:
    """Copy every document with its vectors into another store; nothing is encoded again."""
    count = copy_corpus(source, target, progress=watched())
    say(f"copied {counted(count, 'document')} to {target}")


@app.command()
def upgrade(corpus: CorpusPath, model: ModelOption = None) -> None:
    """Give a corpus of an earlier version token vectors, by which it is searched word by word."""
    encoder = load(model) if model is not None else None
    count = upgrade_corpus(corpus, encoder, progress=watched())
    say(f"{corpus} has token vectors: {counted(count, 'passage')} encoded")


@app.command()
def backup(
    corpus: Annotated[Path, arg("A corpus file.")],
    file: Annotated[
        Path, arg("The copy; one that is there is replaced when the new one is whole.")
    ],
) -> None:
    """Write a whole copy of a corpus file, also while others write to it."""
    with closing(SqliteStore(corpus)) as store:
        store.backup(file)
        say(f"copied {corpus} to {file}")


def _lines(store: Store) -> Iterator[str]:
    for one in store.scan():
        row = {"id": one.document.id, "text": one.document.text} | dict(one.document.metadata)
        about = _about(one.document)
        named = {name: about[name] for name in ("title", "source", "type", "modified")}
        yield json.dumps(row | {k: v for k, v in named.items() if v}, ensure_ascii=False)


def _about(document: Document) -> dict[str, object]:
    time = document.modified
    return {
        "id": document.id,
        "title": document.title,
        "type": document.type,
        "source": document.source,
        "modified": datetime.fromtimestamp(time, UTC).isoformat("T", "seconds") if time else None,
        "metadata": dict(document.metadata),
    }


def _unknown(id: str) -> DataError:
    return DataError(f"there is no document {id}; expected an id that malmoi corpus list prints.")
