"""What a server shows when nothing was named: a bilingual FAQ, and a lexicon of conditions."""

import tempfile
from pathlib import Path

from ..corpus import Corpus
from ..encoder import TextEncoder
from ..io.tables import read_rows

FAQ = Path(__file__).parents[1] / "data/faq.tsv"
LEXICON = "sample"
NAME = "faq"


class SampleCorpus(Corpus):
    """The sample FAQ, in a folder that goes when the corpus does."""

    @classmethod
    def make(cls, encoder: TextEncoder) -> "SampleCorpus":
        """Encode the sample's questions, which takes a moment."""
        folder = tempfile.TemporaryDirectory(prefix="malmoi-")
        corpus = cls.open(Path(folder.name) / f"{NAME}.malmoi", encoder)
        corpus._folder = folder
        corpus.add(
            {"id": row["id"], "text": row["question"]}
            | {field: row[field] for field in ("answer", "topic", "lang")}
            for row in read_rows(FAQ)
        )
        return corpus

    _folder: "tempfile.TemporaryDirectory[str] | None" = None

    def close(self) -> None:
        """Let go of the file, and of its folder."""
        super().close()
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None
