"""The lexicon that ships: built from its table, and right in what everybody knows."""

import re

from malmoi.terms import Lexicon, memory_lexicon
from malmoi.terms.segment import SHIPPED


def test_it_is_what_its_table_says() -> None:
    lexicon = Lexicon.open("sample")
    lexicon.verify()
    # After an edit: malmoi lexicon build src/malmoi/data/sample.tsv
    #                    --out src/malmoi/data/sample.lexicon --replace
    assert lexicon.identity == memory_lexicon([SHIPPED / "sample.tsv"]).identity


def test_it_covers_common_conditions_in_both_languages() -> None:
    lexicon = Lexicon.open("sample")
    assert len(lexicon.codes) > 1000
    for number, code in enumerate(lexicon.codes):
        assert re.fullmatch(r"[A-Z]\d{2}(\.\d)?", code)
        assert None not in lexicon.shown(number), code
    for text, code in (
        ("당뇨", "E14"),
        ("간경화", "K74.6"),
        ("liver cirrhosis", "K74.6"),
        ("간암", "C22.0"),
        ("HTN", "I10"),
        ("맹장염", "K35.8"),
        ("pneumonia", "J18.9"),
    ):
        assert code in {lexicon.concept_of(row) for row in lexicon.find(text)}, text
