"""Keywords next to KeyBERT's: does what a document is called come out of its text?

    python bench/run.py keyword_quality [--documents 50] [--top 5]

KeyBERT must be installed (pip install keybert). Both rank by the cosine with the whole document
and have the same vectors; what differs are the candidates and the choice among them. KeyBERT runs
with its defaults (single words between spaces), with phrases of up to three words, and with these
and MMR (diversity 0.3, which is malmoi's default).

- headings: sections of the Korean Kubernetes documentation; its authors' heading is the judge.
- subjects: paragraphs of KoBEST BoolQ that begin with their subject ("X는 …"); X is the judge.

Found: the title is among the keywords, letter by letter. Part: one of them has the title in it or
is in it (two letters or more). Words: the share of the title's nouns that keywords have in them.
"""

import argparse
import random
import re
import sys
from collections.abc import Callable, Iterator, Sequence

import malmoi
from bench.common import Row, data_root
from bench.search.fusion_quality import headed_sections
from malmoi.encoders import TextEncoder
from malmoi.io.tables import read_rows
from malmoi.mining.keywords import keywords
from malmoi.text.morphemes import morphemes_of

Titled = tuple[str, str]  # title and text
Way = Callable[[str], list[str]]

# A paragraph's subject: some words of Hangul, perhaps a gloss in brackets, and the topic particle.
_SUBJECT = re.compile(r"^([가-힣]{2,8}(?: [가-힣]{2,6})?)(?:\([^)]*\))?(?:은|는) ")


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--documents", type=int, default=50)
    parser.add_argument("--top", type=int, default=5)


def run(options: argparse.Namespace) -> Iterator[Row]:
    encoder = malmoi.load()
    ways: dict[str, Way] = {
        "malmoi": lambda text: [one.text for one in keywords(encoder, text, top=options.top)],
        "KeyBERT": keybert(encoder, options.top),
        "KeyBERT, phrases": keybert(encoder, options.top, longest=3),
        "KeyBERT, phrases, MMR": keybert(encoder, options.top, longest=3, mmr=True),
    }
    for name, documents in (("headings", headings()), ("subjects", subjects())):
        chosen = random.Random(1).sample(documents, options.documents)
        for way, find in ways.items():
            yield {"documents, way": f"{name}, {way}"} | judge(
                [(title, find(text)) for title, text in chosen]
            )


def keybert(encoder: TextEncoder, top: int, *, longest: int = 1, mmr: bool = False) -> Way:
    """KeyBERT over our vectors."""
    try:
        from keybert import KeyBERT  # type: ignore[import-not-found]
        from keybert.backend import BaseEmbedder  # type: ignore[import-not-found]
    except ImportError:
        sys.exit("keybert is not installed: pip install keybert")

    class Ours(BaseEmbedder):  # type: ignore[misc]
        def embed(self, documents: Sequence[str], verbose: bool = False) -> object:
            return encoder.encode(list(documents), on_long="windows")

    model = KeyBERT(Ours())

    def find(text: str) -> list[str]:
        found = model.extract_keywords(
            text,
            top_n=top,
            keyphrase_ngram_range=(1, longest),
            stop_words=None,  # its default is English
            use_mmr=mmr,
            diversity=0.3,
        )
        return [word for word, _ in found]

    return find


def judge(found: Sequence[tuple[str, Sequence[str]]]) -> Row:
    """The figures over all documents."""
    rows = [
        (
            any(word.lower() == title.lower() for word in words),
            any(_part(word.lower(), title.lower()) for word in words),
            _covered(title, words),
        )
        for title, words in found
    ]
    named = ("found", "part", "words")
    return {"documents": len(rows)} | {
        name: round(float(sum(row[i] for row in rows)) / len(rows), 3)
        for i, name in enumerate(named)
    }


def _part(word: str, title: str) -> bool:
    return len(word) > 1 and (word in title or title in word)


def _covered(title: str, words: Sequence[str]) -> float:
    nouns = nouns_of(title)
    said = " ".join(words).lower()
    return sum(noun in said for noun in nouns) / len(nouns)


def nouns_of(title: str) -> list[str]:
    """The nouns of a title, of two letters or more."""
    [found] = morphemes_of([title])
    return [one.text.lower() for one in found if one.is_noun and len(one.text) > 1]


def headings() -> list[Titled]:
    """Korean sections whose heading has nouns that the section has too."""
    found = []
    for heading, body in headed_sections():
        title, text = heading["ko"].strip(), " ".join(row["ko"] for row in body)
        nouns = nouns_of(title)
        if re.search("[가-힣]", title) and nouns and all(noun in text.lower() for noun in nouns):
            found.append((title, text))
    return found


def subjects() -> list[Titled]:
    """Paragraphs of Wikipedia that say first what they are about."""
    rows = read_rows(data_root() / "contrast/kobest-boolq.tsv")
    found = []
    for text in dict.fromkeys(row["paragraph"] for row in rows):
        subject = _SUBJECT.match(text)
        if subject and nouns_of(subject[1]):
            found.append((subject[1], text))
    return found
