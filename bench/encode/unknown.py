"""How often a tokenizer knows no piece for a word: with and without the step that spells signs.

    python bench/run.py unknown notes/korean-drug-leaflets.txt terms/kcd9.tsv --model ko-en-small

Each line of the files (under the data root) is cleaned and tokenised. It counts lines with an
unknown word, such words and their share, and lists the words that are unknown most often.
"""

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence

from tokenizers import Tokenizer

from bench.common import Row, data_root
from malmoi.bundle.bundle import find_model, open_bundle
from malmoi.io.files import read_lines
from malmoi.runtime.tokenizer import read_tokenizer
from malmoi.text.cleanup import clean


def count(tokenizer: Tokenizer, lines: Sequence[str], steps: Sequence[str]) -> Row:
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
        "share": round(100 * words.total() / max(total, 1), 3),
        "most": " ".join(word for word, _ in words.most_common(5)),
    }


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("files", nargs="+")
    parser.add_argument("--model", default="ko-en-small")


def run(options: argparse.Namespace) -> Iterator[Row]:
    bundle = open_bundle(find_model(options.model), kinds=("encoder", "static", "reranker"))
    tokenizer = read_tokenizer(bundle.tokenizer)
    tokenizer.no_truncation()
    steps = bundle.manifest.clean
    for file in options.files:
        lines = list(read_lines(data_root() / file))
        before = count(tokenizer, lines, [step for step in steps if step != "symbols"])
        after = count(tokenizer, lines, steps)
        yield {
            "file": file,
            "lines": len(lines),
            "lines with one": before["lines"],
            "after spelling": after["lines"],
            "words": before["words"],
            "words after": after["words"],
            "share of words, %": before["share"],
            "after, %": after["share"],
            "most often after": after["most"],
        }
