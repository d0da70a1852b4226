"""A smaller vocabulary: the pieces that some text needs most, and the model's rows for them.

    python examples/shrink.py path/to/encoder path/to/smaller --texts texts.txt --pieces 29500

Half of a small multilingual model is its embedding table. A word whose piece is dropped is read
in shorter pieces; no letter is lost, for every piece of one character is kept.
"""

import argparse
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

from malmoi.errors import BundleError, OptionError, counted
from malmoi.export.tokenizer import Spec, open_spec, read_spec
from malmoi.io.files import read_lines, writing_folder

_TABLE = "word_embeddings.weight"
_AT_ONCE = 1024


@dataclass(frozen=True)
class Shrunk:
    """How many pieces there were and are, and pieces a text took and takes, on the average."""

    before: int
    after: int
    length_before: float
    length_after: float


def shrink(base: str | Path, out: str | Path, texts: Iterable[str], *, pieces: int) -> Shrunk:
    """Write the BERT-like encoder in `base` with `pieces` of its pieces to the new folder `out`.

    Special tokens and single characters stay; then come the pieces that `texts` use most, then
    the others in the order of the vocabulary, which starts with the common ones.
    """
    base, read = Path(base), list(texts)
    spec = read_spec(base)
    if spec["model"].get("type") != "WordPiece":
        raise BundleError(
            f"{base} has a tokenizer of the kind {spec['model'].get('type')}; only WordPiece can "
            "be made smaller. Name another base."
        )
    counts = _count(open_spec(spec), read)
    kept = _choose(spec, counts, pieces)
    smaller = _without_others(spec, kept)
    after = _count(open_spec(smaller), read)
    with writing_folder(out) as partial:
        _copy(base, partial, smaller, list(kept.values()))
    total = max(1, len(read))
    vocabulary = spec["model"]["vocab"]
    return Shrunk(len(vocabulary), len(kept), counts.total() / total, after.total() / total)


def _count(tokenizer: Tokenizer, texts: list[str]) -> Counter[int]:
    counts: Counter[int] = Counter()
    for at in range(0, len(texts), _AT_ONCE):
        part = texts[at : at + _AT_ONCE]
        for encoding in tokenizer.encode_batch(part, add_special_tokens=False):
            counts.update(encoding.ids)
    return counts


def _choose(spec: Spec, counts: Counter[int], pieces: int) -> dict[str, int]:
    """Give the pieces to keep with their old rows, in the order of these."""
    model = spec["model"]
    prefix = model.get("continuing_subword_prefix", "##")
    special = {token["content"] for token in spec.get("added_tokens", [])}
    rows: dict[str, int] = model["vocab"]
    needed = {p for p in rows if p in special or len(p.removeprefix(prefix)) == 1}
    if pieces < len(needed):
        raise OptionError(
            f"pieces is {pieces}; special tokens and single characters alone are {len(needed)}. "
            "Choose more."
        )
    others = sorted((p for p in rows if p not in needed), key=lambda p: (-counts[rows[p]], rows[p]))
    chosen = needed | set(others[: pieces - len(needed)])
    return {
        piece: row for piece, row in sorted(rows.items(), key=lambda x: x[1]) if piece in chosen
    }


def _without_others(spec: Spec, kept: dict[str, int]) -> Spec:
    """Give the kept pieces new numbers, wherever the file names a number."""
    made: Spec = json.loads(json.dumps(spec))
    number = {row: i for i, row in enumerate(kept.values())}
    made["model"]["vocab"] = {piece: number[row] for piece, row in kept.items()}
    for token in made.get("added_tokens", []):
        token["id"] = number[token["id"]]
    for token in _specials(made.get("post_processor") or {}):
        token["ids"] = [number[row] for row in token["ids"]]
    return made


def _specials(processor: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from (processor.get("special_tokens") or {}).values()
    for inner in processor.get("processors") or ():
        yield from _specials(inner)


def _copy(base: Path, out: Path, spec: Spec, rows: list[int]) -> None:
    for path in base.iterdir():
        if path.is_dir():
            shutil.copytree(path, out / path.name)
        elif path.suffix in (".json", ".md") and path.name != "malmoi.json":
            shutil.copyfile(path, out / path.name)
    weights = load_file(base / "model.safetensors")
    tables = [name for name in weights if name.endswith(_TABLE)]
    if len(tables) != 1:
        raise BundleError(
            f"{base} has {counted(len(tables), 'table')} called {_TABLE}; expected one. Name "
            "another base."
        )
    weights[tables[0]] = weights[tables[0]][rows].contiguous()
    save_file(weights, out / "model.safetensors", {"format": "pt"})
    (out / "model.safetensors").chmod(0o644)
    (out / "tokenizer.json").write_text(json.dumps(spec, ensure_ascii=False), encoding="utf-8")
    config = json.loads((base / "config.json").read_text("utf-8"))
    config["vocab_size"] = len(rows)
    (out / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main() -> None:
    """Read the options and write the smaller encoder."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("base", help="a BERT-like encoder's folder")
    parser.add_argument("out", help="the folder to write")
    parser.add_argument("--texts", required=True, help="texts of the kind you have, one per line")
    parser.add_argument("--pieces", type=int, required=True, help="how many pieces to keep")
    options = parser.parse_args()
    done = shrink(options.base, options.out, read_lines(options.texts), pieces=options.pieces)
    print(f"{done.before:,} → {done.after:,} pieces")
    print(f"{done.length_before:.2f} → {done.length_after:.2f} pieces a text")


if __name__ == "__main__":
    main()
