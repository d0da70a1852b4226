"""An encoder bundle → its static twin: a vector for each piece of its vocabulary, no torch."""

import dataclasses
import logging
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..bundle.bundle import find_model, open_bundle
from ..bundle.manifest import Manifest
from ..bundle.sentence_transformers import read_prompts
from ..bundle.transformers import find_static
from ..encoders import Encoder
from ..encoders.static import StaticEncoder, WordPieces
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
from .samples import SAMPLES
from .static_table import (
    Lessons,
    StaticTable,
    collect,
    learn,
    principal_axes,
    quantise,
    weights_by_count,
    weights_by_rank,
)

logger = logging.getLogger(__name__)

TABLE = "static.safetensors"
_ANY_LENGTH = 1_000_000_000
_PIECES = 4096  # pieces encoded at once
_ROUNDED = 0.02  # what 8 bits may move a value of a unit vector by


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
