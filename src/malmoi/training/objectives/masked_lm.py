"""The text of pretraining: files → documents → ids on disk, which may be larger than memory.

Everything is read once, tokenised and written as it comes. Training maps the ids into memory.
"""

import hashlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import model_validator as check

from ...errors import DataError, OptionError, by_number, counted
from ...export.source import ModelSource, read_transformer
from ...heads.windows import cut_pieces, sentences
from ...io.files import read_lines
from ...io.fingerprint import hash_number
from ...io.progress import silenced
from ...io.tables import BadRows, is_table, read_columns
from ...text.cleanup import compose, squeeze
from ...types import Ints
from ..data import find_trainable, hash_named
from ..objective import FinishedRun, Objective
from ..schema import (
    Count,
    InnerShare,
    Many,
    ModelRecipe,
    Names,
    PartShare,
    Positive,
    RecipeTable,
    key,
    needed,
)

logger = logging.getLogger(__name__)

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class LeaveOut(RecipeTable):
    """[[data.leave_out]]: documents that must not be learnt from, by their id or their text."""

    files: Names = needed("The files, under the data root.")
    id: str = key("", "The column with ids, to be compared with that of the data.")
    columns: Names = key((), "Instead of id: the columns whose text is compared.")

    @check(mode="after")
    def _has_one(self) -> Self:
        if bool(self.id) == bool(self.columns):
            raise OptionError("id or columns is needed, one of them; expected one key. Add it.")
        return self


class TextFiles(RecipeTable):
    """[[data.also]]: more files, with columns of their own."""

    files: Names = needed("Text (.txt) or tables (.jsonl, .tsv, .csv).", min_length=1)
    columns: Names = key(("text",), "The columns of a table that are joined to one document.")
    id: str = key("", "The column with ids, for leave_out.")
    lines: bool = key(False, "In .txt: every line is a document, not only a sentence.")


class TextData(TextFiles):
    """[data]: the text to learn from."""

    also: Many[TextFiles] = key((), "More files, of another form.")
    held_out: InnerShare = key(0.05, "The share of documents that perplexity is measured on.")
    leave_out: Many[LeaveOut] = key((), "Documents that must not be learnt from.")
    limit: Count = key(0, "Only the first documents; 0 means all.")

    @property
    def parts(self) -> tuple[TextFiles, ...]:
        """All files, each with how it is read."""
        return (self, *self.also)


class Masking(RecipeTable):
    """[masking]: what is hidden."""

    share: InnerShare = key(0.15, "The share of tokens that is hidden.")
    words: Literal["whitespace", "morphemes", "pieces"] = key("whitespace", "What is hidden whole.")
    next_sentence: bool = key(False, "Learn, too, whether one segment follows another.")


class Scratch(RecipeTable):
    """[scratch]: the BERT that is made if no base is named."""

    layers: Positive = key(4, "Layers.")
    hidden: Positive = key(256, "The size of the states; a multiple of heads.")
    heads: Positive = key(4, "Attention heads.")
    vocabulary: int = key(8000, "Tokens of the tokenizer that is learnt.", ge=100)

    @check(mode="after")
    def _fits(self) -> Self:
        if self.hidden % self.heads:
            raise OptionError(
                f"heads is {self.heads} and hidden {self.hidden}; expected a hidden that heads "
                "divides. Change one of them."
            )
        return self


class Pretraining(ModelRecipe):
    """Masked-word pretraining, from a base or from nothing."""

    data: TextData = needed("The text.")
    base: str = key("", "The encoder to continue from; a new one is made when left out.")
    objective: Literal["pretrain"] = key("pretrain", "Chooses this kind of recipe.")
    max_tokens: int = key(128, "Tokens of a sequence.", ge=8)
    dropout: PartShare = key(0.1, "Dropout while training.")
    extend: Count = key(0, "Add so many new tokens to the base's tokenizer.")
    head_steps: Count = key(0, "Train only the head for so many steps; a fresh one spoils a base.")
    measured: Positive = key(256, "Held-out sequences that are measured.")
    masking: Masking = key(Masking(), "What is hidden.")
    scratch: Scratch = key(Scratch(), "The new encoder, without a base.")


PARTS = ("train", "held-out")
Starts = Callable[[str], set[int]]


@dataclass(frozen=True, slots=True)
class TextDocument:
    """A text in sentences."""

    id: str
    sentences: list[str]


def read_documents(data: TextData, root: Path, *, strict: bool) -> Iterator[TextDocument]:
    """Yield documents, those left out that must not be learnt from."""
    barred = Barred.read(data.leave_out, root, strict=strict)
    left = kept = 0
    files = ((root / file, part) for part in data.parts for file in part.files)
    for document in chain.from_iterable(_of_file(*file, strict) for file in files):
        if barred.holds(document):
            left += 1
            continue
        kept += 1
        yield document
        if data.limit and kept == data.limit:
            return
    if data.leave_out:
        logger.info(
            f"{counted(left, 'document is', 'documents are')} left out, {kept:,} "
            f"{by_number(kept, 'is', 'are')} learnt from"
        )


def _of_file(path: Path, data: TextFiles, strict: bool) -> Iterator[TextDocument]:
    if not is_table(path):
        yield from _of_lines(path, data.lines)
        return
    names = [*data.columns, *([data.id] if data.id else [])]
    bad, remedy = BadRows(str(path), strict), "Name columns of the file in data.columns."
    for _, row in read_columns(path, names, bad, remedy=remedy):
        text = "\n".join(row[name] for name in data.columns)
        found = [text[span.start : span.end] for span in sentences(text)]
        if found:
            yield TextDocument(row[data.id] if data.id else "", found)
    bad.report()


def _of_lines(path: Path, each: bool) -> Iterator[TextDocument]:
    lines: list[str] = []
    most = 1 if each else 10_000  # a file may be without a blank line
    for line in read_lines(path):
        if line.strip():
            lines.append(line.strip())
        if lines and (not line.strip() or len(lines) >= most):
            yield TextDocument("", lines)
            lines = []
    if lines:
        yield TextDocument("", lines)


@dataclass(frozen=True)
class Barred:
    """Documents that belong to a test set: their ids, and hashes of their texts."""

    ids: frozenset[str]
    texts: frozenset[bytes]

    @classmethod
    def read(cls, entries: Sequence[LeaveOut], root: Path, *, strict: bool) -> "Barred":
        """Read what the entries name."""
        ids: set[str] = set()
        texts: set[bytes] = set()
        for entry in entries:
            for file in entry.files:
                bad = BadRows(str(root / file), strict)
                names, remedy = (
                    [entry.id] if entry.id else entry.columns,
                    "Name columns of it in data.leave_out.",
                )
                for _, row in read_columns(root / file, names, bad, remedy=remedy):
                    if entry.id:
                        ids.add(row[entry.id].strip())
                    else:
                        texts.add(_digest("\n".join(row[name] for name in entry.columns)))
                bad.report()
        return cls(frozenset(ids), frozenset(texts))

    def holds(self, document: TextDocument) -> bool:
        """Whether a document must not be learnt from."""
        if document.id and document.id.strip() in self.ids:
            return True
        return bool(self.texts) and _digest(" ".join(document.sentences)) in self.texts


def _digest(text: str) -> bytes:
    folded = squeeze(compose(text)).strip().casefold()
    return hashlib.sha256(folded.encode("utf-8", "surrogatepass")).digest()[:16]


def is_held_out(document: TextDocument, share: float, seed: int) -> bool:
    """Set a share of documents aside by what they say: the same ones whatever else is read."""
    key = f"{seed}\0{document.sentences[0]}\0{document.sentences[-1]}"
    return hash_number(key) < share * 2**64


@dataclass(frozen=True)
class Packed:
    """Ids on disk, mapped: a whole part of the corpus.

    `ids` (tokens,) are pieces, `begins` (tokens,) whether each begins a word; sentence i is
    ids[sentences[i] : sentences[i + 1]], document d the sentences documents[d] … documents[d + 1].
    """

    ids: NDArray[np.int32]
    begins: NDArray[np.bool_]
    sentences: Ints
    documents: Ints

    @classmethod
    def open(cls, folder: Path) -> "Packed":
        """Map what `pack` has written."""
        return cls(
            np.memmap(folder / "ids.bin", dtype=np.int32, mode="r"),
            np.memmap(folder / "begins.bin", dtype=np.bool_, mode="r"),
            np.memmap(folder / "sentences.bin", dtype=np.int64, mode="r"),
            np.memmap(folder / "documents.bin", dtype=np.int64, mode="r"),
        )


class _Writer:
    """Appends the documents of one part to its files."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True)
        names = ("ids", "begins", "sentences", "documents")
        self.files: dict[str, BinaryIO] = {n: (folder / f"{n}.bin").open("wb") for n in names}
        self.tokens = self.sentences = 0
        self._mark("sentences", 0)
        self._mark("documents", 0)

    def _mark(self, name: str, number: int) -> None:
        self.files[name].write(np.int64(number).tobytes())

    def add(self, found: Sequence[tuple[NDArray[Any], NDArray[Any]]]) -> None:
        """Write one document, a pair of arrays a sentence."""
        for ids, begins in found:
            self.files["ids"].write(ids.astype(np.int32).tobytes())
            self.files["begins"].write(begins.astype(np.bool_).tobytes())
            self.tokens += len(ids)
            self.sentences += 1
            self._mark("sentences", self.tokens)
        self._mark("documents", self.sentences)

    def close(self) -> None:
        for file in self.files.values():
            file.close()


def pack(
    documents: Iterator[TextDocument],
    folder: Path,
    tokenizer: "Tokenizer",
    steps: Sequence[str],
    *,
    words: str,
    held_out: float,
    seed: int,
) -> dict[str, int]:
    """Tokenise documents and write both parts into `folder`; gives the tokens of each."""
    writers = {part: _Writer(folder / part) for part in PARTS}
    starts = _starts(words)
    for document in documents:
        found = [_tokenise(text, tokenizer, steps, starts) for text in document.sentences]
        found = [pair for pair in found if len(pair[0])]
        if found:
            part = PARTS[is_held_out(document, held_out, seed)]
            writers[part].add(found)
    for writer in writers.values():
        writer.close()
    counts = {part: writer.tokens for part, writer in writers.items()}
    for part, count in counts.items():
        if not count:
            raise DataError(
                f"the {part} part has no text; expected some. Add files, or change data.held_out."
            )
    (folder / "counts.json").write_text(json.dumps(counts) + "\n", "utf-8")
    return counts


def _tokenise(
    text: str, tokenizer: "Tokenizer", steps: Sequence[str], starts: Starts | None
) -> tuple[NDArray[Any], NDArray[Any]]:
    pieces = cut_pieces(tokenizer, text, steps, unit="piece")
    begins = np.ones(len(pieces.ids), dtype=bool)
    if starts is not None and len(pieces.ids):
        positions = starts(text)
        begins[pieces.heads] = [int(start) in positions for start in pieces.starts]
        begins[0] = True
    return pieces.ids, begins


def _starts(words: str) -> Starts | None:
    """How to find where words begin in a text, in letters."""
    if words == "pieces":
        return None
    if words == "whitespace":
        return _after_spaces
    from ...text.morphemes import morphemes

    def found(text: str) -> set[int]:
        return _after_spaces(text) | {one.start for one in morphemes(text)}

    return found


def _after_spaces(text: str) -> set[int]:
    return {
        i for i in range(len(text)) if not text[i].isspace() and (i == 0 or text[i - 1].isspace())
    }


@dataclass(frozen=True)
class PreparedText:
    """What can be checked without torch: where to start, and the files' hashes."""

    source: ModelSource | None
    root: Path
    learnt: dict[str, str]
    strict: bool


def documents_of(recipe: Pretraining, prepared: PreparedText) -> Iterator[TextDocument]:
    """Read the documents of a recipe, one at a time."""
    return read_documents(recipe.data, prepared.root, strict=prepared.strict)


class PretrainObjective(Objective[Pretraining, PreparedText]):
    """Learns the words of a language or a field; its result is a base for other recipes."""

    name = "pretrain"
    recipe = Pretraining
    trainer = "malmoi.training.objectives.masked_lm_task"

    def prepare(self, recipe: Pretraining, root: Path, *, strict: bool = False) -> PreparedText:
        """Find the base and every file, and read the first document."""
        source = None
        if recipe.base:
            source = read_transformer(find_trainable(recipe.base), max_tokens=recipe.max_tokens)
        left = [file for entry in recipe.data.leave_out for file in entry.files]
        names = (*(file for part in recipe.data.parts for file in part.files), *left)
        prepared = PreparedText(source, root, hash_named(names, root), strict)
        Barred.read(recipe.data.leave_out, root, strict=strict)
        with silenced():  # what is logged of the files is logged when they are packed
            first = next(documents_of(recipe, prepared), None)
        if first is None:
            raise DataError(
                "the files hold no text; expected some to learn from. Check data.columns."
            )
        return prepared

    def export(
        self, run: FinishedRun[Pretraining, PreparedText]
    ) -> tuple[tuple[Path, ...], dict[str, float]]:
        """Write the report; the best folder itself is the result."""
        scores: dict[str, float] = self._trainer().write_report(run)
        return (run.paths.best,), scores


OBJECTIVES = (PretrainObjective(),)
