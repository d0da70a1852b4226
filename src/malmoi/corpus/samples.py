"""Corpora that go when they are closed: one of a document, and the sample FAQ that ships."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import ClassVar, Self

from ..encoders import TextEncoder
from ..io.tables import read_rows
from .corpus import Corpus

SAMPLE = "faq"
_FAQ = Path(__file__).parents[1] / "data/faq.tsv"


class TemporaryCorpus(Corpus):
    """A corpus in a folder that only its user can read, and that goes when the corpus does."""

    _folder: "tempfile.TemporaryDirectory[str] | None" = None

    @classmethod
    def new(cls, encoder: TextEncoder) -> Self:
        """Make an empty one."""
        folder = tempfile.TemporaryDirectory(prefix="malmoi-")
        corpus = cls.open(Path(folder.name) / f"{SAMPLE}.malmoi", encoder)
        corpus._folder = folder
        return corpus

    def close(self) -> None:
        """Let go of the file, and of its folder."""
        super().close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None


class SampleCorpus(TemporaryCorpus):
    """The sample FAQ."""

    # Questions to try, and the entries that answer them.
    questions: ClassVar[Mapping[str, str]] = {
        "제 상품 언제 도착해요?": "1",
        "how do I get a refund": "17",
        "밤에 열이 나면 어디로 가죠?": "46",
        "비밀번호를 까먹었어요": "31",
        "Can I pay by card?": "21",
    }

    @classmethod
    def make(cls, encoder: TextEncoder) -> Self:
        """Encode the sample's questions, which takes a moment."""
        corpus = cls.new(encoder)
        corpus.add(
            {"id": row["id"], "text": row["question"]}
            | {field: row[field] for field in ("answer", "topic", "lang")}
            for row in read_rows(_FAQ)
        )
        return corpus
