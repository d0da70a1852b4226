"""How often a tokenizer knows no piece for a word: with and without the step that spells signs.

    python bench/unknown.py notes/korean-drug-leaflets.txt terms/kcd9.tsv --model ko-en-small

Each line of the files (under the data root) is cleaned and tokenised. Told are lines with an
unknown word, such words and their share, and the words that are unknown most often.
"""

import argparse
import json
from collections import Counter
from collections.abc import Sequence

from common import data_root
from tokenizers import Tokenizer

from malmoi.bundle.bundle import open_bundle
from malmoi.bundle.catalog import find_model
from malmoi.io.files import read_lines
from malmoi.runtime.tokenizer import read_tokenizer
from malmoi.text.cleanup import clean


def count(tokenizer: Tokenizer, lines: Sequence[str], steps: Sequence[str]) -> dict[str, object]:
    """Count the words without a piece in lines that are cleaned by these steps."""
    lost = tokenizer.token_to_id("[UNK]")
    words: Counter[str] = Counter()
    touched = total = 0
    for line in lines:
        text = clean(line, steps)
        encoding = tokenizer.encode(text, add_special_tokens=False)
        places = zip(encoding.ids, encoding.offsets, strict=True)
        found = [text[start:end] for token, (start, end) in places if token == lost]
        words.update(found)
        touched += bool(found)
        total += len(set(encoding.word_ids))
    return {
        "lines": touched,
        "words": words.total(),
        "share": round(words.total() / max(total, 1), 6),
        "most": words.most_common(8),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+")
    parser.add_argument("--model", default="ko-en-small")
    options = parser.parse_args()
    bundle = open_bundle(find_model(options.model), kinds=("encoder", "static", "reranker"))
    tokenizer = read_tokenizer(bundle.tokenizer)
    tokenizer.no_truncation()
    steps = bundle.manifest.clean
    for file in options.files:
        lines = list(read_lines(data_root() / file))
        print(file, f"{len(lines):,} lines")
        for name, own in (("as shipped", steps), ("unspelt", [s for s in steps if s != "symbols"])):
            print(f"  {name}: {json.dumps(count(tokenizer, lines, own), ensure_ascii=False)}")


if __name__ == "__main__":
    main()
