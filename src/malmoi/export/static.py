"""An encoder bundle → its static twin: a vector for each piece of its vocabulary, no torch."""

import dataclasses
import itertools
import logging
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..bundle.bundle import find_model, open_bundle
from ..bundle.manifest import Manifest
from ..bundle.sentence_transformers import read_prompts
from ..bundle.transformers import find_static
from ..encoders import Encoder, TextEncoder
from ..encoders.static import EmbeddingBags, StaticEncoder, WordPieces, sum_rows
from ..errors import BundleError, DataError, OptionError, counted
from ..heads.tagger import SpecialTokens
from ..io.arrays import read_safetensors, write_safetensors
from ..io.files import writing_folder
from ..io.fingerprint import sha256
from ..io.tables import is_table, read_rows, read_texts, show_columns
from ..runtime.pooling import normalize
from ..runtime.tokenizer import count_ids, read_tokenizer, save_tokenizer
from ..text.cleanup import SAFE
from ..types import Floats
from .source import SAMPLES

logger = logging.getLogger(__name__)

TABLE = "static.safetensors"
_ANY_LENGTH = 1_000_000_000
_PIECES = 4096  # pieces encoded at once
_ROUNDED = 0.02  # what 8 bits may move a value of a unit vector by


_CHUNK = 8192
_LOG_EVERY = 4 * _CHUNK  # how many texts between two notices


@dataclass(frozen=True)
class Lessons:
    """Texts to learn from. Ids and goals are files, mapped, so that memory stays small."""

    bags: EmbeddingBags
    goals: NDArray[np.float16]  # (n, encoder's dimension), unit vectors

    def __len__(self) -> int:
        """Count the texts."""
        return len(self.bags.counts)

    def batches(
        self, size: int, random: np.random.Generator
    ) -> Iterator[tuple[EmbeddingBags, Floats]]:
        """Yield all texts once, in random order, as bags with their goals (n, dimension)."""
        ends = np.cumsum(self.bags.counts)
        order = random.permutation(len(self))
        for start in range(0, len(order), size):
            rows = order[start : start + size]
            counts = self.bags.counts[rows]
            first = np.repeat(ends[rows] - np.cumsum(counts), counts)  # less what came before
            ids = self.bags.ids[first + np.arange(counts.sum())]
            yield EmbeddingBags(ids, counts), self.goals[rows].astype(np.float32)

    def moments(self) -> NDArray[np.float64]:
        """Sum the products of the goals' dimensions; (dimension, dimension)."""
        width = self.goals.shape[1]
        total = np.zeros((width, width))
        for start in range(0, len(self), _CHUNK):
            block = self.goals[start : start + _CHUNK].astype(np.float32)
            total += block.T @ block
        return total


def collect(encoder: TextEncoder, words: WordPieces, texts: Iterable[str], folder: Path) -> Lessons:
    """Encode distinct texts and keep them in `folder`.

    Texts without a piece, and those longer than the encoder reads, are passed over.
    """
    counts: list[NDArray[np.int64]] = []
    total = 0
    with (folder / "ids").open("wb") as ids, (folder / "goals").open("wb") as goals:
        distinct = _distinct(texts)
        while chunk := list(itertools.islice(distinct, _CHUNK)):
            bags = words.bags(chunk)
            kept = (bags.counts > 0) & (bags.counts <= encoder.max_tokens)
            counts.append(bags.counts[kept])
            ids.write(bags.ids[np.repeat(kept, bags.counts)].astype(np.int32).tobytes())
            chosen = list(itertools.compress(chunk, kept))
            # Windows, for special tokens may make a text one or two longer than it may be.
            goals.write(encoder.encode(chosen, on_long="windows").astype(np.float16).tobytes())
            total += len(chosen)
            if total % _LOG_EVERY < len(chosen):
                logger.info(f"{counted(total, 'text')} encoded")
    if not total:
        raise DataError(
            "the texts have no line with a known piece; expected one text a line. Check the files."
        )
    shape = (total, encoder.dimension)
    return Lessons(
        EmbeddingBags(np.memmap(folder / "ids", dtype=np.int32, mode="r"), np.concatenate(counts)),
        np.memmap(folder / "goals", dtype=np.float16, mode="r", shape=shape),
    )


def _distinct(texts: Iterable[str]) -> Iterator[str]:
    seen: set[int] = set()  # hashes: eight bytes a text, and a rare clash loses one of millions
    for text in texts:
        key = hash(text)
        if key not in seen:
            seen.add(key)
            yield text


# Weights are a / (a + p) by a piece's share of all text, as in smooth inverse frequency
# (Arora and others, 2017): a piece that is a thousandth of all text weighs half.
_A = 1e-3
_BATCH = 1024


@dataclass(frozen=True)
class StaticTable:
    """int8 rows (pieces, dim) with a scale each, and the vector of a text without pieces."""

    pieces: NDArray[np.int8]
    scales: Floats
    empty: Floats

    def arrays(self) -> dict[str, NDArray[np.int8] | Floats]:
        """Give the arrays under the names they have on disk."""
        return {"pieces": self.pieces, "scales": self.scales, "empty": self.empty}


def quantise(rows: Floats, empty: Floats) -> StaticTable:
    """Store rows as int8, each with a scale of its own."""
    scales = np.abs(rows).max(axis=1) / np.float32(127)
    divisors = np.where(scales > 0, scales, np.float32(1))[:, None]
    return StaticTable(np.rint(rows / divisors).astype(np.int8), scales.astype(np.float32), empty)


def principal_axes(moments: NDArray[np.float64], dim: int) -> Floats:
    """Find the `dim` directions that hold most of what the moments sum up; (width, dim).

    The first axes hold the most, so that vectors may be cut to fewer dimensions later.
    """
    _, axes = np.linalg.eigh(moments)
    axes = axes[:, ::-1][:, :dim]
    # A direction's sign is arbitrary; this one does not depend on the machine.
    strongest = axes[np.abs(axes).argmax(axis=0), np.arange(dim)]
    chosen: Floats = (axes * np.sign(strongest)).astype(np.float32)
    return chosen


def weights_by_count(counts: NDArray[np.int64]) -> Floats:
    """Weigh pieces by how often they occur in the texts; (pieces,)."""
    shares = counts / max(int(counts.sum()), 1)
    weights: Floats = (_A / (_A + shares)).astype(np.float32)
    return weights


def weights_by_rank(count: int) -> Floats:
    """Weigh pieces by their rank in the vocabulary, which has frequent ones first; (pieces,)."""
    shares = 1 / (np.arange(count) + 2)  # Zipf's law
    weights: Floats = (_A / (_A + shares / shares.sum())).astype(np.float32)
    return weights


@dataclass
class _Adagrad:
    """Steps that grow smaller the more a row has moved, one size a row.

    Rare pieces so keep large steps for the few texts they occur in, and frequent ones settle.
    """

    rows: Floats
    rate: float
    squares: Floats = field(init=False)

    def __post_init__(self) -> None:
        self.squares = np.zeros((len(self.rows), 1), dtype=np.float32)

    def move(self, touched: NDArray[np.int64], slopes: Floats, share: float) -> None:
        """Move the touched rows against their slopes, by `share` of the full rate."""
        self.squares[touched] += np.square(slopes).mean(axis=1, keepdims=True)
        size = np.sqrt(self.squares[touched]) + np.float32(1e-8)
        self.rows[touched] -= np.float32(share * self.rate) * slopes / size


def learn(
    rows: Floats, lessons: Lessons, axes: Floats, *, epochs: int, rate: float, seed: int
) -> float:
    """Move rows, in place, until the sums of texts point where the encoder's vectors do.

    `rate` is the size of a step relative to the rows. Gives the last epoch's mean cosine.
    """
    # Rows that no text has are left out: they weigh most, and do not move.
    typical = float(np.sqrt(np.mean(rows[np.unique(lessons.bags.ids)] ** 2)))
    adagrad = _Adagrad(rows, rate * typical)
    random = np.random.default_rng(seed)
    total, done, cosine = epochs * len(lessons), 0, 0.0
    for epoch in range(epochs):
        cosine = 0.0
        for bags, goals in lessons.batches(_BATCH, random):
            found, slopes = _slopes(rows, bags, normalize(goals @ axes))
            adagrad.move(*_by_piece(bags, slopes), share=1 - done / total)
            done += len(goals)
            cosine += found
        cosine /= len(lessons)
        logger.info(f"epoch {epoch + 1} of {epochs}: mean cosine to the encoder {cosine:.4f}")
    return cosine


def _slopes(rows: Floats, bags: EmbeddingBags, goals: Floats) -> tuple[float, Floats]:
    """Give the sum of cosines between sums and goals, and minus its slope by the sums (n, dim)."""
    sums = sum_rows(rows, bags)
    lengths = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), np.float32(1e-6))
    units = sums / lengths
    cosines = np.einsum("nd,nd->n", units, goals)[:, None]
    return float(cosines.sum()), (cosines * units - goals) / lengths


def _by_piece(bags: EmbeddingBags, slopes: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Sum the slopes (n, dim) of the texts each piece occurs in; gives pieces and sums."""
    owners = np.repeat(np.arange(len(bags.counts)), bags.counts)
    order = np.argsort(bags.ids, kind="stable")
    pieces, counts = np.unique(bags.ids, return_counts=True)
    return pieces.astype(np.int64), sum_rows(slopes, EmbeddingBags(owners[order], counts))


def export_static(
    source: str | Path | None,
    out: str | Path,
    *,
    dim: int = 192,
    texts: Sequence[str | Path] = (),
    columns: Sequence[str] = (),
    epochs: int = 3,
    rate: float = 1.0,
    seed: int = 0,
    name: str | None = None,
    licence: str = "",
    threads: int | None = None,
) -> Manifest:
    """Write the static twin of an encoder at `out`, and give its manifest.

    Every piece starts with the encoder's vector of it alone, reduced to `dim` principal axes and
    weighted by how rare it is. With `texts` (files with one text a line, or tables of which
    `columns` are read) the pieces then learn to sum to the encoder's own vector of each text,
    which is much better; a hundred thousand texts of the kind you have are plenty.
    """
    opened = open_bundle(find_model(source), kinds=("encoder",))
    encoder = Encoder(opened, threads=threads)
    _check_options(dim, epochs, rate, encoder.dimension)
    words = WordPieces.from_file(opened.tokenizer, steps=opened.manifest.clean)
    with writing_folder(out) as partial:
        builder = _TableBuilder(encoder, words, dim)
        if texts:
            with tempfile.TemporaryDirectory(prefix="malmoi-static-") as scratch:
                read = _read(texts, columns)
                lessons = collect(encoder, words, read, Path(scratch))
                table, training = builder.learned(lessons, epochs=epochs, rate=rate, seed=seed)
            # A file with its folder distinguishes data sets, and hides the machine's paths.
            names = ["/".join(Path(path).absolute().parts[-2:]) for path in texts]
            hashes = dict(zip(names, (sha256(Path(path)) for path in texts), strict=True))
            training |= {"data": hashes, "seed": seed}
        else:
            table, training = builder.plain(), {}
        write_safetensors(partial / TABLE, dict(table.arrays()))
        save_tokenizer(words.tokenizer, partial / "tokenizer.json", opened.tokenizer)
        manifest = _manifest(opened.manifest, dim, len(table.scales))
        logger.debug(f"writing {out}")
        manifest = dataclasses.replace(
            manifest,
            name=name or Path(out).name,
            licence=licence or manifest.licence,
            training={"source": encoder.name, **training},
        )
        (partial / "README.md").write_text(_card(manifest), "utf-8")
        return manifest.write(partial)


def export_table(
    source: str | Path, out: str | Path, *, name: str | None = None, licence: str = ""
) -> Manifest:
    """Write a static model of model2vec or sentence-transformers as a bundle at `out`.

    Its vectors keep their directions and have length 1. A bundle tokenises word by word; a model
    whose tokenizer reads words otherwise there is refused.
    """
    folder = Path(source)
    root = find_static(folder)
    if root is None:
        raise BundleError(
            f"{folder} is no static model; expected model2vec's config.json or a StaticEmbedding "
            "module. Export it without --kind static."
        )
    rows = _read_rows(root)
    tokenizer = read_tokenizer(root / "tokenizer.json")
    if count_ids(tokenizer) > len(rows):
        raise BundleError(
            f"the tokenizer of {root} has {count_ids(tokenizer):,} tokens and its table "
            f"{len(rows):,} rows; expected a row for each. Copy the whole folder again."
        )
    if root == folder:  # model2vec leaves unknown words out
        unknown = tokenizer.token_to_id(getattr(tokenizer.model, "unk_token", None) or "[UNK]")
        rows[unknown if unknown is not None else slice(0)] = 0
    empty = normalize(rows.mean(axis=0))
    with writing_folder(out) as partial:
        write_safetensors(partial / TABLE, dict(quantise(rows, empty).arrays()))
        save_tokenizer(tokenizer, partial / "tokenizer.json", root / "tokenizer.json")
        fields = read_prompts(folder)
        described = _manifest(Manifest(clean=SAFE, **fields), rows.shape[1], len(rows))
        manifest = dataclasses.replace(
            described,
            name=name or Path(out).name,
            licence=licence,
            training={"source": folder.name},
        ).write(partial)
        _check_table(rows, tokenizer, partial)
        return manifest


def _read_rows(root: Path) -> Floats:
    """Read a table with a row a token id; (vocabulary, dim)."""
    arrays = read_safetensors(root / "model.safetensors")
    found = next((arrays[key] for key in ("embeddings", "embedding.weight") if key in arrays), None)
    if found is None or found.ndim != 2:
        raise BundleError(
            f"{root / 'model.safetensors'} has {', '.join(arrays)}; expected embeddings or "
            "embedding.weight. Copy the whole folder again."
        )
    rows: Floats = np.array(found, dtype=np.float32)
    if "mapping" in arrays:  # several tokens may share a row
        rows = rows[np.asarray(arrays["mapping"])]
    if "weights" in arrays:
        rows = rows * np.asarray(arrays["weights"], dtype=np.float32)[:, None]
    return rows


def _check_table(rows: Floats, tokenizer: Any, folder: Path) -> None:
    """Raise a BundleError where the bundle in `folder` gives other directions than its source."""
    found = StaticEncoder(open_bundle(folder)).encode(SAMPLES)
    ids = [one.ids for one in tokenizer.encode_batch(list(SAMPLES), add_special_tokens=False)]
    wanted = normalize(np.stack([rows[one].sum(axis=0) for one in ids]))
    known = np.linalg.norm(wanted, axis=1) > 0.5
    apart = np.abs(found - wanted)[known].max(initial=0.0)
    if apart > _ROUNDED:
        raise BundleError(
            f"the static model's vectors move by {apart:.2g} when words are tokenised one by one; "
            f"expected at most {_ROUNDED}. Such a tokenizer cannot be used."
        )


@dataclasses.dataclass(frozen=True)
class _TableBuilder:
    """The two ways to a table, with what both need."""

    encoder: Encoder
    words: WordPieces
    dim: int

    def plain(self) -> StaticTable:
        """Make a table of the pieces' own vectors."""
        vectors = self._piece_vectors()
        weights = weights_by_rank(len(vectors))
        # What all pieces share says nothing about a text, and would make all texts alike.
        centre = np.average(vectors, axis=0, weights=1 / weights).astype(np.float32)
        vectors -= centre
        axes = principal_axes((vectors.T @ vectors).astype(np.float64), self.dim)
        return quantise((vectors @ axes) * weights[:, None], self._empty(axes))

    def learned(
        self, lessons: Lessons, *, epochs: int, rate: float, seed: int
    ) -> tuple[StaticTable, dict[str, Any]]:
        """Make a table that has learned from texts, and say how it went."""
        axes = principal_axes(lessons.moments(), self.dim)
        vectors = self._piece_vectors()
        weights = weights_by_count(np.bincount(lessons.bags.ids, minlength=len(vectors)))
        rows = (vectors @ axes) * weights[:, None]
        del vectors
        logger.info(f"learning from {counted(len(lessons), 'text')}")
        cosine = learn(rows, lessons, axes, epochs=epochs, rate=rate, seed=seed)
        training = {
            "texts": len(lessons),
            "epochs": epochs,
            "rate": rate,
            "cosine": round(cosine, 4),
        }
        return quantise(rows, self._empty(axes)), training

    def _piece_vectors(self) -> Floats:
        """Encode every piece alone, between the special tokens of a text; (pieces, dimension)."""
        # Ids may have gaps, so the count of tokens would not do.
        count = max(self.words.tokenizer.get_vocab(with_added_tokens=True).values()) + 1
        logger.info(f"encoding each of {count:,} pieces")
        frame = SpecialTokens.of(self.words.tokenizer)
        vectors = np.empty((count, self.encoder.dimension), dtype=np.float32)
        for start in range(0, count, _PIECES):
            ids = range(start, min(start + _PIECES, count))
            vectors[ids.start : ids.stop] = self.encoder.encode_ids(
                [frame.around([piece]) for piece in ids]
            )
        added = self.words.tokenizer.get_added_tokens_decoder()
        special = [number for number, token in added.items() if token.special]
        vectors[special] = self.encoder.encode("")
        return normalize(vectors)

    def _empty(self, axes: Floats) -> Floats:
        """The vector of a text without pieces."""
        reduced = normalize(self.encoder.encode("") @ axes)
        # Nothing may be left of it along these axes; then any direction will do.
        return reduced if reduced.any() else np.eye(1, self.dim, dtype=np.float32)[0]


def _manifest(source: Manifest, dim: int, rows: int) -> Manifest:
    return Manifest(
        kind="static",
        architecture="static",
        dimension=dim,
        max_tokens=_ANY_LENGTH,
        vocabulary=rows,
        precision="int8",
        graph=TABLE,
        clean=source.clean,
        prompts=source.prompts,
        default_prompt=source.default_prompt,
        languages=source.languages,
        licence=source.licence,
    )


def _card(manifest: Manifest) -> str:
    """Say in Markdown what the twin is and what it was made from."""
    training = manifest.training
    lines = [
        f"# {manifest.name}",
        "",
        f"The static twin of {training['source']}: {manifest.vocabulary:,} pieces with a vector of "
        f"{manifest.dimension} dimensions each, summed. Word order does not count.",
        "",
        "```python",
        "import malmoi",
        f'encoder = malmoi.load("{manifest.name}")',
        "```",
        "",
    ]
    if "texts" in training:
        lines += [
            f"Learned from {training['source']}'s own vectors of {training['texts']:,} texts "
            f"(mean cosine to them {training['cosine']}) in these files:",
            "",
            *(f"- {name} (sha256 {digest[:16]}…)" for name, digest in training["data"].items()),
            "",
        ]
    licence = manifest.licence or "as the licence of the encoder and of the texts allows"
    return "\n".join([*lines, f"Licence: {licence}.", ""])


def _read(files: Sequence[str | Path], columns: Sequence[str]) -> Iterator[str]:
    """Yield the lines of plain files and, of tables, those of the columns that they have."""
    for path in files:
        if not columns or not is_table(path):
            yield from read_texts(path)
            continue
        for row in read_rows(path):
            found = [row[column] for column in columns if column in row]
            if not found:
                raise DataError(
                    f"{path} has {show_columns(list(row), lead='the columns ')}; expected "
                    f"{' or '.join(columns)}. Name one of its own with --column."
                )
            yield from found


def _check_options(dim: int, epochs: int, rate: float, width: int) -> None:
    if not 1 <= dim <= width:
        raise OptionError(
            f"dim is {dim}; the encoder's vectors have {width} dimensions. "
            f"Choose one from 1 to {width}."
        )
    if epochs < 1 or not 0 < rate < 10:
        raise OptionError(
            f"epochs is {epochs} and rate {rate}; expected 1 or more epochs and a rate above 0. "
            "Leave them out for the usual ones."
        )
